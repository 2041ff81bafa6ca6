"""Random bodies for a signature of TensorFlow Serving's protocol."""

from __future__ import annotations

import numpy as np

from poise.bench.payloads.prepare import bounded
from poise.bench.payloads.random_inputs import RandomInputs, Shapes
from poise.bench.targets.base import TargetOptions
from poise.bench.targets.tfs_grpc import TfsGrpc
from poise.bench.targets.tfs_rest import TfsRest
from poise.client import ModelAddress
from poise.types import Signature

MAX_VARIANTS = 32
MAX_BYTES = 64 << 20
"""All bodies of a load test together take at most about this much memory; there is always one."""


def make_bodies(address: ModelAddress, signature: Signature, rows: int, shapes: Shapes, seed: int) -> list[bytes]:
    """Distinct request bodies, the same for the same seed. Raises ValueError for shapes that the signature forbids."""
    options = TargetOptions(address.model, address.version)
    target = (TfsGrpc if address.is_grpc else TfsRest)(address.target, options)
    source = RandomInputs(signature, np.random.default_rng(seed), shapes)
    made = (target.encode(signature, source.inputs(rows)) for _ in range(MAX_VARIANTS))
    return [request.body for request in bounded(made, MAX_BYTES)]

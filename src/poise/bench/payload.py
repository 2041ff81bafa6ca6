"""Random inputs for a signature: what a load test sends."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from poise import _core
from poise.client import ModelAddress, tensor_json
from poise.client.arrays import to_border
from poise.records import suggest
from poise.types import Array, Signature, TensorSpec, numpy_dtype

MAX_VARIANTS = 32
MAX_BYTES = 64 << 20
"""All bodies of a load test together take at most about this much memory; there is always one."""

Shapes = Mapping[str, tuple[int, ...]]


def make_bodies(address: ModelAddress, signature: Signature, rows: int, shapes: Shapes, seed: int) -> list[bytes]:
    """Distinct request bodies, the same for the same seed. Raises ValueError for shapes that the signature forbids."""
    check_names(signature, shapes)
    random = np.random.default_rng(seed)
    bodies: list[bytes] = []
    while len(bodies) < MAX_VARIANTS and (not bodies or (len(bodies) + 1) * len(bodies[0]) <= MAX_BYTES):
        inputs = random_inputs(signature, rows, shapes, random)
        if address.is_grpc:
            border = to_border(signature, inputs)
            bodies.append(_core.encode_predict_request(address.model, address.version, signature.name, border))
        else:
            bodies.append(tensor_json.request_body(signature, inputs, rows=signature.batched))
    return bodies


def check_names(signature: Signature, shapes: Shapes) -> None:
    """Raises ValueError for a shape that belongs to no input."""
    names = [spec.name for spec in signature.inputs]
    for name in shapes:
        if name not in names:
            raise ValueError(f"signature {signature.name} has no input {name!r}; {suggest(name, names)}")


def random_inputs(signature: Signature, rows: int, shapes: Shapes, random: np.random.Generator) -> dict[str, Array]:
    """An array for every input."""
    arrays = {}
    for spec in signature.inputs:
        shape = shape_of(spec, signature.batched, rows, shapes.get(spec.name))
        arrays[spec.name] = random_array(spec.dtype, shape, random)
    return arrays


def shape_of(spec: TensorSpec, batched: bool, rows: int, given: tuple[int, ...] | None) -> tuple[int, ...]:
    """The shape to send: dimension 0 counts rows where requests may share a batch, others that vary are 1.

    `given` replaces that; the dimension of the rows may be left out of it. Raises ValueError when it does not fit.
    """
    if spec.shape is None:
        return (rows, *(given or ())) if batched else (given or ())
    wanted = spec.shape[1:] if batched else spec.shape
    if given is not None and batched and len(given) == len(spec.shape):
        given = given[1:]
    dims = given if given is not None else tuple(max(dim, 1) if dim < 0 else dim for dim in wanted)
    fits = len(dims) == len(wanted) and all(want in {-1, dim} for want, dim in zip(wanted, dims, strict=True))
    if not fits:
        raise ValueError(f"input {spec.name} has shape {list(spec.shape)}, which {list(dims)} does not fit")
    return (rows, *dims) if batched else dims


def random_array(dtype: str, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Numbers around 0, whole numbers from 0 to 9 (most tables of embeddings have as many rows), short words."""
    wanted = numpy_dtype(dtype)
    if dtype == "string":
        words = np.empty(shape, dtype=object)
        words.ravel()[:] = [random.integers(97, 123, 8, dtype=np.uint8).tobytes() for _ in range(words.size)]
        return words
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(wanted)
    if dtype.startswith("complex"):
        return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(wanted)
    if wanted.kind in "iu" and dtype != "bfloat16":
        return random.integers(0, 256 if dtype == "uint8" else 10, shape).astype(wanted)
    values = random.standard_normal(shape).astype(np.float32)
    if dtype == "bfloat16" and wanted == np.dtype(np.uint16):
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(wanted)

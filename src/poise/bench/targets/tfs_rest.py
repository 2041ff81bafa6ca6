"""`POST /v1/models/NAME:predict`: rows where the signature counts them, else columns."""

from __future__ import annotations

from collections.abc import Mapping

from poise.bench.targets.base import row_count
from poise.bench.targets.tfs import TensorFlowServing
from poise.bench.traffic import WireRequest
from poise.client import tensor_json
from poise.types import Array, Signature


class TfsRest(TensorFlowServing):
    """TensorFlow Serving's REST port."""

    @property
    def protocol(self) -> str:
        return "tfs-rest"

    def encode(self, signature: Signature, inputs: Mapping[str, Array]) -> WireRequest:
        body = tensor_json.request_body(signature, inputs, rows=signature.batched)
        path = f"{self.address.path}:predict"
        return WireRequest(path, body, self.options.headers, rows=row_count(signature, inputs))

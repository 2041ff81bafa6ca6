"""PredictionService.Predict, numbers in the typed fields that clients use."""

from __future__ import annotations

from collections.abc import Mapping

from poise import _core
from poise.bench.targets.base import row_count
from poise.bench.targets.tfs import TensorFlowServing
from poise.bench.traffic import WireRequest
from poise.client.arrays import to_border
from poise.types import Array, Signature

PREDICT_METHOD = "/tensorflow.serving.PredictionService/Predict"


class TfsGrpc(TensorFlowServing):
    """TensorFlow Serving's gRPC port."""

    @property
    def protocol(self) -> str:
        return "tfs-grpc"

    def encode(self, signature: Signature, inputs: Mapping[str, Array]) -> WireRequest:
        border = to_border(signature, inputs)
        body = _core.encode_predict_request(self.options.model, self.options.version, signature.name, border)
        return WireRequest(PREDICT_METHOD, body, self.options.headers, rows=row_count(signature, inputs))

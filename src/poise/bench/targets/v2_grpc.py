"""GRPCInferenceService.ModelInfer with raw contents, as Triton's own clients send it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from poise import _core
from poise.bench.targets.base import row_count
from poise.bench.targets.v2 import OpenInference, tensors
from poise.bench.traffic import WireRequest
from poise.client.calls import errors
from poise.types import Array, Signature

INFER_METHOD = "/inference.GRPCInferenceService/ModelInfer"


class V2Grpc(OpenInference):
    """The gRPC port of a server with the Open Inference Protocol."""

    @property
    def protocol(self) -> str:
        return "v2-grpc"

    def metadata(self) -> Any:
        options = self.options
        with errors():
            text = _core.fetch_infer_metadata(self.url, options.model, self.version, options.timeout_s, options.headers)
            return json.loads(text)

    def encode(self, signature: Signature, inputs: Mapping[str, Array]) -> WireRequest:
        raw = [(each.name, each.datatype, each.shape, each.raw()) for each in tensors(signature, inputs)]
        body = _core.encode_infer_request(self.options.model, self.version, raw)
        return WireRequest(INFER_METHOD, body, self.options.headers, rows=row_count(signature, inputs))

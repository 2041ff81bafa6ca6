"""`POST /v2/models/NAME/infer`: tensors in JSON, or in binary behind it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from poise.bench.targets.base import row_count
from poise.bench.targets.v2 import OpenInference, V2Tensor, tensors
from poise.bench.traffic import WireRequest
from poise.client.calls import rest
from poise.types import Array, Signature

HEADER_LENGTH = "inference-header-content-length"
"""Names how much of a body is JSON; binary tensors come behind it."""


class V2Rest(OpenInference):
    """The HTTP port of a server with the Open Inference Protocol; tensors in JSON, flat."""

    @property
    def protocol(self) -> str:
        return "v2-rest"

    @property
    def path(self) -> str:
        path = f"/v2/models/{quote(self.options.model, safe='')}"
        return f"{path}/versions/{self.version}" if self.version else path

    def metadata(self) -> Any:
        return rest(self.url, "GET", self.path, b"", self.options.timeout_s, self.options.headers)

    def encode(self, signature: Signature, inputs: Mapping[str, Array]) -> WireRequest:
        listed = [{**describe(tensor), "data": to_json(tensor)} for tensor in tensors(signature, inputs)]
        body = json.dumps({"inputs": listed}, separators=(",", ":")).encode()
        return WireRequest(f"{self.path}/infer", body, self.options.headers, rows=row_count(signature, inputs))


class V2Binary(V2Rest):
    """The same with the extension for binary tensors, asked for in the answer as well, as Triton's own clients do."""

    @property
    def protocol(self) -> str:
        return "v2-binary"

    def encode(self, signature: Signature, inputs: Mapping[str, Array]) -> WireRequest:
        listed, contents = [], []
        for tensor in tensors(signature, inputs):
            content = tensor.raw()
            listed.append({**describe(tensor), "parameters": {"binary_data_size": len(content)}})
            contents.append(content)
        request = {"inputs": listed, "parameters": {"binary_data_output": True}}
        header = json.dumps(request, separators=(",", ":")).encode()
        fields = (("content-type", "application/octet-stream"), (HEADER_LENGTH, str(len(header))))
        body, rows = b"".join([header, *contents]), row_count(signature, inputs)
        return WireRequest(f"{self.path}/infer", body, (*fields, *self.options.headers), rows=rows)


def describe(tensor: V2Tensor) -> dict[str, Any]:
    return {"name": tensor.name, "shape": tensor.shape, "datatype": tensor.datatype}


def to_json(tensor: V2Tensor) -> list[Any]:
    """The elements, flat. Raises ValueError for those that have no form in JSON."""
    if tensor.datatype in {"FP16", "BF16"}:
        raise ValueError(f"input {tensor.name} is {tensor.datatype}, which JSON cannot carry: use --protocol v2-binary")
    items: list[Any] = tensor.array.ravel().tolist()
    if tensor.datatype != "BYTES":
        return items
    try:
        return [item.decode() for item in items]
    except UnicodeDecodeError:
        raise ValueError(
            f"input {tensor.name} holds bytes that are no text, which JSON cannot carry: use --protocol v2-binary"
        ) from None

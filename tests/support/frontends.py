"""The wires that a server speaks, each with the same face, so that one test serves them all."""

from __future__ import annotations

import base64
import json
import math
from typing import Any, Protocol

import numpy as np

from poise.types import Array, numpy_dtype
from support.clients import Refused, Tensors, call
from support.serving import Stand
from support.tfclient import TfClient


class Frontend(Protocol):
    kind: str

    def predict(self, model: str, inputs: dict[str, Any], version: int | None = None) -> Tensors:
        """Outputs by name, a lone one as `only`. Raises Refused with the name of a gRPC code."""


class Grpc:
    """The real client of TensorFlow Serving."""

    kind = "grpc"

    def __init__(self, client: TfClient, stand: Stand) -> None:
        self.client, self.address = client, stand.grpc

    def predict(self, model: str, inputs: dict[str, Any], version: int | None = None, **what: Any) -> Tensors:
        outputs = self.client.predict(self.address, model, inputs, version=version, **what)
        return outputs if len(outputs) > 1 else {"only": next(iter(outputs.values()))}

    def ask(self, do: str, **what: Any) -> Any:
        return self.client.call(do, self.address, **what)


class Rest:
    """JSON over HTTP, in rows or in columns."""

    CODES = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 501: "UNIMPLEMENTED", 503: "UNAVAILABLE", 500: "INTERNAL"}

    def __init__(self, stand: Stand, *, rows: bool) -> None:
        self.address, self.rows = stand.http, rows
        self.kind = "rest rows" if rows else "rest columns"

    def predict(self, model: str, inputs: dict[str, Any], version: int | None = None) -> Tensors:
        where = model if version is None else f"{model}/versions/{version}"
        columns = {name: to_json(np.asarray(value)) for name, value in inputs.items()}
        body = {"instances": _as_rows(columns)} if self.rows else {"inputs": columns}
        answer = call(self.address, "POST", f"/v1/models/{where}:predict", json.dumps(body))
        if answer.status != 200:
            raise Refused(self.CODES[answer.status], answer.json["error"])
        return self._outputs(answer.json)

    def _outputs(self, answer: Any) -> Tensors:
        found = answer["predictions" if self.rows else "outputs"]
        first = found[0] if self.rows and found else found
        if not isinstance(first, dict) or set(first) == {"b64"}:
            return {"only": as_array(found)}
        if self.rows:
            return {name: as_array([row[name] for row in found]) for name in first}
        return {name: as_array(value) for name, value in found.items()}


def _as_rows(columns: dict[str, Any]) -> list[Any]:
    count = len(next(iter(columns.values())))
    return [{name: column[index] for name, column in columns.items()} for index in range(count)]


def to_json(array: Array) -> Any:
    """Nested lists; bytes as b64."""
    return _written(array.tolist())


def _written(value: Any) -> Any:
    if isinstance(value, list):
        return [_written(item) for item in value]
    return {"b64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def as_array(value: Any) -> Array:
    return np.array(_plain(value), object)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return value.encode() if isinstance(value, str) else value


def same(expected: Array, got: Array) -> bool:
    """Equal in shape and, element for element, in value; NaN equals NaN, and zeros know their sign."""
    if expected.shape != got.shape:
        return False
    pairs = zip(expected.ravel().tolist(), got.ravel().tolist(), strict=True)
    return all(_alike(one, other) for one, other in pairs)


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or (one == other and math.copysign(1, one) == math.copysign(1, other))
    return bool(one == other)


def narrowed(got: Array, dtype: str) -> Array:
    """What came as JSON, as the dtype that it has on the server."""
    return got if dtype == "string" else got.astype(numpy_dtype(dtype))

"""Clients of a server: calls that end with an answer or with a Refused, and groups of them at once."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from poise import _core
from poise.types import Array, dtype_name, numpy_dtype

Tensors = dict[str, Array]
TIMEOUT_S = 20.0


class Refused(Exception):  # noqa: N818  (what a server may well say)
    """An error that the server answered: its code (a name over gRPC, a number over HTTP) and its text."""

    def __init__(self, code: str | int, text: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(f"{code}: {text}")
        self.code, self.text, self.headers = code, text, headers or {}


@dataclass
class Response:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def connect(text: str, timeout_s: float = TIMEOUT_S) -> socket.socket:
    """A connection whose small packets do not wait for one another."""
    made = socket.create_connection(address(text), timeout_s)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def call(where: str, method: str, path: str, body: bytes | str | None = None, **headers: str) -> Response:
    """One HTTP call."""
    host, port = address(where)
    with closing(http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)) as connection:
        connection.request(method, path, body, {key.replace("_", "-"): value for key, value in headers.items()})
        answer = connection.getresponse()
        return Response(answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read())


def rest(where: str, path: str, body: Any) -> Any:
    """The JSON that a predict call of the REST API answers."""
    text = body if isinstance(body, bytes | str) else json.dumps(body)
    response = call(where, "POST", f"/v1/models/{path}:predict", text)
    if response.status != 200:
        raise Refused(response.status, response.json["error"], response.headers)
    return response.json


def grpc(where: str, model: str, version: int | None = None, timeout_s: float = TIMEOUT_S, **inputs: Any) -> Tensors:
    """What Predict answers over gRPC."""
    sent = [_tensor(name, np.asarray(value)) for name, value in inputs.items()]
    try:
        _, outputs = _core.predict(f"grpc://{where}", model, version, "", sent, timeout_s)
    except RuntimeError as error:
        code, _, text = str(error).partition(": ")
        raise Refused(code, text) from None
    except TimeoutError as error:
        raise Refused("DEADLINE_EXCEEDED", str(error)) from None
    return {name: _array(dtype, shape, data) for name, dtype, shape, data in outputs}


def halves(where: str, model: str, *x: Any, timeout_s: float = TIMEOUT_S) -> Tensors:
    """Predict of float rows."""
    return grpc(where, model, timeout_s=timeout_s, x=np.array(x, np.float32))


def _tensor(name: str, array: Array) -> Any:
    dtype = dtype_name(array.dtype)
    data: Any = array.ravel().tolist() if dtype == "string" else np.ascontiguousarray(array).tobytes()
    return name, dtype, array.shape, data


def _array(dtype: str, shape: Sequence[int], data: Any) -> Array:
    if dtype == "string":
        array = np.empty(len(data), dtype=np.object_)
        array[:] = data
        return array.reshape(shape)
    return np.frombuffer(data, numpy_dtype(dtype)).reshape(shape)


class Crowd:
    """Calls under way at once; each is collected once, as a result or as an error."""

    def __init__(self, most: int = 64) -> None:
        self._pool = ThreadPoolExecutor(most)

    def start(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        return self._pool.submit(function, *args, **kwargs)

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)


def outcomes(futures: Iterable[Future[Any]], timeout_s: float = 30.0) -> list[Any]:
    """One outcome for each call: what it returned or raised."""
    return [future.exception(timeout_s) or future.result() for future in futures]

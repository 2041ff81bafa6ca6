"""Single calls: which signatures a model has, and one prediction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from poise import _core
from poise.client import arrays, tensor_json
from poise.errors import PoiseError
from poise.records import suggest
from poise.types import DEFAULT_SIGNATURE, Array, Signature, TensorSpec, rows_can_be_counted

Headers = tuple[tuple[str, str], ...]
"""(name, value)"""


class CallError(PoiseError):
    """A call that gave no result: the server was not reached, refused, or was asked wrongly. The text is for people."""


@dataclass(frozen=True, slots=True)
class ModelAddress:
    """Where a model is, its name, a version or None for the latest, and headers (metadata over gRPC) of every call.

    A target is `grpc://HOST:PORT` or `http://HOST:PORT`, over TLS `grpcs://` or `https://`.
    """

    target: str
    model: str
    version: int | None = None
    headers: Headers = ()

    @property
    def is_grpc(self) -> bool:
        return self.target.startswith(("grpc://", "grpcs://"))

    @property
    def path(self) -> str:
        """Over REST."""
        path = f"/v1/models/{quote(self.model, safe='')}"
        return path if self.version is None else f"{path}/versions/{self.version}"


@dataclass(frozen=True, slots=True)
class Served:
    """What a model can be asked, and which version said so."""

    version: int | None
    signatures: tuple[Signature, ...]


@dataclass(frozen=True, slots=True)
class Prediction:
    """Outputs by name. REST does not tell which version answered."""

    version: int | None
    outputs: dict[str, Array]


def fetch_signatures(address: ModelAddress, timeout_s: float) -> Served:
    """The signatures of a version, or of the latest. Raises CallError."""
    with errors():
        if address.is_grpc:
            text = _core.fetch_signatures(address.target, address.model, address.version, timeout_s, address.headers)
            found = json.loads(text)
            return Served(found["version"], tuple(Signature.from_dict(raw) for raw in found["signatures"]))
        return _read_metadata(_rest(address, "GET", "/metadata", b"", timeout_s))


def pick_signature(served: Served, name: str) -> Signature:
    """The signature of this name, the default one for an empty name. Raises CallError when there is none."""
    wanted = name or DEFAULT_SIGNATURE
    by_name = {signature.name: signature for signature in served.signatures}
    if wanted in by_name:
        return by_name[wanted]
    if not name and len(by_name) == 1:
        return next(iter(by_name.values()))
    raise CallError(f"the model has no signature {wanted!r}; {suggest(wanted, by_name)}")


def predict(address: ModelAddress, signature: Signature, inputs: Mapping[str, Array], timeout_s: float) -> Prediction:
    """One prediction. Raises CallError."""
    with errors():
        if address.is_grpc:
            border = arrays.to_border(signature, inputs)
            version, outputs = _core.predict(
                address.target, address.model, address.version, signature.name, border, timeout_s
            )
            return Prediction(version, arrays.from_border(outputs))
        body = tensor_json.request_body(signature, inputs)
        answer = _rest(address, "POST", ":predict", body, timeout_s)
        return Prediction(None, tensor_json.read_outputs(signature, answer))


@contextmanager
def errors() -> Iterator[None]:
    """What the data plane and the readers of answers raise, as one error for people."""
    try:
        yield
    except (ConnectionError, TimeoutError, ValueError) as error:
        raise CallError(str(error)) from None
    except RuntimeError as error:
        raise CallError(f"the server answered {error}") from None


def _rest(address: ModelAddress, method: str, suffix: str, body: bytes, timeout_s: float) -> Any:
    return rest(address.target, method, address.path + suffix, body, timeout_s, address.headers)


def rest(target: str, method: str, path: str, body: bytes, timeout_s: float, headers: Headers = ()) -> Any:
    """The JSON object that a server's HTTP port answers. Raises CallError for anything else."""
    with errors():
        status, answer = _core.http_call(target, method, path, body, timeout_s, headers)
    try:
        parsed = json.loads(answer)
    except ValueError:
        parsed = None
    if status != 200:
        text = parsed.get("error") if isinstance(parsed, dict) else None
        raise CallError(f"the server answered HTTP {status}: {text or answer[:200].decode(errors='replace')}")
    if not isinstance(parsed, dict):
        raise CallError(f"the server's answer to {path} is not JSON; is {target} the REST port?")
    return parsed


def _read_metadata(answer: Any) -> Served:
    try:
        version = answer["model_spec"]["version"]
        defs = answer["metadata"]["signature_def"]["signature_def"]
        signatures = tuple(_read_signature(name, raw) for name, raw in sorted(defs.items()))
    except (KeyError, TypeError, AttributeError) as error:
        raise CallError(f"the server's metadata cannot be read: {error!r}") from None
    return Served(int(version) if version else None, signatures)


def _read_signature(name: str, raw: Mapping[str, Any]) -> Signature:
    inputs, outputs = (tuple(_read_spec(*item) for item in sorted(raw[kind].items())) for kind in ("inputs", "outputs"))
    batched = bool(inputs) and rows_can_be_counted((*inputs, *outputs))
    return Signature(inputs, outputs, name, raw["method_name"], batched)


def _read_spec(name: str, raw: Mapping[str, Any]) -> TensorSpec:
    shape = raw.get("tensor_shape") or {}
    dims = None if shape.get("unknown_rank") else tuple(int(dim["size"]) for dim in shape.get("dim", ()))
    return TensorSpec(name, str(raw["dtype"]).removeprefix("DT_").lower(), dims)

"""What every protocol can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from poise.bench.traffic import WireRequest
from poise.client.calls import Headers
from poise.types import Array, Signature


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """What to ask of a server, besides where it is."""

    model: str = ""
    version: int | None = None
    signature: str = ""
    """Empty: serving_default. Only TensorFlow Serving's protocol has signatures."""
    headers: Headers = ()
    """Of every request, with names in lower case."""
    timeout_s: float = 10.0
    """Limit of the calls that ask for the signature."""


class Target(Protocol):
    """A model behind one protocol of a server."""

    @property
    def protocol(self) -> str:
        """As reports name it: tfs-grpc, tfs-rest, v2-grpc, v2-rest or v2-binary."""

    @property
    def url(self) -> str:
        """Where the server is, as the load generator takes it."""

    @property
    def has_signatures(self) -> bool:
        """Whether a model has several, by name."""

    @property
    def served_version(self) -> int | None:
        """The version that described itself; None before `ask`, or where the server does not tell."""

    def ask(self) -> None:
        """Let the server describe the model. Raises CallError when it does not, in this protocol."""

    def signature(self) -> Signature:
        """What the model takes, by what `ask` has found. Raises CallError."""

    def encode(self, signature: Signature, inputs: Mapping[str, Array]) -> WireRequest:
        """One request. Raises ValueError for inputs that the signature or the protocol forbids."""


def row_count(signature: Signature, inputs: Mapping[str, Array]) -> int:
    """How many rows one request has: 1 where the signature counts none."""
    return len(next(iter(inputs.values()))) if signature.batched and inputs else 1

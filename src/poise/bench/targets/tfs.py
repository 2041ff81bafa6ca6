"""TensorFlow Serving's protocol: what its gRPC and its REST form share."""

from __future__ import annotations

from dataclasses import dataclass, field

from poise.bench.targets.base import TargetOptions
from poise.client import CallError, ModelAddress, Served, fetch_signatures, pick_signature
from poise.types import Signature


@dataclass(slots=True)
class TensorFlowServing:
    """A model of a server with TensorFlow Serving's API."""

    url: str
    options: TargetOptions
    served: Served | None = field(default=None, init=False)

    @property
    def has_signatures(self) -> bool:
        return True

    @property
    def served_version(self) -> int | None:
        return self.served.version if self.served else None

    @property
    def address(self) -> ModelAddress:
        return ModelAddress(self.url, self.options.model, self.options.version, self.options.headers)

    def ask(self) -> None:
        self.served = fetch_signatures(self.address, self.options.timeout_s)

    def signature(self) -> Signature:
        if self.served is None:
            raise CallError("the server was not asked what it serves")
        return pick_signature(self.served, self.options.signature)

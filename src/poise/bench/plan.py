"""What one load test does."""

from __future__ import annotations

import json
from dataclasses import dataclass

from poise.client import ModelAddress

PREDICT_METHOD = "/tensorflow.serving.PredictionService/Predict"
MAX_GRPC_CONNECTIONS = 8
"""How many connections a gRPC load test opens unless told otherwise: as many as it has clients, up to this."""


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """A closed loop: `concurrency` clients, each sending its next request when its last one was answered.

    A duration, a number of requests, or both end the measurement, whichever comes first.
    """

    address: ModelAddress
    concurrency: int
    connections: int
    warmup_s: float
    duration_s: float | None
    requests: int | None
    timeout_s: float

    def to_json(self) -> str:
        """The text that `_core.run_load` takes."""
        names = ("concurrency", "connections", "warmup_s", "duration_s", "requests", "timeout_s")
        path = PREDICT_METHOD if self.address.is_grpc else f"{self.address.path}:predict"
        fixed = {"target": self.address.target, "path": path, "threads": 1}
        return json.dumps({name: getattr(self, name) for name in names} | fixed)


def default_connections(address: ModelAddress, concurrency: int) -> int:
    """HTTP/1.1 carries one request at a time, so each client needs its own; over HTTP/2 clients share some."""
    return min(concurrency, MAX_GRPC_CONNECTIONS) if address.is_grpc else concurrency

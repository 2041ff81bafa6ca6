"""What is sent: prepared requests, and how often each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

TIMING_HEADER = ("poise-timing", "1")
"""Asks Poise for the field `server-timing`; other servers pay no heed to it."""


@dataclass(frozen=True, slots=True)
class WireRequest:
    """One request as the wire wants it. Over gRPC `path` is /package.Service/Method and `body` one bare message."""

    path: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    """Headers (metadata over gRPC) beside those of the protocol; names in lower case."""
    method: str = "POST"
    rows: int = 1


@dataclass(frozen=True, slots=True)
class Traffic:
    """Distinct requests (at least one) for one server, and the weight of each."""

    url: str
    """grpc://HOST:PORT, grpcs://…, http://… or https://…"""
    requests: tuple[WireRequest, ...]
    weights: tuple[float, ...] = ()
    """As many as requests, positive; none: all the same, in turn."""
    serialise_us: float = 0.0
    """Mean time of making one body from its arrays, which the client of a real user would spend."""
    protocol: str = ""
    """tfs-grpc, tfs-rest, v2-grpc, v2-rest, v2-binary or url: for the report."""
    model: str = ""
    version: int | None = None
    signature: str = ""

    def asking_for_stages(self) -> Traffic:
        """The same, where each answer is to tell where its time went."""
        requests = tuple(replace(each, headers=(*each.headers, TIMING_HEADER)) for each in self.requests)
        return replace(self, requests=requests)

    def choices(self, count: int, seed: int) -> NDArray[np.uint32]:
        """(count,): which request is sent at each turn; the same for the same seed."""
        if not self.weights:
            return (np.arange(count) % len(self.requests)).astype(np.uint32)
        weights = np.asarray(self.weights) / sum(self.weights)
        return np.random.default_rng(seed).choice(len(weights), count, p=weights).astype(np.uint32)

    def rows(self) -> NDArray[np.int64]:
        """(requests,): rows of each."""
        return np.array([request.rows for request in self.requests], np.int64)

"""From inputs to prepared requests: distinct, bounded in number and size, and with the time that making one takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from poise.bench.payloads.mix import Share
from poise.bench.traffic import WireRequest
from poise.types import Array

MAX_BYTES = 64 << 20
"""All bodies of a load test together take at most about this much memory; there is always one of each kind."""

Inputs = Mapping[str, Array]


class Source(Protocol):
    """Where the inputs of requests come from."""

    @property
    def distinct(self) -> int | None:
        """How many different requests of one row there are; None for without end."""

    def inputs(self, rows: int) -> Inputs:
        """The inputs of the next request. Raises ValueError when there can be none with so many rows."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Requests with their weights; no weights where all come alike."""

    requests: tuple[WireRequest, ...]
    weights: tuple[float, ...]
    serialise_us: float
    """Mean time of making one request from its arrays."""


@dataclass(slots=True)
class Press:
    """Makes requests and keeps the time. `now` gives seconds."""

    encode: Callable[[Inputs], WireRequest]
    now: Callable[[], float]
    made: int = 0
    spent_s: float = 0.0

    def make(self, inputs: Inputs) -> WireRequest:
        start = self.now()
        request = self.encode(inputs)
        self.spent_s += self.now() - start
        self.made += 1
        return request

    @property
    def mean_us(self) -> float:
        return self.spent_s / self.made * 1e6 if self.made else 0.0


def prepare(press: Press, source: Source, mix: Sequence[Share], count: int) -> Prepared:
    """About `count` requests, split over the numbers of rows by their parts, at least one of each."""
    requests: list[WireRequest] = []
    weights: list[float] = []
    for share in mix:
        wanted = max(1, round(count * share.part))
        wanted = min(wanted, different(source, share.rows))
        made = bounded((press.make(source.inputs(share.rows)) for _ in range(wanted)), MAX_BYTES // len(mix))
        requests += made
        weights += [share.part / len(made)] * len(made)
    return Prepared(tuple(requests), tuple(weights) if len(mix) > 1 else (), press.mean_us)


def prepare_all(press: Press, inputs: Iterable[Inputs], count: int) -> Prepared:
    """Requests with these inputs, in their order, up to `count`."""
    made = bounded((press.make(one) for one in islice(inputs, count)), MAX_BYTES)
    return Prepared(tuple(made), (), press.mean_us)


def different(source: Source, rows: int) -> int:
    """How many requests of so many rows differ, when rows are taken in turn."""
    total = source.distinct
    return 1 << 62 if total is None else total // math.gcd(total, rows)


def bounded(requests: Iterable[WireRequest], most_bytes: int) -> list[WireRequest]:
    """As many as fit by the size of the largest, at least one."""
    kept: list[WireRequest] = []
    size = largest = 0
    for request in requests:
        kept.append(request)
        size += len(request.body)
        largest = max(largest, len(request.body))
        if size + largest > most_bytes:
            break
    return kept

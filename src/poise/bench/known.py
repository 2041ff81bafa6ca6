"""Servers whose latencies are known, and the truth about a measurement of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from poise import _core
from poise.bench.measurement import Measurement
from poise.bench.statistics import summary
from poise.bench.traffic import Traffic, WireRequest

DELAYS = 60_000
"""So many delays are made; requests take them in turn, again and again."""
BODY = bytes(100)
S, MS = 1_000_000_000, 1_000_000

Delays = NDArray[np.int64]
"""(N,) nanoseconds."""


def constant(scale_ms: float, _random: np.random.Generator) -> Delays:
    """All the same."""
    return np.array([scale_ms * MS], np.int64)


def bimodal(scale_ms: float, random: np.random.Generator) -> Delays:
    """17 of 20 requests take `scale_ms`, 3 five times as long.

    So it is among each 20 in turn, so that in no run a percentile that is compared lies at the border of the two.
    """
    twenty = np.repeat([1, 5], [17, 3]) * int(scale_ms * MS)
    return random.permuted(np.tile(twenty, (DELAYS // 20, 1)), axis=1).ravel()


def lognormal(scale_ms: float, random: np.random.Generator) -> Delays:
    """Median `scale_ms`, P99 3.2 times as long."""
    return (scale_ms * MS * random.lognormal(0.0, 0.5, DELAYS)).astype(np.int64)


DISTRIBUTIONS: dict[str, Callable[[float, np.random.Generator], Delays]] = {
    "constant": constant,
    "bimodal": bimodal,
    "lognormal": lognormal,
}


def make_delays(distribution: str, scale_ms: float, seed: int = 0) -> Delays:
    """(N,) delays, the same for the same seed; the distribution is a key of `DISTRIBUTIONS`."""
    return DISTRIBUTIONS[distribution](scale_ms, np.random.default_rng(seed))


NO_DELAYS: Delays = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Known:
    """A running server of known latencies."""

    server: _core.KnownServer
    traffic: Traffic

    def record(self) -> NDArray[np.int64]:
        """(N, 2): when a request was read and when its answer was written, in the order of the answers."""
        return np.frombuffer(self.server.record(), np.int64).reshape(-1, 2)


@contextmanager
def known_server(
    protocol: str, delays: Delays = NO_DELAYS, freezes_s: Sequence[tuple[float, float]] = ()
) -> Iterator[Known]:
    """A server over grpc or http, until the block ends; freezes are (from, to) seconds after the first request."""
    freezes = [(int(start * S), int(end * S)) for start, end in freezes_s]
    server = _core.KnownServer(protocol, delays.data, freezes)
    path = "/poise.Known/Answer" if protocol == "grpc" else "/known"
    request = WireRequest(path, BODY)
    try:
        yield Known(server, Traffic(f"{protocol}://{server.address}", (request,), protocol="url"))
    finally:
        server.stop()


def truth_ms(record: NDArray[np.int64], measurement: Measurement) -> NDArray[np.float64]:
    """(N,) milliseconds that the server took for the requests of the measured window, by its own record.

    The two clocks run alike; what lies between their zeros is the first request, which was sent and read at about the
    same time. Requests at the borders of the window may be missed or taken for others; they are few.
    """
    reads = record[:, 0] - record[:, 0].min() + measurement.samples.sent[measurement.samples.sent >= 0].min()
    inside = (reads >= measurement.start_ns) & (reads < measurement.end_ns)
    return np.asarray(record[inside, 1] - record[inside, 0], np.float64) / 1e6


def reported_ms(measurement: Measurement) -> NDArray[np.float64]:
    """(N,) latencies of the measured window in milliseconds, as reports have them."""
    samples = measurement.measured()
    return samples.latency_ms()[samples.timed]


COMPARED = ("p50", "p90", "p95", "p99")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A percentile as it was reported, and as it was."""

    name: str
    reported: float
    truth: float

    @property
    def error(self) -> float:
        """0.01 where the report is 1 % too high."""
        return self.reported / self.truth - 1


def compare(reported: NDArray[np.float64], truth: NDArray[np.float64]) -> list[Comparison]:
    """The percentiles that both samples support, each a latency above 0."""
    ours, theirs = summary(reported), summary(truth)
    pairs = [(name, ours[name], theirs[name]) for name in COMPARED]
    return [Comparison(name, mine, true) for name, mine, true in pairs if mine is not None and true]


def show(compared: Sequence[Comparison], which: str) -> str:
    """`P50 20.1, P99 64.3 ms`, as `reported` or as the `truth`."""
    values = [f"{each.name.upper()} {getattr(each, which):.2f}" for each in compared]
    return ", ".join(values) + " ms" if values else "too few answers"

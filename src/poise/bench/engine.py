"""The load generator of the data plane, in the words of a load test."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise import _core
from poise.bench.load import ClosedLoop, Load
from poise.bench.samples import COLUMNS, OK, Samples
from poise.bench.traffic import Traffic

MAX_SHARED_CONNECTIONS = 8
"""Over gRPC requests share connections: as many as there are clients, up to this."""
MAX_OWN_CONNECTIONS = 256
"""Over HTTP/1.1 each request under way has a connection of its own; an open loop makes up to so many."""

TYPES: dict[str, Any] = {
    "scheduled": np.int64,
    "issued": np.int64,
    "sent": np.int64,
    "done": np.int64,
    "outcome": np.uint16,
}
"""Of the columns that are not uint32."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """How requests reach the server."""

    connections: int | None = None
    """None: as many as the load is likely to need."""
    threads: int = 1
    timeout_s: float = 10.0
    max_in_flight: int | None = None
    """Most requests due and under way in an open loop; those beyond are dropped and counted as errors."""

    def connections_for(self, url: str, load: Load) -> int:
        """What `connections` says, or what the load is likely to need."""
        if self.connections is not None:
            return self.connections
        shared = url.startswith("grpc")
        if isinstance(load, ClosedLoop):
            return max(min(load.concurrency, MAX_SHARED_CONNECTIONS), self.threads) if shared else load.concurrency
        return max(MAX_SHARED_CONNECTIONS if shared else MAX_OWN_CONNECTIONS, self.threads)


@dataclass(frozen=True, slots=True)
class Taken:
    """What came since the last time, and how the generator fares."""

    samples: Samples
    settled_ns: int
    """All requests that were due before this time are in samples that have been taken."""
    ended: bool
    in_flight: int
    connections: int
    cpu_ns: tuple[int, ...]
    """CPU time of each thread so far."""


class Engine:
    """A running load generator. Close it, or use it in a `with` block."""

    def __init__(self, traffic: Traffic, load: Load, wiring: Wiring) -> None:
        """Connect. Raises ValueError for what makes no sense, ConnectionError when the server cannot be reached."""
        self._core = _core.LoadGenerator(plan_json(traffic, load, wiring), [each.body for each in traffic.requests])

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def now_ns(self) -> int:
        """Nanoseconds since the start of the session."""
        return self._core.now_ns()

    def feed(self, times_ns: NDArray[np.int64], choices: NDArray[np.uint32]) -> None:
        """Give more to send: (N,) times, ascending, and (N,) numbers of requests."""
        self._core.feed(times_ns.astype(np.int64).tobytes(), choices.astype(np.uint32).tobytes())

    def take(self, limit_s: float) -> Taken:
        """What came since the last time, after `limit_s` seconds or when all has ended."""
        raw = self._core.take(limit_s)
        columns: dict[str, Any] = {name: np.frombuffer(raw[name], TYPES.get(name, np.uint32)) for name in COLUMNS}
        codes, index = np.unique(np.append(columns["outcome"], np.uint16(OK)), return_inverse=True)
        columns["outcome"] = index[:-1].astype(np.uint16)
        samples = Samples(**columns, labels=tuple(_core.outcome_name(int(code)) for code in codes))
        rest = (raw["settled_ns"], raw["ended"], raw["in_flight"], raw["connections"])
        return Taken(samples, *rest, cpu_ns=tuple(raw["cpu_ns"]))

    def close(self) -> None:
        """End it; what is under way is left out."""
        self._core.close()


def plan_json(traffic: Traffic, load: Load, wiring: Wiring) -> str:
    """The text that `_core.LoadGenerator` takes."""
    if isinstance(load, ClosedLoop):
        mode: dict[str, Any] = {"closed": {"concurrency": load.concurrency}}
    else:
        mode = {"open": {"max_in_flight": wiring.max_in_flight}}
    requests = [
        {"method": each.method, "path": each.path, "headers": [list(pair) for pair in each.headers]}
        for each in traffic.requests
    ]
    return json.dumps(
        {
            "target": traffic.url,
            "requests": requests,
            "mode": mode,
            "connections": wiring.connections_for(traffic.url, load),
            "timeout_s": wiring.timeout_s,
            "threads": wiring.threads,
        }
    )

"""Interleaved rounds: every server is measured at one plan before the next plan, every plan before the next round."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import grpc
import probe
from drivers import Driver, Load, Plan, Sample, h2load, wrk
from models import Rows, ServedModel
from peers import Batching, Running, Start, grpcio_server, nginx, poise, triton
from processes import cpu_seconds, others_cpu_seconds

SIZE_TOLERANCE = 0.02
WARM_UP, WARM_UP_SECONDS = Plan(64), 1.0
DRIVERS: Mapping[str, Driver] = {"grpc": h2load, "rest": wrk}
STARTS: Mapping[str, tuple[Start, int]] = {  # how to start it, its queue delay in microseconds
    "poise": (poise.start, 0),
    "triton-0": (triton.start, 0),
    "triton-500": (triton.start, 500),
    "grpcio": (grpcio_server.start, 0),
    "nginx": (nginx.start, 0),
}


@dataclass(frozen=True)
class Measured:
    """One cell of the comparison: one server, one plan, one round."""

    api: str
    plan: str
    peer: str
    round: int
    sample: Sample | None = None
    server_cpu_micros: float | None = None  # CPU time of the server a request
    others_cores: float | None = None  # cores that neither the server nor the load generator had meanwhile
    error: str | None = None


@contextlib.contextmanager
def started(names: Sequence[str], model: ServedModel, max_rows: int, work: Path) -> Iterator[list[Running]]:
    """All the named servers, ready, until the block ends."""
    with contextlib.ExitStack() as stack:
        servers = []
        for name in names:
            start, delay = STARTS[name]
            servers.append(stack.enter_context(start(model, Batching(max_rows, delay), work)))
        yield servers


@dataclass(frozen=True)
class Comparison:
    """What all cells have in common."""

    model: ServedModel
    expected: Rows  # the bare model's answer to the row that every request carries
    seconds: float
    work: Path
    warm_up: float = 0.0

    def warm(self, servers: Sequence[Running]) -> None:
        """A little load on every server, not counted."""
        for server in servers:
            for api in apis(server):
                DRIVERS[api](Load(server, self.model, WARM_UP, WARM_UP_SECONDS, self.work))

    def rounds(self, servers: Sequence[Running], plans: Sequence[Plan], count: int) -> Iterator[Measured]:
        """Every cell of every round, in order."""
        for number in range(count):
            for api in DRIVERS:
                for plan in plans:
                    if api == "rest" and plan.streams > 1:
                        continue
                    for server in servers:
                        if api in apis(server):
                            yield self.measure(api, plan, server, number)

    def measure(self, api: str, plan: Plan, server: Running, number: int = 0) -> Measured:
        """One cell: a probe, the series, a probe."""
        cell = partial(Measured, api, str(plan), server.name, number)
        try:
            size = self._probe(api, server)
            start, before, others = time.monotonic(), cpu_seconds(server.pid), others_cpu_seconds(server.pid)
            sample = DRIVERS[api](Load(server, self.model, plan, self.seconds, self.work, self.warm_up))
            used, others = cpu_seconds(server.pid) - before, others_cpu_seconds(server.pid) - others
            elapsed = time.monotonic() - start
            self._probe(api, server)
        except (probe.WrongAnswerError, grpc.RpcError, OSError, RuntimeError) as error:
            return cell(error=str(error))
        requests = max(sample.requests, 1)
        return cell(sample, used * 1e6 / requests, max(others, 0) / elapsed, _complaint(sample, size))

    def _probe(self, api: str, server: Running) -> int | None:
        if api == "grpc":
            return probe.grpc_answer_bytes(server, self.model, self.expected)
        probe.check_rest(server, self.model, self.expected)
        return None


def apis(server: Running) -> list[str]:
    """The protocols that a server speaks."""
    return [api for api, port in (("grpc", server.grpc), ("rest", server.rest)) if port is not None]


def _complaint(sample: Sample, size: int | None) -> str | None:
    if sample.failed:
        return f"{sample.failed} of {sample.requests} requests failed"
    if size is not None and sample.answer_bytes is not None and abs(sample.answer_bytes / size - 1) > SIZE_TOLERANCE:
        return f"answers had {sample.answer_bytes:.1f} bytes, a right one has {size}"
    return None


def idle_cpu(servers: Sequence[Running], seconds: float) -> dict[str, float]:
    """CPU of each server while nobody asks it anything, in percent of one core."""
    before = {server.name: cpu_seconds(server.pid) for server in servers}
    time.sleep(seconds)
    return {server.name: 100 * (cpu_seconds(server.pid) - before[server.name]) / seconds for server in servers}

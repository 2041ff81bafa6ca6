"""A measurement by several workers: each has its part of the load, and their samples are put together.

Samples are joined, never percentiles: those of a whole are not the mean of those of its parts.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from poise.bench.cluster.wire import MAX_SAMPLES_BYTES, Job, unpack
from poise.bench.load import ClosedLoop, Load
from poise.bench.measurement import GeneratorUse, Measurement, WarmUp
from poise.bench.samples import NEVER, Samples, join
from poise.bench.session import Method, OnTick
from poise.bench.tick import Tick
from poise.bench.traffic import Traffic

WARMUP_S = 5.0
"""Workers warm up for the same time, so that they measure at the same time."""
SILENCE_S = 60.0
"""A worker says something each second; one that is silent for so long, and for its time limit, is lost."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Workers by HOST:PORT, and the token that they ask for."""

    workers: tuple[str, ...]
    token: str = ""

    def measure(self, traffic: Traffic, load: Load, method: Method, on_tick: OnTick) -> Measurement:
        """Like `poise.bench.session.measure`. Raises ConnectionError when a worker is lost or refuses."""
        fixed = replace(method, warmup_s=method.warmup_s if method.warmup_s is not None else WARMUP_S)
        jobs = [Job(traffic, part, wired(fixed, count)) for part, count in split(load, fixed, len(self.workers))]
        lock = threading.Lock()

        def tell(tick: Tick) -> None:
            with lock:
                on_tick(tick)

        with ThreadPoolExecutor(len(jobs)) as pool:
            asked = [
                pool.submit(ask, worker, self.token, job, tell) for worker, job in zip(self.workers, jobs, strict=True)
            ]
            parts = [each.result() for each in asked]
        return merge(parts, load, traffic, method)


def split(load: Load, method: Method, workers: int) -> Iterator[tuple[Load, int | None]]:
    """(load, connections) of each worker. Raises ValueError when there is not enough for all."""
    connections = method.wiring.connections
    if connections is not None and connections < workers:
        raise ValueError(f"{workers} workers need as many connections, got --connections {connections}")
    if isinstance(load, ClosedLoop) and load.concurrency < workers:
        raise ValueError(f"{workers} workers need as many clients, got --concurrency {load.concurrency}")
    for index in range(workers):
        share = None if connections is None else part(connections, workers, index)
        if isinstance(load, ClosedLoop):
            yield ClosedLoop(part(load.concurrency, workers, index)), share
        else:
            yield replace(load, rate=load.rate / workers, seed=load.seed * workers + index), share


def part(whole: int, parts: int, index: int) -> int:
    return whole // parts + (index < whole % parts)


def wired(method: Method, connections: int | None) -> Method:
    return replace(method, wiring=replace(method.wiring, connections=connections))


def ask(worker: str, token: str, job: Job, on_tick: OnTick) -> Measurement:
    """Let one worker measure."""
    limit_s = SILENCE_S + job.method.wiring.timeout_s
    connection = http.client.HTTPConnection(worker, timeout=limit_s)
    try:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        connection.request("POST", "/measure", job.to_json(), headers)
        with connection.getresponse() as response:
            return listen(response, job, on_tick)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ConnectionError(f"worker {worker}: {str(error) or type(error).__name__}") from None
    finally:
        connection.close()


def listen(response: http.client.HTTPResponse, job: Job, on_tick: OnTick) -> Measurement:
    """Ticks, then samples. Raises ValueError for what says the worker instead."""
    while line := response.readline(1 << 20):
        said: dict[str, Any] = json.loads(line)
        if "error" in said:
            raise ValueError(said["error"])
        if "tick" in said:
            on_tick(Tick(**said["tick"]))
        elif 0 < (length := int(said["samples"])) <= MAX_SAMPLES_BYTES:
            return unpack(response.read(length), job)
    raise ValueError("it ended without samples")


def merge(parts: Sequence[Measurement], load: Load, traffic: Traffic, method: Method) -> Measurement:
    """One measurement of several: all samples, on a clock on which all windows begin at the same time."""
    start_ns = max(each.start_ns for each in parts)
    window_ns = min(each.end_ns - each.start_ns for each in parts)
    return Measurement(
        load=load,
        traffic=traffic,
        samples=join([later(each.samples, start_ns - each.start_ns) for each in parts]),
        start_ns=start_ns,
        end_ns=start_ns + window_ns,
        timeout_s=method.wiring.timeout_s,
        warmup=WarmUp(
            max(each.warmup.seconds for each in parts),
            sum(each.warmup.requests for each in parts),
            all(each.warmup.stable for each in parts),
            max((each.warmup.cold_start_ms for each in parts if each.warmup.cold_start_ms is not None), default=None),
        ),
        generator=GeneratorUse(
            sum(each.generator.threads for each in parts),
            sum(each.generator.connections for each in parts),
            max(each.generator.cpu_share for each in parts),
            max((each.generator.host_cpu_share or 0.0 for each in parts), default=None),
        ),
        slos=method.slos,
        saturated=any(each.saturated for each in parts),
        started_at=min(each.started_at for each in parts),
    )


def later(samples: Samples, by_ns: int) -> Samples:
    """The same samples on another clock; those never sent stay so."""
    sent = np.where(samples.sent == NEVER, NEVER, samples.sent + by_ns)
    moved = {name: getattr(samples, name) + by_ns for name in ("scheduled", "issued", "done")}
    return replace(samples, sent=sent, **moved)

"""The load generators: h2load for gRPC, wrk for REST. Both keep a fixed number of requests under way (closed loop)."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from models import ServedModel
from peers import Running
from processes import LOOPBACK
from wire import framed

SLACK_SECONDS = 30.0
PERCENTILES = (50, 90, 95, 99, 99.9, 100)
LUA = """
local file = assert(io.open("{body}", "rb"))
wrk.method = "POST"
wrk.body = file:read("*a")
wrk.headers["Content-Type"] = "application/json"
file:close()

done = function(summary, latency, requests)
  local e = summary.errors
  local failed = e.connect + e.read + e.write + e.status + e.timeout
  local at = {{}}
  for i, p in ipairs({{50, 90, 95, 99, 99.9}}) do at[i] = latency:percentile(p) end
  at[#at + 1] = latency.max
  io.write(string.format('\\n{{"requests": %d, "micros": %d, "failed": %d, "mean": %f, "at": [%s]}}\\n',
    summary.requests, summary.duration, failed, latency.mean, table.concat(at, ", ")))
end
"""


@dataclass(frozen=True)
class Plan:
    """How many connections, and how many requests under way on each."""

    connections: int
    streams: int = 1

    @classmethod
    def parse(cls, text: str) -> Plan:
        """`64`, or `4x32` for 4 connections with 32 streams each."""
        connections, _, streams = text.partition("x")
        return cls(int(connections), int(streams or 1))

    def __str__(self) -> str:
        return str(self.connections) if self.streams == 1 else f"{self.connections}x{self.streams}"


@dataclass(frozen=True)
class Sample:
    """What one series of requests showed; times are in microseconds, as the client saw them."""

    rate: float  # answers a second
    requests: int
    failed: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    p99_9: float
    max: float
    answer_bytes: float | None = None  # of data, an answer


@dataclass(frozen=True)
class Load:
    """One series to send: to whom, what, how much and for how long."""

    server: Running
    model: ServedModel
    plan: Plan
    seconds: float
    work: Path
    warm_up: float = 0.0  # seconds of the same load before, not counted (gRPC only)


Driver = Callable[[Load], Sample]


def h2load(load: Load) -> Sample:
    """Send one-row gRPC requests."""
    body, log = load.work / "request.bin", load.work / "h2load.log"
    body.write_bytes(framed(load.server.wire.grpc_request(load.model, load.model.rows(1))))
    log.unlink(missing_ok=True)
    wire, plan = load.server.wire, load.plan
    command = ["h2load", "-t", "1", "-c", str(plan.connections), "-m", str(plan.streams)]
    command += ["-D", f"{round(load.seconds * 1000)}ms", "-d", str(body), f"--log-file={log}"]
    command += ["-H", "content-type: application/grpc", "-H", "te: trailers"]
    command += [f"http://{LOOPBACK}:{load.server.grpc}{wire.grpc_method}"]
    if load.warm_up:
        command[1:1] = [f"--warm-up-time={round(load.warm_up * 1000)}ms"]
    sample = parse_h2load(_run(command, load.seconds + load.warm_up), log.read_bytes())
    return replace(sample, answer_bytes=None) if load.warm_up else sample  # its bytes include the warm-up's


def parse_h2load(report: str, log: bytes) -> Sample:
    """Rate, failures and sizes from h2load's report; latencies from its log, one line a request."""
    rate = float(_find(r"finished in [^,]+, ([\d.]+) req/s", report))
    done = int(_find(r"(\d+) done", report))
    succeeded = int(_find(r"(\d+) 2xx", report))
    lost = sum(int(_find(rf"(\d+) {kind}", report)) for kind in ("failed", "errored", "timeout"))
    data = int(_find(r"\((\d+)\) data", report))
    rows = (line.split(b"\t") for line in log.splitlines())
    times = np.array([int(row[2]) for row in rows if row[1] == b"200"], float)
    if not len(times):
        raise RuntimeError(f"h2load got no answer:\n{report}")
    at = np.percentile(times, PERCENTILES)
    return Sample(
        rate, done, max(done - succeeded, lost), float(times.mean()), *map(float, at), answer_bytes=data / max(done, 1)
    )


def wrk(load: Load) -> Sample:
    """Send one-row REST requests."""
    body, script = load.work / "request.json", load.work / "request.lua"
    body.write_bytes(load.server.wire.rest_request(load.model, load.model.rows(1)))
    script.write_text(LUA.format(body=body))
    url = f"http://{LOOPBACK}:{load.server.rest}{load.server.wire.rest_path(load.model)}"
    seconds = max(1, round(load.seconds))
    command = ["wrk", "-t", "1", "-c", str(load.plan.connections), "-d", f"{seconds}s", "-s", str(script), url]
    return parse_wrk(_run(command, seconds))


def parse_wrk(report: str) -> Sample:
    """The line that our script makes wrk print."""
    line = next(line for line in report.splitlines() if line.startswith('{"requests"'))
    found = json.loads(line)
    rate = found["requests"] / (found["micros"] / 1e6)
    return Sample(rate, found["requests"], found["failed"], found["mean"], *found["at"])


def _run(command: list[str], seconds: float) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=seconds + SLACK_SECONDS, check=False)
    if ended.returncode:
        raise RuntimeError(f"{command[0]} failed ({ended.returncode}): {ended.stderr[-1000:]}{ended.stdout[-1000:]}")
    return ended.stdout


def _find(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise RuntimeError(f"no {pattern!r} in:\n{text}")
    return found.group(1)

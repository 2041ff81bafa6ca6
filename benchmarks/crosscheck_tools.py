"""Three closed loops with the same clients: poise bench, h2load for gRPC, wrk for REST. Each has one thread."""

from __future__ import annotations

import json
import re
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from poise.bench.engine import Wiring
from poise.bench.load import ClosedLoop
from poise.bench.session import Method, measure
from poise.bench.traffic import Traffic

WARMUP_S = 1.0
"""Not counted: by wrk as a run of its own, by the others as the beginning of the same."""
SLACK_S = 30.0
LUA = """
local file = assert(io.open("{body}", "rb"))
wrk.method, wrk.body = "POST", file:read("*a")
wrk.headers["Content-Type"] = "application/json"
file:close()
done = function(summary, latency, requests)
  local e = summary.errors
  local failed = e.connect + e.read + e.write + e.status + e.timeout
  io.write(string.format('\\n{{"requests": %d, "micros": %d, "failed": %d, "mean": %f, "p50": %f, "p99": %f}}\\n',
    summary.requests, summary.duration, failed, latency.mean, latency:percentile(50), latency:percentile(99)))
end
"""


@dataclass(frozen=True)
class Endpoint:
    """Who is asked what, by how many clients at once."""

    name: str
    traffic: Traffic
    connections: int
    streams: int = 1
    bound: str = "server"
    """What the rate is limited by: the server, its known latency, or the tool itself."""

    @property
    def clients(self) -> int:
        return self.connections * self.streams

    @property
    def is_grpc(self) -> bool:
        return self.traffic.url.startswith("grpc")

    @property
    def url(self) -> str:
        return f"http://{self.traffic.url.partition('://')[2]}{self.traffic.requests[0].path}"


@dataclass(frozen=True)
class Seen:
    """What a tool saw: answers a second, and latencies in milliseconds."""

    rate: float
    mean: float
    p50: float
    p99: float


Tool = Callable[[Endpoint, float, Path], Seen]


def poise_bench(endpoint: Endpoint, seconds: float, _work: Path) -> Seen:
    """The load generator of this project."""
    method = Method(seconds, warmup_s=WARMUP_S, wiring=Wiring(endpoint.connections))
    load = ClosedLoop(endpoint.clients)
    measured = measure(endpoint.traffic, load, method).measured()
    if measured.errors():
        raise RuntimeError(f"{endpoint.name}: {measured.errors()}")
    return Seen(len(measured) / seconds, *summary(measured.latency_ms()))


def h2load(endpoint: Endpoint, seconds: float, work: Path) -> Seen:
    """nghttp2's; rate and latencies are taken from its log of all requests, without those of the warm-up."""
    body, log = work / "request.bin", work / "h2load.log"
    message = endpoint.traffic.requests[0].body
    body.write_bytes(struct.pack(">BI", 0, len(message)) + message)
    log.unlink(missing_ok=True)
    command = ["h2load", "-t1", f"-c{endpoint.connections}", f"-m{endpoint.streams}", f"--log-file={log}"]
    command += [f"-D{round((seconds + WARMUP_S) * 1000)}ms", "-d", str(body)]
    command += ["-H", "content-type: application/grpc", "-H", "te: trailers", endpoint.url]
    report = run(command, seconds)
    if not re.search(r" 0 failed, 0 errored, 0 timeout", report):
        raise RuntimeError(f"{endpoint.name}: {report}")
    start, _status, took = np.loadtxt(log, np.int64).T
    done = start + took
    begin = start.min() + WARMUP_S * 1e6
    counted = (done >= begin) & (done < begin + seconds * 1e6)
    return Seen(np.count_nonzero(counted) / seconds, *summary(took[counted] / 1e3))


def wrk(endpoint: Endpoint, seconds: float, work: Path) -> Seen:
    """wrk; the second run counts. Latencies are those of its own histogram."""
    body, script = work / "request.json", work / "request.lua"
    body.write_bytes(endpoint.traffic.requests[0].body)
    script.write_text(LUA.format(body=body))
    for duration_s in (WARMUP_S, seconds):
        command = ["wrk", "-t1", f"-c{endpoint.connections}", f"-d{max(round(duration_s), 1)}s", "-s", str(script)]
        report = run([*command, endpoint.url], duration_s)
    found = json.loads(next(line for line in report.splitlines() if line.startswith('{"requests"')))
    if found["failed"]:
        raise RuntimeError(f"{endpoint.name}: {report}")
    latencies = (found[name] / 1e3 for name in ("mean", "p50", "p99"))
    return Seen(found["requests"] / (found["micros"] / 1e6), *latencies)


def summary(latencies_ms: np.ndarray) -> tuple[float, float, float]:
    """Mean, P50 and P99 of (N,) latencies."""
    p50, p99 = np.quantile(latencies_ms, (0.5, 0.99), method="inverted_cdf")
    return float(latencies_ms.mean()), float(p50), float(p99)


def run(command: list[str], seconds: float) -> str:
    """What a program writes. Raises RuntimeError when it fails."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=seconds + SLACK_S, check=False)
    if ended.returncode:
        raise RuntimeError(f"{command[0]} failed ({ended.returncode}): {ended.stderr[-1000:]}{ended.stdout[-1000:]}")
    return ended.stdout

"""What a load is felt by: P99 of a small network while a large model loads beside it; and memory after many loads.

Runs in the project's own environment (.venv). In each round the small network is measured in a quiet server, while a
version of the large model loads at low priority, and while one loads at normal priority, for comparison. The large
model reads a file and multiplies matrices on all cores for as long as the measurement takes.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from poise import _core
from poise.bench.load import ClosedLoop
from poise.bench.session import Method, measure
from poise.bench.statistics import percentile
from poise.bench.targets.tfs_grpc import PREDICT_METHOD
from poise.bench.traffic import Traffic, WireRequest
from poise.config import Config, ModelConfig, ServerSettings
from poise.demo.ranker import write_ranker
from poise.server import PoiseServer, serve_in_background
from poise.workers import supervisor

STATES = ("quiet", "low priority", "normal priority")
TARGET = 1.10
FLAT = 1.05
SETTLED = 5
"""Cycles after which the memory of the process tree must stay the same."""
WAIT_S = 120.0
LARGE = """
import time
from pathlib import Path
import numpy as np

FILE, BUSY_S = {file!r}, {busy_s}

class Large:
    inputs = {{"x": ("float", [-1])}}
    outputs = {{"y": ("float", [-1])}}

    def __init__(self):
        until = time.monotonic() + BUSY_S
        self.weights = np.fromfile(FILE, np.float32)
        matrix = self.weights[: 1 << 20].reshape(1024, 1024)
        while time.monotonic() < until:
            np.fromfile(FILE, np.float32, 1 << 22)
            matrix @ matrix

    def predict(self, inputs):
        return {{"y": inputs["x"]}}
"""


class Bench:
    """A server with the small network, and the large model whose versions come and go."""

    def __init__(self, server: PoiseServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._number = 0

    def load(self, busy_s: float) -> int:
        """Put a version there; it is taken up within a moment."""
        self._number += 1
        version = self._folder / "large" / str(self._number)
        version.mkdir(parents=True)
        text = LARGE.format(file=str(self._folder / "weights"), busy_s=busy_s)
        (version / "model.py").write_text(text)
        os.utime(version / "model.py", (0, 0))
        os.utime(version, (0, 0))
        return self._number

    def state(self, version: int) -> int:
        """As `poise_version_state` has it; 0 while the version is not known."""
        wanted = f'poise_version_state{{model="large",version="{version}"}} '
        lines = self._server.core.metrics().splitlines()
        return next((int(line.removeprefix(wanted)) for line in lines if line.startswith(wanted)), 0)

    def until(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not true():
            if time.monotonic() > deadline:
                raise RuntimeError("the large model did not come to what was waited for")
            time.sleep(0.02)

    def one(self, state: str, seconds: float) -> float:
        """P99 in milliseconds of the small network, one request at a time."""
        if state != "quiet":
            supervisor.low_priority_s = (  # type: ignore[attr-defined]
                (lambda *_args, **_more: WAIT_S) if state == "low priority" else (lambda *_args, **_more: 0.0)
            )
            version = self.load(seconds + 4.0)
            self.until(lambda: self.state(version) == 20)
            time.sleep(1.0)  # the interpreter has started, and the work begun
        row = np.ones((1, 64), np.float32)
        body = _core.encode_predict_request("ranker", None, "", [("x", "float", row.shape, row.tobytes())])
        traffic = Traffic(f"grpc://{self._server.grpc_address}", (WireRequest(PREDICT_METHOD, body),))
        measured = measure(traffic, ClosedLoop(1), Method(seconds, warmup_s=0.3)).measured()
        if measured.errors():
            raise RuntimeError(f"{state}: {measured.errors()}")
        if state != "quiet":
            if self.state(version) != 20:
                raise RuntimeError("the load was over before the measurement")
            self.until(lambda: self.state(version) == 30)
        p99 = percentile(measured.latency_ms(), 990)
        if p99 is None:
            raise RuntimeError(f"too few requests for a P99 in {seconds:g} s")
        return p99

    def cycle(self) -> float:
        """Load a version, let the one before go; MiB of the whole process tree then."""
        version = self.load(0.0)
        self.until(lambda: self.state(version) == 30 and self.state(version - 1) in {0, 50})
        return tree_mib()


def tree_mib() -> float:
    """Resident memory of this process and all below it."""
    parents = {int(stat.parent.name): _fields(stat) for stat in Path("/proc").glob("[0-9]*/stat")}
    family = {os.getpid()}
    while more := {pid for pid, fields in parents.items() if fields and int(fields[1]) in family} - family:
        family |= more
    pages = sum(int(parents[pid][21]) for pid in family if parents.get(pid))
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _fields(stat: Path) -> list[str]:
    try:
        return stat.read_text().rpartition(")")[2].split()
    except OSError:
        return []


def main() -> None:
    """Serve, measure in rounds, cycle, write what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="poise-loading-") as name:
        folder = Path(name)
        np.ones(asked.megabytes << 18, np.float32).tofile(folder / "weights")
        write_ranker(folder / "ranker" / "1" / "model.onnx")
        (folder / "large").mkdir()
        models = (
            ModelConfig(name="ranker", path=str(folder / "ranker"), options={"intra_op_threads": 1}),
            ModelConfig(name="large", path=str(folder / "large"), backend="python", poll_interval_s=0.1),
        )
        settings = ServerSettings(grpc="127.0.0.1:0", http=None)
        with serve_in_background(Config(server=settings, models=models), ready_timeout_s=0) as server:
            bench = Bench(server, folder)
            first = bench.load(0.0)
            bench.until(lambda: bench.state(first) == 30)
            rounds = [{state: bench.one(state, asked.seconds) for state in STATES} for _ in range(asked.rounds)]
            memory = [bench.cycle() for _ in range(asked.cycles)]
    write(asked, rounds, memory)


def write(asked: argparse.Namespace, rounds: list[dict[str, float]], memory: list[float]) -> None:
    stem = asked.out / f"{dt.datetime.now(dt.UTC).date()}-loading"
    asked.out.mkdir(exist_ok=True)
    load = os.getloadavg()
    record = {"p99_ms": rounds, "rss_mib": memory, "load_average_after": load}
    stem.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    text = report(asked, rounds, memory) + f"\nLoad average of the machine afterwards: {load[0]:.2f}.\n"
    stem.with_suffix(".md").write_text(text)
    print(text)
    low = statistics.median(one["low priority"] / one["quiet"] for one in rounds)
    sys.exit(low > TARGET)


def report(asked: argparse.Namespace, rounds: list[dict[str, float]], memory: list[float]) -> str:
    """The ratios with their spread, and how much memory grew."""
    lines = [
        f"# A load beside a model that serves, {asked.rounds} interleaved rounds of {asked.seconds:g} s",
        "",
        f"The large model reads {asked.megabytes} MB and multiplies matrices on all cores while it loads.",
        "",
        "| large model | P99 of the small one, ms | ÷ quiet | target |",
        "| --- | ---: | ---: | ---: |",
    ]
    for state in STATES:
        p99 = [one[state] for one in rounds]
        ratios = [one[state] / one["quiet"] for one in rounds]
        spread = f"{statistics.median(ratios):.2f} [{min(ratios):.2f} to {max(ratios):.2f}]"
        target = f"≤ {TARGET:.2f}" if state == "low priority" else ""
        lines.append(f"| {state} | {statistics.median(p99):.3f} | {spread} | {target} |")
    settled = memory[SETTLED:]
    if settled:
        growth = f"{max(settled) / settled[0]:.3f}"
        lines += [
            "",
            f"{asked.cycles} cycles of load and unload, memory of the whole process tree: {settled[0]:.0f} MiB",
        ]
        lines[-1] += (
            f" after cycle {SETTLED + 1}, at most {growth} × that later (target ≤ {FLAT}), {memory[-1]:.0f} at the end."
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

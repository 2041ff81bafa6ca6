"""What a process costs over a thread: a null model through the border of both kinds of worker, interleaved.

Runs in the project's own environment (.venv). The time of a batch is read from the server's histogram, from the
batch handed to the channel until its outputs are back; the time of a request is the client's P50, one at a time.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import statistics
import tempfile
from pathlib import Path

import numpy as np

from poise import _core
from poise.bench.load import ClosedLoop
from poise.bench.session import Method
from poise.bench.session import measure as measure_point
from poise.bench.statistics import percentile
from poise.bench.targets.tfs_grpc import PREDICT_METHOD
from poise.bench.traffic import Traffic, WireRequest
from poise.config import Config, ModelConfig, ServerSettings
from poise.server import PoiseServer, serve_in_background

KINDS = ("thread", "process")
SIZES = {"small": 4, "1 MB": 262_144}
"""Name of a case → float32 elements of its one row, the same in and out."""
TARGETS = {"small": 1.3, "1 MB": 1.15}
MODEL = """
class Null:
    inputs = {"x": ("float", [-1, -1])}
    outputs = {"y": ("float", [-1, -1])}

    def predict(self, inputs):
        return {"y": inputs["x"]}
"""


def main() -> None:
    """Serve the null model twice, measure in rounds, write what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="poise-border-") as folder:
        path = Path(folder) / "null.py"
        path.write_text(MODEL)
        models = tuple(ModelConfig(name=kind, path=f"{path}:Null", isolation=kind) for kind in KINDS)
        settings = ServerSettings(grpc="127.0.0.1:0", http=None)
        with serve_in_background(Config(server=settings, models=models)) as server:
            cells = measure(server, asked.rounds, asked.seconds)
    asked.out.mkdir(exist_ok=True)
    stem = asked.out / f"{dt.datetime.now(dt.UTC).date()}-border"
    stem.with_suffix(".json").write_text(json.dumps(cells, indent=1) + "\n")
    text = report(cells, asked.rounds, asked.seconds)
    stem.with_suffix(".md").write_text(text)
    print(text)


def measure(server: PoiseServer, rounds: int, seconds: float) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Case → kind → one record a round."""
    cells: dict[str, dict[str, list[dict[str, float]]]] = {size: {kind: [] for kind in KINDS} for size in SIZES}
    for _ in range(rounds):
        for size, elements in SIZES.items():
            for kind in KINDS:
                cells[size][kind].append(one(server, kind, elements, seconds))
    return cells


def one(server: PoiseServer, kind: str, elements: int, seconds: float) -> dict[str, float]:
    """Mean µs of a batch and P50 µs of a request, one request at a time."""
    row = np.ones((1, elements), np.float32)
    body = _core.encode_predict_request(kind, None, "", [("x", "float", row.shape, row.tobytes())])
    traffic = Traffic(f"grpc://{server.grpc_address}", (WireRequest(PREDICT_METHOD, body),))
    before = batches(server, kind)
    measured = measure_point(traffic, ClosedLoop(1), Method(seconds, warmup_s=0.3)).measured()
    after = batches(server, kind)
    if measured.errors():
        raise RuntimeError(f"{kind}: {measured.errors()}")
    batch_us = (after[0] - before[0]) / (after[1] - before[1]) * 1e6
    p50_ms = percentile(measured.latency_ms(), 500)
    if p50_ms is None:
        raise RuntimeError(f"{kind}: too few requests for a median in {seconds:g} s")
    return {"batch_us": batch_us, "request_us": p50_ms * 1e3}


def batches(server: PoiseServer, kind: str) -> tuple[float, float]:
    """Seconds and number of the batches that a model has run."""
    wanted = {}
    for line in server.core.metrics().splitlines():
        for part in ("sum", "count"):
            if line.startswith(f'poise_execution_seconds_{part}{{model="{kind}"'):
                wanted[part] = float(line.rsplit(" ", 1)[1])
    return wanted["sum"], wanted["count"]


def report(cells: dict[str, dict[str, list[dict[str, float]]]], rounds: int, seconds: float) -> str:
    """The ratios with their spread."""
    lines = [
        f"# Process ÷ thread, null model, {rounds} interleaved rounds of {seconds:g} s, one request at a time",
        "",
        "| row | what | thread, µs | process, µs | process ÷ thread | target |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for size, kinds in cells.items():
        for what, target in (("batch_us", f"≤ {TARGETS[size]}"), ("request_us", "")):
            thread, process = ([record[what] for record in kinds[kind]] for kind in KINDS)
            ratios = [one / other for one, other in zip(process, thread, strict=True)]
            spread = f"{statistics.median(ratios):.2f} [{min(ratios):.2f} to {max(ratios):.2f}]"
            numbers = f"{statistics.median(thread):.0f} | {statistics.median(process):.0f}"
            lines.append(f"| {size} | {what.removesuffix('_us')} | {numbers} | {spread} | {target} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

"""One network, ResNet50, on every engine that runs it, behind Poise: rows a second, latency, differences.

Runs in the project's own environment (.venv); the network is made once in benchmarks/.venv-export. All engines are up
during the whole run, each in a worker process with all the cores, and are measured in turn.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import statistics
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from poise.client import ModelAddress, fetch_signatures, predict
from poise.config import BatchSettings, Config, ModelConfig, ServerSettings
from poise.server import PoiseServer, serve_in_background
from poise.types import Signature

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 120.0
"""Of one call: the first ones compile."""
BATCH = 8
UNDER_WAY = 2
"""Batches: one runs, one waits."""
ENGINES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "tensorflow": ("saved", "tensorflow", {}),
    "tensorflow, XLA": ("saved", "tensorflow", {"xla": True}),
    "openvino": ("saved", "openvino", {}),
    "onnxruntime": ("onnx", "onnxruntime", {}),
}
"""Name → folder of the network, backend, options."""


@dataclass
class Cell:
    """What one engine did in all the rounds."""

    rows_per_second: list[float] = field(default_factory=list)
    latency_ms: list[list[float]] = field(default_factory=list)
    """Of single requests of one row, one at a time, for each round."""
    difference: float = 0.0
    """The largest, of any output, to the first engine's."""


def main() -> None:
    """Make the network, serve it by all engines, measure in rounds, write what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each of the two series of a cell")
    parser.add_argument("--network", type=Path, default=HERE.parent / ".cache" / "resnet50")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    asked = parser.parse_args()
    if not (asked.network / "onnx" / "1" / "model.onnx").exists():
        subprocess.run([HERE / "setup.sh", "export"], check=True)
        command = [HERE / ".venv-export" / "bin" / "python", HERE / "export_resnet.py", asked.network]
        subprocess.run(command, check=True)
    load = os.getloadavg()
    with serve_in_background(config(asked.network), ready_timeout_s=300.0) as server:
        cells = measure(server, asked.rounds, asked.seconds)
    stem = asked.out / f"{dt.datetime.now(dt.UTC).date()}-engines"
    whole = {name: vars(cell) for name, cell in cells.items()}
    stem.with_suffix(".json").write_text(json.dumps(whole, indent=1) + "\n")
    text = report(cells, asked.rounds, asked.seconds, load)
    stem.with_suffix(".md").write_text(text)
    print(text)


def config(network: Path) -> Config:
    """A server with one model for each engine; XLA compiles for the two sizes of batches that are measured."""
    batching = BatchSettings(max_batch_size=BATCH, allowed_batch_sizes=(1, BATCH))
    models = tuple(
        ModelConfig(
            name=f"engine{number}", path=str(network / folder), backend=backend, options=options, batching=batching
        )
        for number, (folder, backend, options) in enumerate(ENGINES.values())
    )
    return Config(server=ServerSettings(grpc="127.0.0.1:0", http=None), models=models)


def measure(server: PoiseServer, rounds: int, seconds: float) -> dict[str, Cell]:
    """Engine by engine in each round; what it answers is compared first, which warms it up too."""
    images = np.random.default_rng(1).random((BATCH, 224, 224, 3), np.float32)
    asks = {name: engine(f"grpc://{server.grpc_address}", number) for number, name in enumerate(ENGINES)}
    cells = {name: Cell() for name in ENGINES}
    expected = asks["tensorflow"](images)
    for name, ask in asks.items():
        cells[name].difference = float(np.abs(ask(images) - expected).max())
        ask(images[:1])
    for number in range(rounds):
        for name, ask in asks.items():
            cells[name].rows_per_second.append(throughput(ask, images, seconds))
            cells[name].latency_ms.append(list(latencies(ask, images[:1], seconds)))
            middle = statistics.median(cells[name].latency_ms[-1])
            print(
                f"round {number}, {name}: {cells[name].rows_per_second[-1]:.1f} rows/s, P50 {middle:.1f} ms", flush=True
            )
    return cells


@dataclass(frozen=True)
class Engine:
    """One served model, asked over gRPC."""

    address: ModelAddress
    signature: Signature

    def __call__(self, images: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        found = predict(self.address, self.signature, {self.signature.inputs[0].name: images}, TIMEOUT_S)
        return found.outputs[self.signature.outputs[0].name]


def engine(target: str, number: int) -> Engine:
    address = ModelAddress(target, f"engine{number}")
    return Engine(address, fetch_signatures(address, TIMEOUT_S).signatures[0])


def throughput(ask: Engine, images: np.ndarray[Any, Any], seconds: float) -> float:
    """Rows a second in requests of a full batch, of which two are under way."""
    began = time.perf_counter()

    def client() -> int:
        rows = 0
        while time.perf_counter() - began < seconds:
            rows += len(ask(images))
        return rows

    with ThreadPoolExecutor(UNDER_WAY) as pool:
        rows = sum(future.result() for future in [pool.submit(client) for _ in range(UNDER_WAY)])
    return rows / (time.perf_counter() - began)


def latencies(ask: Engine, image: np.ndarray[Any, Any], seconds: float) -> Iterator[float]:
    """Milliseconds of each request, one after the other."""
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        ask(image)
        yield 1000 * (time.perf_counter() - start)


def report(cells: dict[str, Cell], rounds: int, seconds: float, load: tuple[float, float, float]) -> str:
    """One table; of rates the median of the rounds with their spread, of latencies all rounds together."""
    method = (
        f"ResNet50 (Keras, 224 × 224, random weights, float32) behind Poise on {os.cpu_count()} cores, {rounds} rounds"
        f" of {seconds:g} s a series, engines in turn. Rows/s: gRPC requests of {BATCH} rows, {UNDER_WAY} under way,"
        " median [min to max] of the rounds. Latency: single requests of one row, all rounds together. Difference: the"
        f" largest of any output to TensorFlow's. Load average before: {', '.join(f'{one:.2f}' for one in load)}."
    )
    head = ["engine", "rows/s", "of TensorFlow's", "P50, ms", "P99, ms", "difference"]
    lines = [f"# Engines, {dt.datetime.now(dt.UTC).date()}", "", method, ""]
    lines += [f"| {' | '.join(head)} |", "| --- |" + " ---: |" * (len(head) - 1)]
    base = cells["tensorflow"].rows_per_second
    for name, cell in cells.items():
        rates, ratios = (
            cell.rows_per_second,
            [one / other for one, other in zip(cell.rows_per_second, base, strict=True)],
        )
        single = np.concatenate([np.array(one) for one in cell.latency_ms])
        p50, p99 = np.percentile(single, [50, 99])
        lines.append(
            f"| {name} | {spread(rates, 1)} | {spread(ratios, 2)} | {p50:.0f} | {p99:.0f} | {cell.difference:.1e} |"
        )
    return "\n".join(lines) + "\n"


def spread(values: list[float], digits: int) -> str:
    middle, low, high = statistics.median(values), min(values), max(values)
    return f"{middle:.{digits}f} [{low:.{digits}f} to {high:.{digits}f}]"


if __name__ == "__main__":
    main()

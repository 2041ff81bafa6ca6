"""How often the intervals of `poise bench` cover the truth, on a simulated batching queue whose truth is known.

One executor takes all that waits, at most 64 at once, and needs 4 ms and 0.5 ms for each request; arrivals are Poisson.
A long run is cut into pieces, each piece gives an interval, and the truth is the percentile of the whole run. Load is
the rate times 0.5 ms. Claim: where an interval of P99 is given, it covers the truth in at least 0.9 of all cases.

.venv/bin/python benchmarks/coverage.py [--pieces 60]
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from poise.bench.statistics import PERMILLES, intervals

RESULTS = Path(__file__).resolve().parent / "results"
BASE_S, PER_ROW_S, MOST_ROWS = 4e-3, 0.5e-3, 64
LOADS = (0.25, 0.50, 0.65, 0.75)
COUNTS = (10_000, 50_000)
FIGURES = ("p50", "p95", "p99")
WANTED = 0.9


@dataclass(frozen=True)
class Cell:
    """One load and length of a run."""

    load: float
    count: int
    figure: str
    pieces: int
    given: int
    """Pieces that gave an interval: where blocks would be too short, there is none."""
    covered: int
    width: float | None
    """Mean of high / low - 1."""


def simulate(rate: float, count: int, random: np.random.Generator) -> np.ndarray:
    """Latencies in milliseconds, in the order of arrival."""
    arrivals = np.cumsum(random.exponential(1 / rate, count))
    latencies, free, index = np.empty(count), 0.0, 0
    while index < count:
        start = max(free, arrivals[index])
        waiting = int(np.searchsorted(arrivals, start, side="right")) - index
        rows = min(max(waiting, 1), MOST_ROWS)
        free = start + BASE_S + PER_ROW_S * rows
        latencies[index : index + rows] = free - arrivals[index : index + rows]
        index += rows
    return latencies * 1e3


def measure(load: float, count: int, pieces: int, random: np.random.Generator) -> list[Cell]:
    whole = simulate(load / PER_ROW_S, count * pieces, random)
    found = [intervals(piece, seed) for seed, piece in enumerate(whole.reshape(pieces, count))]
    cells = []
    for figure in FIGURES:
        truth = np.quantile(whole, PERMILLES[figure] / 1000, method="inverted_cdf")
        given = [each[figure] for each in found if each[figure]]
        covered = sum(bool(low <= truth <= high) for low, high in given)
        width = float(np.mean([high / low - 1 for low, high in given])) if given else None
        cells.append(Cell(load, count, figure, pieces, len(given), covered, width))
    return cells


def table(cells: list[Cell]) -> str:
    lines = [
        f"# Coverage of the intervals, {datetime.now(UTC):%Y-%m-%d}",
        "",
        f"`benchmarks/coverage.py`, {cells[0].pieces} pieces each. Nominal: 0.95; wanted where given: {WANTED}.",
        "",
        "| load | requests | figure | intervals given | covered the truth | mean width |",
        "|---|---|---|---|---|---|",
    ]
    for cell in cells:
        share = f"{cell.covered / cell.given:.2f}" if cell.given else "-"
        width = f"{cell.width:.1%}" if cell.width is not None else "-"
        given = f"{cell.given} of {cell.pieces}"
        lines.append(f"| {cell.load:g} | {cell.count:,} | {cell.figure.upper()} | {given} | {share} | {width} |")
    for figure in FIGURES:
        given = sum(cell.given for cell in cells if cell.figure == figure)
        covered = sum(cell.covered for cell in cells if cell.figure == figure)
        lines += ["", f"{figure.upper()} over all: {covered} of {given} = {covered / given:.3f}"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pieces", type=int, default=60)
    asked = parser.parse_args()
    random = np.random.default_rng(1)
    cells = [cell for load in LOADS for count in COUNTS for cell in measure(load, count, asked.pieces, random)]
    name = f"{datetime.now(UTC):%Y-%m-%d}-coverage"
    (RESULTS / f"{name}.json").write_text(json.dumps([asdict(cell) for cell in cells], indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(table(cells))
    print(table(cells))


if __name__ == "__main__":
    main()

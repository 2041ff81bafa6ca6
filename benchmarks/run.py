"""Compare Poise with other servers of the same small model, side by side: `python benchmarks/run.py --help`."""

# ruff: noqa: E402  (the environment comes first)

from __future__ import annotations

import argparse
import datetime as dt
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import environment

environment.enter()

import models
from drivers import Plan
from machine import ROOT, facts, use_two_cores
from peers import Running
from peers.bare import Bare
from report import Report, verdict_table
from rounds import STARTS, Comparison, Measured, idle_cpu, started
from targets import Results, verdicts

IDLE_SECONDS = 5.0
SWEEP_SECONDS = 0.5
MAX_ROWS = 64


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default=",".join(STARTS), help="servers, by comma (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one cell")
    parser.add_argument("--plans", default="1,8,64,256,4x32", help="connections, or connections x streams")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    asked = parser.parse_args()
    asked.peers = asked.peers.split(",")
    if unknown := set(asked.peers) - STARTS.keys():
        parser.error(f"unknown peers {sorted(unknown)}; there are {list(STARTS)}")
    asked.plans = [Plan.parse(plan) for plan in asked.plans.split(",")]
    return asked


def bare_figures(bare: Bare) -> dict[str, Any]:
    """The model alone, measured while the servers are up and idle, as they are during every cell of another one."""
    singles = [bare.single_row_micros() for _ in range(3)]
    return {"single_row_micros": statistics.median(singles), "rows_per_second": bare.sweep(SWEEP_SECONDS)}


def collect(comparison: Comparison, asked: argparse.Namespace, servers: Sequence[Running]) -> list[Measured]:
    """Run all cells, telling of each as it ends."""
    cells = []
    for cell in comparison.rounds(servers, asked.plans, asked.rounds):
        cells.append(cell)
        found = f"{cell.sample.rate:9.0f}/s  P50 {cell.sample.p50 / 1000:7.2f} ms" if cell.sample else ""
        print(f"round {cell.round} {cell.api} {cell.plan:>5} {cell.peer:<10} {found} {cell.error or ''}", flush=True)
    return cells


def main() -> None:
    """Start everything, measure, write the report."""
    asked = arguments()
    cores = use_two_cores()
    machine = facts(cores)
    with tempfile.TemporaryDirectory(prefix="poise-bench-") as folder:
        work = Path(folder)
        model = models.ranker(work / "models")
        bare = Bare(model)
        comparison = Comparison(model, bare.predict(model.rows(1)), asked.seconds, work)
        with started(asked.peers, model, MAX_ROWS, work) as servers:
            comparison.warm(servers)
            idle = idle_cpu(servers, IDLE_SECONDS)
            alone = bare_figures(bare)
            cells = collect(comparison, asked, servers)
    settings = {"rounds": asked.rounds, "seconds": asked.seconds, "max_batch_rows": MAX_ROWS}
    found = verdicts(Results(cells), alone["single_row_micros"])
    date = dt.datetime.now(tz=dt.UTC).date().isoformat()
    written = Report(date, machine, settings, alone, idle, cells, found).write(asked.out)
    print(verdict_table(found))
    print(f"\nwritten: {written}")
    sys.exit(any(cell.error for cell in cells))


if __name__ == "__main__":
    main()

"""What serving costs a heavy model: rows a second through Poise ÷ the backend alone at its best batch size.

Poise gets that best batch as its maximum and enough requests under way to fill it; model threads are the same, one.
"""

# ruff: noqa: E402  (the environment comes first)

from __future__ import annotations

import argparse
import datetime as dt
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import environment

environment.enter()

import models
from drivers import Plan
from machine import ROOT, facts, use_two_cores
from peers.bare import Bare
from report import lines, quiet_note, verdict_table, write
from rounds import Comparison, Measured, started
from targets import Verdict, at_least

SWEEP_SECONDS = 2.0
WARM_UP_SECONDS = 2.0
BATCHES = (1, 2, 4, 8, 16, 32, 64)
NEARLY = 0.99  # of two batch sizes that are equally good, the smaller one
BATCHES_UNDER_WAY = 3
WANTED = 0.97


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default="poise", help="by comma, also triton-0, triton-500, grpcio")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="length of one series")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    asked = parser.parse_args()
    asked.peers = asked.peers.split(",")
    return asked


def compare(asked: argparse.Namespace, work: Path) -> tuple[dict[int, float], list[float], list[Measured]]:
    """Bare rates by batch size, then bare and served in turn: rows a second alone in each round, and the cells."""
    model = models.heavy(work / "models")
    bare = Bare(model)
    sweep = bare.sweep(SWEEP_SECONDS, BATCHES)
    best = best_batch(sweep)
    plan = Plan(BATCHES_UNDER_WAY, best)
    comparison = Comparison(model, bare.predict(model.rows(1)), asked.seconds, work, WARM_UP_SECONDS)
    alone, cells = [], []
    with started(asked.peers, model, best, work) as servers:
        for number in range(asked.rounds):
            alone.append(bare.rows_per_second(best, asked.seconds))
            cells += [comparison.measure("grpc", plan, server, number) for server in servers]
            served = (told(cell) for cell in cells[-len(servers) :])
            print(f"round {number}: alone {alone[-1]:.1f}", *served, flush=True)
    return sweep, alone, cells


def best_batch(sweep: dict[int, float]) -> int:
    """The smallest batch size that is as good as the best."""
    return min(batch for batch, rate in sweep.items() if rate >= NEARLY * max(sweep.values()))


def told(cell: Measured) -> str:
    """One cell in a few words."""
    return f"{cell.peer} {cell.error or (cell.sample and round(cell.sample.rate, 1))}"


def figure(peer: str, alone: list[float], cells: list[Measured]) -> Verdict:
    """Served ÷ alone, round by round."""
    good = [cell for cell in cells if cell.peer == peer and cell.sample and not cell.error]
    found = [cell.sample.rate / alone[cell.round] for cell in good if cell.sample]
    return at_least(f"{peer}: served rows/s ÷ the backend alone at its best batch", WANTED, found)


def main() -> None:
    """Measure and write the report."""
    asked = arguments()
    machine = facts(use_two_cores())
    with tempfile.TemporaryDirectory(prefix="poise-bench-") as folder:
        sweep, alone, cells = compare(asked, Path(folder))
    found = [figure(peer, alone, cells) for peer in asked.peers]
    date = dt.datetime.now(tz=dt.UTC).date().isoformat()
    whole = {"date": date, "machine": machine, "bare_rows_per_second": sweep, "alone_rows_per_second": alone}
    whole |= {"cells": [asdict(cell) for cell in cells], "verdicts": [asdict(verdict) for verdict in found]}
    best, plan = best_batch(sweep), cells[0].plan
    told_first = f"Magika's network, one-row requests, {plan} connections x streams, batch at most {best}."
    told_first += f" Alone at that batch: {statistics.median(alone):.1f} rows a second; by batch size:"
    parts = [f"# Heavy model, {date}", told_first, lines(sweep), quiet_note(cells), verdict_table(found)]
    parts += [f"- {told(cell)}" for cell in cells if cell.error] + ["## Machine", lines(machine)]
    written = write(asked.out / f"{date}-heavy", whole, "\n\n".join(parts) + "\n")
    print(verdict_table(found), f"\nwritten: {written}", sep="\n")
    sys.exit(any(verdict.passed is None for verdict in found))


if __name__ == "__main__":
    main()

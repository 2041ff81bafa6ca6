"""CPU of an idle Poise with ten models, worker processes included."""

# ruff: noqa: E402  (the environment comes first)

from __future__ import annotations

import argparse
import datetime as dt
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import environment

environment.enter()

import models
from machine import ROOT, facts, use_two_cores
from peers import Batching
from peers.poise import serve
from report import lines, verdict_table, write
from rounds import idle_cpu
from targets import at_most

MODELS = 10
SETTLE_SECONDS = 5.0
WANTED_PERCENT = 0.5


def main() -> None:
    """Start Poise, leave it alone, read its CPU time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    asked = parser.parse_args()
    machine = facts(use_two_cores())
    with tempfile.TemporaryDirectory(prefix="poise-bench-") as folder:
        work = Path(folder)
        served = [models.ranker(work / "models", f"ranker{number}") for number in range(MODELS)]
        with serve(served, Batching(), work) as server:
            time.sleep(SETTLE_SECONDS)
            percent = idle_cpu([server], asked.seconds)[server.name]
    claim = f"CPU of an idle Poise with {MODELS} models, % of one core, over {asked.seconds:g} s"
    found = at_most(claim, WANTED_PERCENT, [percent])
    date = dt.datetime.now(tz=dt.UTC).date().isoformat()
    whole = {"date": date, "machine": machine, "verdict": asdict(found)}
    readable = f"# Idle, {date}\n\n{verdict_table([found])}\n\n## Machine\n\n{lines(machine)}\n"
    print(verdict_table([found]), f"\nwritten: {write(asked.out / f'{date}-idle', whole, readable)}", sep="\n")
    sys.exit(not found.passed)


if __name__ == "__main__":
    main()

"""What the demo measures: `poise bench` for the client's view, `/metrics` for the batches the server made of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poise.bench.verdict import Exit
from poise.demo.child import Address
from poise.demo.models import DemoError

BUCKET = re.compile(r"^poise_batch_size_rows_bucket\{(?P<labels>[^}]*)\} (?P<count>[0-9.e+]+)", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')

WARMUP_S = 2
MEASURED = {Exit.OK, Exit.INVALID, Exit.UNSTABLE}
"""On a machine that does other work as well the figures of a short run are not worth much, but a demo shows them."""

Histogram = dict[float, float]
"""Batches of at most so many rows, by bound: cumulative, as Prometheus has it."""


@dataclass(frozen=True)
class Load:
    """One load test: so many clients, each with one request under way at a time."""

    model: str
    concurrency: int
    duration_s: int


@dataclass(frozen=True)
class Measurement:
    """What one load test found."""

    load: Load
    report: dict[str, Any]
    batches: Histogram


def measure(load: Load, address: Address, report: Path) -> Measurement:
    """Run one load test and read which batches it made."""
    before = batch_sizes(scrape(address), load.model)
    run_bench(load, address, report)
    after = batch_sizes(scrape(address), load.model)
    batches = {bound: count - before.get(bound, 0.0) for bound, count in after.items()}
    return Measurement(load, json.loads(report.read_text()), batches)


def run_bench(load: Load, address: Address, report: Path) -> None:
    command = [str(Path(sys.executable).with_name("poise")), "bench", f"grpc://{address.grpc}", "--model", load.model]
    options = {"--concurrency": load.concurrency, "--duration": load.duration_s, "--warmup": WARMUP_S, "--json": report}
    command += [str(part) for pair in options.items() for part in pair]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in MEASURED:
        raise DemoError(f"`poise bench` failed for {load.model}:\n{done.stderr.strip() or done.stdout.strip()}")


def scrape(address: Address) -> str:
    with urllib.request.urlopen(f"http://{address.http}/metrics", timeout=10) as response:
        return str(response.read().decode())


def batch_sizes(metrics: str, model: str) -> Histogram:
    """The histogram of one model, over all its versions and signatures."""
    found: Histogram = {}
    for match in BUCKET.finditer(metrics):
        labels = dict(LABEL.findall(match["labels"]))
        if labels.get("model") == model:
            bound = float(labels["le"].replace("+Inf", "inf"))
            found[bound] = found.get(bound, 0.0) + float(match["count"])
    return found


def common_batches(histogram: Histogram, at_most: int = 3) -> list[str]:
    """The commonest ranges of batch sizes with their share, smallest first: `33-64: 81%`."""
    total = max(histogram.values(), default=0.0)
    if not total:
        return ["none"]
    ranges, below, seen = [], 0, 0.0
    for bound in sorted(histogram):
        ranges.append(((histogram[bound] - seen) / total, below, bound))
        below, seen = int(min(bound, sys.maxsize)), histogram[bound]
    common = sorted(sorted(ranges, reverse=True)[:at_most], key=lambda one: one[1])
    return [f"{name_range(below, bound)}: {share:.0%}" for share, below, bound in common if share >= 0.005]


def name_range(below: int, bound: float) -> str:
    if bound == float("inf"):
        return f">{below}"
    return f"{below + 1}" if bound == below + 1 else f"{below + 1}-{bound:.0f}"

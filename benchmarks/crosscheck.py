"""poise bench beside h2load and wrk: do load generators of other makes see the same?

Closed loops with the same clients on the same servers, in interleaved rounds. Servers have one core and the tools
another. Runs in the project's own environment (.venv); h2load and wrk come with benchmarks/setup.sh.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import re
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from crosscheck_endpoints import endpoints
from crosscheck_tools import Endpoint, Seen, Tool, h2load, poise_bench, wrk

from poise.bench import host
from poise.bench.cores import affinity, one_core_left

LIMITS = {"rate": 0.03, "p50": 0.10, "p99": 0.10}
"""Most that the medians of the ratios may differ from 1."""
BOUNDS = {"server": "the server", "latency": "the server's known latency", "tool": "the tool itself: not judged"}
METHOD = (
    "{rounds} interleaved rounds of {seconds:g} s, closed loops of so many connections × streams; servers on one core, "
    "tools on another. Medians of the rounds; ratios are poise bench ÷ the other tool within a round, with the lowest "
    "and the highest. Wanted: rate within {rate:.0%}, P50 and P99 within {p50:.0%}."
)
READING = """
- In a closed loop, clients = rate × time between two requests of a client (Little's law). *Accounted for* is rate ×
  mean latency ÷ clients: the share of its clients' time that a tool reports as latency.
- Below 1, the rest was spent between an answer and the next request, inside the tool, where no latency shows it: h2load
  counts from the moment at which it hands a request to its HTTP/2 library, wrk from the write. poise bench counts from
  the client's last answer on.
- Above 1, a tool reports latency that nobody waited for: wrk adds samples to its histogram for what its clients would
  have sent while they waited longer than usual. One pause of the machine so becomes many slow requests, and its P99 is
  not that of the requests it sent; no option turns this off.
- Limited by a known latency, all tools have the same to see. Limited by the server, the rate is the server's as long as
  the tool is faster. Limited by the tool, on a server that does nothing, the figures are those of the tools.
"""


@dataclass(frozen=True)
class Cell:
    """One tool on one endpoint in one round."""

    endpoint: str
    api: str
    clients: str
    """Connections × streams."""
    bound: str
    tool: str
    round: int
    seen: Seen
    accounted: float
    """Share of the clients' time that the tool reports as latency."""
    host_busy: float | None
    """Share of all cores that were busy, with whatever."""


def main() -> None:
    """Measure in rounds and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    asked = parser.parse_args()
    cells = []
    with tempfile.TemporaryDirectory(prefix="poise-crosscheck-") as folder, one_core_left() as core:
        work = Path(folder)
        with endpoints(work) as found, affinity(core):
            for cell in measure_all(found, asked.rounds, asked.seconds, work):
                cells.append(cell)
                print(f"round {cell.round} {name(cell):<45} {cell.tool:<12} {show(cell.seen)}", flush=True)
    asked.out.mkdir(exist_ok=True)
    stem = asked.out / f"{dt.datetime.now(dt.UTC).date()}-crosscheck"
    stem.with_suffix(".json").write_text(json.dumps([asdict(cell) for cell in cells], indent=1) + "\n")
    text = report(cells, asked.rounds, asked.seconds)
    stem.with_suffix(".md").write_text(text)
    print(text)


def measure_all(found: list[Endpoint], rounds: int, seconds: float, work: Path) -> Iterator[Cell]:
    """Every endpoint by both tools in each round; which goes first alternates."""
    for number in range(rounds):
        for endpoint in found:
            tools: list[Tool] = [poise_bench, h2load if endpoint.is_grpc else wrk]
            for tool in tools[:: 1 if number % 2 == 0 else -1]:
                before = host.read()
                seen = tool(endpoint, seconds, work)
                busy = host.read().busy_share_since(before)
                api, clients = "gRPC" if endpoint.is_grpc else "REST", f"{endpoint.connections} × {endpoint.streams}"
                accounted = seen.rate * seen.mean / 1e3 / endpoint.clients
                yield Cell(endpoint.name, api, clients, endpoint.bound, tool.__name__, number, seen, accounted, busy)


def name(cell: Cell) -> str:
    return f"{cell.endpoint}, {cell.api}, {cell.clients}"


def show(seen: Seen) -> str:
    return f"{seen.rate:9.0f}/s  P50 {seen.p50:7.3f} ms  P99 {seen.p99:7.3f} ms"


def report(cells: list[Cell], rounds: int, seconds: float) -> str:
    """Medians of the rounds, and the ratios with their spread."""
    lines = [
        "# poise bench beside h2load and wrk",
        "",
        METHOD.format(rounds=rounds, seconds=seconds, rate=LIMITS["rate"], p50=LIMITS["p50"]),
        "",
        facts(),
        "",
        "| server, API, clients | limited by | | poise bench | h2load, wrk | ratio | |",
        "| --- | --- | --- | ---: | ---: | ---: | --- |",
    ]
    for key in dict.fromkeys(name(cell) for cell in cells):
        ours, theirs = (
            [cell for cell in cells if name(cell) == key and is_ours(cell) is mine] for mine in (True, False)
        )
        lines += [row(key, what, ours, theirs) for what in LIMITS]
        shares = (statistics.median(cell.accounted for cell in side) for side in (ours, theirs))
        lines.append("|  |  | accounted for | " + " | ".join(f"{share:.2f}" for share in shares) + " |  |  |")
    busy = [cell.host_busy for cell in cells if cell.host_busy is not None]
    lines += [
        "",
        f"Cores busy during the cells, with whatever: median {statistics.median(busy):.0%}.",
        "",
        "## Reading",
    ]
    return "\n".join(lines) + "\n" + READING


def is_ours(cell: Cell) -> bool:
    return cell.tool == poise_bench.__name__


def row(key: str, what: str, ours: list[Cell], theirs: list[Cell]) -> str:
    """One figure of one endpoint."""
    pairs = [(getattr(one.seen, what), getattr(other.seen, what)) for one, other in zip(ours, theirs, strict=True)]
    ratios = [one / other for one, other in pairs]
    middle = statistics.median(ratios)
    medians = [statistics.median(side) for side in zip(*pairs, strict=True)]
    texts = [f"{value:,.0f}/s" if what == "rate" else f"{value:.3f} ms" for value in medians]
    verdict = "" if ours[0].bound == "tool" else "ok" if abs(middle - 1) <= LIMITS[what] else "**differs**"
    head = f"{key} | {BOUNDS[ours[0].bound]}" if what == "rate" else " | "
    figures = f"{texts[0]} | {texts[1]} | {middle:.3f} [{min(ratios):.3f} to {max(ratios):.3f}]"
    return f"| {head} | {what if what == 'rate' else what.upper()} | {figures} | {verdict} |"


def facts() -> str:
    """Machine and versions."""
    cpu = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    said = [
        subprocess.run(command, capture_output=True, text=True, check=False)
        for command in (["h2load", "--version"], ["wrk", "-v"])
    ]
    versions = [re.search(r"\d+\.\d+(\.\d+)?", each.stdout + each.stderr) for each in said]
    tools = ", ".join(f"{tool} {found[0]}" for tool, found in zip(("h2load", "wrk"), versions, strict=True) if found)
    model = cpu[1] if cpu else platform.processor()
    return f"{model}, {os.cpu_count()} cores; {tools}; load average at the end {os.getloadavg()[0]:.1f}."


if __name__ == "__main__":
    main()

"""The result as two files: JSON with every cell of every round, Markdown to read."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rounds import Measured
from targets import Results, Values, Verdict

QUIET_CORES = 0.1
APIS = {"grpc": "gRPC (h2load)", "rest": "REST JSON (wrk)"}


@dataclass(frozen=True)
class Report:
    """All that one run of the comparison found."""

    date: str
    machine: Mapping[str, Any]
    settings: Mapping[str, Any]
    bare: Mapping[str, Any]
    idle_cpu_percent: Mapping[str, float]
    cells: Sequence[Measured]
    verdicts: Sequence[Verdict]

    def write(self, folder: Path) -> Path:
        """Write DATE-dataplane.json and .md into `folder`; returns the latter."""
        return write(folder / f"{self.date}-dataplane", asdict(self), self.markdown())

    def markdown(self) -> str:
        """The tables."""
        peers = list(dict.fromkeys(cell.peer for cell in self.cells))
        parts = [f"# Data plane, {self.date}", self._method(), "## Targets", verdict_table(self.verdicts)]
        parts += ["## Where Poise lost", self._lost(peers)]
        for api, title in APIS.items():
            parts += self._tables(api, title, [peer for peer in peers if self._speaks(peer, api)])
        parts += ["## The model alone", self._bare_table(), "## Idle servers", self._idle()]
        parts += ["## Cells that do not count", self._errors(), "## Machine", lines(self.machine)]
        return "\n\n".join(parts) + "\n"

    def _speaks(self, peer: str, api: str) -> bool:
        return any(cell.peer == peer and cell.api == api for cell in self.cells)

    def _method(self) -> str:
        rounds, seconds = self.settings["rounds"], self.settings["seconds"]
        return (
            f"One-row requests to a 64-256-128-1 network, closed loop, {rounds} interleaved rounds of {seconds:g} s "
            "a cell, servers and load generator on the same two cores. A cell shows the median of the rounds "
            "[min to max]. The method is in ../README.md, every number in the JSON file beside this one. "
        ) + quiet_note(self.cells)

    def _tables(self, api: str, title: str, peers: Sequence[str]) -> list[str]:
        plans = list(dict.fromkeys(cell.plan for cell in self.cells if cell.api == api))
        if not plans:
            return []
        results = Results(self.cells)

        def table(field: str, scale: float = 1.0) -> str:
            rows = []
            for plan in plans:
                found = [results.values(api, plan, peer, field) for peer in peers]
                rows.append([plan, *(_spread({k: v / scale for k, v in values.items()}) for values in found)])
            return _table(["connections", *peers], rows)

        parts = [f"## {title}: answers a second", table("rate")]
        for name in ("mean", "p50", "p99"):
            parts += [f"## {title}: {name.replace('p', 'P')}, ms", table(name, 1000)]
        return [*parts, f"## {title}: CPU time of the server a request, µs", self._cpu_table(api, plans, peers)]

    def _cpu_table(self, api: str, plans: Sequence[str], peers: Sequence[str]) -> str:
        rows = []
        for plan in plans:
            row = [plan]
            for peer in peers:
                cells = [cell for cell in self.cells if (cell.api, cell.plan, cell.peer) == (api, plan, peer)]
                row.append(_spread({cell.round: cell.server_cpu_micros or 0 for cell in cells if not cell.error}))
            rows.append(row)
        return _table(["connections", *peers], rows)

    def _lost(self, peers: Sequence[str]) -> str:
        """Every cell in which another server that runs the model had a higher rate or a lower P99."""
        if "poise" not in peers:
            return "Poise was not part of this run."
        results, lines = Results(self.cells), []
        others = [peer for peer in peers if peer not in ("poise", "nginx")]
        for api, plan in dict.fromkeys((cell.api, cell.plan) for cell in self.cells):
            for field, better in (("rate", max), ("p50", min), ("p99", min)):
                ours = results.values(api, plan, "poise", field)
                for other in others:
                    theirs = results.values(api, plan, other, field)
                    if ours and theirs:
                        mine, other_s = statistics.median(ours.values()), statistics.median(theirs.values())
                        if better(mine, other_s) != mine:
                            lines.append(f"- {api} at {plan}, {field}: {_short(mine)}, {other} {_short(other_s)}")
        missed = [f"- missed: {verdict.claim}" for verdict in self.verdicts if verdict.passed is False]
        return "\n".join(missed + lines) or "Nowhere, in this run (nginx, which runs no model, apart)."

    def _bare_table(self) -> str:
        sweep = {batch: _short(rate) for batch, rate in self.bare["rows_per_second"].items()}
        single = f"One run with one row: {self.bare['single_row_micros']:.1f} µs."
        return _table(["batch", *map(str, sweep)], [["rows a second", *sweep.values()]]) + "\n\n" + single

    def _idle(self) -> str:
        return "CPU in percent of one core, without requests, all servers up: " + ", ".join(
            f"{peer} {percent:.1f}" for peer, percent in self.idle_cpu_percent.items()
        )

    def _errors(self) -> str:
        bad = [cell for cell in self.cells if cell.error]
        return "\n".join(f"- round {c.round}, {c.peer}, {c.api} at {c.plan}: {c.error}" for c in bad) or "None."


def write(stem: Path, whole: Mapping[str, Any], readable: str) -> Path:
    """Write STEM.json and STEM.md; returns the latter."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    stem.with_suffix(".json").write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    stem.with_suffix(".md").write_text(readable)
    return stem.with_suffix(".md")


def quiet_note(cells: Iterable[Measured]) -> str:
    """How busy the machine was with other things: a run on a busy machine says so itself."""
    others = [cell.others_cores for cell in cells if cell.others_cores is not None]
    if not others:
        return ""
    middle, most = statistics.median(others), max(others)
    warning = " **The machine was not quiet: these numbers are not a result.**" if middle > QUIET_CORES else ""
    return f"Other programs had {middle:.2f} cores meanwhile (median of the cells; at most {most:.2f}).{warning}"


def verdict_table(verdicts: Iterable[Verdict]) -> str:
    """Claim, target, median [min to max], pass or MISS."""
    words = {True: "pass", False: "**MISS**", None: "not measured"}
    rows = [[v.claim, v.wanted, _spread(dict(enumerate(v.rounds))), words[v.passed]] for v in verdicts]
    return _table(["claim", "target", "median [min to max]", ""], rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _spread(values: Values) -> str:
    if not values:
        return "-"
    middle, low, high = statistics.median(values.values()), min(values.values()), max(values.values())
    return f"{_short(middle)} [{_short(low)} to {_short(high)}]"


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def lines(facts: Mapping[Any, Any]) -> str:
    return "\n".join(f"- {str(name).replace('_', ' ')}: {value}" for name, value in facts.items())

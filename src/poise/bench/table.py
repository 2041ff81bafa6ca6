"""The result of a load test in a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from poise.bench.statistics import PERMILLES, least_count
from poise.bench.words import milliseconds, rate, span

Json = dict[str, Any]
Row = tuple[str, str, str]

LATENCIES = ("mean", *PERMILLES, "max")


def show_point(console: Console, result: Json, title: str) -> None:
    """All figures of one point, and its verdict."""
    table = Table("", "", "", title=title, show_header=False, title_justify="left")
    table.columns[1].justify = "right"
    for name, value, note in rows(result):
        table.add_row(name, value, note)
    console.print(table)
    show_verdict(console, result)


def show_verdict(console: Console, result: Json) -> None:
    verdict = result["verdict"]
    colour = "green" if verdict["status"] == "VALID" else "red"
    console.print(f"[bold {colour}]{verdict['status']}[/]")
    for reason in verdict["reasons"]:
        console.print(f"- {reason}", markup=False)


def rows(result: Json) -> Iterator[Row]:
    """(name, figure, note)."""
    yield "offered", rate(result["offered_qps"]), f"{result['requests']:,} requests in {result['window_s']:.1f} s"
    yield "answered", rate(result["qps"]), ""
    yield "rows", rate(result["rows_per_s"]), ""
    if result["goodput_qps"] is not None:
        yield "goodput", rate(result["goodput_qps"]), "answered within every SLO"
    for code, count in sorted(result["errors"].items()):
        yield f"errors: {code}", f"{count:,}", ""
    yield from latency_rows(result)
    yield "service time P99", milliseconds(result["service_ms"]["p99"]), "from the actual send"
    yield "send lag P99", milliseconds(result["send_lag_ms"]["p99"]), "of the generator itself"
    for slo in result["slo"]:
        word = {True: "met", False: "MISSED", None: "too few requests to tell"}[slo["met"]]
        yield (
            f"SLO {slo['percentile']}",
            milliseconds(slo["value_ms"]),
            f"{word} (limit {milliseconds(slo['limit_ms'])})",
        )


def latency_rows(result: Json) -> Iterator[Row]:
    """Each latency with its interval, or with the number of requests that it would need."""
    for name in LATENCIES:
        value, note = result["latency_ms"][name], ""
        if name in PERMILLES:
            note = (
                span(result["intervals"][name])
                if value is not None
                else f"needs {least_count(PERMILLES[name]):,} requests"
            )
        yield (
            f"latency {name.replace('_', '.').replace('p', 'P')}",
            milliseconds(value) if value is not None else "n/a",
            note,
        )

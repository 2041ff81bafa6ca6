"""The result of a load test in a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from poise.bench.statistics import PERMILLES, least_count
from poise.bench.words import lag_words, load_words, milliseconds, percentile_name, rate, span

Json = dict[str, Any]
Row = tuple[str, str, str]

LATENCIES = ("mean", *PERMILLES, "max")


def show_point(console: Console, result: Json) -> None:
    """All figures of one point, and its verdict."""
    table = Table("", "", "", title=title(result), show_header=False, title_justify="left")
    table.columns[1].justify = "right"
    for row in rows(result):
        table.add_row(*row)
    console.print(table)
    show_verdict(console, result)


def title(result: Json) -> str:
    target = result["target"]
    return f"{escape(target['model'] or 'requests')} at {escape(target['url'])}, {load_words(result['load'])}"


def show_sweep(console: Console, result: Json) -> None:
    """One line for each point, and what speaks against some of them."""
    table = Table("load", "answered", "P50", "P95", "P99", "errors", "verdict", title_justify="left")
    for column in table.columns[1:6]:
        column.justify = "right"
    for point in result["points"]:
        latency = point["latency_ms"]
        values = [milliseconds(latency[name]) for name in ("p50", "p95", "p99")]
        errors = sum(point["errors"].values())
        status = point["verdict"]["status"]
        table.add_row(load_words(point["load"]), rate(point["qps"]), *values, f"{errors:,}", status)
    console.print(table)
    reasons = dict.fromkeys(reason for point in result["points"] for reason in point["verdict"]["reasons"][:1])
    for reason in reasons:
        console.print(f"- {reason}", markup=False)


def show_runs(console: Console, result: Json) -> None:
    """Each run, and what they tell together."""
    show_sweep(console, result)
    found = result["runs"]
    table = Table("figure", "over all runs", "95 % interval", title_justify="left")
    for row in found["figures"]:
        write = rate if row["figure"] == "qps" else milliseconds
        bounds = "-" if row["low"] is None else f"{write(row['low'])} - {write(row['high'])}"
        table.add_row(percentile_name(row["figure"]), write(row["value"]), bounds)
    console.print(table)
    console.print(f"{found['valid']} of {found['runs']} runs are valid and count")


def show_search(console: Console, result: Json) -> None:
    """All rates that were tried, and the answer."""
    show_sweep(console, result)
    show_rate(console, result[result["kind"]])


def show_rate(console: Console, found: Json) -> None:
    slo = ", ".join(found["slo"])
    if found["max_rate"] is None:
        console.print(f"[bold red]no rate is known to meet {slo}[/]")
    else:
        colour = "green" if found["confirmed"] else "red"
        known = "confirmed by runs anew" if found["confirmed"] else "NOT confirmed"
        console.print(f"[bold {colour}]{slo} is met up to {rate(found['max_rate'])}[/] ({known})")
    if found["lowest_failed_rate"] is not None:
        console.print(f"the lowest rate that fails is {rate(found['lowest_failed_rate'])}")
    if found["stopped"]:
        console.print(f"the search ended early: {found['stopped']}", markup=False)


def show_scenario(console: Console, result: Json) -> None:
    """A scenario's own figure, under its points."""
    found = result["scenario"]
    if "max_rate" in found:
        show_search(console, result)
    else:
        show_point(console, result["points"][0])
    console.print(f"[bold]{found['name']}[/] ({found['label']})")
    if "rows_per_s" in found:
        console.print(f"{found['rows_per_s']:,.1f} rows/s")
    elif "latency_ms" in found:
        enough = f"{found['queries']:,} queries, at least {found['least_queries']:,} are needed"
        console.print(f"{found['percentile'].upper()} at most {milliseconds(found['latency_ms'])} ({enough})")


def show_comparison(console: Console, result: Json) -> None:
    """B divided by A, and what may be said of it."""
    found = result["compare"]
    table = Table("figure", "B / A", "95 % interval", "same within", "finding", title_justify="left")
    for row in found["figures"]:
        span_text = "-" if row["low"] is None else f"{row['low']:.3f} - {row['high']:.3f}"
        more = f" (about {row['more_pairs']} more pairs)" if row["more_pairs"] else ""
        name = percentile_name(row["figure"])
        table.add_row(name, f"{row['ratio']:.3f}", span_text, f"{row['band']:.0%}", row["finding"] + more)
    console.print(table)
    if found["pairs"] is not None:
        console.print(f"{found['pairs']} pairs, {found['discarded']} discarded because a run was not valid")


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
    yield from stage_rows(result)
    yield "send lag P99", milliseconds(result["send_lag_ms"]["p99"]), lag_words(result["send_lag_ms"])
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


def stage_rows(result: Json) -> Iterator[Row]:
    """Where the mean latency was spent, as the server tells, and how large its batches were."""
    if result["stages"]:
        means = result["stages"]["mean_ms"]
        for stage, value in means.items():
            if value is not None:
                yield f"mean {stage}", milliseconds(value), "" if stage != "rest" else "network, wire formats, client"
    if result["batch_rows"]:
        total = sum(count for _, count in result["batch_rows"])
        mean = sum(size * count for size, count in result["batch_rows"]) / total
        yield "rows of a batch", f"{mean:.1f}", f"largest {max(size for size, _ in result['batch_rows'])}"

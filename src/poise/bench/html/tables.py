"""The tables of the page: every figure under its key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from poise.bench.statistics import PERMILLES, least_count
from poise.bench.words import lag_words, load_words, milliseconds, percentile_name, rate, span

Json = dict[str, Any]


def point_table(point: Json, prefix: str) -> str:
    """Every figure of a point, each under its key."""
    rows = list(rate_rows(point)) + list(latency_rows(point))
    for code, count in sorted(point["errors"].items()):
        rows.append((f"errors: {code}", f"errors.{code}", f"{count:,}", ""))
    cells = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td data-key="{escape(prefix + key, quote=True)}">{escape(value)}</td>'
        f"<td>{escape(note)}</td></tr>"
        for name, key, value, note in rows
    )
    return f'<div class="scroll"><table><tbody>{cells}</tbody></table></div>'


Row = tuple[str, str, str, str]


def rate_rows(point: Json) -> Iterator[Row]:
    """(name, key, figure, note)."""
    yield "requests", "requests", f"{point['requests']:,}", f"in {point['window_s']:.1f} s, {load_words(point['load'])}"
    yield "offered", "offered_qps", rate(point["offered_qps"]), ""
    yield "answered", "qps", rate(point["qps"]), ""
    yield "rows", "rows_per_s", rate(point["rows_per_s"]), f"{point['rows_per_request']:.3g} a request"
    if point["goodput_qps"] is not None:
        yield "goodput", "goodput_qps", rate(point["goodput_qps"]), "answered within every SLO"
    yield "cold start", "cold_start_ms", milliseconds(point["cold_start_ms"]), "the first request of all, not counted"
    yield "warm-up", "warmup_s", f"{point['warmup_s']:.1f} s", "not counted"
    yield "generator", "generator.cpu_share", f"{point['generator']['cpu_share']:.0%}", "of a core, its busiest thread"
    yield "serialising", "serialise_us", f"{point['serialise_us']:,.1f} µs", "a request, done beforehand"


def latency_rows(point: Json) -> Iterator[Row]:
    for name, value in point["latency_ms"].items():
        if value is None:
            note = f"needs {least_count(PERMILLES[name]):,} requests" if name in PERMILLES else "no answer"
            yield f"latency {percentile_name(name)}", f"latency_ms.{name}", "n/a", note
        else:
            note = span(point["intervals"].get(name))
            yield f"latency {percentile_name(name)}", f"latency_ms.{name}", milliseconds(value), note
    yield "service time P99", "service_ms.p99", milliseconds(point["service_ms"]["p99"]), "from the actual send"
    yield "send lag P99", "send_lag_ms.p99", milliseconds(point["send_lag_ms"]["p99"]), lag_words(point["send_lag_ms"])


def points_table(points: Sequence[Json]) -> str:
    """One row for each point."""
    names = ("load", "answered", "P50", "P95", "P99", "errors", "verdict")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    rows = []
    for index, point in enumerate(points):
        latency = point["latency_ms"]
        cells = [("", load_words(point["load"])), ("qps", rate(point["qps"]))]
        cells += [(f"latency_ms.{name}", milliseconds(latency[name])) for name in ("p50", "p95", "p99")]
        cells += [("", f"{sum(point['errors'].values()):,}"), ("verdict.status", point["verdict"]["status"])]
        shown = "".join(f"<td{key_of(index, key)}>{escape(value)}</td>" for key, value in cells)
        reasons = escape(" ".join(point["verdict"]["reasons"]), quote=True)
        rows.append(f'<tr title="{reasons}">{shown}</tr>')
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def key_of(index: int, key: str) -> str:
    return f' data-key="points.{index}.{key}"' if key else ""


def runs_table(found: Json) -> str:
    """What several runs tell together."""
    rows = []
    for index, row in enumerate(found["figures"]):
        write = rate if row["figure"] == "qps" else milliseconds
        bounds = "-" if row["low"] is None else f"{write(row['low'])} - {write(row['high'])}"
        value = f'<td data-key="runs.figures.{index}.value">{write(row["value"])}</td>'
        name = f'<th scope="row">{percentile_name(row["figure"])}</th>'
        rows.append(f"<tr>{name}{value}<td>{bounds}</td></tr>")
    return f'<div class="scroll"><table><tbody>{"".join(rows)}</tbody></table></div>'


def comparison_table(found: Json) -> str:
    """Every figure of a comparison."""
    head = "".join(
        f'<th scope="col">{name}</th>' for name in ("figure", "B / A", "95 % interval", "same within", "finding")
    )
    rows = []
    for index, row in enumerate(found["figures"]):
        interval = "-" if row["low"] is None else f"{row['low']:.3f} - {row['high']:.3f}"
        more = f" (about {row['more_pairs']} more pairs)" if row["more_pairs"] else ""
        cells = [
            percentile_name(row["figure"]),
            f"{row['ratio']:.3f}",
            interval,
            f"{row['band']:.0%}",
            row["finding"] + more,
        ]
        keys = [
            "",
            f' data-key="compare.figures.{index}.ratio"',
            "",
            "",
            f' data-key="compare.figures.{index}.finding"',
        ]
        shown = "".join(f"<td{key}>{escape(cell)}</td>" for key, cell in zip(keys, cells, strict=True))
        rows.append(f"<tr>{shown}</tr>")
    pairs = "" if found["pairs"] is None else f"<p>{found['pairs']} pairs of runs, {found['discarded']} discarded.</p>"
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>{pairs}'
    )


def facts(machine: Json) -> str:
    cells = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape("-" if value is None else str(value))}</td></tr>'
        for name, value in machine.items()
    )
    return f'<div class="scroll"><table><tbody>{cells}</tbody></table></div>'

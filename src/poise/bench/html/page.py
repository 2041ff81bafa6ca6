"""`poise bench --report`: one page, with verdicts first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from poise.bench.html import figures
from poise.bench.html.style import STYLE
from poise.bench.statistics import PERMILLES, least_count
from poise.bench.words import lag_words, load_words, milliseconds, percentile_name, rate, span

Json = dict[str, Any]

HOW_TO_READ = """
<p>Latency counts from the moment at which a request was due, not from the moment at which it was sent, so that neither
a slow server nor a late load generator can hide in it. Time-outs count with their limit. A percentile is an order
statistic x<sub>⌈np⌉</sub>, and is left out where the number of requests cannot support it. Intervals are at 95 %, from
blocks of neighbouring requests drawn anew, because requests of one run depend on each other; they do not know how runs
differ from each other. What is INVALID or SATURATED says little about the server: read its reasons first.</p>
"""


def write_page(file: Path, result: Json) -> None:
    """Raises OSError for a file that cannot be written."""
    file.write_text(page(result), encoding="utf-8")


def page(result: Json) -> str:
    """The whole page."""
    points = result.get("points", [result])
    body = "".join(
        (
            f"<header><h1>{title(result, points)}</h1>{lead(result)}</header><main>",
            *(section(name, content) for name, content in sections(result, points) if content),
            "</main>",
        )
    )
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    name = escape(f"poise bench: {title(result, points, plain=True)}")
    head += f"<title>{name}</title><style>{STYLE}</style>"
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def title(result: Json, points: Sequence[Json], *, plain: bool = False) -> str:
    target = points[0]["target"] if points else {"model": "", "url": ""}
    text = f"{target['model'] or 'requests'} at {target['url']}"
    words = {
        "point": "",
        "runs": ", several runs",
        "sweep": ", several loads",
        "search": ", highest rate",
        "scenario": ", scenario",
    }
    text += words.get(result["kind"], ", comparison")
    return text if plain else escape(text)


def section(name: str, content: str) -> str:
    return f"<section><h2>{escape(name)}</h2>{content}</section>"


def lead(result: Json) -> str:
    """What matters most, in one line or two."""
    kind = result["kind"]
    if kind == "scenario":
        return scenario_lead(result["scenario"])
    leads: dict[str, Callable[[], str]] = {
        "point": lambda: verdict(result),
        "runs": lambda: sweep_lead(result["points"]),
        "sweep": lambda: sweep_lead(result["points"]),
        "search": lambda: rate_lead(result["search"]),
        "compare": lambda: comparison_lead(result["compare"]),
    }
    return leads[kind]()


def scenario_lead(found: Json) -> str:
    """The figure of a scenario, and that it is no official one."""
    label = f"<p>{escape(found['name'])}: {escape(found['label'])}</p>"
    if "max_rate" in found:
        return rate_lead(found, "scenario") + label
    if "rows_per_s" in found:
        shown = f'<span data-key="scenario.rows_per_s">{rate(found["rows_per_s"])}</span>'
        return f'<p class="big">{shown} rows</p>{label}'
    shown = f'<span data-key="scenario.latency_ms">{milliseconds(found["latency_ms"])}</span>'
    return f'<p class="big">{percentile_name(found["percentile"])} at most {shown}</p>{label}'


def sweep_lead(points: Sequence[Json]) -> str:
    counts = Counter(point["verdict"]["status"] for point in points)
    colour = "good" if set(counts) == {"VALID"} else "bad"
    words = ", ".join(f"{count} of {len(points)} points {status}" for status, count in counts.items())
    return f'<p class="big {colour}">{words}</p>'


def rate_lead(found: Json, kind: str = "search") -> str:
    slo = escape(", ".join(found["slo"]))
    if found["max_rate"] is None:
        return f'<p class="big bad">No rate is known to meet {slo}</p><p>{escape(found["stopped"])}</p>'
    status = "confirmed by runs anew" if found["confirmed"] else f"not confirmed: {found['stopped']}"
    shown = f'<span data-key="{kind}.max_rate">{rate(found["max_rate"])}</span>'
    failed = (
        f"; the lowest rate that fails is {rate(found['lowest_failed_rate'])}" if found["lowest_failed_rate"] else ""
    )
    return f'<p class="big">{slo} is met up to {shown}</p><p>{escape(status)}{failed}</p>'


def comparison_lead(found: Json) -> str:
    findings = [f"{percentile_name(row['figure'])}: {row['finding']}" for row in found["figures"]]
    return f'<p class="big">{escape("; ".join(findings)) or "Nothing could be compared"}</p>'


def verdict(point: Json) -> str:
    """Status and reasons of a point."""
    status = point["verdict"]["status"]
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in point["verdict"]["reasons"])
    colour = "good" if status == "VALID" else "bad"
    return f'<p class="big {colour}" data-key="verdict.status">{status}</p><ul>{reasons}</ul>'


def sections(result: Json, points: Sequence[Json]) -> Iterator[tuple[str, str]]:
    """(heading, content); empty ones are left out."""
    if result["kind"] == "compare":
        yield (
            "B divided by A",
            figures.comparison_chart(result["compare"]["figures"]) + comparison_table(result["compare"]),
        )
    if result["kind"] == "runs":
        yield "Over all runs", runs_table(result["runs"])
    yield "Latency by rate", figures.load_curve(points)
    if len(points) > 1:
        yield "All points", points_table(points)
    yield "Latency by percentile", figures.latency_curve(points)
    if len(points) == 1:
        yield "Over time", "".join(f"<h3>{name}</h3>{chart}" for name, chart in figures.over_time(points[0]))
    yield "Where the time went, on the server and beyond", figures.stage_bars(points[-1:])
    if points:
        yield "Batch sizes", figures.batch_chart(points[-1])
    if len(points) == 1:
        yield "All figures", point_table(points[0], "" if result["kind"] == "point" else "points.0.")
    yield "How to read this", HOW_TO_READ
    yield "Machine", facts(result["machine"] | {"tool": result["tool"]})


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

"""`poise bench --report`: one page, with verdicts first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from poise.bench.html import figures, tables
from poise.bench.html.style import STYLE
from poise.bench.words import milliseconds, percentile_name, rate

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
            figures.comparison_chart(result["compare"]["figures"]) + tables.comparison_table(result["compare"]),
        )
    if result["kind"] == "runs":
        yield "Over all runs", tables.runs_table(result["runs"])
    yield "Latency by rate", figures.load_curve(points)
    if len(points) > 1:
        yield "All points", tables.points_table(points)
    yield "Latency by percentile", figures.latency_curve(points)
    if len(points) == 1:
        yield "Over time", "".join(f"<h3>{name}</h3>{chart}" for name, chart in figures.over_time(points[0]))
    yield "Where the time went, on the server and beyond", figures.stage_bars(points[-1:])
    if points:
        yield "Batch sizes", figures.batch_chart(points[-1])
    if len(points) == 1:
        yield "All figures", tables.point_table(points[0], "" if result["kind"] == "point" else "points.0.")
    yield "How to read this", HOW_TO_READ
    yield "Machine", tables.facts(result["machine"] | {"tool": result["tool"]})

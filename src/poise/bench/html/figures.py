"""The charts of a result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from poise.bench.html.chart import Axis, Chart, Line, legend
from poise.bench.html.scale import nines, short
from poise.bench.words import load_words, milliseconds

Json = dict[str, Any]

STAGES = ("queue", "batch", "execute", "rest")
MOST_LINES = 6
"""More curves in one chart nobody can tell apart."""


def latency_curve(points: Sequence[Json]) -> str:
    """Latency at each share of requests, so that each further nine takes the same room."""
    drawn = [point for point in points if point["cdf"]][-MOST_LINES:]
    if not drawn:
        return ""
    deepest = max(
        math.ceil(nines(min(share, 1 - 1 / point["requests"]))) for point in drawn for _, share in point["cdf"]
    )
    deepest = max(min(deepest, 6), 2)
    values = [value for point in drawn for value, _ in point["cdf"]]
    low = max(min(values), max(values) / 1e4)
    axis = Axis("percentile", 0, deepest, ticks=(0, *nines_ticks(deepest)), write=percentile_at)
    lines = [
        Line(load_words(point["load"]), [(nines(share), value) for value, share in point["cdf"]], index)
        for index, point in enumerate(drawn)
    ]
    limits = [(slo["limit_ms"], 7.0) for slo in drawn[-1]["slo"]]
    high = max([*values, *(limit for limit, _ in limits)])
    chart = Chart("latency by percentile", axis, Axis("latency, ms", low, high * 1.05, log=True), lines, marks=limits)
    return chart.draw() + legend([(line.name, line.colour) for line in lines])


def nines_ticks(deepest: int) -> list[float]:
    return [nines(0.5), *(float(count) for count in range(1, deepest + 1))]


def percentile_at(value: float) -> str:
    return f"{100 * (1 - 10**-value):.6g}"


def over_time(point: Json) -> list[tuple[str, str]]:
    """(caption, chart) of rate, latency, and requests under way, second by second."""
    series = point["series"]
    seconds = series["t_s"]
    if len(seconds) < 2:
        return []
    across = Axis("seconds", 0, seconds[-1])
    pairs = {name: list(zip(seconds, series[name], strict=True)) for name in ("qps", "p50_ms", "p99_ms", "in_flight")}
    latencies = [value for name in ("p50_ms", "p99_ms") for _, value in pairs[name] if value is not None]
    top = max(latencies, default=1.0)
    rate = Chart("answers per second", across, axis("per second", series["qps"]), [Line("answers", pairs["qps"])])
    latency = Chart(
        "latency over time",
        across,
        Axis("ms", 0, top * 1.1),
        [Line("P50", pairs["p50_ms"], 0), Line("P99", pairs["p99_ms"], 1)],
    )
    under_way = Chart(
        "requests under way", across, axis("requests", series["in_flight"]), [Line("under way", pairs["in_flight"])]
    )
    return [
        ("Answers per second", rate.draw()),
        ("Latency", latency.draw() + legend([("P50", 0), ("P99", 1)])),
        ("Requests under way", under_way.draw()),
    ]


def axis(title: str, values: Sequence[float]) -> Axis:
    return Axis(title, 0, max(max(values, default=0), 1) * 1.1)


def load_curve(points: Sequence[Json]) -> str:
    """Latency over the load, with intervals. Of a rate that was measured several times the median run stands.

    Saturated points are left out: they have no level.
    """
    by_load: dict[float, list[Json]] = {}
    for point in points:
        if point["latency_ms"]["p50"] and point["verdict"]["status"] != "SATURATED":
            by_load.setdefault(point["load"].get("rate", point["qps"]), []).append(point)
    if len(by_load) < 2:
        return ""
    drawn = {rate: middle_run(by_load[rate]) for rate in sorted(by_load)}
    lines = []
    for colour, name in enumerate(("p50", "p99")):
        places = [(rate, point["latency_ms"][name]) for rate, point in drawn.items()]
        spans = [(rate, *point["intervals"][name]) for rate, point in drawn.items() if point["intervals"][name]]
        lines.append(Line(name.upper(), places, colour, spans, dots=True))
    values = [value for line in lines for _, value in line.points if value]
    limits = [(slo["limit_ms"], 7.0) for slo in points[0]["slo"]]
    high = max([*values, *(limit for limit, _ in limits)])
    up = Axis("latency, ms", min(values) / 1.2, high * 1.2, log=True)
    across = Axis("requests per second", 0, max(drawn) * 1.05)
    return Chart("latency by rate", across, up, lines, marks=limits).draw() + legend([("P50", 0), ("P99", 1)])


def middle_run(points: Sequence[Json]) -> Json:
    """The one with the median P99, or P50 where there is none."""
    ordered = sorted(points, key=lambda point: point["latency_ms"]["p99"] or point["latency_ms"]["p50"])
    return ordered[len(ordered) // 2]


def stage_bars(points: Sequence[Json]) -> str:
    """Where the mean latency of each point was spent, as stacked bars; with the figures in words."""
    rows = []
    longest = max((sum(known(point).values()) for point in points), default=0)
    for point in points:
        means, parts = known(point), []
        if not means:
            continue
        for index, stage in enumerate(STAGES):
            width = 100 * means.get(stage, 0) / longest if longest else 0
            hint = f"{stage}: {milliseconds(means.get(stage))}"
            parts.append(f'<span class="part c{index}" style="width:{width:.3f}%" title="{hint}"></span>')
        rows.append(
            f'<div class="stack" role="img" aria-label="{words(means)}">{"".join(parts)}</div><p>{words(means)}</p>'
        )
    return "".join(rows) + legend([(stage, index) for index, stage in enumerate(STAGES)]) if rows else ""


def known(point: Json) -> dict[str, float]:
    found = (point["stages"] or {}).get("mean_ms", {})
    return {stage: value for stage in STAGES if (value := found.get(stage)) is not None}


def words(means: dict[str, float]) -> str:
    return ", ".join(f"{stage} {milliseconds(value)}" for stage, value in means.items())


def batch_chart(point: Json) -> str:
    """How many batches of each size were executed."""
    sizes = point["batch_rows"]
    if not sizes:
        return ""
    total = sum(count for _, count in sizes)
    bars = [(rows, 100 * count / total, f"{rows:g} rows: {count / total:.1%} of batches") for rows, count in sizes]
    across = Axis("rows of a batch", 0, max(rows for rows, _ in sizes) + 1)
    up = Axis("% of batches", 0, max(share for _, share, _ in bars) * 1.1)
    return Chart("batch sizes", across, up, bars=bars).draw()


def comparison_chart(rows: Sequence[Json]) -> str:
    """B divided by A for each figure, with its interval and the band in which both count as the same."""
    shown = [row for row in rows if row["low"] is not None]
    if not shown:
        return ""
    places = list(range(1, len(shown) + 1))
    spans = [(place, row["low"], row["high"]) for place, row in zip(places, shown, strict=True)]
    points = [(float(place), row["ratio"]) for place, row in zip(places, shown, strict=True)]
    low = min([0.9, *(low for _, low, _ in spans)])
    high = max([1.1, *(high for _, _, high in spans)])
    names = {place: row["figure"] for place, row in zip(places, shown, strict=True)}
    across = Axis("", 0, len(shown) + 1, ticks=places, write=lambda value: names.get(round(value), short(value)))
    line = Line("B / A", [(x, None) for x, _ in points], 0, spans)
    dots = Line("B / A", [pair for point in points for pair in (point, (point[0], None))], 0, dots=True)
    return Chart("B divided by A", across, Axis("B / A", low, high), [line, dots], marks=[(1.0, 7.0)]).draw()

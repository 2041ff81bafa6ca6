"""From one load test to a result: points, a search, a scenario, a comparison of two servers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from poise.bench import report, scenarios
from poise.bench.compare import BANDS, Comparison, compare_intervals, compare_pairs, order
from poise.bench.load import ClosedLoop, Load, OpenLoop
from poise.bench.measurement import Measurement
from poise.bench.search import Search
from poise.bench.sequential import least_total
from poise.bench.session import Method, OnTick, measure
from poise.bench.statistics import MIN_RUNS, across_runs
from poise.bench.traffic import Traffic
from poise.bench.verdict import Limits

Json = dict[str, Any]
Measure = Callable[[Traffic, Load, Method, OnTick], Measurement]

PROBE_S = 2.0
"""How long one client asks before a search, to learn where to begin."""
SEARCH_S = 10.0
"""How long a search measures one rate unless told otherwise."""
LONGEST_S = 120.0
"""A search never measures one rate for longer, however few requests come."""
REST_S = 1.0
"""Between the arms of a pair."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What all modes need."""

    method: Method
    limits: Limits
    on_tick: OnTick
    on_point: Callable[[Json], None]
    """Called with the result of each point, as soon as it is known."""
    measure: Measure = measure
    """`poise.bench.session.measure`, or something like it."""

    def point(self, traffic: Traffic, load: Load, method: Method | None = None) -> tuple[Measurement, Json]:
        """Measure one point, and tell of it."""
        measurement = self.measure(traffic, load, method or self.method, self.on_tick)
        result = report.point(measurement, self.limits)
        self.on_point(result)
        return measurement, result


def sweep(bench: Bench, traffic: Traffic, loads: Sequence[Load]) -> Json:
    """One point after the other; after one that is saturated, higher loads would tell nothing more."""
    points: list[Json] = []
    for load in loads:
        _, result = bench.point(traffic, load)
        points.append(result)
        if result["verdict"]["status"] == "SATURATED":
            break
    return {**report.head("sweep"), "points": points, "sweep": {"skipped": len(loads) - len(points)}}


def repeat(bench: Bench, traffic: Traffic, load: Load, runs: int) -> Json:
    """The same point several times, with another seed each: what runs tell that one cannot, how they differ."""
    points = []
    for number in range(runs):
        same = replace(load, seed=load.seed + number) if isinstance(load, OpenLoop) else load
        points.append(bench.point(traffic, same)[1])
    valid = [point for point in points if point["verdict"]["status"] not in {"INVALID", "SATURATED"}]
    rows = []
    for figure in BANDS:
        values = [value for point in valid if (value := value_of(point, figure))]
        if len(values) < (MIN_RUNS if figure == "p99_9" else 1):
            continue
        rows.append({"figure": figure, **asdict(across_runs(values))})
    return {**report.head("runs"), "points": points, "runs": {"runs": runs, "valid": len(valid), "figures": rows}}


def find_rate(bench: Bench, traffic: Traffic, arrival: str, seed: int) -> Json:
    """The highest rate that meets the SLOs of the method."""
    points: list[Json] = []
    warm = replace(bench.method, warmup_s=bench.method.warmup_s or 1.0)

    def at(rate: float, number: int, stretch: float) -> Measurement:
        seconds = min(stretch * length(bench.method, rate), LONGEST_S)
        load = OpenLoop(rate, arrival, seed + number)
        measurement, result = bench.point(traffic, load, replace(warm, duration_s=seconds, requests=None))
        points.append(result)
        return measurement

    search = Search(at, bench.method.slos, bench.limits)
    alone = probe(bench, traffic)
    if search.fails(alone):
        search.stopped, search.missed = "the limit is too short even for one request at a time", True
    else:
        search.run(max(len(alone.measured()) / PROBE_S / 2, 0.2))
    best = [result for result in points if result["load"]["rate"] == search.passed]
    return {
        **report.head("search"),
        "points": points,
        "search": {
            "slo": [str(slo) for slo in bench.method.slos],
            "max_rate": search.passed,
            "lowest_failed_rate": search.failed,
            "confirmed": search.confirmed,
            "stopped": search.stopped,
            "missed": search.missed,
            "goodput_qps": float(np.median([result["goodput_qps"] for result in best])) if best else None,
        },
    }


def length(method: Method, rate: float) -> float:
    """Seconds in which a rate makes enough requests for an answer."""
    least = max(least_total(1, slo.percentile) for slo in method.slos)
    return max(method.duration_s or SEARCH_S, 1.1 * least / rate)


def probe(bench: Bench, traffic: Traffic) -> Measurement:
    """What one client sees alone. A search begins with half of its rate, which no server finds hard."""
    method = replace(bench.method, duration_s=PROBE_S, requests=None, slos=())
    return measure(traffic, ClosedLoop(1), method, bench.on_tick)


def scenario(bench: Bench, traffic: Traffic, chosen: scenarios.Scenario, seed: int) -> Json:
    """One of MLPerf's scenarios, unofficially."""
    if chosen.load is None:
        found = find_rate(bench, traffic, "poisson", seed)
        summary = {"name": chosen.name, "label": scenarios.LABEL, **found["search"]}
        return {**found, "kind": "scenario", "scenario": summary}
    measurement, result = bench.point(traffic, chosen.load)
    return {**report.head("scenario"), "points": [result], "scenario": scenarios.result(chosen, measurement)}


def against(bench: Bench, arms: tuple[Traffic, Traffic], load: Load, pairs: int, seed: int) -> Json:
    """Two servers under the same load in pairs of runs, each arm as often first; B is compared with A."""
    found: list[tuple[Json, Json]] = []
    for number, turns in enumerate(order(pairs, seed)):
        same = replace(load, seed=seed + number) if isinstance(load, OpenLoop) else load
        pair: dict[int, Json] = {}
        for arm in turns:
            pair[arm] = bench.point(arms[arm], same)[1]
            time.sleep(REST_S)
        found.append((pair[0], pair[1]))
    discarded = [
        pair for pair in found if any(result["verdict"]["status"] in {"INVALID", "SATURATED"} for result in pair)
    ]
    kept = [pair for pair in found if pair not in discarded]
    comparisons = [compare_pairs(figure, values) for figure in BANDS if (values := figures(kept, figure))]
    return compared(
        comparisons, [result for pair in found for result in pair], pairs=len(kept), discarded=len(discarded)
    )


def figures(pairs: Sequence[tuple[Json, Json]], figure: str) -> list[tuple[float, float]]:
    """(A, B) of each pair that has the figure on both sides."""
    values = [(value_of(first, figure), value_of(second, figure)) for first, second in pairs]
    return [(first, second) for first, second in values if first and second]


def value_of(result: Json, figure: str) -> float | None:
    value = result["qps"] if figure == "qps" else result["latency_ms"][figure]
    return None if value is None else float(value)


def saved(first: Json, second: Json) -> Json:
    """Two results of one point each, from files: by their intervals, where they have any."""
    comparisons = []
    for figure in BANDS:
        triples = [with_interval(result, figure) for result in (first, second)]
        if triples[0] and triples[1]:
            comparisons.append(compare_intervals(figure, triples[0], triples[1]))
    return compared(comparisons, [first, second], pairs=None, discarded=0)


def with_interval(result: Json, figure: str) -> tuple[float, float, float] | None:
    interval = result["intervals"].get(figure)
    value = value_of(result, figure)
    return (value, *interval) if value and interval else None


def compared(comparisons: Sequence[Comparison], points: list[Json], pairs: int | None, discarded: int) -> Json:
    names = ("figure", "ratio", "low", "high", "band", "more_pairs")
    rows = [{name: getattr(each, name) for name in names} | {"finding": each.finding.value} for each in comparisons]
    summary = {"pairs": pairs, "discarded": discarded, "figures": rows}
    return {**report.head("compare"), "points": points, "compare": summary}

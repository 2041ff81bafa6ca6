"""A measurement over time, and its latencies as a curve: what is drawn."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.bench.measurement import Measurement
from poise.bench.samples import Samples

MAX_STEPS = 120
CDF_POINTS = 200


def series(measurement: Measurement) -> dict[str, list[Any]]:
    """One value for each second of the window (or for a longer step, so that there are at most 120).

    Rate, latencies and errors are of the requests that were due in the step; `in_flight` counts at its end.
    """
    measured = measurement.measured()
    steps = max(min(round(measurement.window_s), MAX_STEPS), 1)
    edges = np.linspace(measurement.start_ns, measurement.end_ns, steps + 1)
    cuts = np.searchsorted(measured.scheduled, edges)
    cuts[-1] = len(measured)
    width_s = measurement.window_s / steps
    parts = [measured.select(slice(low, high)) for low, high in pairwise(cuts)]
    quantiles = [middle(part) for part in parts]
    return {
        "t_s": [round((edge - measurement.start_ns) / 1e9, 3) for edge in edges[1:]],
        "qps": [int(np.count_nonzero(part.answered)) / width_s for part in parts],
        "p50_ms": [p50 for p50, _ in quantiles],
        "p99_ms": [p99 for _, p99 in quantiles],
        "in_flight": in_flight(measurement.samples, edges[1:]),
        "errors": [sum(part.errors().values()) for part in parts],
    }


def middle(samples: Samples) -> tuple[float | None, float | None]:
    """P50 and P99 of latencies in milliseconds: for a look, whatever their number."""
    latencies = samples.latency_ms()[samples.timed]
    if not len(latencies):
        return None, None
    p50, p99 = np.quantile(latencies, (0.5, 0.99), method="inverted_cdf")
    return float(p50), float(p99)


def in_flight(samples: Samples, times: NDArray[np.float64]) -> list[int]:
    """How many requests were due and had not ended at each time."""
    due, ended = np.sort(samples.scheduled), np.sort(samples.done)
    counts = np.searchsorted(due, times, side="right") - np.searchsorted(ended, times, side="right")
    return [int(count) for count in counts]


def cdf(latencies: NDArray[np.float64]) -> list[list[float]]:
    """(latency, share of requests that took at most so long): ascending, closer together towards the tail."""
    count = len(latencies)
    if not count:
        return []
    ordered = np.sort(latencies)
    tails = np.unique(np.append(np.geomspace(1 / count, 1, CDF_POINTS), 1 / count))
    ranks = np.unique(np.ceil((1 - tails) * count).astype(int).clip(1, count))
    ranks = np.unique(np.append(ranks, count))
    return [[float(ordered[rank - 1]), rank / count] for rank in ranks]

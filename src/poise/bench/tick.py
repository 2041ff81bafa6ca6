"""What is told each second while a point is measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poise.bench.samples import Samples


@dataclass(frozen=True, slots=True)
class Tick:
    """One second of load. Latencies are None without answers."""

    phase: str
    """warm-up, measuring or cool-down."""
    elapsed_s: float
    """Of the phase."""
    total_s: float | None
    """Length of the phase, where it is known."""
    rate: float
    """Answers per second."""
    p50_ms: float | None
    p99_ms: float | None
    errors: int
    in_flight: int


def middle(samples: Samples) -> tuple[float | None, float | None]:
    """P50 and P99 of latencies in milliseconds: for a look, whatever their number."""
    latencies = samples.latency_ms()[samples.timed]
    if not len(latencies):
        return None, None
    p50, p99 = np.quantile(latencies, (0.5, 0.99), method="inverted_cdf")
    return float(p50), float(p99)

"""Whether a queue grows without end: then the latencies of an open loop tell only how long it was watched."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

LEAST_S = 5
"""Shorter than this nothing can be told."""
P_VALUE = 0.01
LEAST_GROWTH = 2.0
"""What is under way must have grown to so many times what it was, and be more than a few."""
LEAST_IN_FLIGHT = 32

T_ONE_PERCENT = {3: 4.54, 4: 3.75, 5: 3.36, 6: 3.14, 8: 2.90, 10: 2.76, 15: 2.60, 20: 2.53, 30: 2.46}
"""One-sided 1 % quantiles of Student's t, by degrees of freedom; beyond the last the normal one is 2.33."""


def is_saturated(in_flight: Sequence[float], rate: float) -> bool:
    """Whether requests under way grow steadily, given one count each second at that offered rate.

    A regression over time whose slope is above 0 with p < 0.01 (t-test), growth by more than 1 % of the offered rate
    each second, and at least a doubling from the first third to the last: a long queue that does not grow is none.
    """
    counts = np.asarray(in_flight, float)
    if len(counts) < LEAST_S or counts[-1] < LEAST_IN_FLIGHT:
        return False
    third = max(len(counts) // 3, 1)
    if counts[-third:].mean() < LEAST_GROWTH * max(counts[:third].mean(), 1.0):
        return False
    slope, error = regression(counts)
    return slope > 0.01 * rate and slope > critical(len(counts) - 2) * error


def regression(counts: np.ndarray) -> tuple[float, float]:
    """Slope per second, and its standard error."""
    seconds = np.arange(len(counts)) - (len(counts) - 1) / 2
    spread = float(np.sum(seconds**2))
    slope = float(np.sum(seconds * counts)) / spread
    rest = counts - counts.mean() - slope * seconds
    return slope, math.sqrt(float(np.sum(rest**2)) / max(len(counts) - 2, 1) / spread)


def critical(freedom: int) -> float:
    """The quantile for so many degrees of freedom, or for the next fewer ones in the table, which is stricter."""
    below = [known for known in T_ONE_PERCENT if known <= freedom]
    return T_ONE_PERCENT[max(below)] if below else math.inf

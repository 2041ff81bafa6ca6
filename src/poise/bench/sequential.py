"""Whether a percentile keeps a limit, told from counts: passed, failed, or not yet known.

Of q requests t took longer than the limit. If the p-quantile were just at it, t would be binomial with q and 1-p. The
rate passes when so few over the limit would be rare then, and fails when so many would be: both with an error of at
most 1 %. The first half is MLPerf LoadGen's early-stopping rule.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from poise.bench.statistics import memory

ERROR = 0.01
"""Chance of a wrong answer either way."""


class Answer(Enum):
    """What counts say of a limit."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "more requests are needed"


def answer(count: float, over: float, percentile: float) -> Answer:
    """Of `count` requests `over` took longer than the limit of the percentile (0 to 100)."""
    chance = 1 - percentile / 100
    count, over = round(count), round(over)
    if over <= count * chance and at_most(count, over, chance) <= ERROR:
        return Answer.PASSED
    if over > count * chance and 1 - at_most(count, over - 1, chance) <= ERROR:
        return Answer.FAILED
    return Answer.UNKNOWN


def at_most(count: int, over: int, chance: float) -> float:
    """P[Binomial(count, chance) ≤ over]."""
    if over < 0:
        return 0.0
    if over >= count:
        return 1.0
    steps = np.arange(1, over + 1)
    choose = np.concatenate(([0.0], np.cumsum(np.log((count - steps + 1) / steps))))
    hits = np.arange(over + 1)
    logs = choose + hits * np.log(chance) + (count - hits) * np.log1p(-chance)
    return float(min(np.exp(logs).sum(), 1.0))


def effective(over: NDArray[np.bool_]) -> tuple[float, float]:
    """(count, over) of (N,) requests in the order of time, as if they did not depend on each other.

    Requests over a limit come in clumps; N of them that remember each other for m requests tell no more than N/m.
    """
    clump = memory(over.astype(np.float64)) if over.any() else 1.0
    return len(over) / clump, float(np.count_nonzero(over)) / clump


def least_total(over: int, percentile: float) -> int:
    """The fewest requests with so many over the limit that pass."""
    low, high = over, 10_000_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if answer(middle, over, percentile) is Answer.PASSED else (middle, high)
    return high


def upper_bound(latencies: NDArray[np.float64], percentile: float) -> float | None:
    """An upper bound of the percentile with 99 % confidence, from (N,) latencies; None when there are too few.

    LoadGen's estimate for streams: as many of the worst are left out as the rule allows, but for one.
    """
    low, high = -1, len(latencies)
    while high - low > 1:  # the most that may be over a limit which passes
        middle = (low + high) // 2
        low, high = (middle, high) if answer(len(latencies), middle, percentile) is Answer.PASSED else (low, middle)
    if low < 1:
        return None
    ordered = np.sort(latencies)
    return float(ordered[-low])

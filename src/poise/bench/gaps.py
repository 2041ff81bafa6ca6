"""Gaps between arrivals, with a mean of 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Gaps = Callable[[np.random.Generator, int], NDArray[np.float64]]
"""So many gaps, (N,)."""


def constant(_random: np.random.Generator, count: int) -> NDArray[np.float64]:
    """All the same."""
    return np.ones(count)


def poisson(random: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Those of many independent users: exponential."""
    return random.standard_exponential(count)


def gamma(cv: float) -> Gaps:
    """With a chosen coefficient of variation: below 1 more regular than Poisson, above 1 in clumps.

    A Gamma distribution of shape 1/cv² and mean 1. Raises ValueError for a cv that is not positive.
    """
    if not 0 < cv <= 100:
        raise ValueError(f"gamma: expected cv above 0 and at most 100, got {cv:g}")
    shape = 1 / cv**2
    return lambda random, count: random.standard_gamma(shape, count) / shape


def unit_arrivals(gaps: Gaps, total: float, random: np.random.Generator) -> NDArray[np.float64]:
    """Arrivals at a mean rate of 1 in [0, total), ascending.

    The first gap is stretched by a uniform number, so that arrivals at a constant rate do not all begin at 0.
    """
    parts, end = [np.zeros(0)], 0.0
    while end < total:
        some = gaps(random, max(int((total - end) * 1.05) + 64, 64))
        if not len(parts[0]) and len(parts) == 1:
            some[0] *= random.random()
        parts.append(end + np.cumsum(some))
        end = float(parts[-1][-1])
    times = np.concatenate(parts)
    return times[: np.searchsorted(times, total)]

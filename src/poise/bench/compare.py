"""Two servers, or two results, side by side: better, worse, the same, or not known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from poise.bench.statistics import t_quantile

BANDS = {"qps": 0.03, "p50": 0.03, "p90": 0.05, "p95": 0.05, "p99": 0.10, "p99_9": 0.20}
"""Within such a share two values count as the same."""
HIGHER_IS_BETTER = {"qps"}
LEAST_PAIRS = 2
MAX_PAIRS_TOLD = 1_000


class Finding(Enum):
    """What B is, compared with A."""

    IMPROVED = "improved"
    REGRESSED = "regressed"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Comparison:
    """B divided by A, with its 95 % interval where there is one."""

    figure: str
    ratio: float
    low: float | None
    high: float | None
    band: float
    finding: Finding
    more_pairs: int | None = None
    """How many more pairs are likely to settle it, where it is not settled."""


def compare_pairs(figure: str, pairs: Sequence[tuple[float, float]]) -> Comparison:
    """From one (A, B) of each pair of runs: the geometric mean of B/A with a t-interval over pairs.

    Raises ValueError for no pair, or values that are not positive.
    """
    if not pairs or min(min(pair) for pair in pairs) <= 0:
        raise ValueError(f"{figure}: expected at least one pair of positive values, got {list(pairs)}")
    logs = np.log([second / first for first, second in pairs])
    centre = float(logs.mean())
    if len(logs) < LEAST_PAIRS:
        return conclude(figure, centre, None)
    spread = float(logs.std(ddof=1))
    half = t_quantile(len(logs) - 1) * spread / math.sqrt(len(logs))
    found = conclude(figure, centre, half)
    if found.finding is not Finding.INCONCLUSIVE:
        return found
    wanted = pairs_needed(centre, spread, BANDS[figure])
    more = None if wanted is None else max(wanted - len(logs), 1)
    return Comparison(figure, found.ratio, found.low, found.high, found.band, found.finding, more)


def compare_intervals(figure: str, first: tuple[float, float, float], second: tuple[float, float, float]) -> Comparison:
    """From (value, low, high) of two results, whose errors are taken to be independent.

    Such a comparison knows nothing of how runs differ from each other: interleaved pairs tell more.
    """
    halves = [math.log(high / low) / 2 for _, low, high in (first, second)]
    return conclude(figure, math.log(second[0] / first[0]), math.hypot(*halves))


def conclude(figure: str, centre: float, half: float | None) -> Comparison:
    """A finding from the logarithm of a ratio and half the width of its interval.

    Equivalent when the interval lies within the band (two one-sided tests), improved or regressed when it lies wholly
    beyond it on one side.
    """
    band, ratio = BANDS[figure], math.exp(centre)
    if half is None:
        return Comparison(figure, ratio, None, None, band, Finding.INCONCLUSIVE)
    low, high = math.exp(centre - half), math.exp(centre + half)
    if 1 - band <= low and high <= 1 + band:
        finding = Finding.EQUIVALENT
    elif low > 1 + band:
        finding = Finding.IMPROVED if figure in HIGHER_IS_BETTER else Finding.REGRESSED
    elif high < 1 - band:
        finding = Finding.REGRESSED if figure in HIGHER_IS_BETTER else Finding.IMPROVED
    else:
        finding = Finding.INCONCLUSIVE
    return Comparison(figure, ratio, low, high, band, finding)


def pairs_needed(centre: float, spread: float, band: float) -> int | None:
    """How many pairs would put the interval on one side of the band's nearest edge; None when hardly any would."""
    room = min(abs(abs(centre) - math.log(1 + band)), abs(abs(centre) + math.log(1 - band)))
    for pairs in range(LEAST_PAIRS, MAX_PAIRS_TOLD):
        if t_quantile(pairs - 1) * spread / math.sqrt(pairs) <= room:
            return pairs
    return None


def order(pairs: int, seed: int) -> list[tuple[int, int]]:
    """Which of two arms comes first in each pair: at random, but as often the one as the other."""
    firsts = np.resize([0, 1], pairs)
    np.random.default_rng(seed).shuffle(firsts)
    return [(int(first), 1 - int(first)) for first in firsts]

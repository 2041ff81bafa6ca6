"""From samples of latencies to what may be said of them.

Latencies of one run depend on each other: a long queue makes many of them long. So an interval is never made from ranks
as if they were independent, which would cover the truth in as few as a quarter of the cases near the knee, but from
blocks of neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PERMILLES = {"p50": 500, "p90": 900, "p95": 950, "p99": 990, "p99_9": 999}
"""The percentiles of a report, in thousandths."""

CONFIDENCE_Z = 1.96
"""95 % of a normal distribution lie within this many standard deviations."""

MIN_BLOCKS, MAX_BLOCKS = 25, 50
BLOCK_TIMES = 16
"""A block is at least so many times as long as samples remember each other."""
RESAMPLES = 2_000
RUNS_ONLY = 999
"""From this percentile on, in thousandths, an interval comes from several runs, at least MIN_RUNS."""
MIN_RUNS = 5
BINS = 4_000

Latencies = NDArray[np.float64]


def percentile(latencies: Latencies, permille: int) -> float | None:
    """The order statistic x⌈np⌉ of (N,) latencies; None when the sample cannot support it (see `is_supported`)."""
    count = len(latencies)
    if not is_supported(count, permille):
        return None
    rank = -(-count * permille // 1000)
    return float(np.partition(latencies, rank - 1)[rank - 1])


def summary(latencies: Latencies) -> dict[str, float | None]:
    """Mean, percentiles and maximum of (N,) latencies, in their unit."""
    ordered = np.sort(latencies)
    count = len(ordered)
    found: dict[str, float | None] = {"mean": float(ordered.mean()) if count else None}
    for name, permille in PERMILLES.items():
        rank = -(-count * permille // 1000)
        found[name] = float(ordered[rank - 1]) if is_supported(count, permille) else None
    return found | {"max": float(ordered[-1]) if count else None}


def is_supported(count: int, permille: int) -> bool:
    """Whether a sample of `count` bounds this percentile from above.

    With n samples and p = permille/1000, the 95 % confidence interval of the p-quantile reaches, in ranks,
    h = ⌈1.96·√(n·p·(1-p))⌉ beyond rank n·p. The upper bound exists only while that rank lies within the sample:
    h < n·(1-p). So P50 needs 7 samples, P90 41, P95 101, P99 501 and P99.9 5 001. The rule takes samples to be
    independent; those of one run are not quite, so it is the least that can be asked, not a promise of precision.
    """
    tail = count * (1000 - permille)
    half_width = math.ceil(CONFIDENCE_Z * math.sqrt(tail * permille) / 1000)
    return half_width * 1000 < tail


def least_count(permille: int) -> int:
    """The smallest sample that supports this percentile."""
    low, high = 0, 1_000_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_supported(middle, permille) else (middle, high)
    return high


def memory(latencies: Latencies) -> float:
    """How many samples in a row tell about each other: the integrated autocorrelation time, at least 1.

    1 + 2·Σρ(k), summed while the autocorrelation ρ of pairs of neighbouring lags stays positive (Geyer's initial
    positive sequence). Outliers are cut at the P99, so that one of them does not hide the rest.
    """
    count = len(latencies)
    if count < 16:
        return 1.0
    values = np.minimum(latencies, np.quantile(latencies, 0.99))
    values = values - values.mean()
    spectrum = np.abs(np.fft.rfft(values, 1 << (2 * count - 1).bit_length())) ** 2
    covariance = np.fft.irfft(spectrum)[: count // 2]
    if covariance[0] <= 0:
        return 1.0
    pairs = covariance[: len(covariance) // 2 * 2].reshape(-1, 2).sum(axis=1) / covariance[0]
    negative = np.flatnonzero(pairs <= 0)
    positive = pairs[: negative[0]] if len(negative) else pairs
    return max(float(2 * positive.sum() - 1), 1.0)


Interval = tuple[float, float]


def intervals(latencies: Latencies, seed: int = 0) -> dict[str, Interval | None]:
    """95 % intervals for the percentiles of a report, from (N,) latencies in the order of time.

    The run is cut into 25 to 50 blocks, each at least 16 times as long as samples remember each other; blocks are
    drawn anew 2 000 times (block bootstrap, Künsch 1989), and the spread of the logarithm of a percentile gives a
    t-interval with one degree of freedom less than blocks, scaled by √(B/(B-1)). Too few blocks give no interval, and
    a percentile that the sample does not support has none. Nor has P99.9: what a single run tells of it covers the
    truth too rarely, so it takes several runs.
    """
    blocks = min(int(len(latencies) / (BLOCK_TIMES * memory(latencies))), MAX_BLOCKS)
    if blocks < MIN_BLOCKS or float(latencies.min()) <= 0:
        return dict.fromkeys(PERMILLES)
    values, below = resampled(latencies, blocks, seed)
    scale = t_quantile(blocks - 1) * math.sqrt(blocks / (blocks - 1))
    found: dict[str, Interval | None] = {}
    for name, permille in PERMILLES.items():
        value = percentile(latencies, permille)
        if value is not None and permille < RUNS_ONLY:
            wanted = np.ceil(permille / 1000 * below[:, -1:])
            drawn = np.log(values[np.argmax(below >= wanted, axis=1)])
            half = scale * float(drawn.std())
            found[name] = (value * math.exp(-half), value * math.exp(half))
        else:
            found[name] = None
    return found


def resampled(latencies: Latencies, blocks: int, seed: int) -> tuple[Latencies, NDArray[np.float64]]:
    """(K,) values and (RESAMPLES, K) numbers of samples up to each, in blocks drawn with replacement.

    Samples are sorted into bins that are finer towards the tail, so that a resample is a sum of block histograms.
    """
    ordered = np.sort(latencies)
    edges = np.unique(ordered[bin_ranks(len(ordered))])
    block = np.arange(len(latencies)) * blocks // len(latencies)
    bins = np.searchsorted(edges, latencies, side="left")
    counts = np.bincount(block * len(edges) + bins, minlength=blocks * len(edges)).reshape(blocks, len(edges))
    weights = np.random.default_rng(seed).multinomial(blocks, np.full(blocks, 1 / blocks), RESAMPLES)
    return edges, np.cumsum(weights.astype(np.float64) @ counts.astype(np.float64), axis=1)


def bin_ranks(count: int) -> NDArray[np.intp]:
    """Ranks of the upper edges of bins, as many in each further tenth of the tail; the last is the highest rank."""
    decades = max(math.ceil(math.log10(max(count, 10))), 1)
    tails = 10 ** -np.linspace(0, decades, BINS)
    return np.unique(np.append(np.ceil((1 - tails) * count).astype(np.intp).clip(0, count - 1), count - 1))


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value over several runs, with its 95 % interval; none from a single run."""

    value: float
    low: float | None
    high: float | None


def across_runs(values: Sequence[float]) -> Estimate:
    """The geometric mean of one positive value of each run, with a t-interval of its logarithm.

    Raises ValueError for no value, or one that is not positive.
    """
    if not values or min(values) <= 0:
        raise ValueError(f"expected positive values of at least one run, got {list(values)}")
    logs = np.log(np.asarray(values))
    centre = float(np.exp(logs.mean()))
    if len(logs) < 2:
        return Estimate(centre, None, None)
    half = t_quantile(len(logs) - 1) * float(logs.std(ddof=1)) / math.sqrt(len(logs))
    return Estimate(centre, centre * math.exp(-half), centre * math.exp(half))


T_TABLE = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Two-sided 95 % quantiles of Student's t for 1 to 10 degrees of freedom."""


def t_quantile(freedom: int) -> float:
    """The two-sided 95 % quantile of Student's t; beyond 10 degrees of freedom by the Cornish-Fisher expansion."""
    if freedom <= len(T_TABLE):
        return T_TABLE[freedom - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)

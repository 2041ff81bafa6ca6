"""From a histogram of latencies to what may be said of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PERMILLES = {"p50": 500, "p90": 900, "p95": 950, "p99": 990, "p99_9": 999}
"""The percentiles of a report, in thousandths."""

CONFIDENCE_Z = 1.96
"""95 % of a normal distribution lie within this many standard deviations."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Latencies by bucket: (highest value in ns, count), ascending. Buckets are at most 0.1 % wide."""

    buckets: tuple[tuple[int, int], ...]
    sum_ns: float
    max_ns: int

    @classmethod
    def from_dict(cls, raw: Mapping[str, object]) -> Histogram:
        """From the report of the load generator."""
        buckets, total, highest = raw["buckets"], raw["sum"], raw["max"]
        if not isinstance(buckets, Sequence) or not isinstance(total, int | float) or not isinstance(highest, int):
            raise TypeError(f"not a histogram: {raw}")
        return cls(tuple((int(value), int(count)) for value, count in buckets), float(total), highest)

    @property
    def count(self) -> int:
        return sum(count for _, count in self.buckets)

    def mean_ms(self) -> float | None:
        return self.sum_ns / self.count / 1e6 if self.buckets else None

    def max_ms(self) -> float | None:
        return self.max_ns / 1e6 if self.buckets else None

    def percentile_ms(self, permille: int) -> float | None:
        """The order statistic x⌈np⌉, or None when the sample cannot support it (see `is_supported`)."""
        count = self.count
        if not is_supported(count, permille):
            return None
        rank = -(-count * permille // 1000)
        seen = 0
        for value, many in self.buckets:
            seen += many
            if seen >= rank:
                return min(value, self.max_ns) / 1e6
        raise AssertionError("the rank of a percentile lies within its sample")

    def summary_ms(self) -> dict[str, float | None]:
        """Mean, percentiles and maximum."""
        percentiles = {name: self.percentile_ms(permille) for name, permille in PERMILLES.items()}
        return {"mean": self.mean_ms(), **percentiles, "max": self.max_ms()}


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

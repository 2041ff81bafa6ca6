"""From figures to places on a chart."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """A range of figures laid out over a range of pixels, evenly, or by their logarithm."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def place(self, value: float) -> float:
        """Where a figure stands; figures outside stand at the edge."""
        low, high, value = (self._bend(each) for each in (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return round(self.start + min(max(share, 0.0), 1.0) * (self.end - self.start), 2)

    def _bend(self, value: float) -> float:
        return math.log10(max(value, 1e-9)) if self.log else value

    def ticks(self, about: int = 5) -> list[float]:
        """Round figures within the range."""
        return log_ticks(self.low, self.high) if self.log else even_ticks(self.low, self.high, about)


def even_ticks(low: float, high: float, about: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten."""
    if high <= low:
        return [low]
    raw = (high - low) / about
    power = 10 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)
    first = math.ceil(low / step - 1e-9)
    return [round(index * step, 12) for index in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, or the powers alone over a wide range."""
    low = max(low, 1e-9)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(max(high, low))) + 1)
    factors = (1,) if len(powers) > 4 else (1, 2, 5)
    found = [factor * 10.0**power for power in powers for factor in factors]
    return [value for value in found if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]


def nines(share: float) -> float:
    """How many nines a share has: 0.9 is one, 0.99 two."""
    return -math.log10(max(1 - share, 1e-9))


def short(value: float) -> str:
    """A figure at an axis."""
    if value >= 1_000_000:
        return f"{value / 1e6:g}M"
    if value >= 10_000:
        return f"{value / 1e3:g}k"
    return f"{value:g}"

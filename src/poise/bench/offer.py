"""What is sent when: before, during and after the measurement."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from poise.bench.arrivals import Arrival, parse_arrival
from poise.bench.load import ClosedLoop, Load, OpenLoop
from poise.bench.traffic import Traffic

S = 1_000_000_000
MAX_ARRIVALS = 20_000_000
"""Longest schedule of one measurement: what it takes is held in memory."""
CLOSED_CHOICES = 1 << 16
"""So many choices of requests are made for a closed loop, which goes through them again and again."""

STEADY = parse_arrival("poisson")

Piece = tuple[NDArray[np.int64], NDArray[np.uint32]]
"""(N,) times and (N,) numbers of requests."""


class ClosedOffer:
    """Requests follow each other; only their choice is made beforehand."""

    steady = True

    def __init__(self, load: ClosedLoop, traffic: Traffic) -> None:
        self.expected = load.concurrency
        self._choices = traffic.choices(CLOSED_CHOICES, seed=0)

    def piece(self, index: int, _start_ns: int, _end_ns: int) -> Piece | None:
        """All choices with the first piece, nothing with later ones."""
        return (np.empty(0, np.int64), self._choices) if index == 0 else None

    def measured(self, _start_ns: int) -> Piece | None:
        """Nothing more: the load is the same all the time."""
        return None


@dataclass
class OpenOffer:
    """Requests come by a schedule."""

    load: OpenLoop
    traffic: Traffic
    duration_s: float
    arrival: Arrival = field(init=False)

    def __post_init__(self) -> None:
        """Raises ValueError for an arrival that is not known, or a schedule that is too long."""
        self.arrival = parse_arrival(self.load.arrival)
        expected = self.load.rate * self.duration_s
        if not 0 < expected <= MAX_ARRIVALS:
            raise ValueError(
                f"a rate of {self.load.rate:g}/s for {self.duration_s:g} s makes {expected:,.0f} requests: "
                f"expected more than 0 and at most {MAX_ARRIVALS:,}; lower --rate or --duration"
            )

    @property
    def steady(self) -> bool:
        return self.arrival.steady

    def piece(self, index: int, start_ns: int, end_ns: int) -> Piece | None:
        """Requests before or after the measurement, at the rate with which it begins."""
        seed = (self.load.seed << 20) + index + 1
        times = STEADY.times(self.arrival.rate_at_start(self.load.rate), (end_ns - start_ns) / S, seed) + start_ns
        return times, self.traffic.choices(len(times), seed)

    def measured(self, start_ns: int) -> Piece:
        """The whole schedule of the measurement."""
        times = self.arrival.times(self.load.rate, self.duration_s, self.load.seed) + start_ns
        return times, self.traffic.choices(len(times), self.load.seed)


Offer = ClosedOffer | OpenOffer


def make_offer(load: Load, traffic: Traffic, duration_s: float | None) -> Offer:
    """Raises ValueError for a load that makes no sense."""
    if isinstance(load, ClosedLoop):
        return ClosedOffer(load, traffic)
    if duration_s is None:
        raise ValueError("an open loop is measured for a time: give --duration, not only --requests")
    return OpenOffer(load, traffic, duration_s)

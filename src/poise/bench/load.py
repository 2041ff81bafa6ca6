"""What load is offered: so many requests a second, or so many at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """Requests arrive by themselves, whether or not earlier ones were answered, as those of many users do."""

    rate: float
    """Mean requests per second."""
    arrival: str = "poisson"
    """As `poise.bench.arrivals.parse_arrival` reads it."""
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.rate:g} requests/s, {self.arrival}"


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """Each of so many clients sends its next request when its last one was answered."""

    concurrency: int

    def __str__(self) -> str:
        return f"{self.concurrency} at once"


Load = OpenLoop | ClosedLoop

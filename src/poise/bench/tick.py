"""What is told each second while a point is measured."""

from __future__ import annotations

from dataclasses import dataclass


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

"""When a server is warm: a choice over what was seen so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

LEAST_S = 2
LEAST_REQUESTS = 200
MOST_S = 30
STEADY_WINDOWS = 3
SPREAD = 0.05
"""Medians may differ by this share and still be the same,"""
NOISE_MS = 0.05
"""or by what threads take to wake up, which changes with whatever else a machine does."""


class Decision(Enum):
    """What to do after another second."""

    GO_ON = "go on"
    STABLE = "stable"
    CAP_REACHED = "cap reached"


@dataclass(frozen=True, slots=True)
class Window:
    """One second of load: answers in it, and their median latency, None without any."""

    count: int
    p50_ms: float | None


def decide(windows: Sequence[Window], fixed_s: float | None = None) -> Decision:
    """Whether to begin the measurement after these seconds of load.

    With `fixed_s` after so many seconds. Else when the median latency of three seconds in a row stays within 5 %, after
    at least 2 s and 200 requests, or after 30 s in any case.
    """
    if fixed_s is not None:
        return Decision.STABLE if len(windows) >= fixed_s else Decision.GO_ON
    if len(windows) >= MOST_S:
        return Decision.CAP_REACHED
    enough = len(windows) >= LEAST_S and sum(window.count for window in windows) >= LEAST_REQUESTS
    return Decision.STABLE if enough and is_steady(windows[-STEADY_WINDOWS:]) else Decision.GO_ON


def is_steady(windows: Sequence[Window]) -> bool:
    medians = [window.p50_ms for window in windows if window.p50_ms is not None]
    return len(medians) == STEADY_WINDOWS and are_same(min(medians), max(medians))


def are_same(low_ms: float, high_ms: float) -> bool:
    """Whether two medians differ by no more than they do on an idle machine."""
    return high_ms <= max(low_ms * (1 + SPREAD), low_ms + NOISE_MS)

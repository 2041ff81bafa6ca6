"""How many rows requests have, and how often each number of them comes."""

from __future__ import annotations

from dataclasses import dataclass

MAX_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Share:
    """Requests with so many rows, and their part of all requests, 0 to 1."""

    rows: int
    part: float


def parse_mix(text: str) -> tuple[Share, ...]:
    """From `1:70,8:20,32:10` (rows:weight, any weights). Raises ValueError, saying what is expected."""
    weights: dict[int, float] = {}
    for item in text.split(","):
        rows, _, weight = item.partition(":")
        try:
            count, share = int(rows), float(weight)
        except ValueError:
            count, share = 0, 0.0
        if not 1 <= count <= MAX_ROWS or not 0 < share < float("inf") or count in weights:
            raise ValueError(f"expected ROWS:WEIGHT,… with each number of rows once, e.g. 1:70,8:20; got {item!r}")
        weights[count] = share
    total = sum(weights.values())
    return tuple(Share(rows, weight / total) for rows, weight in weights.items())


def only(rows: int) -> tuple[Share, ...]:
    """Every request has so many rows."""
    return (Share(rows, 1.0),)

"""The figures that Poise must reach, each as a ratio per round, so that a slow minute of the machine cancels out."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from rounds import Measured

TRITON = ("triton-0", "triton-500")
Values = dict[int, float]  # by round


@dataclass(frozen=True)
class Verdict:
    """One figure: what was wanted, what each round showed, whether the median reaches it (None: not measured)."""

    claim: str
    wanted: str
    rounds: list[float]
    passed: bool | None

    @property
    def median(self) -> float | None:
        """The figure itself."""
        return statistics.median(self.rounds) if self.rounds else None


class Results:
    """The measured cells, by what they measured."""

    def __init__(self, cells: Iterable[Measured]) -> None:
        self._cells: dict[tuple[str, str, str], list[Measured]] = defaultdict(list)
        for cell in cells:
            self._cells[cell.api, cell.plan, cell.peer].append(cell)

    def values(self, api: str, plan: str, peer: str, field: str) -> Values:
        """One field of the good samples of one server at one plan."""
        cells = self._cells.get((api, plan, peer), [])
        good = [cell for cell in cells if cell.sample is not None and cell.error is None]
        return {cell.round: float(getattr(cell.sample, field)) for cell in good}

    def best(self, api: str, plan: str, peers: Sequence[str], field: str) -> Values:
        """The best of several servers in every round: the highest rate, or the lowest time."""
        choose: Callable[[list[float]], float] = max if field == "rate" else min
        found = [self.values(api, plan, peer, field) for peer in peers]
        rounds = set().union(*found)
        return {number: choose([values[number] for values in found if number in values]) for number in rounds}


def verdicts(results: Results, model_micros: float) -> list[Verdict]:
    """Every figure that the comparison can tell."""
    rate = partial(results.best, field="rate")
    found = []
    for plan in ("64", "4x32"):
        ours = rate("grpc", plan, ["poise"])
        for name, peers, wanted in (("Triton", TRITON, 3.0), ("grpcio", ["grpcio"], 10.0), ("nginx", ["nginx"], 0.6)):
            claim = f"gRPC at {plan}: rate ÷ {name}'s"
            found.append(at_least(claim, wanted, ratios(ours, rate("grpc", plan, peers))))
    rest = ratios(rate("rest", "64", ["poise"]), rate("rest", "64", TRITON))
    found.append(at_least("REST at 64: rate ÷ Triton's", 2.5, rest))
    return found + _alone(results, model_micros) + _crowd(results)


def _alone(results: Results, model_micros: float) -> list[Verdict]:
    """One connection, one request at a time: what the server adds to the model."""
    p50 = partial(results.best, "grpc", "1", field="p50")
    ours = {number: micros - model_micros for number, micros in p50(["poise"]).items()}
    theirs = {number: micros - model_micros for number, micros in p50(TRITON).items()}
    return [
        at_most("gRPC at 1: (P50 - model) ÷ nginx's P50", 2.0, ratios(ours, p50(["nginx"]))),
        at_most("gRPC at 1: (P50 - model) ÷ Triton's (P50 - model)", 0.6, ratios(ours, theirs)),
    ]


def _crowd(results: Results) -> list[Verdict]:
    """256 connections: no collapse, no long tail."""
    field = partial(results.values, "grpc", peer="poise")
    crowd = field("256", field="rate")
    every = [field(plan, field="rate") for plan in ("1", "8", "64", "256")]
    best = {number: max(values[number] for values in every if number in values) for number in crowd}
    tail = ratios(field("256", field="p99"), field("256", field="p50"))
    return [
        at_least("gRPC at 256: rate ÷ its best at 1, 8, 64, 256", 0.9, ratios(crowd, best)),
        at_most("gRPC at 256: P99 ÷ P50", 5.0, tail),
    ]


def ratios(ours: Values, theirs: Values) -> list[float]:
    """One ratio for each round that has both."""
    return [ours[number] / theirs[number] for number in sorted(ours.keys() & theirs.keys()) if theirs[number] > 0]


def at_least(claim: str, wanted: float, found: list[float]) -> Verdict:
    """A figure that must be reached."""
    return Verdict(claim, f"≥ {wanted:g}", found, statistics.median(found) >= wanted if found else None)


def at_most(claim: str, wanted: float, found: list[float]) -> Verdict:
    """A figure that must not be passed."""
    return Verdict(claim, f"≤ {wanted:g}", found, statistics.median(found) <= wanted if found else None)

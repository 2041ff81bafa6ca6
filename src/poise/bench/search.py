"""The highest rate that meets an SLO: each rate is judged by a test, not by one noisy figure.

Rates grow until one fails, then the gap is halved (on a scale of logarithms) until it is small, and the winner is
measured anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from poise.bench.measurement import Measurement, Slo
from poise.bench.sequential import Answer, answer, effective
from poise.bench.verdict import Limits, generator_reasons

GROWTH = 2.0
GAP = 1.03
"""The search ends when the lowest failed rate is at most so many times the highest passed one."""
CONFIRMATIONS = 3
MAX_DOUBLINGS = 2
"""A rate that could be judged neither way is measured so many times more, each time for twice as long."""
MAX_LATE = 2
"""So often a rate is measured again because the generator was late."""
MAX_TRIALS = 40
HOPE = 0.5
"""A rate with at most half as many requests over the limit as are allowed looks well."""
LOWEST_RATE, HIGHEST_RATE = 0.1, 1e7


@dataclass(frozen=True, slots=True)
class Trial:
    """One rate, and what its test said."""

    rate: float
    answer: Answer
    measurement: Measurement
    invalid: str = ""
    """Why nothing could be told about the server."""


Measure = Callable[[float, int, float], Measurement]
"""From a rate, a seed, and by how much longer than usual it is measured."""


@dataclass
class Search:
    """The state of one search."""

    measure: Measure
    slos: Sequence[Slo]
    limits: Limits = field(default_factory=Limits)
    trials: list[Trial] = field(default_factory=list)
    passed: float | None = None
    failed: float | None = None
    promising: float | None = None
    """The highest rate that looked well, with too few requests for an answer."""
    confirmed: bool = False
    stopped: str = ""
    """Why the search ended before the gap was small."""
    missed: bool = False
    """Whether it ended because no rate meets the SLO."""

    def run(self, first_rate: float) -> Search:
        """Find the highest rate, beginning near `first_rate`."""
        rate = first_rate
        while not self.is_over():
            self.judge_rate(rate)
            if self.is_close():
                self.confirm()
            rate = self.next_rate(rate)
        return self

    def is_over(self) -> bool:
        if len(self.trials) >= MAX_TRIALS and not self.stopped:
            self.stopped = f"{MAX_TRIALS} measurements were made"
        return bool(self.stopped) or (self.is_close() and self.confirmed)

    def is_close(self) -> bool:
        return self.passed is not None and self.failed is not None and self.failed <= self.passed * GAP

    def next_rate(self, rate: float) -> float:
        """Half-way in the gap, or further out where there is no gap yet."""
        low = self.passed or self.promising
        if self.stopped or self.confirmed:
            return rate
        if low is not None and self.failed is not None:
            if self.passed is None and self.failed <= low * GAP:
                self.stopped = "too few requests for an answer: measure longer, or ask for a lower percentile"
            return float(np.sqrt(low * self.failed))
        following = rate * GROWTH if self.failed is None else rate / GROWTH
        if not LOWEST_RATE <= following <= HIGHEST_RATE:
            self.stopped = f"no rate from {LOWEST_RATE:g}/s to {HIGHEST_RATE:g}/s was the limit"
            self.missed = self.passed is None
        return following

    def judge_rate(self, rate: float, seed: int | None = None) -> bool:
        """Measure a rate until its test has an answer; unknown in the end counts as failed.

        What passes though the generator was late passes: its lag is in the latencies. What does not is measured again,
        and after a few times the search ends, since it would tell of the generator.
        """
        said, counts, late = Answer.UNKNOWN, [(0.0, 0.0)] * len(self.slos), 0
        doubling = 0
        while said is Answer.UNKNOWN and doubling <= MAX_DOUBLINGS:
            number = len(self.trials) if seed is None else seed + doubling + late
            measurement = self.measure(rate, number, float(2**doubling))
            found = [over_limit(measurement, slo) for slo in self.slos]
            summed = [add(count, new) for count, new in zip(counts, found, strict=True)]
            said = Answer.FAILED if measurement.saturated else joint(summed, self.slos)
            invalid = "" if said is Answer.PASSED else invalid_reason(measurement, self.limits)
            self.trials.append(Trial(rate, said, measurement, invalid))
            if not invalid:
                counts, doubling = summed, doubling + 1
            elif late == MAX_LATE:
                self.stopped = invalid
                return False
            else:
                said, late = Answer.UNKNOWN, late + 1
        self.note(rate, said, hopeful=max(self.shares(counts)) <= HOPE)
        return True

    def fails(self, measurement: Measurement) -> bool:
        """Whether an SLO is missed for sure in a measurement."""
        return joint([over_limit(measurement, slo) for slo in self.slos], self.slos) is Answer.FAILED

    def shares(self, counts: Sequence[tuple[float, float]]) -> list[float]:
        """Requests over each limit, as a share of those that are allowed to be."""
        allowed = [count * (1 - slo.percentile / 100) for (count, _), slo in zip(counts, self.slos, strict=True)]
        return [over / max(most, 1e-9) for (_, over), most in zip(counts, allowed, strict=True)]

    def note(self, rate: float, said: Answer, *, hopeful: bool) -> None:
        """What an answer means for the gap. Unknown counts as failed, unless hardly any request was over the limit."""
        if said is Answer.PASSED:
            self.passed = max(rate, self.passed or 0.0)
        elif said is Answer.UNKNOWN and hopeful and self.passed is None:
            self.promising = max(rate, self.promising or 0.0)
        else:
            self.failed = min(rate, self.failed or np.inf)

    def confirm(self) -> bool:
        """Measure the winner anew; when it fails, it is the lowest failed rate, and the search goes on below it."""
        rate = self.passed
        if rate is None:
            return False
        for repeat in range(CONFIRMATIONS):
            if not self.judge_rate(rate, seed=1000 * (repeat + 1)) or self.trials[-1].answer is not Answer.PASSED:
                lower = [trial.rate for trial in self.trials if trial.answer is Answer.PASSED and trial.rate < rate]
                self.passed, self.failed = max(lower, default=None), rate
                return False
        self.confirmed = True
        return True


def over_limit(measurement: Measurement, slo: Slo) -> tuple[float, float]:
    """(requests, those over the limit), as if they did not depend on each other. Errors are over any limit."""
    measured = measurement.measured()
    return effective(~measured.answered | (measured.latency_ms() > slo.limit_ms))


def add(left: tuple[float, float], right: tuple[float, float]) -> tuple[float, float]:
    return left[0] + right[0], left[1] + right[1]


def joint(counts: Sequence[tuple[float, float]], slos: Sequence[Slo]) -> Answer:
    """Passed when every SLO is met, failed when one is not."""
    answers = {answer(*count, slo.percentile) for count, slo in zip(counts, slos, strict=True)}
    if Answer.FAILED in answers:
        return Answer.FAILED
    return Answer.UNKNOWN if Answer.UNKNOWN in answers else Answer.PASSED


def invalid_reason(measurement: Measurement, limits: Limits) -> str:
    """Why the generator, not the server, was the limit. Errors, waits and latencies are what the search is about."""
    return next(generator_reasons(measurement, measurement.measured(), limits), "")

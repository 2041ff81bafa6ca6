"""Whether a measurement may be believed: a choice over what was seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum

import numpy as np

from poise.bench.load import OpenLoop
from poise.bench.measurement import Measurement
from poise.bench.samples import Samples
from poise.bench.statistics import percentile
from poise.bench.warmup import are_same


class Status(Enum):
    """What may be said of a measurement."""

    VALID = "VALID"
    INVALID = "INVALID"
    """It tells more of the generator, of errors or of chance than of the server."""
    SATURATED = "SATURATED"
    """The queue grew without end: latencies depend on how long it was watched."""
    UNSTABLE = "UNSTABLE"
    """The server was not the same at the end as at the beginning."""


class Exit(IntEnum):
    """Exit codes of a load test."""

    OK = 0
    USAGE = 1
    SLO = 2
    INVALID = 3
    UNSTABLE = 4


@dataclass(frozen=True, slots=True)
class Limits:
    """What a valid measurement keeps to."""

    send_lag_ms: float = 1.0
    """P99 of the send lag is at most this, or `send_lag_share` of the median latency, whichever is more."""
    send_lag_share: float = 0.05
    achieved_share: float = 0.99
    cpu_share: float = 0.8
    error_share: float = 0.001
    least_requests: int = 100
    least_for_drift: int = 1_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """The status, and why: sentences with figures and what to do."""

    status: Status
    reasons: tuple[str, ...] = ()

    @property
    def exit_code(self) -> Exit:
        """What a program that runs the test may look at."""
        codes = {Status.VALID: Exit.OK, Status.INVALID: Exit.INVALID, Status.SATURATED: Exit.INVALID}
        return codes.get(self.status, Exit.UNSTABLE)


def judge(measurement: Measurement, limits: Limits | None = None) -> Verdict:
    """All that speaks against a measurement; the gravest of it is its status."""
    limits = limits or Limits()
    measured = measurement.measured()
    invalid = tuple(invalid_reasons(measurement, measured, limits))
    saturated = tuple(saturation_reasons(measurement))
    unstable = () if saturated else tuple(drift_reasons(measurement, measured, limits))
    reasons = saturated + invalid + unstable
    if saturated:
        return Verdict(Status.SATURATED, reasons)
    if invalid:
        return Verdict(Status.INVALID, reasons)
    return Verdict(Status.UNSTABLE if unstable else Status.VALID, reasons)


def invalid_reasons(measurement: Measurement, measured: Samples, limits: Limits) -> Iterator[str]:
    """Why the figures would tell of something else than the server."""
    if len(measured) < limits.least_requests:
        yield (
            f"only {len(measured)} requests were measured, expected at least {limits.least_requests}: "
            "measure longer or offer more"
        )
        return
    yield from generator_reasons(measurement, measured, limits)
    yield from connection_reasons(measurement, measured, limits)
    errors = sum(measured.errors().values())
    if errors > limits.error_share * len(measured):
        most = max(measured.errors().items(), key=lambda item: item[1])
        yield (
            f"{errors} of {len(measured)} requests failed ({errors / len(measured):.2%}, allowed "
            f"{limits.error_share:.2%}), most with {most[0]}: what is refused is no work, so the rest looks too good"
        )


def generator_reasons(measurement: Measurement, measured: Samples, limits: Limits) -> Iterator[str]:
    """Why the figures would tell of the generator."""
    use = measurement.generator
    if use.cpu_share > limits.cpu_share:
        yield (
            f"the generator used {use.cpu_share:.0%} of a core, more than {limits.cpu_share:.0%}: it may have been the "
            "limit itself; use more --threads, or --workers on other machines"
        )
    if not isinstance(measurement.load, OpenLoop):
        return
    median_ms = percentile(measured.latency_ms()[measured.timed], 500) or 0.0
    allowed_ms = max(limits.send_lag_ms, limits.send_lag_share * median_ms)
    lag_ms = percentile(measured.issue_lag_ms(), 990) or 0.0
    if lag_ms > allowed_ms:
        yield (
            f"the generator was late: P99 of its lag is {lag_ms:.2f} ms, more than {allowed_ms:.2f} ms. Its machine "
            "was too busy for this rate; offer less, or give more --threads, or --workers on other machines"
        )
    achieved = float(np.count_nonzero(measured.answered)) / len(measured)
    errors = sum(measured.errors().values())
    if achieved < limits.achieved_share and not errors:
        yield f"only {achieved:.1%} of the offered requests were answered"


def connection_reasons(measurement: Measurement, measured: Samples, limits: Limits) -> Iterator[str]:
    """Why the figures would tell of how many connections there are."""
    if not isinstance(measurement.load, OpenLoop):
        return
    wait_ms = percentile(measured.wait_ms(), 990) or 0.0
    service_ms = percentile(measured.latency_ms()[measured.timed], 500) or 0.0
    allowed_ms = max(limits.send_lag_ms, limits.send_lag_share * service_ms)
    if wait_ms > allowed_ms:
        yield (
            f"requests waited for a connection: P99 {wait_ms:.2f} ms, more than {allowed_ms:.2f} ms. All "
            f"{measurement.generator.connections} were taken, or the server took no more; give more --connections, or "
            "offer less"
        )


def saturation_reasons(measurement: Measurement) -> Iterator[str]:
    """Why there is no level to be told."""
    if measurement.saturated:
        yield (
            f"requests under way grew without end at {measurement.load}, so the run was cut short after "
            f"{measurement.window_s:.0f} s: the server cannot do this rate, and its latencies only tell how long it "
            "was watched"
        )


def drift_reasons(measurement: Measurement, measured: Samples, limits: Limits) -> Iterator[str]:
    """Why one figure cannot stand for the whole window."""
    if not measurement.warmup.stable:
        yield (
            f"latencies had not settled after {measurement.warmup.seconds:.0f} s of warm-up: the server was still "
            "changing when the measurement began; give a longer --warmup"
        )
    timed = measured.select(measured.timed)
    if len(timed) < limits.least_for_drift or not is_steady(measurement):
        return
    middle = len(timed) // 2
    halves = [percentile(part, 500) for part in (timed.latency_ms()[:middle], timed.latency_ms()[middle:])]
    first, second = (value or 0.0 for value in halves)
    if first and second and not are_same(min(first, second), max(first, second)):
        yield (
            f"the median was {first:.3g} ms in the first half and {second:.3g} ms in the second: the server, or this "
            "machine, changed on the way; measure longer, on a quieter machine"
        )


def is_steady(measurement: Measurement) -> bool:
    """Whether the same load was offered all the time."""
    load = measurement.load
    return not isinstance(load, OpenLoop) or load.arrival.split(":")[0] in {"poisson", "constant", "gamma"}

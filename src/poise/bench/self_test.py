"""Whether the load generator tells the truth on this machine, and how much load it can make.

It is let loose on servers whose latencies are known (`poise.bench.known`), and what it reports is compared with their
own record. Generator and server have a core each where there are two.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from rich.table import Table

from poise.bench.background import onlooker
from poise.bench.cores import affinity, one_core_left
from poise.bench.engine import Engine, Wiring
from poise.bench.known import (
    DISTRIBUTIONS,
    Known,
    compare,
    known_server,
    make_delays,
    reported_ms,
    show,
    truth_ms,
)
from poise.bench.load import ClosedLoop, Load, OpenLoop
from poise.bench.measurement import Measurement
from poise.bench.offer import make_offer
from poise.bench.session import Method, Session

WARMUP_S = 1.0
FROZEN_RATE = 100.0
FROZEN_MS = 1.0
"""What a request takes while the server is not frozen."""
FROZEN_WINDOW = 10
"""The measured window is so many times as long as the freeze in its middle."""
SCALE_MS = 100.0
"""Large beside what two sockets and two threads take, and beside the stalls of a shared machine: within 1 % of it."""
CLAIMS = (0.35, 0.2, 0.1, 0.05)
"""Shares of the highest rate that is sent in time; the highest at which percentiles are right as well is claimed."""

CEILING_WIRING = Wiring(connections=4)
CEILING_LOAD = ClosedLoop(128)
CEILING_S = 2.0
MAX_LAG_MS = 1.0
MAX_OPEN_RATE = 640_000.0
HALVINGS = 2
"""So often the gap between a rate that goes and one that does not is halved."""


@dataclass(frozen=True, slots=True)
class SelfTestPlan:
    """How long and how strict; the defaults take about three minutes."""

    seconds: float = 5.0
    """Of each measurement."""
    rates: tuple[float, ...] = (1_000.0, 5_000.0)
    """Requests per second at which percentiles are checked, besides the highest there is."""
    tolerance: float = 0.01
    """Most that a percentile may differ from the truth, as a share of it."""
    freeze_s: float = 1.0
    frozen_tolerance: float = 0.05
    """The same for the server that freezes: which requests the freeze meets is not known to the last one."""
    least_rate: float = 40_000.0
    """gRPC requests per second that one thread on one core should reach in a closed loop."""
    attempts: int = 3
    """A check that fails is made again: other programs disturb it now and then, a wrong report fails each time."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the result."""

    name: str
    found: str
    wanted: str
    passed: bool


@dataclass(frozen=True, slots=True)
class SelfTestResult:
    """All checks; the rates are the most that one thread reaches, in requests per second."""

    checks: tuple[Check, ...]
    closed_rate: float
    claimed_rate: float
    """Highest of an open loop at which percentiles were right; 0 where none was found."""

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    def to_table(self) -> Table:
        table = Table("", "found", "wanted", "", title="self-test of the load generator", title_justify="left")
        for check in self.checks:
            table.add_row(check.name, check.found, check.wanted, "[green]ok[/]" if check.passed else "[red]FAILED[/]")
        return table


@dataclass
class SelfTest:
    """The checks as they are made."""

    plan: SelfTestPlan
    on_check: Callable[[Check], None]
    checks: list[Check] = field(default_factory=list)
    closed_rate: float = 0.0

    def run(self) -> SelfTestResult:
        self.make(self.check_frozen)
        self.make(self.check_closed_rate)
        open_rate = self.find_open_rate()
        for distribution in DISTRIBUTIONS:
            for rate in self.plan.rates:
                self.make(partial(self.check_percentiles, "grpc", distribution, rate))
        self.make(partial(self.check_percentiles, "http", "lognormal", self.plan.rates[0]))
        claimed_rate = self.claim(open_rate)
        return SelfTestResult(tuple(self.checks), self.closed_rate, claimed_rate)

    def claim(self, open_rate: float) -> float:
        """The highest rate at which percentiles of every distribution are right; 0 where there is none."""
        rates = [open_rate * share for share in CLAIMS if open_rate * share > max(self.plan.rates)]
        for rate in rates:
            checks = []
            for distribution in DISTRIBUTIONS:
                checks.append(self.tried(partial(self.check_percentiles, "grpc", distribution, rate)))
                if not checks[-1].passed:
                    break
            if checks[-1].passed or rate == rates[-1]:
                for check in checks:
                    self.note(check)
                return rate if checks[-1].passed else 0.0
        return 0.0

    def make(self, check: Callable[[], Check]) -> None:
        """A check, once or until it passes."""
        self.note(self.tried(check))

    def tried(self, check: Callable[[], Check]) -> Check:
        for _ in range(self.plan.attempts):
            made = check()
            if made.passed:
                break
        return made

    def note(self, check: Check) -> None:
        self.checks.append(check)
        self.on_check(check)

    def check_frozen(self) -> Check:
        """A server that answers nothing for a while: who waits to send hides that.

        Of the requests in the window a tenth is due in the freeze and waits for its end, evenly from all of it down to
        nothing. The hundredth of all that waits longest waits at least nine tenths of it: that is P99.
        """
        freeze_s = self.plan.freeze_s
        window_s = FROZEN_WINDOW * freeze_s
        begin_s = WARMUP_S + (window_s - freeze_s) / 2
        load = OpenLoop(FROZEN_RATE / freeze_s, "constant")
        delays = make_delays("constant", FROZEN_MS)
        with one_core_left() as cores, known_server("grpc", delays, [(begin_s, begin_s + freeze_s)]) as known:
            measurement = measure_on(cores, known, load, window_s)
        p99_ms = float(np.quantile(reported_ms(measurement), 0.99, method="inverted_cdf"))
        expected_ms = 900 * freeze_s + FROZEN_MS
        return Check(
            f"a server that stops for {freeze_s:g} s in {window_s:g} s",
            f"P99 {p99_ms:.1f} ms",
            f"{expected_ms:.0f} ms, within {self.plan.frozen_tolerance:.0%}",
            passed=abs(p99_ms / expected_ms - 1) <= self.plan.frozen_tolerance,
        )

    def check_closed_rate(self) -> Check:
        """As many answers per second as one thread on one core can take."""
        with one_core_left() as cores, known_server("grpc") as known:
            measurement = measure_on(cores, known, CEILING_LOAD, self.plan.seconds, CEILING_WIRING)
        rate = float(np.count_nonzero(measurement.measured().answered)) / measurement.window_s
        self.closed_rate, wanted = max(rate, self.closed_rate), self.plan.least_rate
        found = f"{rate:,.0f}/s"
        return Check(f"closed loop, {CEILING_LOAD}, one thread", found, f"{wanted:,.0f}/s", passed=rate >= wanted)

    def find_open_rate(self) -> float:
        """The highest rate at which requests are sent in time: doubled while it goes, then halved towards it."""
        good, bad = 0.0, max(self.plan.rates)
        while self.is_in_time(bad) and bad < MAX_OPEN_RATE:
            good, bad = bad, 2 * bad
        for _ in range(HALVINGS if good else 0):
            middle = (good + bad) / 2
            good, bad = (middle, bad) if self.is_in_time(middle) else (good, middle)
        wanted = f"{max(self.plan.rates):,.0f}/s sent at most {MAX_LAG_MS:g} ms late at P99"
        self.note(Check("open loop, one thread", f"{good:,.0f}/s", wanted, passed=good > 0))
        return good

    def is_in_time(self, rate: float) -> bool:
        seconds = min(self.plan.seconds, CEILING_S)
        for _ in range(self.plan.attempts):
            with one_core_left() as cores, known_server("grpc") as known:
                measured = measure_on(cores, known, OpenLoop(rate), seconds, CEILING_WIRING).measured()
            if np.quantile(measured.send_lag_ms(), 0.99) <= MAX_LAG_MS:
                return True
        return False

    def check_percentiles(self, protocol: str, distribution: str, rate: float) -> Check:
        """What is reported of latencies that are known."""
        with one_core_left() as cores, known_server(protocol, make_delays(distribution, SCALE_MS)) as known:
            measurement = measure_on(cores, known, OpenLoop(rate), self.plan.seconds)
            compared = compare(reported_ms(measurement), truth_ms(known.record(), measurement))
        worst = max((abs(each.error) for each in compared), default=float("inf"))
        return Check(
            f"{distribution}, {protocol}, {rate:,.0f}/s",
            show(compared, "reported"),
            f"{show(compared, 'truth')}, within {self.plan.tolerance:.1%}",
            passed=worst <= self.plan.tolerance,
        )


def run_self_test(
    plan: SelfTestPlan | None = None, on_check: Callable[[Check], None] = lambda _check: None
) -> SelfTestResult:
    """Make all checks; `on_check` hears of each when it is made. Raises OSError without a free port."""
    return SelfTest(plan or SelfTestPlan(), on_check).run()


def measure_on(cores: Set[int], known: Known, load: Load, seconds: float, wiring: Wiring | None = None) -> Measurement:
    """One point, with the threads of the generator on these cores."""
    wiring = wiring or Wiring()
    method = Method(duration_s=seconds, warmup_s=WARMUP_S, wiring=wiring)
    offer = make_offer(load, known.traffic, seconds)
    with affinity(cores):
        engine = Engine(known.traffic, load, wiring)
    with onlooker() as thread, engine:
        return thread.submit(Session(engine, offer, method, lambda _tick: None).run, known.traffic, load).result()

"""What a load test reports of servers whose latencies are known.

Tolerances are those of a machine that is busy with other things; a report that hides waiting is wrong by far more.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from poise.bench.known import known_server, make_delays
from poise.bench.self_test import SelfTest, SelfTestPlan

PLAN = SelfTestPlan(
    seconds=1.0, rates=(300.0,), tolerance=0.25, freeze_s=0.2, frozen_tolerance=0.25, least_rate=2_000.0
)


@pytest.fixture
def self_test() -> SelfTest:
    return SelfTest(PLAN, lambda _check: None)


def test_the_wait_for_a_frozen_server_is_in_the_report(self_test):
    self_test.make(self_test.check_frozen)
    assert self_test.checks[-1].passed, self_test.checks


@pytest.mark.parametrize(
    ("protocol", "distribution"),
    [("grpc", "constant"), ("grpc", "bimodal"), ("grpc", "lognormal"), ("http", "bimodal")],
)
def test_percentiles_are_those_of_the_server(self_test, protocol, distribution):
    self_test.make(lambda: self_test.check_percentiles(protocol, distribution, PLAN.rates[0]))
    assert self_test.checks[-1].passed, self_test.checks


def test_the_highest_rates_are_found(self_test):
    self_test.make(self_test.check_closed_rate)
    assert self_test.checks[-1].passed, self_test.checks
    assert self_test.closed_rate > PLAN.least_rate


def test_a_loop_of_requests_hides_the_same_wait():
    example = Path(__file__).parents[2] / "examples" / "naive_loop.py"
    with known_server("http", make_delays("constant", 1.0), [(1.0, 1.5)]) as known:
        address = known.traffic.url.removeprefix("http://")
        command = [sys.executable, str(example), address, "any", "{}", "100", "2.5"]
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    found = {line.split(": ")[0]: float(line.split()[1]) for line in said.splitlines()}
    assert found["max"] >= 400
    assert found["P95"] < 250

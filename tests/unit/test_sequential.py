import numpy as np
import pytest

from poise.bench.sequential import Answer, answer, at_most, effective, least_total, upper_bound


@pytest.mark.parametrize(
    ("percentile", "over", "total"),
    [(90, 0, 44), (90, 1, 64), (95, 10, 398), (99, 0, 459), (99, 1, 662), (99, 100, 12571), (99.9, 0, 4603)],
)
def test_the_least_totals_are_those_of_loadgen(percentile, over, total):
    assert least_total(over, percentile) == total


def test_tails_of_the_binomial():
    assert at_most(10, 0, 0.5) == pytest.approx(2**-10)
    assert at_most(10, 5, 0.5) == pytest.approx(0.623046875)
    assert (at_most(10, 10, 0.5), at_most(10, -1, 0.5)) == (1, 0)
    assert at_most(100_000, 1_000, 0.01) == pytest.approx(0.508, abs=0.01)


@pytest.mark.parametrize(
    ("count", "over", "said"),
    [
        (458, 0, Answer.UNKNOWN),
        (459, 0, Answer.PASSED),
        (10_000, 70, Answer.PASSED),
        (10_000, 100, Answer.UNKNOWN),
        (10_000, 130, Answer.FAILED),
        (10, 3, Answer.FAILED),
        (2, 2, Answer.FAILED),
        (0, 0, Answer.UNKNOWN),
    ],
)
def test_rates_pass_fail_or_need_more(count, over, said):
    assert answer(count, over, 99) is said


def test_clumps_count_for_less():
    spread = np.zeros(10_000, bool)
    spread[::100] = True
    clumped = np.zeros(10_000, bool)
    clumped[5_000:5_100] = True
    assert effective(spread)[0] == pytest.approx(10_000, rel=0.1)
    count, over = effective(clumped)
    assert count < 500
    assert over / count == pytest.approx(0.01)
    assert effective(np.zeros(10, bool)) == (10, 0)


def test_the_upper_bound_leaves_out_what_the_rule_allows():
    latencies = np.arange(1.0, 663.0)
    assert upper_bound(latencies, 99) == 662  # one may be over: none is left out
    assert upper_bound(latencies[:661], 99) is None
    assert upper_bound(np.arange(1.0, 839.0), 99) == 837

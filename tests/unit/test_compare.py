import numpy as np
import pytest

from poise.bench.compare import Finding, compare_intervals, compare_pairs, order


def pairs(ratio, spread, count, seed=0):
    noise = np.random.default_rng(seed).normal(0, spread, count)
    return [(10.0, 10.0 * ratio * float(np.exp(each))) for each in noise]


@pytest.mark.parametrize(
    ("figure", "ratio", "spread", "count", "finding"),
    [
        ("p99", 1.0, 0.02, 8, Finding.EQUIVALENT),
        ("p99", 1.5, 0.05, 8, Finding.REGRESSED),
        ("p99", 0.5, 0.05, 8, Finding.IMPROVED),
        ("qps", 1.5, 0.05, 8, Finding.IMPROVED),
        ("qps", 0.5, 0.05, 8, Finding.REGRESSED),
        ("p50", 1.0, 0.30, 8, Finding.INCONCLUSIVE),
        ("p50", 1.5, 0.05, 1, Finding.INCONCLUSIVE),
    ],
)
def test_findings(figure, ratio, spread, count, finding):
    found = compare_pairs(figure, pairs(ratio, spread, count))
    assert found.finding is finding
    assert found.ratio == pytest.approx(ratio, rel=0.3)


def test_what_is_not_settled_says_how_many_more_pairs_it_takes():
    noise = np.array([-1.3, -0.9, -0.5, -0.1, 0.1, 0.5, 0.9, 1.3])
    some = [(1.0, float(np.exp(0.1 + 0.15 * each))) for each in noise]
    found = compare_pairs("p50", some)
    assert found.finding is Finding.INCONCLUSIVE
    assert 8 <= found.more_pairs <= 24
    more = compare_pairs("p50", some * (1 + -(-found.more_pairs // 8)))
    assert more.finding is Finding.REGRESSED


def test_the_same_server_twice_is_rarely_called_different():
    wrong = sum(
        compare_pairs("p99", pairs(1.0, 0.1, 8, seed)).finding in {Finding.IMPROVED, Finding.REGRESSED}
        for seed in range(200)
    )
    assert wrong <= 10


def test_saved_results_are_compared_by_their_intervals():
    assert compare_intervals("p99", (10, 9.9, 10.1), (10.1, 10, 10.2)).finding is Finding.EQUIVALENT
    assert compare_intervals("p99", (10, 9, 11), (20, 18, 22)).finding is Finding.REGRESSED
    assert compare_intervals("p99", (10, 5, 20), (12, 6, 24)).finding is Finding.INCONCLUSIVE


def test_no_pair_is_refused():
    with pytest.raises(ValueError, match="at least one pair"):
        compare_pairs("p99", [])
    with pytest.raises(ValueError, match="positive"):
        compare_pairs("p99", [(0.0, 1.0)])


def test_each_arm_comes_first_as_often():
    firsts = [first for first, _ in order(10, 0)]
    assert sum(firsts) == 5
    assert firsts != sorted(firsts)
    assert order(10, 0) == order(10, 0)

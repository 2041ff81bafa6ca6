from __future__ import annotations

import math

import pytest

from poise.demo.__main__ import ms
from poise.demo.measure import batch_sizes, common_batches

METRICS = """\
# TYPE poise_batch_size_rows histogram
poise_batch_size_rows_bucket{model="ranker",version="1",signature="serving_default",le="1.0"} 3
poise_batch_size_rows_bucket{model="ranker",version="1",signature="serving_default",le="+Inf"} 5
poise_batch_size_rows_bucket{model="ranker",version="2",signature="serving_default",le="1.0"} 10
poise_batch_size_rows_bucket{model="ranker",version="2",signature="serving_default",le="+Inf"} 1e1
poise_batch_size_rows_bucket{le="1.0",model="other"} 100
poise_batch_size_rows_sum{model="ranker",version="1",signature="serving_default"} 9
"""


def test_the_histogram_of_a_model_adds_its_versions_and_no_other_model() -> None:
    assert batch_sizes(METRICS, "ranker") == {1.0: 13.0, math.inf: 15.0}
    assert batch_sizes(METRICS, "absent") == {}


@pytest.mark.parametrize(
    ("histogram", "expected"),
    [
        pytest.param({}, "none", id="nothing scraped"),
        pytest.param({1.0: 0.0, math.inf: 0.0}, "none", id="nothing executed"),
        pytest.param({1.0: 10.0, math.inf: 10.0}, "1: 100%", id="one size"),
        pytest.param({1.0: 1.0, 2.0: 1.0, 4.0: 4.0, math.inf: 4.0}, "1: 25%, 3-4: 75%", id="ranges in order of size"),
        pytest.param({8.0: 1.0, math.inf: 2.0}, "1-8: 50%, >8: 50%", id="beyond the last bound"),
        pytest.param({1.0: 1.0, 2.0: 3.0, 3.0: 6.0, 4.0: 10.0}, "2: 20%, 3: 30%, 4: 40%", id="only the commonest"),
    ],
)
def test_batches_are_told_by_their_commonest_sizes(histogram: dict[float, float], expected: str) -> None:
    assert ", ".join(common_batches(histogram)) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(None, "-"), (0.1234, "0.123"), (12.34, "12.3"), (123.4, "123")], ids=str
)
def test_latencies_keep_three_figures(value: float | None, expected: str) -> None:
    assert ms(value) == expected

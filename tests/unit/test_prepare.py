import numpy as np
import pytest

from poise.bench.payloads import prepare as module
from poise.bench.payloads.check import checked
from poise.bench.payloads.mix import Share, only, parse_mix
from poise.bench.payloads.prepare import Press, different, prepare
from poise.bench.traffic import WireRequest
from poise.types import Signature, TensorSpec


class Numbers:
    """Inputs that count up; `distinct` of them differ."""

    def __init__(self, distinct=None):
        self.distinct, self.count = distinct, 0

    def inputs(self, rows):
        self.count += 1
        return {"x": np.full(rows, self.count)}


def encode(inputs):
    return WireRequest("/", inputs["x"].tobytes(), rows=len(inputs["x"]))


class Ticks:
    """A clock that moves by 2 ms at each look."""

    def __init__(self):
        self.time = 0.0

    def __call__(self):
        self.time += 0.002
        return self.time


def press():
    return Press(encode, Ticks())


def test_requests_are_as_many_as_asked_and_the_time_of_one_is_kept():
    made = prepare(press(), Numbers(), only(3), 10)
    assert len({request.body for request in made.requests}) == 10
    assert {request.rows for request in made.requests} == {3}
    assert made.weights == ()
    assert made.serialise_us == pytest.approx(2000)


def test_a_mix_is_kept_by_weights_whatever_the_numbers_prepared():
    mix = parse_mix("1:70,8:20,32:9.9,64:0.1")
    made = prepare(press(), Numbers(), mix, 20)
    rows = np.array([request.rows for request in made.requests])
    weights = np.array(made.weights)
    assert weights.sum() == pytest.approx(1)
    for share in mix:
        assert weights[rows == share.rows].sum() == pytest.approx(share.part)
    assert (rows == 64).sum() == 1, "at least one of each"
    assert (rows == 1).sum() == 14


def test_bodies_are_bounded_in_bytes_but_there_is_always_one(monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES", 100)
    assert len(prepare(press(), Numbers(), only(4), 50).requests) == 3
    assert len(prepare(press(), Numbers(), only(1000), 50).requests) == 1


@pytest.mark.parametrize(("total", "rows", "expected"), [(10, 1, 10), (10, 5, 2), (10, 3, 10), (10, 4, 5), (1, 8, 1)])
def test_what_comes_round_again_is_not_prepared_twice(total, rows, expected):
    assert different(Numbers(total), rows) == expected
    assert len(prepare(press(), Numbers(total), only(rows), 100).requests) == expected


def test_mixes_are_read_with_any_weights():
    assert parse_mix("1:3,2:1") == (Share(1, 0.75), Share(2, 0.25))


@pytest.mark.parametrize("text", ["", "1", "1:", "0:1", "1:0", "1:1,1:2", "1:nan", "1:inf", "x:1", "1:1,"])
def test_mixes_that_make_no_sense_are_refused(text):
    with pytest.raises(ValueError, match="expected ROWS:WEIGHT"):
        parse_mix(text)


SIGNATURE = Signature(
    (TensorSpec("x", "float", (-1, 2)), TensorSpec("n", "int32", (-1,))), (TensorSpec("y", "float", (-1,)),)
)
GOOD = {"x": np.ones((3, 2), np.float32), "n": np.ones(3, np.int64)}


def test_inputs_that_fit_are_cast():
    found = checked(SIGNATURE, GOOD)
    assert found["n"].dtype == np.int32


@pytest.mark.parametrize(
    ("change", "mend"),
    [
        ({"xx": np.ones(3)}, "has no input 'xx'; did you mean x"),
        ({"x": np.ones((3, 4), np.float32)}, r"input x: expected float\[-1, 2\], got float\[3,4\]: reshape it"),
        ({"x": np.ones(3, np.float32)}, r"expected float\[-1, 2\], got float\[3\]"),
        ({"n": np.ones(3, np.float32)}, "input n takes int32"),
        ({"n": np.ones(2, np.int32)}, "as many rows as the others; got x 3, n 2"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(change, mend):
    with pytest.raises(ValueError, match=mend):
        checked(SIGNATURE, {**GOOD, **change})


def test_an_input_that_is_missing_is_named():
    with pytest.raises(ValueError, match="needs input 'n'"):
        checked(SIGNATURE, {"x": GOOD["x"]})

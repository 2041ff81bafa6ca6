import logging

import numpy as np
import pytest

from poise.errors import InvalidInput, ModelLoadError
from poise.testing import ManualClock
from poise.types import Signature, TensorSpec
from poise.workers.warmup import FILE, Plan, warm_up


def signature(name="serving_default", dtype="float32", shape=(-1, 2), **fields):
    return Signature((TensorSpec("x", dtype, shape),), (TensorSpec("y", "float32", (-1,)),), name, **fields)


class Model:
    """Notes what it is run with; `fails` decides what it refuses."""

    def __init__(self, *signatures, fails=lambda _name, _x: None):
        self.signatures = signatures or (signature(),)
        self.fails = fails
        self.seen = []

    def run(self, name, inputs, outputs):
        assert outputs == ["y"]
        self.seen.append((name, inputs["x"].tolist()))
        error = self.fails(name, inputs["x"])
        if error is not None:
            raise error
        return {"y": inputs["x"][:, 0]}

    def sizes(self):
        return [len(rows) for _, rows in self.seen]


def recorded(tmp_path, *calls):
    """A directory with a warm-up file, and a reader of it that gives these calls."""
    file = tmp_path / FILE
    file.parent.mkdir()
    file.touch()

    def read(path, most):
        assert (path, most) == (str(file), 1000)
        arrays = [(name, np.asarray(x, np.float32)) for name, x in calls]
        return [(name, [("x", "float", x.shape, bytearray(x.tobytes()))]) for name, x in arrays]

    return read


def test_sizes_are_tried_from_the_largest_down():
    model = Model()
    found = warm_up(model, "/none", Plan(allowed=(1, 4, 8), most=8))
    assert model.sizes() == [8, 4, 1]
    assert (found.records, found.batches) == (0, 3)


def test_without_allowed_sizes_the_ends_are_tried():
    model = Model()
    warm_up(model, "/none", Plan(most=16))
    assert model.seen == [("serving_default", [[0, 0]] * 16), ("serving_default", [[0, 0]])]


def test_what_was_recorded_is_run_first_and_in_the_sizes_of_service(tmp_path):
    model = Model()
    read = recorded(tmp_path, ("serving_default", [[1, 2]] * 3), ("serving_default", [[3, 4]] * 5))
    found = warm_up(model, str(tmp_path), Plan(allowed=(2, 4), most=4, iterations=2), read)
    assert model.sizes() == [4, 4, 4, 4, 2, 2, 4, 2]
    assert model.seen[0][1] == [[1, 2]] * 4
    assert model.seen[-1][1] == [[1, 2]] * 2, "sizes are tried with recorded rows"
    assert (found.records, found.batches) == (2, 2)


def test_nothing_is_run_when_it_is_off(tmp_path):
    model = Model()
    warm_up(model, str(tmp_path), Plan(enabled=False, most=8), recorded(tmp_path, ("nobody", [[1, 2]])))
    assert model.seen == []


@pytest.mark.parametrize(
    ("call", "fails", "message"),
    [
        pytest.param("serving_default", InvalidInput("not these"), "call 0 of .* failed: not these", id="refused"),
        pytest.param("serving_default", KeyError("x"), "failed: KeyError: 'x'", id="raises"),
        pytest.param("other", None, 'Serving signature key "other" not found', id="signature"),
    ],
)
def test_a_recorded_request_that_fails_fails_the_load(tmp_path, call, fails, message):
    model = Model(fails=lambda _name, _x: fails)
    with pytest.raises(ModelLoadError, match=message):
        warm_up(model, str(tmp_path), Plan(), recorded(tmp_path, (call, [[1, 2]])))


def test_a_file_that_cannot_be_read_fails_the_load(tmp_path):
    recorded(tmp_path)

    def read(_path, _most):
        raise ValueError("Failed to parse warmup record: nonsense")

    with pytest.raises(ModelLoadError, match="warm-up: Failed to parse warmup record: nonsense"):
        warm_up(Model(), str(tmp_path), Plan(), read)


def test_made_up_rows_that_fail_are_logged(caplog):
    caplog.set_level(logging.INFO)
    model = Model(fails=lambda _name, x: ValueError("zeros") if len(x) == 8 else None)
    assert warm_up(model, "/none", Plan(most=8)).batches == 1
    assert "signature serving_default at 8 rows: ValueError: zeros" in caplog.text


def test_only_what_can_be_made_up_is():
    model = Model(
        signature("text", "string"),
        signature("any", shape=None),
        signature("whole", shape=(3, -1), batched=False),
        signature("huge", shape=(-1, 1 << 30)),
    )
    warm_up(model, "/none", Plan(most=2))
    assert model.seen == [("whole", [[0], [0], [0]])]


def test_a_model_may_ask_not_to_be_tried(tmp_path):
    model = Model()
    model.takes_made_up_inputs = False
    warm_up(model, "/none", Plan(most=2))
    assert model.seen == []
    warm_up(model, str(tmp_path), Plan(most=2), recorded(tmp_path, ("serving_default", [[1, 2]])))
    assert model.sizes() == [1, 2, 1], "recorded rows are no made-up ones"


def test_sizes_are_bounded_in_time_and_recorded_requests_are_not(tmp_path):
    clock = ManualClock()
    model = Model(fails=lambda _name, _x: clock.sleep(2))
    read = recorded(tmp_path, *[("serving_default", [[1, 2]])] * 2)
    found = warm_up(model, str(tmp_path), Plan(allowed=(1, 2, 3), most=3, limit_s=5), read, clock)
    assert model.sizes() == [1, 1, 3], "after four seconds one more begins, and no other"
    assert found.elapsed_s == 6

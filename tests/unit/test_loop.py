import logging
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from poise import errors
from poise.testing import FakeBatch, FakeWorker, strings
from poise.types import DTYPES, Signature, TensorSpec, numpy_dtype
from poise.workers import loop

LOG = logging.getLogger("test.loop")
X = np.arange(6, dtype=np.float32).reshape(3, 2)


class Loaded:
    """A loaded model around a function of the inputs."""

    def __init__(self, function, dtype="float", shape=(-1, 2), batched=True):
        inputs = (TensorSpec("x", dtype, shape),)
        outputs = (TensorSpec("y", dtype, shape), TensorSpec("z", dtype, shape))
        self.signatures = (Signature(inputs, outputs, batched=batched),)
        self.calls = []
        self.function = function

    def run(self, signature, inputs, outputs):
        self.calls.append(SimpleNamespace(signature=signature, inputs=inputs, outputs=outputs))
        return self.function(inputs)

    def close(self):
        pass


def run_one(function, array=X, outputs=("y",), unsendable="", **loaded):
    batch = FakeBatch({"x": array}, outputs, id=7, unsendable=unsendable)
    loop.run(FakeWorker([batch]), Loaded(function, **loaded), "ranker", LOG)
    return batch


def raising(error):
    def function(_inputs):
        raise error

    return function


def test_a_batch_is_one_call_and_one_completion():
    model = Loaded(lambda inputs: {"y": inputs["x"] * 2, "z": inputs["x"]})
    batch = FakeBatch({"x": X}, ("y",))
    loop.run(FakeWorker([batch]), model, "ranker", LOG)
    assert len(model.calls) == 1
    assert (model.calls[0].signature, model.calls[0].outputs) == ("serving_default", ("y",))
    assert list(batch.completed) == ["y"]
    np.testing.assert_array_equal(batch.completed["y"], X * 2)


def test_the_loop_goes_on_after_a_wait_in_vain_and_after_a_failure():
    good = FakeBatch({"x": X}, ("y",))
    bad = FakeBatch({"x": -X}, ("y",))

    def function(inputs):
        if inputs["x"].min() < 0:
            raise ValueError("negative")
        return {"y": inputs["x"]}

    loop.run(FakeWorker([None, bad, None, good]), Loaded(function), "ranker", LOG)
    assert bad.failed == ("INTERNAL", "model ranker failed: ValueError: negative", None)
    assert good.completed is not None


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "string"])
def test_every_dtype_goes_in_and_out(dtype):
    array = np.array([[0, 1], [1, 0]]).astype(numpy_dtype(dtype))
    batch = run_one(lambda inputs: {"y": inputs["x"]}, array, dtype=dtype)
    sent = array.view(np.uint16) if dtype == "bfloat16" else array
    assert batch.completed["y"].dtype == sent.dtype
    np.testing.assert_array_equal(batch.completed["y"], sent)


def test_inputs_are_views_of_the_batch_memory():
    memory = bytearray(X.tobytes())
    array = loop.view("float", (3, 2), memory)
    memory[:4] = np.float32(9).tobytes()
    assert array[0, 0] == 9


def test_bfloat16_inputs_are_arrays_of_ml_dtypes():
    assert loop.view("bfloat16", (2,), bytes(4)).dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("shape", [(0, 2), ()], ids=str)
def test_empty_and_scalar_arrays_go_in_and_out(shape):
    batch = run_one(lambda inputs: {"y": inputs["x"]}, np.zeros(shape, np.float32), shape=None, batched=False)
    assert batch.completed["y"].shape == shape


@pytest.mark.parametrize(
    "returned",
    [
        pytest.param(strings([b"a", b"\xff\x00", "é".encode()]), id="bytes"),
        pytest.param(np.array(["a", "é", ""], object), id="str objects"),
        pytest.param(np.array(["a", "é"]), id="unicode array"),
        pytest.param(np.array([b"a", b"bc"]), id="bytes array"),
        pytest.param(strings([]), id="empty"),
    ],
)
def test_strings_come_in_as_bytes_and_go_out_from_either(returned):
    seen = []

    def function(inputs):
        seen.append(inputs["x"])
        return {"y": returned}

    batch = run_one(function, strings([b"q", b"\xff"]), dtype="string", shape=(-1,))
    assert seen[0].tolist() == [b"q", b"\xff"]
    expected = [each.encode() if isinstance(each, str) else each for each in returned.tolist()]
    assert batch.completed["y"].tolist() == expected


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda inputs: {"y": np.asfortranarray(inputs["x"])}, id="column order"),
        pytest.param(lambda inputs: {"y": inputs["x"][::-1][::-1]}, id="strided"),
        pytest.param(lambda inputs: {"y": np.repeat(inputs["x"], 2, 1)[:, ::2]}, id="every other"),
    ],
)
def test_outputs_are_made_contiguous(function):
    np.testing.assert_array_equal(run_one(function).completed["y"], X)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        pytest.param(lambda _: {"z": X, "a": X}, "output y is missing; there are a, z", id="missing"),
        pytest.param(lambda _: {}, "output y is missing; there are none", id="nothing"),
        pytest.param(lambda _: {"y": [1.0]}, "output y: expected a NumPy array of float but got list", id="list"),
        pytest.param(
            lambda _: {"y": X.astype(np.float64)}, "output y: expected dtype float but got double", id="wider"
        ),
        pytest.param(
            lambda _: {"y": X.astype(">f4")},
            "output y: expected dtype float but got >f4",
            id="endian",
        ),
        pytest.param(
            lambda _: {"y": X.astype("datetime64[s]")}, "expected dtype float but got datetime64[s]", id="unserved"
        ),
    ],
)
def test_an_output_other_than_declared_fails_the_batch_and_says_how(function, reason, caplog):
    code, message, rows = run_one(function).failed
    assert (code, rows) == ("INTERNAL", None)
    assert message.startswith("model ranker returned something that cannot be sent: ")
    assert reason in message
    assert "batch 7 of 3 rows" in caplog.text


@pytest.mark.parametrize(
    ("returned", "reason"),
    [(np.zeros(2), "expected dtype string but got double"), (np.array([b"", 3], object), "bytes or str but got int")],
    ids=["numbers", "mixed"],
)
def test_strings_other_than_declared_fail_the_batch(returned, reason):
    batch = run_one(lambda _: {"y": returned}, strings([b"q", b"r"]), dtype="string", shape=(-1,))
    assert reason in batch.failed[1]


def test_outputs_that_the_data_plane_cannot_send_fail_the_batch():
    batch = run_one(lambda inputs: {"y": inputs["x"]}, unsendable="output y: expected 3 rows but got 2")
    assert batch.failed == (
        "INTERNAL",
        "model ranker returned something that cannot be sent: output y: expected 3 rows but got 2",
        None,
    )


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ValueError("first\nsecond"), ("INTERNAL", "model ranker failed: ValueError: first", None)),
        (MemoryError(), ("INTERNAL", "model ranker failed: MemoryError", None)),
        (RuntimeError("x" * 9000), ("INTERNAL", f"model ranker failed: RuntimeError: {'x' * 299}…", None)),
        (errors.InvalidInput("too long", rows=[2, 0, 2]), ("INVALID_ARGUMENT", "too long", (0, 2))),
        (errors.InvalidInput("too long"), ("INVALID_ARGUMENT", "too long", None)),
        (errors.InvalidInput("no such rows", rows=[3, -1]), ("INVALID_ARGUMENT", "no such rows", None)),
        (errors.Unavailable("later"), ("UNAVAILABLE", "later", None)),
    ],
    ids=repr,
)
def test_what_a_model_raises_decides_what_the_client_is_told(error, failure):
    assert run_one(raising(error)).failed == failure


def test_a_traceback_goes_to_the_log_with_the_batch(caplog):
    run_one(raising(ValueError("secret detail")))
    assert "model ranker failed on batch 7 of 3 rows" in caplog.text
    assert "Traceback" in caplog.text


def test_refused_input_is_no_error_of_the_server(caplog):
    run_one(raising(errors.InvalidInput("no")))
    assert caplog.text == ""


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_what_ends_a_program_fails_the_batch_and_ends_the_worker(error):
    batch, never = FakeBatch({"x": X}, ("y",)), FakeBatch({"x": X}, ("y",))
    with pytest.raises(type(error)):
        loop.run(FakeWorker([batch, never]), Loaded(raising(error)), "ranker", LOG)
    assert batch.failed == ("INTERNAL", f"model ranker ended its worker: {type(error).__name__}", None)
    assert not never.ended


def test_a_channel_that_ends_under_a_batch_ends_the_loop():
    batch, never = FakeBatch({"x": X}, ("y",)), FakeBatch({"x": X}, ("y",))
    loop.run(FakeWorker([batch, never]), Loaded(raising(errors.WorkerClosed("gone"))), "ranker", LOG)
    assert not never.ended

import numpy as np
import pytest

from poise import _core
from poise.bench.payloads.replay import read_recorded
from poise.types import Signature, TensorSpec

SIGNATURE = Signature(
    (TensorSpec("x", "float", (-1, 2)), TensorSpec("text", "string", (-1,))), (TensorSpec("y", "float", (-1,)),)
)


def call(rows, name="serving_default", width=2):
    x = np.arange(rows * width, dtype=np.float32)
    return name, [("x", "float", (rows, width), bytearray(x.tobytes())), ("text", "string", (rows,), [b"a"] * rows)]


@pytest.fixture
def recorded(monkeypatch, tmp_path):
    """A file that holds the calls that are put into the list."""
    calls = []
    monkeypatch.setattr(_core, "read_warmup", lambda *_: calls)
    return calls, tmp_path / "requests"


def test_recorded_requests_keep_their_order_and_rows(recorded):
    calls, path = recorded
    calls += [call(3), call(1), call(2, "other")]
    found = list(read_recorded(path, SIGNATURE, by_name=True))
    assert [inputs["x"].shape for inputs in found] == [(3, 2), (1, 2)]
    assert found[1]["text"].tolist() == [b"a"]
    assert len(list(read_recorded(path, SIGNATURE, by_name=False))) == 3


def test_a_file_without_a_request_for_the_signature_is_refused(recorded):
    calls, path = recorded
    with pytest.raises(ValueError, match="holds no request"):
        list(read_recorded(path, SIGNATURE, by_name=True))
    calls.append(call(1, "serving"))
    with pytest.raises(ValueError, match="no request for signature 'serving_default'; did you mean serving"):
        list(read_recorded(path, SIGNATURE, by_name=True))


def test_a_request_that_the_signature_does_not_take_is_named(recorded):
    calls, path = recorded
    calls += [call(1), call(1, width=5)]
    with pytest.raises(ValueError, match=r"requests, record 1: input x: expected float\[-1, 2\], got float\[1,5\]"):
        list(read_recorded(path, SIGNATURE, by_name=True))

"""Recording a warm-up file from what a server answers, over both wires."""

import threading

import numpy as np
import pytest
from click.testing import CliRunner

from poise import _core
from poise.cli import main
from support.clients import call, grpc
from support.serving import model, serving


@pytest.fixture(scope="module")
def stand():
    with serving(model("half", "Half")) as stand:
        yield stand


def record(stand, body):
    return call(stand.http, "POST", "/v1/models/half:record", body)


def traffic(stand, stop):
    while not stop.wait(0.02):
        grpc(stand.grpc, "half", x=np.array([2], np.float32))
        call(stand.http, "POST", "/v1/models/half:predict", '{"instances": [6, 8]}')
        call(stand.http, "POST", "/v1/models/half:predict", '{"instances": ["no"]}')  # refused, and so not kept


@pytest.fixture
def busy(stand):
    stop = threading.Event()
    thread = threading.Thread(target=traffic, args=(stand, stop))
    thread.start()
    yield
    stop.set()
    thread.join()


@pytest.mark.usefixtures("busy")
def test_what_is_answered_over_either_wire_is_recorded(stand, tmp_path):
    output = tmp_path / "warmup"
    arguments = ["record", "half", "--records", "4", "--output", str(output), "--target", f"http://{stand.http}"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "4 requests" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["warmup"]
    found = _core.read_warmup(str(output), 4)
    values = {tuple(np.frombuffer(inputs[0][3], np.float32).tolist()) for _, inputs in found}
    assert values == {(2.0,), (6.0, 8.0)}
    assert {(name, inputs[0][:2]) for name, inputs in found} == {("serving_default", ("x", "float"))}


def test_silence_ends_in_time_and_writes_nothing(stand, tmp_path):
    assert record(stand, '{"records": 3, "timeout_s": 0.05}').body == b""
    output = tmp_path / "warmup"
    arguments = ["record", "half", "--timeout", "0.05", "--output", str(output), "--target", f"http://{stand.http}"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert "no request of the model was answered in time" in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("body", ['{"records": 0}', '{"timeout_s": -1}', '{"what": 1}', "no JSON"])
def test_what_makes_no_sense_is_refused(stand, body):
    assert record(stand, body).status == 400


def test_an_unknown_model_is_not_waited_for(stand):
    assert call(stand.http, "POST", "/v1/models/nobody:record", "{}").status == 404

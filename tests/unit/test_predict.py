import io
import json

import numpy as np
import pytest
from click.testing import CliRunner

from poise import _core
from poise.cli.predict import predict
from poise.client import CallError, ModelAddress, Served, fetch_signatures, pick_signature
from poise.types import Signature, TensorSpec

SIGNATURE = Signature((TensorSpec("x", "float", (-1, 2)),), (TensorSpec("y", "float", (-1,)),))
METADATA = {
    "model_spec": {"name": "m", "signature_name": "", "version": "7"},
    "metadata": {
        "signature_def": {
            "signature_def": {
                "serving_default": {
                    "inputs": {
                        "x": {
                            "dtype": "DT_FLOAT",
                            "tensor_shape": {"dim": [{"size": "-1"}, {"size": "2"}], "unknown_rank": False},
                        }
                    },
                    "outputs": {"y": {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "-1"}]}}},
                    "method_name": "tensorflow/serving/predict",
                }
            }
        }
    },
}


@pytest.fixture
def core(monkeypatch):
    """A data plane whose server adds up the rows it is sent."""
    sent = []

    def grpc_predict(target, model, version, signature, inputs, timeout_s):
        sent.append((target, model, version, signature, timeout_s))
        [(_, _, shape, data)] = inputs
        sums = np.frombuffer(data, np.float32).reshape(shape).sum(axis=1)
        return 7, [("y", "float", list(sums.shape), sums.tobytes())]

    def http_call(target, method, path, body, timeout_s, _headers):
        sent.append((target, method, path, timeout_s))
        if method == "GET":
            return 200, json.dumps(METADATA).encode()
        return 200, json.dumps({"outputs": np.sum(json.loads(body)["inputs"]["x"], axis=1).tolist()}).encode()

    found = json.dumps({"version": 7, "signatures": [SIGNATURE.to_dict()]})
    monkeypatch.setattr(_core, "fetch_signatures", lambda *_: found)
    monkeypatch.setattr(_core, "predict", grpc_predict)
    monkeypatch.setattr(_core, "http_call", http_call)
    return sent


def invoke(target, file, *arguments, stdin=None):
    return CliRunner().invoke(predict, [target, str(file), "--model", "m", *arguments], input=stdin)


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


@pytest.mark.parametrize("target", ["grpc://h:1", "http://h:1"])
@pytest.mark.parametrize(
    "content",
    [
        b'{"instances": [[1, 2], [3, 4]]}',
        b'{"inputs": {"x": [[1, 2], [3, 4]]}}',
        npy(np.array([[1.0, 2.0], [3.0, 4.0]])),
        npz(x=np.array([[1, 2], [3, 4]])),
    ],
    ids=["rows", "columns", "npy", "npz"],
)
@pytest.mark.usefixtures("core")
def test_every_kind_of_file_gets_the_same_answer_over_both_wires(target, content):
    done = invoke(target, "-", "--json", stdin=content)
    assert done.exit_code == 0, done.output
    assert json.loads(done.output) == {"outputs": {"y": [3.0, 7.0]}}


def test_answers_can_be_read_by_people(core, tmp_path):
    (tmp_path / "in.json").write_text('{"instances": [[1, 2]]}')
    done = invoke("grpc://h:1", tmp_path / "in.json", "--version", "7")
    assert done.output == "version 7\ny: float[1]\n[3.]\n"
    assert core == [("grpc://h:1", "m", 7, "serving_default", 30.0)]


@pytest.mark.parametrize(
    ("content", "mend"),
    [
        (b"\x00\x01", "neither JSON nor .npy nor .npz"),
        (b"{}", '"instances" (a list of rows) or "inputs" (columns)'),
        (npz(z=np.ones(1)), "no input 'z'"),
        (npy(np.array(["a"])), "cannot be cast"),
    ],
)
@pytest.mark.usefixtures("core")
def test_files_that_cannot_be_sent_are_refused(content, mend):
    done = invoke("grpc://h:1", "-", stdin=content)
    assert done.exit_code == 1
    assert mend in done.output


@pytest.mark.usefixtures("core")
def test_a_missing_file_and_a_wrong_option_exit_with_1(tmp_path):
    assert invoke("grpc://h:1", tmp_path / "none.json").exit_code == 1
    assert invoke("grpc://h:1", "-", "--bogus").exit_code == 1


def test_signatures_are_read_from_rest_metadata(core):
    served = fetch_signatures(ModelAddress("http://h:1", "m"), 5.0)
    assert served == Served(7, (SIGNATURE,))
    assert core == [("http://h:1", "GET", "/v1/models/m/metadata", 5.0)]


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (404, b'{"error": "Servable not found"}', "HTTP 404: Servable not found"),
        (502, b"bad gateway", "HTTP 502: bad gateway"),
        (200, b"<html>", "is http://h:1 the REST port?"),
        (200, b"{}", "metadata cannot be read"),
    ],
)
def test_rest_answers_that_are_none_are_told(monkeypatch, status, body, text):
    monkeypatch.setattr(_core, "http_call", lambda *_: (status, body))
    with pytest.raises(CallError, match=text.replace("?", r"\?")):
        fetch_signatures(ModelAddress("http://h:1", "m"), 5.0)


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (RuntimeError("NOT_FOUND: Servable not found"), "the server answered NOT_FOUND: Servable not found"),
        (ConnectionError("refused"), "refused"),
        (TimeoutError("no answer"), "no answer"),
    ],
)
def test_errors_of_the_data_plane_become_one_kind(monkeypatch, raised, text):
    def fail(*_):
        raise raised

    monkeypatch.setattr(_core, "fetch_signatures", fail)
    with pytest.raises(CallError, match=text):
        fetch_signatures(ModelAddress("grpc://h:1", "m"), 5.0)


def test_the_only_signature_answers_when_none_is_named():
    other = Signature(SIGNATURE.inputs, SIGNATURE.outputs, name="other")
    assert pick_signature(Served(1, (other,)), "") is other
    with pytest.raises(CallError, match="no signature 'serving_default'"):
        pick_signature(Served(1, (other, Signature(SIGNATURE.inputs, SIGNATURE.outputs, name="third"))), "")

"""What each protocol sends, read back by other code than that which wrote it."""

import json

import numpy as np
import pytest

from poise import _core
from poise.bench.targets import TargetOptions, resolve
from poise.bench.targets.tfs_grpc import TfsGrpc
from poise.bench.targets.tfs_rest import TfsRest
from poise.bench.targets.url import UrlOptions, url_target
from poise.bench.targets.v2 import read_spec
from poise.bench.targets.v2_grpc import V2Grpc
from poise.bench.targets.v2_rest import V2Binary, V2Rest
from poise.client import CallError
from poise.types import Signature, TensorSpec

SIGNATURE = Signature(
    (TensorSpec("x", "float", (-1, 2)), TensorSpec("text", "string", (-1,))), (TensorSpec("y", "float", (-1,)),)
)
INPUTS = {"x": np.array([[1, 2], [3, 4.5]], np.float32), "text": np.array([b"ab", "ü".encode()], object)}
OPTIONS = TargetOptions("a model", 7, headers=(("authorization", "Bearer k"),))
METADATA = {
    "name": "a model",
    "versions": ["3", "12"],
    "platform": "any",
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}],
    "outputs": [{"name": "y", "datatype": "INT64", "shape": ["-1"]}],
}


def test_tfs_over_grpc_is_a_predict_request():
    request = TfsGrpc("grpc://h:1", OPTIONS).encode(SIGNATURE, INPUTS)
    assert (request.path, request.method, request.rows) == ("/tensorflow.serving.PredictionService/Predict", "POST", 2)
    assert request.headers == OPTIONS.headers
    found = json.loads(_core.proto_to_json("tensorflow.serving.PredictRequest", request.body))
    assert found["model_spec"] == {"name": "a model", "version": 7, "signature_name": "serving_default"}
    assert found["inputs"]["x"]["float_val"] == [1, 2, 3, 4.5]
    assert [dim["size"] for dim in found["inputs"]["x"]["tensor_shape"]["dim"]] == [2, 2]


def test_tfs_over_rest_is_rows_where_they_are_counted_and_columns_elsewhere():
    request = TfsRest("http://h:1", OPTIONS).encode(SIGNATURE, INPUTS)
    assert (request.path, request.rows) == ("/v1/models/a%20model/versions/7:predict", 2)
    body = json.loads(request.body)
    assert body["instances"] == [{"x": [1, 2], "text": "ab"}, {"x": [3, 4.5], "text": "ü"}]
    fixed = Signature((TensorSpec("x", "float", (2,)),), SIGNATURE.outputs, batched=False)
    request = TfsRest("http://h:1", OPTIONS).encode(fixed, {"x": np.ones(2, np.float32)})
    assert (json.loads(request.body)["inputs"], request.rows) == ({"x": [1, 1]}, 1)


def test_v2_over_grpc_has_raw_contents_in_the_order_of_its_inputs():
    request = V2Grpc("grpc://h:1", OPTIONS).encode(SIGNATURE, INPUTS)
    assert (request.path, request.rows) == ("/inference.GRPCInferenceService/ModelInfer", 2)
    x = INPUTS["x"].tobytes()
    text = b"\x02\0\0\0ab" + b"\x02\0\0\0\xc3\xbc"
    by_hand = (
        b"\x0a\x07a model"  # model_name = 1
        b"\x12\x017"  # model_version = 2
        b"\x2a\x0d\x0a\x01x\x12\x04FP32\x1a\x02\x02\x02"  # inputs = 5: name 1, datatype 2, shape 3 packed
        b"\x2a\x10\x0a\x04text\x12\x05BYTES\x1a\x01\x02"
    )
    contents = b"".join(b"\x3a" + bytes([len(raw)]) + raw for raw in (x, text))  # raw_input_contents = 7
    assert request.body == by_hand + contents


def test_v2_over_rest_is_flat_json():
    request = V2Rest("http://h:1", OPTIONS).encode(SIGNATURE, INPUTS)
    assert request.path == "/v2/models/a%20model/versions/7/infer"
    assert json.loads(request.body)["inputs"] == [
        {"name": "x", "shape": [2, 2], "datatype": "FP32", "data": [1, 2, 3, 4.5]},
        {"name": "text", "shape": [2], "datatype": "BYTES", "data": ["ab", "ü"]},
    ]


def test_v2_binary_puts_tensors_behind_the_json_that_its_header_measures():
    request = V2Binary("http://h:1", TargetOptions("m")).encode(SIGNATURE, INPUTS)
    assert request.path == "/v2/models/m/infer"
    headers = dict(request.headers)
    assert headers["content-type"] == "application/octet-stream"
    length = int(headers["inference-header-content-length"])
    header, binary = json.loads(request.body[:length]), request.body[length:]
    assert header["parameters"] == {"binary_data_output": True}
    assert [one["parameters"]["binary_data_size"] for one in header["inputs"]] == [16, 12]
    assert binary == INPUTS["x"].tobytes() + b"\x02\0\0\0ab" + b"\x02\0\0\0\xc3\xbc"


@pytest.mark.parametrize(
    ("dtype", "array"),
    [("half", np.ones(1, np.float16)), ("string", np.array([b"\xff"], object))],
    ids=["half", "no text"],
)
def test_what_json_cannot_carry_is_refused_with_the_way_out(dtype, array):
    signature = Signature((TensorSpec("x", dtype, (-1,)),), SIGNATURE.outputs)
    with pytest.raises(ValueError, match="use --protocol v2-binary"):
        V2Rest("http://h:1", OPTIONS).encode(signature, {"x": array})
    assert V2Binary("http://h:1", OPTIONS).encode(signature, {"x": array}).body


def test_datatypes_are_named_as_ours_and_unknown_ones_are_refused():
    assert read_spec({"name": "x", "datatype": "BF16", "shape": [-1, "3"]}) == TensorSpec("x", "bfloat16", (-1, 3))
    with pytest.raises(ValueError, match="did you mean FP32"):
        read_spec({"name": "x", "datatype": "FP33", "shape": []})


def test_big_endian_arrays_are_sent_little_endian():
    signature = Signature((TensorSpec("x", "int32", (-1,)),), SIGNATURE.outputs)
    request = V2Binary("http://h:1", OPTIONS).encode(signature, {"x": np.array([1], ">i4")})
    assert request.body.endswith(b"}\x01\0\0\0")


@pytest.fixture
def server(monkeypatch):
    """A server that answers metadata as it is told to, by protocol; what was asked is remembered."""
    answers, asked = {}, []

    def http_call(target, method, path, _body, _timeout_s, headers=()):
        asked.append((target, method, path, headers))
        status, answer = answers.get(path.split("/")[1], (404, {"error": f"nothing at {path}"}))
        return status, json.dumps(answer).encode()

    def fetch_infer_metadata(*arguments):
        asked.append(arguments)
        return json.dumps(answers["grpc"])

    def fetch_signatures(*_):
        raise RuntimeError("UNIMPLEMENTED: unknown service")

    monkeypatch.setattr(_core, "http_call", http_call)
    monkeypatch.setattr(_core, "fetch_infer_metadata", fetch_infer_metadata)
    monkeypatch.setattr(_core, "fetch_signatures", fetch_signatures)
    return answers, asked


def test_auto_takes_the_protocol_that_the_server_answers_in(server):
    answers, asked = server
    answers["v2"] = (200, METADATA)
    target = resolve("https://h:1", TargetOptions("a model", headers=OPTIONS.headers))
    assert (target.protocol, target.served_version) == ("v2-rest", 12)
    assert [one[2] for one in asked] == ["/v1/models/a%20model/metadata", "/v2/models/a%20model"]
    assert all(one[3] == OPTIONS.headers for one in asked), "the key is needed for metadata as well"
    signature = target.signature()
    assert signature.batched
    assert signature.inputs == (TensorSpec("x", "float", (-1, 2)),)
    assert signature.outputs == (TensorSpec("y", "int64", (-1,)),)


def test_auto_over_grpc_turns_to_v2_as_well(server):
    answers, asked = server
    answers["grpc"] = METADATA
    target = resolve("grpcs://h:1", OPTIONS)
    assert (target.protocol, target.served_version) == ("v2-grpc", 7)
    assert asked == [("grpcs://h:1", "a model", "7", 10.0, OPTIONS.headers)]


@pytest.mark.usefixtures("server")
def test_auto_tells_what_each_protocol_was_refused_with():
    with pytest.raises(CallError, match=r"tfs-rest: .*nothing at /v1.*v2-rest: .*nothing at /v2"):
        resolve("http://h:1", OPTIONS)


def test_a_server_that_is_not_reached_is_told_once(monkeypatch):
    def refuse(*_):
        raise ConnectionError("cannot connect to h:1; is the server running?")

    monkeypatch.setattr(_core, "http_call", refuse)
    with pytest.raises(CallError, match=r"^cannot connect to h:1; is the server running\?$"):
        resolve("http://h:1", OPTIONS)


def test_a_signature_is_no_word_of_v2(server):
    server[0]["v2"] = (200, METADATA)
    target = resolve("http://h:1", TargetOptions("m", signature="s"), "v2")
    with pytest.raises(CallError, match="leave --signature s out"):
        target.signature()


@pytest.mark.parametrize("answer", [{}, {**METADATA, "inputs": [{"name": "x"}]}, {**METADATA, "outputs": []}])
def test_metadata_that_cannot_be_used_is_told(server, answer):
    server[0]["v2"] = (200, answer)
    with pytest.raises(CallError, match="metadata of model a model cannot be used"):
        resolve("http://h:1", OPTIONS, "v2")


def test_a_model_is_needed_where_there_is_a_signature():
    with pytest.raises(ValueError, match="--model is missing"):
        resolve("grpc://h:1", TargetOptions())


@pytest.mark.parametrize(
    ("url", "base", "path"),
    [
        ("http://h:81/a/b?c=1", "http://h:81", "/a/b?c=1"),
        ("https://h", "https://h:443", "/"),
        ("http://[::1]:9/x", "http://[::1]:9", "/x"),
    ],
)
def test_a_url_is_a_server_and_a_path(url, base, path):
    target = url_target(url, UrlOptions())
    assert (target.url, target.path) == (base, path)


def test_to_a_url_requests_are_distinct_where_they_have_placeholders():
    options = UrlOptions(body=b'{"id": {{seq}}}', headers=(("x-a", "1"),))
    requests = url_target("http://h:1/item/{{int:1:9}}", options).requests(seed=0)
    first, second = next(requests), next(requests)
    assert (first.body, second.body) == (b'{"id": 0}', b'{"id": 1}')
    assert first.path.startswith("/item/") and first.path[-1] in "123456789"
    assert first.headers == (("content-type", "application/json"), ("x-a", "1"))
    assert first.method == "POST"
    fixed = list(url_target("http://h:1/ping", UrlOptions()).requests(seed=0))
    assert [(one.method, one.path, one.body, one.headers) for one in fixed] == [("GET", "/ping", b"", ())]


def test_a_grpc_method_takes_a_raw_message():
    options = UrlOptions(grpc_method="pkg.Service/Do", body=b"\x0a\x03{{x")
    (request,) = url_target("grpc://h:1", options).requests(seed=0)
    assert (request.path, request.body, request.headers) == ("/pkg.Service/Do", b"\x0a\x03{{x", ())


@pytest.mark.parametrize(
    ("url", "options", "mend"),
    [
        ("ftp://h/x", UrlOptions(), "expected http://HOST:PORT/PATH"),
        ("http://user@h/x", UrlOptions(), "expected http://HOST:PORT/PATH"),
        ("http://h:99999/x", UrlOptions(), "Port out of range"),
        ("http://h/x", UrlOptions(grpc_method="/a/b"), "needs a server grpc://"),
        ("grpc://h:1", UrlOptions(), "needs --grpc-method /package.Service/Method; got none"),
        ("grpc://h:1", UrlOptions(grpc_method="Do"), "got 'Do'"),
        ("grpc://h:1", UrlOptions(grpc_method="/a/b", method="PUT"), "leave --method out"),
    ],
)
def test_urls_that_make_no_sense_are_refused(url, options, mend):
    with pytest.raises(ValueError, match=mend):
        url_target(url, options)

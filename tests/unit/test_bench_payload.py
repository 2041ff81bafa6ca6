import json

import click
import numpy as np
import pytest
from click.testing import CliRunner

from poise import _core
from poise.cli.bench_payload import make_traffic, payload_options

SIGNATURES = {
    "version": 4,
    "signatures": [
        {
            "name": "serving_default",
            "method_name": "tensorflow/serving/predict",
            "batched": True,
            "inputs": [
                {"name": "tokens", "dtype": "int64", "shape": [-1, -1]},
                {"name": "mask", "dtype": "int64", "shape": [-1, -1]},
            ],
            "outputs": [{"name": "y", "dtype": "float", "shape": [-1]}],
        }
    ],
}


@click.command()
@click.argument("target")
@click.option("--timeout", type=float, default=3.0)
@payload_options
def command(target, **options):
    command.traffic = make_traffic(target, options)


@pytest.fixture(autouse=True)
def server(monkeypatch):
    asked = []

    def fetch_signatures(*arguments):
        asked.append(arguments)
        return json.dumps(SIGNATURES)

    monkeypatch.setattr(_core, "fetch_signatures", fetch_signatures)
    return asked


def traffic(*arguments):
    done = CliRunner().invoke(command, [*map(str, arguments)])
    if done.exit_code:
        raise done.exception if not isinstance(done.exception, SystemExit) else ValueError(done.output)
    return command.traffic


def decode(request):
    found = json.loads(_core.proto_to_json("tensorflow.serving.PredictRequest", request.body))
    return found["inputs"]


def shape(tensor):
    return tuple(dim["size"] for dim in tensor["tensor_shape"]["dim"])


def test_without_options_requests_are_random_and_say_where_they_go(server):
    made = traffic("grpc://h:1", "--model", "m")
    assert server == [("grpc://h:1", "m", None, 3.0, ())]
    assert (made.url, made.protocol, made.model, made.version) == ("grpc://h:1", "tfs-grpc", "m", 4)
    assert (made.signature, made.weights) == ("serving_default", ())
    assert len(made.requests) == 32 and len({request.body for request in made.requests}) > 20
    assert set(made.rows()) == {1}
    assert made.serialise_us > 0


def test_the_seed_makes_the_requests():
    arguments = ("grpc://h:1", "--model", "m", "--rows", 2, "--shape", "tokens=5", "--shape", "mask=5")
    assert traffic(*arguments).requests == traffic(*arguments).requests
    assert traffic(*arguments).requests != traffic(*arguments, "--seed", 1).requests
    assert shape(decode(traffic(*arguments).requests[0])["tokens"]) == (2, 5)


def test_rows_lengths_and_keys_are_mixed():
    made = traffic(
        *("grpc://h:1", "--model", "m", "--mix", "1:90,8:10", "--length", "uniform:1:20"),
        *("--keys", "tokens=30000:1.1", "--distinct", 200),
    )
    assert len(made.requests) == len(made.weights) == 200
    assert np.asarray(made.weights)[made.rows() == 8].sum() == pytest.approx(0.1)
    inputs = [decode(request) for request in made.requests]
    assert all(shape(one["tokens"]) == shape(one["mask"]) for one in inputs)
    assert {shape(one["tokens"])[0] for one in inputs} == {1, 8}
    assert len({shape(one["tokens"])[1] for one in inputs}) == 20
    assert max(max(one["tokens"]["int64_val"]) for one in inputs) > 1000


def test_rows_of_data_are_sent_in_turn_and_the_rest_is_made_up(tmp_path):
    np.save(tmp_path / "tokens.npy", np.arange(9).reshape(3, 3))
    data = ("--data", f"tokens={tmp_path / 'tokens.npy'}", "--fill", "--shape", "mask=3", "--distinct", 6)
    made = traffic("grpc://h:1", "--model", "m", *data)
    assert [decode(request)["tokens"]["int64_val"][0] for request in made.requests] == [0, 3, 6, 0, 3, 6]
    with pytest.raises(ValueError, match="needs input 'mask'"):
        traffic("grpc://h:1", "--model", "m", *data[:2])


def test_headers_and_the_api_key_go_with_every_request_and_with_the_question(server, tmp_path):
    key = tmp_path / "key"
    key.write_text("secret\n")
    made = traffic("grpc://h:1", "--model", "m", "--header", "X-Team: search: a", "--api-key-file", key)
    headers = (("x-team", "search: a"), ("authorization", "Bearer secret"))
    assert {request.headers for request in made.requests} == {headers}
    assert server[0][-1] == headers


def test_a_url_without_a_model_is_sent_bodies(tmp_path):
    made = traffic("http://h:1/v1/x", "--body", '{"n": {{seq}}}', "--distinct", 7, "--header", "accept: text/plain")
    assert (made.protocol, made.url, len(made.requests)) == ("url", "http://h:1", 7)
    assert made.requests[6].body == b'{"n": 6}'
    message = tmp_path / "message"
    message.write_bytes(b"\x08\x01")
    made = traffic("grpc://h:1", "--grpc-method", "/p.S/M", "--body-file", message)
    assert [(one.path, one.body) for one in made.requests] == [("/p.S/M", b"\x08\x01")]


@pytest.mark.parametrize(
    ("arguments", "mend"),
    [
        (["--model", "m", "--rows", "2", "--mix", "1:1"], "--rows and --mix exclude each other"),
        (["--model", "m", "--mix", "1"], "expected ROWS:WEIGHT"),
        (["--model", "m", "--length", "uniform:1"], "expected uniform:LOW:HIGH"),
        (["--model", "m", "--length", "tokns=uniform:1:2"], "did you mean tokens"),
        (["--model", "m", "--keys", "5"], "expected INPUT=VOCABULARY"),
        (["--model", "m", "--shape", "x:3"], "expected NAME=DIM"),
        (["--model", "m", "--header", "nothing"], "expected NAME: VALUE"),
        (["--model", "m", "--data", "mask=/none.npz"], "no file or folder /none.npz; expected"),
        (["--model", "m", "--replay", __file__, "--rows", "2"], "--rows means nothing to recorded requests"),
        (["--model", "m", "--no-template"], "--no-template needs --protocol url"),
        (["--model", "m", "--body", "x"], "--body needs --protocol url"),
        (["--model", "m", "--signature", "serving_defaul"], "did you mean serving_default"),
        (["--model", "m", "--protocol", "url"], "--model needs a model's protocol"),
        (["--protocol", "tfs"], "--model is missing"),
        (["--length", "5", "--grpc-method", "/a/b"], "--length needs a model's protocol"),
        ([], "--grpc-method"),
    ],
)
def test_wrong_use_says_how_to_mend_it(arguments, mend):
    with pytest.raises(Exception, match=mend):
        traffic("grpc://h:1", *arguments)


def test_an_api_key_file_without_a_key_is_refused(tmp_path):
    for content in ("", "a\nb"):
        (tmp_path / "key").write_text(content)
        with pytest.raises(ValueError, match="holds no API key"):
            traffic("grpc://h:1", "--model", "m", "--api-key-file", tmp_path / "key")

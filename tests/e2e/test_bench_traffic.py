"""Prepared requests are answered by a real server, and a server over TLS is asked what it serves."""

from __future__ import annotations

import json
import threading

import click
import numpy as np
import pytest
from click.testing import CliRunner

from poise.bench.traffic import Traffic
from poise.cli import main
from poise.cli.bench_payload import make_traffic, payload_options
from poise.client import CallError
from support.certificates import authority, issued
from support.clients import Crowd, call, rest
from support.http2 import Http2, frame
from support.serving import model, serving


@pytest.fixture(scope="module")
def stand():
    with serving(model("pair", "Pair"), model("alone", "Alone"), model("half", "Half", {"shape": [-1, -1]})) as found:
        yield found


def traffic(target: str, *arguments: str) -> Traffic:
    made = []

    @click.command()
    @payload_options
    def command(**options):
        made.append(make_traffic(target, options))

    CliRunner().invoke(command, arguments, catch_exceptions=False)
    return made[0]


def answered(stand, made: Traffic) -> bool:
    with Http2(stand.grpc) as connection:
        replies = [connection.call(frame(one.body), one.path, one.headers) for one in made.requests]
    return {(reply.code, reply.text) for reply in replies} == {("OK", "")}


MIXES = {
    "strings beside numbers": ["--model", "pair", "--mix", "1:3,5:1"],
    "no rows": ["--model", "alone"],
    "ragged": ["--model", "half", "--length", "uniform:1:30", "--rows", "3", "--distinct", "40"],
}


@pytest.mark.parametrize("arguments", MIXES.values(), ids=MIXES)
def test_over_grpc_every_request_is_answered(stand, arguments):
    made = traffic(f"grpc://{stand.grpc}", *arguments)
    assert (made.protocol, made.version) == ("tfs-grpc", 1)
    assert answered(stand, made)


@pytest.mark.parametrize("arguments", MIXES.values(), ids=MIXES)
def test_over_rest_every_request_is_answered(stand, arguments):
    made = traffic(f"http://{stand.http}", *arguments)
    assert (made.protocol, made.version) == ("tfs-rest", 1)
    for one in made.requests:
        answer = call(stand.http, one.method, one.path, one.body, **dict(one.headers))
        assert answer.status == 200, answer.body
        if one.rows > 1:
            assert len(answer.json["predictions"]) == one.rows


def test_rows_of_files_are_sent(stand, tmp_path):
    np.save(tmp_path / "a.npy", np.arange(14, dtype=np.float32).reshape(7, 2))
    (tmp_path / "b.txt").write_text("\n".join("abcdefg"))
    data = ["--data", f"a={tmp_path / 'a.npy'}", "--data", f"b={tmp_path / 'b.txt'}"]
    made = traffic(f"grpc://{stand.grpc}", "--model", "pair", *data)
    assert len(made.requests) == 7
    assert answered(stand, made)
    made = traffic(f"grpc://{stand.grpc}", "--model", "pair", *data[:2], "--fill", "--rows", "4", "--distinct", "20")
    assert (len(made.requests), set(made.rows())) == (20, {4})
    assert answered(stand, made)


def test_what_was_recorded_is_replayed(stand, tmp_path):
    output, stop = tmp_path / "requests", threading.Event()

    def send():
        rows = 0
        while not stop.is_set():
            rows = rows % 5 + 1
            rest(stand.http, "half", {"instances": [[1.0, 2.0, 3.0]] * rows})

    with Crowd() as crowd:
        sending = crowd.start(send)
        arguments = ["record", "half", "--records", "10", "--output", str(output), "--target", f"http://{stand.http}"]
        done = CliRunner().invoke(main, arguments)
        stop.set()
        sending.result(10)
    assert done.exit_code == 0, done.output
    made = traffic(f"grpc://{stand.grpc}", "--model", "half", "--replay", str(output))
    assert len(made.requests) == 10
    assert set(made.rows()) == {1, 2, 3, 4, 5}
    assert answered(stand, made)


def test_a_url_is_sent_what_it_takes(stand):
    body = json.dumps({"instances": "[{{float:0:9}}, {{float:0:9}}]"}).replace('"[', "[[").replace(']"', "]]")
    made = traffic(f"http://{stand.http}/v1/models/half:predict", "--body", body, "--distinct", "5")
    answers = [call(stand.http, one.method, one.path, one.body, **dict(one.headers)) for one in made.requests]
    assert [answer.status for answer in answers] == [200] * 5
    assert len({answer.body for answer in answers}) == 5


def test_over_tls_a_server_is_asked_when_its_authority_is_trusted(tmp_path, monkeypatch):
    ca = authority(tmp_path, "ca")
    identity = issued(tmp_path, "server", ca)
    settings = {"tls_cert": identity.pem["cert"], "tls_key": identity.pem["key"], "tls_http": True}
    with serving(model("pair", "Pair"), **settings) as stand:
        targets = (f"grpcs://{stand.grpc}", f"https://{stand.http}")
        monkeypatch.setenv("SSL_CERT_FILE", str(ca.cert))
        assert [traffic(target, "--model", "pair").protocol for target in targets] == ["tfs-grpc", "tfs-rest"]
        monkeypatch.setenv("SSL_CERT_FILE", str(authority(tmp_path, "stranger").cert))
        for target in targets:
            with pytest.raises(CallError, match="certificate"):
                traffic(target, "--model", "pair")

import json

import numpy as np
import pytest
from click.testing import CliRunner

from poise.bench import session
from poise.bench.engine import Wiring, plan_json
from poise.bench.load import ClosedLoop, OpenLoop
from poise.bench.measurement import GeneratorUse, Measurement, WarmUp
from poise.bench.session import Method
from poise.bench.traffic import Traffic, WireRequest
from poise.cli import bench as bench_module
from poise.cli.bench import bench
from poise.client import CallError
from support.fake_engine import S, make_samples

TRAFFIC = Traffic("grpc://h:1", (WireRequest("/a/B", b"x", (("k", "v"),)),), model="m")


@pytest.fixture
def measured(monkeypatch):
    """Measures without a network: every latency 10 ms. Remembers what it was asked for."""
    asked = []
    state = {"latency_ms": 10.0, "cpu_share": 0.1, "saturated": False, "asked": asked}

    def measure(traffic, load, method, _on_tick):
        asked.append((load, method))
        scheduled = np.arange(2000) * (S // 200)
        samples = make_samples(scheduled, scheduled + int(state["latency_ms"] * 1e6))
        return Measurement(
            load, traffic, samples, 0, 10 * S, method.wiring.timeout_s, WarmUp(2.0, 100, True, 5.0),
            GeneratorUse(1, 4, state["cpu_share"], 0.5), method.slos,
            saturated=state["saturated"], started_at="2026-01-01T00:00:00+00:00",
        )  # fmt: skip

    monkeypatch.setattr(bench_module, "make_traffic", lambda *_: TRAFFIC)
    monkeypatch.setattr(session, "measure", measure)
    return state


def invoke(*arguments):
    return CliRunner().invoke(bench, ["grpc://h:1", "--model", "m", *map(str, arguments)])


def test_the_plan_crosses_the_border_whole():
    closed = json.loads(plan_json(TRAFFIC, ClosedLoop(64), Wiring()))
    assert closed == {
        "target": "grpc://h:1",
        "requests": [{"method": "POST", "path": "/a/B", "headers": [["k", "v"]]}],
        "mode": {"closed": {"concurrency": 64}},
        "connections": 8,
        "timeout_s": 10.0,
        "threads": 1,
    }
    opened = json.loads(plan_json(TRAFFIC, OpenLoop(5), Wiring(connections=3, max_in_flight=9)))
    assert (opened["mode"], opened["connections"]) == ({"open": {"max_in_flight": 9}}, 3)


@pytest.mark.parametrize(
    ("url", "load", "connections"),
    [("grpc://h:1", ClosedLoop(4), 4), ("http://h:1", ClosedLoop(64), 64), ("http://h:1", OpenLoop(5), 256)],
)
def test_connections_fit_the_load(url, load, connections):
    assert Wiring().connections_for(url, load) == connections


def test_a_point_is_shown_and_written(measured, tmp_path):
    file = tmp_path / "r.json"
    result = invoke("--rate", 200, "--duration", 10, "--json", file)
    assert result.exit_code == 0, result.output
    assert "VALID" in result.output
    found = json.loads(file.read_text())
    assert (found["schema"], found["kind"], found["requests"], found["qps"]) == (1, "point", 2000, 200.0)
    assert found["latency_ms"]["p99"] == 10.0
    assert found["latency_ms"]["p99_9"] is None
    assert found["load"] == {"mode": "open", "rate": 200.0, "arrival": "poisson", "seed": 0}
    load, method = measured["asked"][0]
    assert (load, method.duration_s, method.warmup_s) == (OpenLoop(200), 10, None)


def test_without_a_load_32_clients_are_kept_busy(measured):
    invoke()
    assert measured["asked"][0] == (ClosedLoop(32), Method())


def test_an_slo_sets_the_time_limit_and_decides_the_exit_status(measured):
    assert invoke("--rate", 200, "--slo", "p99=50ms").exit_code == 0
    assert measured["asked"][0][1].wiring.timeout_s == 1.0
    result = invoke("--rate", 200, "--slo", "p99=5ms", "--timeout", 3)
    assert (result.exit_code, "MISSED" in result.output) == (2, True)
    assert measured["asked"][1][1].wiring.timeout_s == 3


def test_an_invalid_measurement_exits_with_3_whatever_its_slo(measured):
    measured["cpu_share"] = 0.95
    result = invoke("--rate", 200, "--slo", "p99=5ms")
    assert (result.exit_code, "95% of a core" in result.output) == (3, True)


def test_a_saturated_server_misses_its_slo(measured):
    measured["saturated"] = True
    assert invoke("--rate", 200).exit_code == 3
    assert invoke("--rate", 200, "--slo", "p99=50ms").exit_code == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rate", 5, "--concurrency", 5], "give one of them"),
        (["--arrival", "burst"], "give --rate as well"),
        (["--arrival", "poison", "--rate", 5], "did you mean poisson"),
        (["--rate", "0"], "a number above 0"),
        (["--rate", "1:2"], "FROM:TO:STEP"),
        (["--concurrency", "1.5"], "whole numbers"),
        (["--slo", "p99"], "expected an SLO like p99=50ms"),
        (["--slo", "p99.99=1ms", "--rate", 1], "expected an SLO like"),
        (["--duration", "-1"], "--duration"),
        (["--nonsense"], "No such option"),
    ],
)
def test_wrong_use_is_told_and_exits_with_1(measured, options, message):
    result = invoke(*options)
    assert (result.exit_code, message in result.output) == (1, True), result.output
    assert not measured["asked"]


@pytest.mark.parametrize("word", ["compare", "--compare"])
@pytest.mark.usefixtures("measured")
def test_two_files_are_compared_by_a_command_or_an_option(tmp_path, word):
    files = [str(tmp_path / name) for name in ("a.json", "b.json")]
    for file in files:
        invoke("--rate", 200, "--json", file)
    result = CliRunner().invoke(bench, [word, *files])
    assert (result.exit_code, "equivalent" in result.output) == (0, True), result.output


def test_a_file_that_cannot_be_written_is_told_before_anything_is_measured(measured, tmp_path):
    for option in ("--json", "--report"):
        result = invoke("--rate", 200, option, tmp_path / "nowhere" / "r")
        assert (result.exit_code, "No such file" in result.output) == (1, True), result.output
    assert not measured["asked"]
    assert not list(tmp_path.iterdir())


def test_a_server_that_cannot_be_asked_is_an_error(monkeypatch):
    def fail(*_):
        raise CallError("cannot connect to h:1")

    monkeypatch.setattr(bench_module, "make_traffic", fail)
    result = invoke()
    assert (result.exit_code, "cannot connect to h:1" in result.output) == (1, True)

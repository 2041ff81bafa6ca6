import json

import pytest
from click.testing import CliRunner

from poise import _core
from poise.bench.plan import BenchPlan, default_connections
from poise.bench.report import Report, show_ms
from poise.cli import bench as bench_module
from poise.cli.bench import bench
from poise.client import CallError, ModelAddress, Served
from poise.types import Signature, TensorSpec

GRPC = ModelAddress("grpc://localhost:1", "m", 3)
REST = ModelAddress("http://localhost:1", "a model", 3)
RAW = {
    "requests": 1000,
    "answered": 900,
    "errors": {"UNAVAILABLE": 100},
    "elapsed_s": 2.0,
    "latency_ns": {"sum": 9e8, "max": 1_000_000, "buckets": [[1_000_447, 900]]},
}


@pytest.fixture
def server(monkeypatch):
    """Answers without a network, and remembers the plans it was loaded with."""
    plans = []
    raw = dict(RAW)
    signature = Signature((TensorSpec("x", "float", (-1, 4)),), (TensorSpec("y", "float", (-1,)),))

    def run_load(plan_json, bodies):
        assert bodies
        plans.append(json.loads(plan_json))
        return json.dumps(raw)

    monkeypatch.setattr(bench_module, "fetch_signatures", lambda *_: Served(1, (signature,)))
    monkeypatch.setattr(_core, "run_load", run_load)
    return plans, raw


def invoke(*arguments):
    return CliRunner().invoke(bench, [*map(str, arguments)])


def plan(address, **changes):
    defaults = {"concurrency": 4, "connections": 2, "warmup_s": 1.0, "duration_s": 5.0, "requests": None}
    return BenchPlan(address, timeout_s=10.0, **(defaults | changes))


def test_a_plan_crosses_the_border_whole():
    assert json.loads(plan(GRPC).to_json()) == {
        "target": "grpc://localhost:1",
        "path": "/tensorflow.serving.PredictionService/Predict",
        "concurrency": 4,
        "connections": 2,
        "warmup_s": 1.0,
        "duration_s": 5.0,
        "requests": None,
        "timeout_s": 10.0,
        "threads": 1,
    }
    assert json.loads(plan(REST).to_json())["path"] == "/v1/models/a%20model/versions/3:predict"


def test_the_data_plane_takes_the_plan_and_refuses_nonsense():
    with pytest.raises(ValueError, match="give a duration"):
        _core.run_load(plan(GRPC, duration_s=None).to_json(), [b"x"])
    with pytest.raises(ValueError, match="nothing to send"):
        _core.run_load(plan(GRPC).to_json(), [])


def test_clients_share_connections_over_grpc_only():
    assert default_connections(GRPC, 32) == 8
    assert default_connections(GRPC, 3) == 3
    assert default_connections(REST, 32) == 32


def test_rates_and_errors_are_reported():
    report = Report.from_raw(RAW, rows=4)
    assert (report.offered_qps, report.qps, report.rows_per_s) == (500.0, 450.0, 1800.0)
    assert (report.requests, report.answered, report.errors) == (1000, 900, {"UNAVAILABLE": 100})
    found = json.loads(report.to_json())
    assert list(found) == ["offered_qps", "qps", "rows_per_s", "requests", "errors", "latency_ms"]
    assert list(found["latency_ms"]) == ["mean", "p50", "p90", "p95", "p99", "p99_9", "max"]
    assert found["latency_ms"]["p99_9"] is None


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (0.1234, "0.123 ms"), (12.345, "12.35 ms"), (1234.5, "1,234 ms")]
)
def test_latencies_are_shown_to_three_digits_or_so(value, text):
    assert show_ms(value) == text


@pytest.mark.usefixtures("server")
def test_the_table_and_the_file_tell_the_same(tmp_path):
    done = invoke("grpc://h:1", "--model", "m", "--json", tmp_path / "out.json")
    assert done.exit_code == 0, done.output
    assert "450.0" in done.output
    assert "UNAVAILABLE" in done.output
    assert json.loads((tmp_path / "out.json").read_text())["qps"] == 450.0


def test_defaults_measure_for_ten_seconds_and_requests_alone_replace_them(server):
    invoke("grpc://h:1", "--model", "m")
    invoke("grpc://h:1", "--model", "m", "--requests", 50)
    invoke("http://h:1", "--model", "m", "--requests", 50, "--duration", 3)
    ends = [(plan["duration_s"], plan["requests"], plan["connections"]) for plan in server[0]]
    assert ends == [(10.0, None, 8), (None, 50, 8), (3.0, 50, 32)]


@pytest.mark.parametrize(
    ("arguments", "mend"),
    [
        (["h:1", "--model", "m"], "grpc://HOST:PORT or http://HOST:PORT"),
        (["grpc://h:1"], "--model"),
        (["grpc://h:1", "--model", "m", "--shape", "x:3"], "NAME=DIM"),
        (["grpc://h:1", "--model", "m", "--shape", "z=3"], "no input 'z'"),
        (["grpc://h:1", "--model", "m", "--signature", "serving_defaul"], "did you mean"),
        (["grpc://h:1", "--model", "m", "--connections", 64], "raise --concurrency"),
        (["http://h:1", "--model", "m", "--connections", 2], "leave --connections out"),
        (["grpc://h:1", "--model", "m", "--bogus"], "--bogus"),
        (["grpc://h:1", "--model", "m", "--concurrency", 0], "--concurrency"),
    ],
)
@pytest.mark.usefixtures("server")
def test_wrong_use_exits_with_1_and_says_how_to_mend_it(arguments, mend):
    done = invoke(*arguments)
    assert done.exit_code == 1
    assert mend in done.output


def test_a_server_that_is_not_there_is_told_in_one_line(monkeypatch):
    def fail(*_):
        raise CallError("cannot connect to h:1; is the server running?")

    monkeypatch.setattr(bench_module, "fetch_signatures", fail)
    done = invoke("grpc://h:1", "--model", "m")
    assert (done.exit_code, done.output) == (1, "Error: cannot connect to h:1; is the server running?\n")


def test_a_run_without_one_answer_is_no_success(server):
    server[1].update(answered=0, errors={"UNAVAILABLE": 1000})
    assert invoke("grpc://h:1", "--model", "m").exit_code == 1

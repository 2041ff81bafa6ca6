"""`poise bench` as a user runs it, against a real server."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from poise.cli import main
from support.serving import model, serving, until

SHORT = ("--duration", "2", "--warmup", "0.5")
MEASURED = {0, 3, 4}
"""On a busy machine a short measurement may be invalid or unstable."""


@pytest.fixture(scope="module")
def stand():
    with serving(model("pair", "Pair"), model("slow", "Slow", {"seconds": 0.02}, max_batch_size=4)) as found:
        yield found


def bench(target, *arguments, allowed=MEASURED):
    done = CliRunner().invoke(main, ["bench", target, *map(str, arguments)])
    assert done.exit_code in allowed, done.output
    return done.output


def result(target, file, *arguments, allowed=MEASURED):
    bench(target, *arguments, "--json", file, allowed=allowed)
    return json.loads(file.read_text())


@pytest.mark.parametrize("scheme", ["grpc", "http"])
@pytest.mark.parametrize("load", [("--rate", 200), ("--concurrency", 4)])
def test_a_point_is_measured_over_both_apis(stand, tmp_path, scheme, load):
    target = f"{scheme}://{getattr(stand, scheme)}"
    found = result(target, tmp_path / "r.json", "--model", "pair", "--mix", "1:1,3:1", *load, *SHORT)
    assert (found["kind"], found["errors"], found["target"]["version"]) == ("point", {}, 1)
    assert found["requests"] > 100
    assert found["rows_per_request"] == pytest.approx(2, abs=0.2)
    assert found["latency_ms"]["p50"] > 0


def test_the_server_tells_where_the_time_went(stand, tmp_path):
    load = ("--model", "slow", "--concurrency", 8, *SHORT)
    found = result(f"grpc://{stand.grpc}", tmp_path / "r.json", *load)
    stages = found["stages"]["mean_ms"]
    assert found["stages"]["share"] == 1
    assert stages["execute"] >= 20
    assert stages["queue"] > 1
    assert sum(stages.values()) == pytest.approx(found["latency_ms"]["mean"], rel=0.05)
    assert {rows for rows, _ in found["batch_rows"]} <= {1, 2, 3, 4}
    silent = result(f"grpc://{stand.grpc}", tmp_path / "s.json", *load, "--no-stages")
    assert silent["stages"] is None


def test_an_slo_that_is_missed_or_met_is_told_by_the_exit_status(stand, tmp_path):
    target, load = f"grpc://{stand.grpc}", ("--model", "slow", "--rate", 50, *SHORT)
    assert "MISSED" in bench(target, *load, "--slo", "p50=1ms", allowed={2, 3})
    found = result(target, tmp_path / "r.json", *load, "--slo", "p50=5s")
    assert found["slo"][0]["met"] is True
    assert found["goodput_qps"] == found["qps"]


def test_a_rate_beyond_the_server_is_not_told_as_a_level(stand):
    # 4 rows in 20 ms are 200 a second.
    shown = bench(
        f"grpc://{stand.grpc}", "--model", "slow", "--rate", 1000, "--duration", 20, "--warmup", 0.5, allowed={3}
    )
    assert "SATURATED" in shown or "INVALID" in shown


def test_lists_of_rates_make_one_point_each_and_a_page(stand, tmp_path):
    page = tmp_path / "r.html"
    found = result(
        f"grpc://{stand.grpc}", tmp_path / "r.json", "--model", "pair", "--rate", "50:150:50", *SHORT, "--report", page
    )
    assert [point["load"]["rate"] for point in found["points"]] == [50, 100, 150]
    assert page.read_text().startswith("<!doctype html>")


def test_two_results_are_compared(stand, tmp_path):
    target, files = f"grpc://{stand.grpc}", [tmp_path / "a.json", tmp_path / "b.json"]
    for file in files:
        result(target, file, "--model", "pair", "--concurrency", 2, *SHORT)
    done = CliRunner().invoke(main, ["bench", "compare", *map(str, files)])
    assert done.exit_code == 0, done.output
    assert re.search(r"B / A", done.output)


def test_any_url_is_measured(stand):
    shown = bench(f"http://{stand.http}/v1/models/pair", "--rate", 100, *SHORT)
    assert "answered" in shown


def test_a_server_that_is_not_there_is_an_error():
    shown = bench("grpc://127.0.0.1:1", "--model", "m", allowed={1})
    assert "is the server running?" in shown


@contextmanager
def command(*arguments):
    process = subprocess.Popen(
        [sys.executable, "-m", "poise", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_workers_send_the_load(stand, tmp_path):
    token = tmp_path / "token"
    token.write_text("a token of some length\n")
    file = tmp_path / "r.json"
    with command("bench", "worker", "--listen", "127.0.0.1:0", "--token-file", token) as first:
        address = first.stdout.readline().split()[-1]
        options = ("--workers", address, "--worker-token-file", token, "--json", file)
        bench(f"grpc://{stand.grpc}", "--model", "pair", "--rate", 100, *SHORT, *options)
        assert json.loads(file.read_text())["requests"] > 100
        first.send_signal(signal.SIGINT)
        assert first.wait(20) == 0


def test_an_interrupt_ends_a_measurement_soon_and_quietly(stand):
    with command("bench", f"grpc://{stand.grpc}", "--model", "pair", "--rate", 100, "--warmup", 0.5) as process:
        until(lambda: "measuring" in process.stdout.readline(), "it measures", 30)
        process.send_signal(signal.SIGINT)
        shown, _ = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "Traceback" not in shown

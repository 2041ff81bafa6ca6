"""What a server tells of a request's time, against what its client saw."""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np
import pytest

from poise import _core
from poise.bench.load import ClosedLoop
from poise.bench.session import Method, measure
from poise.bench.stages import stages_of
from poise.bench.traffic import Traffic, WireRequest
from support.clients import Crowd, call
from support.gates import held
from support.http2 import PREDICT
from support.serving import model, serving, until

ASKING = ("poise-timing", "1")
REST = "/v1/models/half:predict"
BUSY_S = 0.1


def timed(where: str) -> tuple[float, dict[str, float]]:
    """What the client waited, and what the server tells; in milliseconds."""
    began = time.monotonic()
    reply = call(where, "POST", REST, '{"instances": [1]}', Poise_Timing="1")
    waited = (time.monotonic() - began) * 1e3
    return waited, {name: float(ms) for name, ms in re.findall(r"(\w+);\w+=([\d.]+)", reply.headers["server-timing"])}


WAITING = {"in the queue": (64, {"queued_rows": 1}), "ahead, with the worker": (1, {"batches": 2})}


@pytest.mark.parametrize(("rows", "state"), WAITING.values(), ids=WAITING)
def test_a_busy_worker_is_waited_for_in_the_queue(folder: Path, rows: int, state: dict[str, int]):
    half = model("half", "Half", {"folder": str(folder), "shape": [-1]}, isolation="process", max_batch_size=rows)
    with serving(half) as stand, Crowd() as crowd, held(stand, crowd, folder) as gate:
        asked = crowd.start(timed, stand.http)
        until(lambda: state.items() <= stand.state.items(), f"a request that waits: {state}")
        time.sleep(BUSY_S)
        opened = time.monotonic()
        gate.open()
        waited, told = asked.result(10)
        since = (time.monotonic() - opened) * 1e3
    assert told["queue"] >= BUSY_S * 1e3
    assert 0 < told["execute"] <= since
    assert told["queue"] + told["batch"] + told["execute"] <= waited
    assert told["rows"] == 1


BODIES = {
    "grpc": WireRequest(
        PREDICT, _core.encode_predict_request("half", None, "", [("x", "float", (1,), bytes(4))]), (ASKING,)
    ),
    "http": WireRequest(REST, b'{"instances": [1]}', (ASKING,)),
}


@pytest.mark.parametrize(("wire", "request_"), BODIES.items(), ids=BODIES)
def test_a_load_test_joins_it_to_every_answer(wire: str, request_: WireRequest):
    method = Method(duration_s=None, requests=400, warmup_s=0.2)
    with serving(model("half", "Half", {"shape": [-1]}, isolation="process")) as stand:
        traffic = Traffic(f"{wire}://{getattr(stand, wire)}", (request_,))
        samples = measure(traffic, ClosedLoop(8), method).measured()
    stages = stages_of(samples, traffic.rows())
    assert stages is not None
    assert (stages.share, samples.errors()) == (1.0, {})
    told_us = samples.queue_us.astype(np.int64) + samples.batch_us + samples.execute_us
    assert (told_us <= samples.service_ms() * 1e3 + 3).all()  # each of the three is rounded
    assert {rows for rows, _ in stages.batch_rows} <= set(range(1, 9))
    assert sum(rows * batches for rows, batches in stages.batch_rows) == pytest.approx(len(samples))

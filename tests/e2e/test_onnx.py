"""A network in an ONNX file, from the command line to the answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from poise.demo.ranker import LAYERS, write_ranker
from poise.types import Array
from support.clients import Crowd, grpc, outcomes, rest
from support.serving import ServerProcess, model, serving

ROWS = np.random.default_rng(1).standard_normal((50, LAYERS[0])).astype(np.float32)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("onnx") / "ranker.onnx"
    write_ranker(path)
    return path


@pytest.fixture(scope="module")
def expected(file: Path) -> Array:
    scores: Array = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, {"x": ROWS})[0]
    return scores


@pytest.fixture(scope="module")
def server(file: Path) -> Iterator[ServerProcess]:
    with ServerProcess(f"ranker={file}") as process:
        yield process


def test_its_scores_over_both_wires_are_those_of_the_network(server: ServerProcess, expected: Array):
    assert grpc(server.grpc, "ranker", x=ROWS)["score"] == pytest.approx(expected, rel=1e-5)
    answer = rest(server.http, "ranker", {"instances": ROWS.tolist()})
    assert np.array(answer["predictions"]) == pytest.approx(expected, rel=1e-5)


def test_the_server_itself_never_loads_a_backend(server: ServerProcess):
    assert "onnxruntime" not in Path(f"/proc/{server.process.pid}/maps").read_text()
    [worker] = server.workers()
    assert "onnxruntime" in Path(f"/proc/{worker}/maps").read_text()


@pytest.mark.parametrize("isolation", ["process", "thread"])
def test_rows_that_were_batched_score_as_if_alone(file: Path, expected: Array, isolation):
    served = model("ranker", "", path=str(file), isolation=isolation, batch_timeout_micros=2000, max_batch_size=16)
    with serving(served) as stand, Crowd(50) as crowd:
        asked = [crowd.start(grpc, stand.grpc, "ranker", x=row[np.newaxis]) for row in ROWS]
        scores = np.concatenate([one["score"] for one in outcomes(asked)])
        batches = stand.metric("batch_size_rows_count")
    assert scores == pytest.approx(expected, rel=1e-5)
    assert batches < len(ROWS)

import numpy as np
import pytest

from poise.testing import FakeBatch, FakeWorker
from poise.workers import child
from poise.workers.child import WorkerSpec

X = np.ones((2, 3), np.float32)
HEAD = """
import sys
class Doubler:
    inputs = {"x": ("float32", [-1, 3])}
    outputs = {"y": ("float32", [-1, 3])}
    def predict(self, inputs):
        return inputs["x"] * 2
"""


@pytest.fixture
def spec(tmp_path):
    def write(text, **fields):
        (tmp_path / "model.py").write_text(text)
        return WorkerSpec(model="m", version=4, path=str(tmp_path), **fields)

    return write


def test_a_spec_survives_the_way_to_the_child():
    spec = WorkerSpec(model="m", version=1, path="p.onnx", options={"providers": ["A"]}, threads=3)
    assert WorkerSpec.from_json(spec.to_json()) == spec


def test_a_worker_loads_says_so_serves_and_closes(spec):
    batch = FakeBatch({"x": X}, ("y",))
    worker = FakeWorker([batch])
    order = []
    child.serve(worker, spec(HEAD), loaded=lambda: order.append("loaded"))
    assert order == ["loaded"]
    assert [signature.name for signature in worker.signatures] == ["serving_default"]
    np.testing.assert_array_equal(batch.completed["y"], X * 2)
    assert worker.closed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise ValueError('broken\\nmore')", "failed: ValueError: broken"),
        (HEAD + "    def load(self): open('/none')\n", "Doubler.load() failed: FileNotFoundError"),
        ("x = 1", "expected one class with a method predict(inputs); it has none"),
    ],
    ids=["import", "load", "class"],
)
def test_a_model_that_does_not_load_is_told_to_the_server_in_one_line(spec, text, message):
    worker = FakeWorker()
    child.serve(worker, spec(text))
    assert message in worker.load_failure
    assert "\n" not in worker.load_failure
    assert worker.signatures is None
    assert worker.closed


def test_an_unknown_backend_is_told_to_the_server(spec):
    worker = FakeWorker()
    child.serve(worker, spec(HEAD, backend="onxruntime"))
    assert worker.load_failure == "backend: unknown backend 'onxruntime'; did you mean onnxruntime?"


def test_a_model_that_exits_while_loading_is_told_to_the_server_and_ends_the_worker(spec):
    worker = FakeWorker()
    with pytest.raises(SystemExit):
        child.serve(worker, spec(HEAD + "    def load(self): sys.exit(3)\n"))
    assert worker.load_failure == "SystemExit: 3"
    assert worker.closed


def test_a_model_that_exits_in_a_batch_is_still_closed(spec):
    text = HEAD + "    def predict(self, inputs): sys.exit(3)\n    def close(self): Doubler.closed = True\n"
    batch, worker = FakeBatch({"x": X}, ("y",)), FakeWorker()
    worker.batches.append(batch)
    with pytest.raises(SystemExit):
        child.serve(worker, spec(text))
    assert batch.failed == ("INTERNAL", "model m ended its worker: SystemExit", None)
    assert worker.closed


def test_a_close_that_raises_is_logged(spec, caplog):
    worker = FakeWorker()
    child.serve(worker, spec(HEAD + "    def close(self): raise ValueError('at the end')\n"))
    assert "close failed" in caplog.text
    assert worker.closed

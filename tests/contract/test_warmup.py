"""Warm-up files across the border, and a worker that replays one."""

import struct

import numpy as np
import pytest

from poise import _core
from poise.testing import FakeWorker
from poise.workers import child
from poise.workers.warmup import FILE

MODEL = """
class Twice:
    inputs = {"x": ("float32", [-1])}
    outputs = {"y": ("float32", [-1])}
    seen = []
    def predict(self, inputs):
        self.seen.append(inputs["x"].tolist())
        if inputs["x"][0] < 0:
            raise ValueError("negative")
        return {"y": inputs["x"] * 2}
    def close(self):
        print(self.seen)
"""


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def field(number, content):
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def framed(record):
    length = struct.pack("<Q", len(record))
    return length + crc32c(length) + record + crc32c(record)


def predict_log(value):
    x = np.array([value], np.float32)
    request = _core.encode_predict_request("m", None, "", [("x", "float", x.shape, x.tobytes())])
    return framed(field(6, field(1, request)))


@pytest.fixture
def write(tmp_path):
    def write(content):
        file = tmp_path / FILE
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)
        return str(file)

    return write


def test_calls_are_read_in_the_form_of_a_batch(write):
    examples = field(5, b"")  # a session run has no form here
    request = field(2, field(1, field(1, b"one") + field(1, b"two")))
    path = write(predict_log(3) + framed(b"") + framed(field(2, field(1, request))))
    found = _core.read_warmup(path, 3)
    assert found == [
        ("serving_default", [("x", "float", (1,), bytearray(struct.pack("<f", 3)))]),
        ("serving_default", [("inputs", "string", (2,), [b"one", b"two"])]),
    ]
    with pytest.raises(ValueError, match=r"Number of warmup records exceeds the maximum \(2\)"):
        _core.read_warmup(path, 2)
    with pytest.raises(ValueError, match="Unsupported log_type for warmup: 5"):
        _core.read_warmup(write(framed(examples)), 2)
    with pytest.raises(ValueError, match="Please verify your warmup data is in TFRecord format"):
        _core.read_warmup(write(b"no record"), 2)


@pytest.mark.parametrize(("value", "failure"), [(3, None), (-1, "negative")], ids=["runs", "fails"])
def test_a_worker_replays_the_file_before_it_is_ready(tmp_path, write, capsys, value, failure):
    (tmp_path / "model.py").write_text(MODEL)
    write(predict_log(value))
    worker = FakeWorker()
    child.serve(worker, child.WorkerSpec(model="m", version=1, path=str(tmp_path)))
    assert (worker.signatures is None) == (failure is not None)
    assert (worker.load_failure or "").endswith(f"ValueError: {failure}" if failure else "")
    assert f"[{float(value)}]" in capsys.readouterr().out

"""One model on every backend that runs it: the same sound, the same notes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from poise.types import Array
from support import pitch
from support.clients import grpc
from support.serving import Stand, model, serving, until

pytestmark = pytest.mark.timeout(240)  # the first test waits for TensorFlow

TRIAD = (60, 64, 67)  # C, E and G
CHORDS = [TRIAD, (69,), (48, 55), (72, 76)]
TOLERANCE = 2e-4
"""Of probabilities between 0 and 1."""
OUTPUTS = {
    "contour": "StatefulPartitionedCall:0",
    "note": "StatefulPartitionedCall:1",
    "onset": "StatefulPartitionedCall:2",
}
"""Names in the SavedModel, and what the conversions made of them."""
ENGINES = {
    "tensorflow": ("nmp", "tensorflow"),
    "openvino": ("nmp", "openvino"),
    "openvino_tflite": ("nmp.tflite", "auto"),
    "openvino_onnx": ("nmp.onnx", "openvino"),
    "onnxruntime": ("nmp.onnx", "auto"),
}


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    folder = pitch.fetch()
    models = [
        model(name, "", path=str(folder / path), backend=backend, isolation="process", max_batch_size=8)
        for name, (path, backend) in ENGINES.items()
    ]
    with serving(*models, ready=False) as stand:
        until(lambda: not stand.server.not_ready(), "all models ready", 150.0)
        yield stand


@pytest.fixture(scope="module")
def heard(stand: Stand) -> dict[str, dict[str, Array]]:
    """What each engine makes of the chords, by the SavedModel's names of outputs."""
    sound = np.stack([pitch.play(chord) for chord in CHORDS])
    found = {}
    for name, (path, _) in ENGINES.items():
        of_file = path == "nmp"
        answer = grpc(stand.grpc, name, **{"input_2" if of_file else "serving_default_input_2:0": sound})
        found[name] = {own: answer[own if of_file else converted] for own, converted in OUTPUTS.items()}
    return found


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "tensorflow"])
def test_every_engine_hears_what_tensorflow_hears(heard: dict[str, dict[str, Array]], engine):
    for output, expected in heard["tensorflow"].items():
        assert expected.max() > 0.3, output  # something was heard at all
        np.testing.assert_allclose(heard[engine][output], expected, rtol=0, atol=TOLERANCE, err_msg=output)


def test_what_is_heard_is_what_was_played(heard: dict[str, dict[str, Array]]):
    for row, chord in enumerate(CHORDS):
        loudness = heard["tensorflow"]["note"][row].mean(axis=0)
        loudest = np.sort(np.argsort(loudness)[-len(chord) :]) + pitch.LOWEST_KEY
        assert tuple(loudest.tolist()) == chord

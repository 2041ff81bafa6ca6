from __future__ import annotations

from pathlib import Path

import numpy as np

from poise.backends import select
from poise.backends.base import ModelSource
from poise.types import TensorSpec

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_python_model_is_served_as_it_says() -> None:
    model = select.load(ModelSource("ranker", 1, f"{EXAMPLES / 'python_model.py'}:Ranker"))
    [signature] = model.signatures
    assert signature.inputs == (TensorSpec("features", "float", (-1, 3)),)
    assert signature.outputs == (TensorSpec("score", "float", (-1,)),)
    assert signature.batched
    rows = np.array([[5, 1, 0.2], [1, 3, 0.9]], dtype=np.float32)
    score = model.run(signature.name, {"features": rows}, ["score"])["score"]
    model.close()
    assert score.dtype == np.float32
    assert score.shape == (2,)
    assert score[0] > 0.5 > score[1]

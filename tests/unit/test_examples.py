from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_python_model_scores_each_row_by_itself() -> None:
    spec = importlib.util.spec_from_file_location("python_model", EXAMPLES / "python_model.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.Ranker()
    model.load()
    rows = np.array([[5, 1, 0.2], [1, 3, 0.9]], dtype=np.float32)
    score = model.predict({"features": rows})["score"]
    model.close()
    assert score.dtype == np.float32
    assert score.shape == (2,)
    assert score[0] > 0.5 > score[1]

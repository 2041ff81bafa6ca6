from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime

from poise.demo.ranker import write_ranker


def test_the_ranker_scores_rows_one_by_one_and_is_always_the_same_network(tmp_path: Path) -> None:
    write_ranker(tmp_path / "a.onnx")
    write_ranker(tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()

    session = onnxruntime.InferenceSession(tmp_path / "a.onnx", providers=["CPUExecutionProvider"])
    rows = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)
    (scores,) = session.run(["score"], {"x": rows})
    (alone,) = session.run(["score"], {"x": rows[3:4]})
    assert scores.shape == (5, 1)
    assert ((scores > 0) & (scores < 1)).all()
    np.testing.assert_allclose(scores[3], alone[0], rtol=1e-5)

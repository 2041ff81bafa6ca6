"""A model in plain Python and NumPy.

    poise serve ranker=examples/python_model.py:Ranker
    curl -d '{"instances": [[5.0, 1.0, 0.2], [1.0, 3.0, 0.9]]}' http://localhost:8501/v1/models/ranker:predict

The server calls `predict` once per batch, with the rows of many requests together: write it over whole arrays and the
requests share its cost. It runs in a process of its own, so it may take as long, and as much memory, as it needs.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from poise.model import Declaration

Arrays = dict[str, npt.NDArray[Any]]


class Ranker:
    """Scores items by three features of each: clicks, age in days, distance."""

    # What may be asked: a request of another dtype or shape is refused before it costs anything. -1 may vary.
    inputs: ClassVar[Declaration] = {"features": ("float32", [-1, 3])}
    outputs: ClassVar[Declaration] = {"score": ("float32", [-1])}

    def load(self) -> None:
        """Called once, before the model is announced as ready: read files, allocate, warm up here."""
        self.weights = np.array([0.8, -0.3, -1.5], dtype=np.float32)

    def predict(self, inputs: Arrays) -> Arrays:
        """One batch: dimension 0 of every array counts rows, in and out, in the same order."""
        margin = inputs["features"] @ self.weights
        return {"score": 1 / (1 + np.exp(-margin))}

    def close(self) -> None:
        """Called once when the version is retired; give back what the process would not give back by ending."""

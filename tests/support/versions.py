"""Directories of versions whose models are told apart by what they add."""

from __future__ import annotations

from pathlib import Path

SOURCE = """\
import numpy as np
from poise import Model


class Adds(Model):
    inputs = {{"x": ("float", [-1])}}
    outputs = {{"y": ("float", [-1])}}

    def load(self):
        {load}

    def predict(self, inputs):
        return {{"y": inputs["x"] + np.float32({number})}}
"""


def publish(base: Path, number: int, load: str = "pass") -> None:
    """Make a version that answers x + number; it appears whole, as a careful copy would."""
    hidden = base.parent / f".{base.name}-{number}"
    hidden.mkdir(parents=True)
    (hidden / "model.py").write_text(SOURCE.format(number=number, load=load))
    base.mkdir(exist_ok=True)
    hidden.rename(base / str(number))

"""Writes ResNet50 with random weights as FOLDER/saved/1 (a SavedModel) and FOLDER/onnx/1/model.onnx.

Runs in benchmarks/.venv-export (setup.sh export). Weights do not matter to speed; the seed makes them the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"


def main(folder: Path) -> None:
    import tensorflow as tf  # noqa: PLC0415  (after it was told to be quiet)

    tf.keras.utils.set_random_seed(1)
    saved, onnx = folder / "saved" / "1", folder / "onnx" / "1" / "model.onnx"
    tf.keras.applications.ResNet50(weights=None).export(str(saved), verbose=False)
    onnx.parent.mkdir(parents=True)
    convert = [sys.executable, "-m", "tf2onnx.convert", "--opset", "17"]
    subprocess.run([*convert, "--saved-model", saved, "--output", onnx], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

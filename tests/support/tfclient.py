"""The real client of TensorFlow Serving, from here: one process that imports TensorFlow once; see tf_side.py."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np

from poise.types import Array, dtype_name, numpy_dtype
from support.clients import Refused

CHECKOUT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("POISE_TF_PYTHON", CHECKOUT / ".venv-tf" / "bin" / "python"))
_NAMES = {"float": "float32", "double": "float64", "half": "float16"}
_BACK = {value: key for key, value in _NAMES.items()}


class TfClient:
    """A client that speaks to any server, one request at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [PYTHON, Path(__file__).with_name("tf_side.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._lock = threading.Lock()

    def ask(self, do: str, address: str, **what: Any) -> Any:
        """What the other side answers; errors of the call are a dict with code and text."""
        assert self._process.stdin and self._process.stdout
        with self._lock:
            print(json.dumps({"do": do, "address": address, **what}), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        assert line, "the client of TensorFlow Serving has ended"
        return json.loads(line)

    def call(self, do: str, address: str, **what: Any) -> Any:
        return unless_refused(self.ask(do, address, **what))

    def predict(self, address: str, model: str, inputs: dict[str, Any], **what: Any) -> dict[str, Array]:
        return arrays(self.call("predict", address, model=model, inputs=tensors(inputs), **what))

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


def unless_refused(answer: Any) -> Any:
    if "code" in answer:
        raise Refused(answer["code"], answer["text"])
    return answer


def arrays(answer: Any) -> dict[str, Array]:
    return {name: _array(one) for name, one in answer["outputs"].items()}


def tensors(inputs: dict[str, Any]) -> dict[str, Any]:
    """Arrays as the other side takes them; dicts are its own form already."""
    return {name: value if isinstance(value, dict) else tensor(value) for name, value in inputs.items()}


def tensor(value: Any) -> dict[str, Any]:
    array = np.asarray(value)
    name = dtype_name(array.dtype)
    made = {"dtype": _NAMES.get(name, name), "shape": list(array.shape)}
    if name == "string":
        return {**made, "strings": [encode(item) for item in array.ravel().tolist()]}
    return {**made, "bytes": encode(array.tobytes())}


def _array(made: dict[str, Any]) -> Array:
    if "strings" in made:
        array = np.empty(len(made["strings"]), dtype=np.object_)
        array[:] = [base64.b64decode(item) for item in made["strings"]]
    else:
        name = _BACK.get(made["dtype"], made["dtype"])
        array = np.frombuffer(base64.b64decode(made["bytes"]), numpy_dtype(name))
    return array.reshape(made["shape"])


def encode(item: bytes | str) -> str:
    return base64.b64encode(item if isinstance(item, bytes) else item.encode()).decode()

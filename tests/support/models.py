"""Models that the tests serve, each as `models.py:Class`.

What a model does beside its arithmetic is asked for by the values that it is sent, so that one model may do many
things; what it was sent is written to a folder, so that a test can tell what has run.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path

import numpy as np

from poise import InvalidInput, Model, Unavailable

HOLD = -1000.0
"""Rows of this value make a model wait until the folder has a file `open`."""
GATE_TIMEOUT_S = 30.0


class Echo(Model):
    """Gives back what it gets, of any one dtype."""

    def __init__(self, dtype="float", shape=None, name="x", batched=True):
        self.inputs = {name: (dtype, shape)}
        self.outputs = {name: (dtype, shape)}
        self.batched = batched

    def predict(self, inputs):
        return dict(inputs)


class Pair(Model):
    """Two inputs, three outputs."""

    def __init__(self):
        self.inputs = {"a": ("float", [-1, 2]), "b": ("string", [-1])}
        self.outputs = {"sum": ("float", [-1]), "text": ("string", [-1]), "raw_bytes": ("string", [-1])}

    def predict(self, inputs):
        return {"sum": inputs["a"].sum(axis=1), "text": inputs["b"], "raw_bytes": inputs["b"]}


class Alone(Model):
    """Not batched: a scalar in, a scalar out."""

    def __init__(self):
        self.inputs = {"x": ("float", [])}
        self.outputs = {"y": ("float", [])}

    def predict(self, inputs):
        return {"y": np.asarray(inputs["x"] * 2, np.float32)}


class Slow(Model):
    """Takes its time for every batch, however large."""

    def __init__(self, seconds=0.02):
        self.inputs = {"x": ("float", [-1, 2])}
        self.outputs = {"y": ("float", [-1, 2])}
        self.seconds = seconds

    def predict(self, inputs):
        time.sleep(self.seconds)
        return {"y": inputs["x"]}


class Counter(Model):
    """Takes nothing."""

    def __init__(self):
        self.inputs = {}
        self.outputs = {"output": ("float", [])}
        self.count = 0

    def predict(self, inputs):  # noqa: ARG002
        self.count += 1
        return np.asarray(self.count, np.float32)


class Half(Model):
    """TensorFlow Serving's half_plus_two, with the executed size beside every row, and a memory of what it ran."""

    def __init__(self, folder="", shape=None, plus=2.0):
        self.inputs = {"x": ("float", shape)}
        self.outputs = {"y": ("float", shape), "size": ("int32", [-1])}
        self.batched = True
        self.folder = Path(folder)
        self.plus = plus

    def predict(self, inputs):
        x = inputs["x"]
        self.note(x)
        if (x == HOLD).any():
            wait_for(self.folder / "open")
        self.act(x)
        return {"y": (x * 0.5 + self.plus).astype(np.float32), "size": np.full(x.shape[:1], len(x), np.int32)}

    def note(self, x):
        if self.folder.name:
            with (self.folder / "runs").open("a") as runs:
                runs.write(json.dumps({"shape": x.shape, "x": x.ravel().tolist()}) + "\n")

    def act(self, x):
        """What a kind of this model does beside its arithmetic."""


class Blaming(Half):
    """Refuses negative rows: by naming them, or without a word about which they are."""

    def __init__(self, folder="", names_rows=True, error="input"):
        super().__init__(folder, [-1])
        self.names_rows = names_rows
        self.error = {"input": InvalidInput, "unavailable": Unavailable}.get(error)

    def act(self, x):
        guilty = np.flatnonzero((x < 0) & (x != HOLD)).tolist()
        if guilty and self.error is None:
            raise ArithmeticError(f"cannot halve {x[guilty[0]]:g}\nsecond line")
        if guilty:
            raise self.error(f"cannot halve {x[guilty[0]]:g}", rows=guilty if self.names_rows else None)


class Fickle(Half):
    """Does what the first row says; see the table below."""

    def predict(self, inputs):
        answer = super().predict(inputs)
        deed = DEEDS.get(float(inputs["x"].ravel()[0]))
        return deed(answer) if deed else answer


def wait_for(file):
    deadline = time.monotonic() + GATE_TIMEOUT_S
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.002)


def _raise(_answer):
    raise ValueError("no such row")


def _leave(_answer):
    raise SystemExit(3)


def _hang(answer):
    time.sleep(GATE_TIMEOUT_S)
    return answer


def _die(_answer):
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(GATE_TIMEOUT_S)


def _stop(_answer):
    os.kill(os.getpid(), signal.SIGSTOP)


def _speak(packet):
    def nonsense(answer):
        _channel().send(packet)
        time.sleep(0.2)  # the server ends this process for what it said
        return answer

    return nonsense


def _channel():
    """The end of the socket that the server listens to."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        try:
            found = socket.socket(fileno=os.dup(int(entry.name)))
        except OSError:
            continue
        if found.family == socket.AF_UNIX and found.type == socket.SOCK_SEQPACKET:
            return found
        found.close()
    raise LookupError("no channel")


RAISE, FEW_ROWS, NO_ROWS, WRONG_DTYPE, MISSING, NO_ARRAY, LEAVE = (-1.0 - number for number in range(7))
EXIT, DIE, STOP, HANG, NONSENSE, EMPTY, WRONG_ID, OUTSIDE = (-11.0 - number for number in range(8))

# Messages of the channel: Done of batch 1000000; Done of batch 2 with an output at an address of 1 TiB.
DONE_OF_ANOTHER = bytes.fromhex("22 04 08 c0843d")
DONE_OUTSIDE = bytes.fromhex("22 12 0802 120e 1003 1a0101 20808080808020 2804")

DEEDS = {
    RAISE: _raise,
    FEW_ROWS: lambda answer: {**answer, "y": answer["y"][:0]},
    NO_ROWS: lambda answer: {**answer, "y": np.zeros((), np.float32)},
    WRONG_DTYPE: lambda answer: {**answer, "y": answer["y"].astype(np.float64)},
    MISSING: lambda answer: {"size": answer["size"]},
    NO_ARRAY: lambda answer: {**answer, "y": "words"},
    LEAVE: _leave,
    EXIT: lambda _answer: os._exit(3),
    DIE: _die,
    STOP: _stop,
    HANG: _hang,
    NONSENSE: _speak(b"\xff" * 100),
    EMPTY: _speak(b""),
    WRONG_ID: _speak(DONE_OF_ANOTHER),
    OUTSIDE: _speak(DONE_OUTSIDE),
}


class Unloadable(Model):
    """Never gets as far as serving."""

    def __init__(self):
        raise RuntimeError("the weights are corrupt")

    def predict(self, inputs):
        return inputs


class Parts(Model):
    """A classifier and regressor over serialized examples: says how long each is, and gives it back as its label."""

    def __init__(self, regresses=False):
        self.inputs = {"inputs": ("string", [-1])}
        classes = {"classes": ("string", [-1, 1]), "scores": ("float", [-1, 1])}
        self.outputs = {"outputs": ("float", [-1])} if regresses else classes
        self.batched = True

    def predict(self, inputs):
        items = inputs["inputs"]
        lengths = np.array([len(item) for item in items], np.float32)
        if "outputs" in self.outputs:
            return {"outputs": lengths}
        return {"classes": items[:, None], "scores": lengths[:, None]}

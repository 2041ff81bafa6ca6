"""The life of a worker that is ready: take a batch, call the model once, complete it.

The path of a batch costs a few microseconds besides the model: nothing is done per row, everything that depends on a
signature alone is looked up in tables made before the first batch.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from poise.errors import InvalidOutput, RequestError, WorkerClosed, one_line
from poise.types import DTYPES, Array, Signature, dtype_name, numpy_dtype

if TYPE_CHECKING:
    from poise._core import Input, Output
    from poise.backends.base import LoadedModel

WAIT_S = 5.0
"""A wait for work ends this often for nothing, so that a thread can notice signals; no message depends on it."""


class Batch(Protocol):
    """What the loop uses of `poise._core.Batch`."""

    @property
    def id(self) -> int: ...
    @property
    def signature(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def outputs(self) -> tuple[str, ...]: ...
    @property
    def inputs(self) -> Sequence[Input]: ...
    def complete(self, outputs: Sequence[Output]) -> None: ...
    def fail(self, code: str, message: str, rows: Sequence[int] | None = None) -> None: ...


class Worker(Protocol):
    """What the loop uses of `poise._core.Worker`."""

    def next_batch(self, timeout_s: float) -> Batch | None: ...


def run(worker: Worker, model: LoadedModel, name: str, log: logging.Logger) -> None:
    """Serve batches until the worker is closed; returns then.

    Whatever a model raises fails its batch and the loop goes on, except that SystemExit, KeyboardInterrupt and their
    like fail the batch and then end the worker: they are raised on.
    """
    execute = Executor(model, name, log)
    next_batch = worker.next_batch
    try:
        while True:
            batch = next_batch(WAIT_S)
            if batch is not None:
                execute(batch)
                del batch  # memory of the arena is not held while waiting
    except WorkerClosed:
        return


class Executor:
    """Runs single batches of one model."""

    def __init__(self, model: LoadedModel, name: str, log: logging.Logger) -> None:
        self._run = model.run
        self._name = name
        self._log = log
        self._specs = {signature.name: _output_table(signature) for signature in model.signatures}

    def __call__(self, batch: Batch) -> None:
        """Run the batch and end it: exactly once, whatever happens."""
        try:
            self._answer(batch)
        except WorkerClosed:
            raise
        except RequestError as error:
            batch.fail(error.code, str(error), _rows_of(error, batch))
        except Exception as error:  # noqa: BLE001  (a model may raise anything; it is logged, and the batch ended)
            # Out of memory is one of these: a part of the batch may well fit, and the worker is as good as before.
            text = "model %s failed on batch %d of %d rows"
            self._log.error(text, self._name, batch.id, batch.rows, exc_info=error)
            batch.fail("INTERNAL", f"model {self._name} failed: {one_line(error)}")
        except BaseException as error:
            batch.fail("INTERNAL", f"model {self._name} ended its worker: {type(error).__name__}")
            raise

    def _answer(self, batch: Batch) -> None:
        inputs = {name: view(dtype, shape, data) for name, dtype, shape, data in batch.inputs}
        signature, wanted = batch.signature, batch.outputs
        found = self._run(signature, inputs, wanted)
        specs = self._specs[signature]
        try:
            answer = [_checked(name, found, specs[name]) for name in wanted]
            batch.complete(answer)
        except (_Mismatch, ValueError) as error:  # a ValueError says that the shapes or rows cannot be sent
            raise self._blame(batch, error) from None

    def _blame(self, batch: Batch, error: Exception) -> InvalidOutput:
        message = f"model {self._name} returned something that cannot be sent: {error}"
        self._log.error("batch %d of %d rows: %s", batch.id, batch.rows, message)
        return InvalidOutput(message)


def _rows_of(error: RequestError, batch: Batch) -> list[int] | None:
    """The rows at fault that the batch really has; None, for all, when the model names no such row."""
    return sorted({row for row in error.rows or () if 0 <= row < batch.rows}) or None


class _Mismatch(Exception):  # noqa: N818  (never leaves this file)
    """An output is not what the signature says."""


_INPUT_DTYPES = {name: numpy_dtype(name) for name in DTYPES if name != "bfloat16"}
_Spec = tuple[str, "np.dtype[Any]"]


def _output_table(signature: Signature) -> dict[str, _Spec]:
    return {spec.name: (spec.dtype, numpy_dtype(spec.dtype)) for spec in signature.outputs}


def view(dtype: str, shape: tuple[int, ...], data: Any) -> Array:
    """An array over the batch's own memory, without a copy; strings become an object array of bytes."""
    if dtype == "string":
        array = np.empty(math.prod(shape), dtype=np.object_)
        array[:] = data
        return array.reshape(shape)
    return np.ndarray(shape, _INPUT_DTYPES.get(dtype) or numpy_dtype(dtype), data)


def _checked(name: str, found: Mapping[str, Any], spec: _Spec) -> Output:
    """An output as it crosses the border: contiguous, of the declared dtype."""
    array: Any = found.get(name)
    dtype, expected = spec
    if not isinstance(array, np.ndarray):
        raise _Mismatch(_not_an_array(name, found, dtype))
    if dtype == "string":
        return name, dtype, array.shape, _encoded(name, array)
    if array.dtype != expected:
        raise _Mismatch(f"output {name}: expected dtype {dtype} but got {_show_dtype(array)}")
    shape = array.shape
    if not array.flags.c_contiguous:
        array = array.copy()
    if not shape:  # a buffer without dimensions has no shape either, which the border does not take
        array = array.reshape(1)
    # NumPy lends no buffer of a dtype that is not its own, which bfloat16 is not.
    return name, dtype, shape, array.view(np.uint16) if dtype == "bfloat16" else array


def _encoded(name: str, array: Array) -> list[bytes]:
    if array.dtype.kind not in "OSU":
        raise _Mismatch(f"output {name}: expected dtype string but got {_show_dtype(array)}")
    flat: Iterable[Any] = array.ravel().tolist()
    found = [element.encode() if isinstance(element, str) else element for element in flat]
    for element in found:
        if not isinstance(element, bytes):
            raise _Mismatch(f"output {name}: expected elements of bytes or str but got {type(element).__name__}")
    return found


def _not_an_array(name: str, found: Mapping[str, Any], dtype: str) -> str:
    if name not in found:
        return f"output {name} is missing; there are {', '.join(sorted(map(str, found))) or 'none'}"
    return f"output {name}: expected a NumPy array of {dtype} but got {type(found[name]).__name__}"


def _show_dtype(array: Array) -> str:
    try:
        return dtype_name(array.dtype)
    except ValueError:  # one that is not served, or of a foreign byte order
        return str(array.dtype)

"""Stand-ins for tests, of Poise and of what is built on it: no sockets, no time passing, nothing to patch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from poise.errors import WorkerClosed
from poise.types import DEFAULT_SIGNATURE, Array, Signature, dtype_name, numpy_dtype, signatures_from_json

if TYPE_CHECKING:
    from poise._core import Input, Output


@dataclass
class ManualClock:
    """A clock that stands until it is moved; sleeping moves it."""

    seconds: float = 0.0

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass
class FakeBatch:
    """A batch that remembers how it was ended, and refuses to be ended twice."""

    arrays: dict[str, Array]
    outputs: tuple[str, ...]
    signature: str = DEFAULT_SIGNATURE
    id: int = 1
    unsendable: str = ""
    """What `complete` raises as a ValueError, as the data plane does for shapes that it cannot send."""
    completed: dict[str, Array] | None = None
    failed: tuple[str, str, tuple[int, ...] | None] | None = None
    """(code, message, rows)"""

    @property
    def rows(self) -> int:
        return next((array.shape[0] for array in self.arrays.values() if array.ndim), 0)

    @property
    def inputs(self) -> list[Input]:
        return [_as_input(name, array) for name, array in self.arrays.items()]

    @property
    def ended(self) -> bool:
        return self.completed is not None or self.failed is not None

    def complete(self, outputs: Sequence[Output]) -> None:
        self._end()
        if self.unsendable:
            raise ValueError(self.unsendable)
        self.completed = {name: _as_array(dtype, shape, data) for name, dtype, shape, data in outputs}

    def fail(self, code: str, message: str, rows: Sequence[int] | None = None) -> None:
        self._end()
        self.failed = (code, message, None if rows is None else tuple(rows))

    def _end(self) -> None:
        if self.ended:
            raise RuntimeError(f"batch {self.id} has ended already")


@dataclass
class FakeWorker:
    """A worker that is given its batches beforehand, and is closed after the last. None stands for a wait in vain."""

    batches: list[FakeBatch | None] = field(default_factory=list)
    signatures: tuple[Signature, ...] | None = None
    """What `ready` was called with."""
    load_failure: str | None = None
    """What `fail_load` was called with."""
    closed: bool = False

    def ready(self, signatures_json: str) -> None:
        self.signatures = signatures_from_json(signatures_json)

    def fail_load(self, message: str) -> None:
        self.load_failure = message

    def next_batch(self, timeout_s: float) -> FakeBatch | None:  # noqa: ARG002
        if not self.batches:
            raise WorkerClosed("no more batches")
        return self.batches.pop(0)

    def close(self) -> None:
        self.closed = True


def _as_input(name: str, array: Array) -> Input:
    dtype = dtype_name(array.dtype)
    data: Any = array.ravel().tolist() if dtype == "string" else array.tobytes()
    return name, dtype, array.shape, data


def _as_array(dtype: str, shape: tuple[int, ...], data: Any) -> Array:
    if dtype == "string":
        return strings(data).reshape(shape)
    bits = np.dtype(np.uint16) if dtype == "bfloat16" else numpy_dtype(dtype)
    return np.frombuffer(memoryview(data).tobytes(), bits).reshape(shape)


def strings(elements: Iterable[bytes]) -> Array:
    """A flat object array of bytes, as models get their string inputs."""
    found = list(elements)
    array = np.empty(len(found), dtype=np.object_)
    array[:] = found
    return array

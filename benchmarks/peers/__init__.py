"""The servers in the comparison. In each module `start` is a context manager that yields a `Running` when ready."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from models import ServedModel
from wire import Wire


@dataclass(frozen=True)
class Running:
    """A server that answers now."""

    name: str
    pid: int
    wire: Wire
    grpc: int | None  # port, None where it does not speak it
    rest: int | None
    checked: bool = True  # False for a server that answers a constant instead of a prediction


@dataclass(frozen=True)
class Batching:
    """What a server may do to form batches."""

    max_rows: int = 64
    delay_micros: int = 0


Start = Callable[[ServedModel, Batching, Path], AbstractContextManager[Running]]

"""Workers that are kept busy for as long as a test likes, so that it knows what waits behind them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from support.clients import Crowd, grpc
from support.models import HOLD
from support.serving import Stand, until


class Gate:
    """A model that waits at HOLD, and what it has run since."""

    def __init__(self, folder: Path, holding: Future[Any] | None = None) -> None:
        self.folder, self.holding = folder, holding

    def runs(self) -> list[dict[str, Any]]:
        """Every batch that the model has been given, as its shape and values; those that hold are left out."""
        return [run for run in self.all_runs() if HOLD not in run["x"]]

    def all_runs(self) -> list[dict[str, Any]]:
        file = self.folder / "runs"
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]

    def sizes(self) -> list[int]:
        return [run["shape"][0] for run in self.runs()]

    def values(self) -> set[float]:
        return {value for run in self.runs() for value in run["x"]}

    def open(self) -> None:
        (self.folder / "open").touch()


@contextmanager
def held(
    stand: Stand, crowd: Crowd, folder: Path, model: str = "half", shape: tuple[int, ...] = (1,)
) -> Iterator[Gate]:
    """The worker of a model is busy with a request of its own until the gate is opened, at the latest at the end."""
    gate = Gate(folder)
    gate.holding = crowd.start(grpc, stand.grpc, model, x=np.full(shape, HOLD, np.float32))
    until(gate.all_runs, "a busy worker")
    try:
        yield gate
    finally:
        gate.open()
    gate.holding.exception(10)


def queue(stand: Stand, rows: int) -> None:
    """Wait until so many rows wait."""
    until(lambda: stand.state["queued_rows"] >= rows, f"{rows} queued rows; there is {stand.state}")

"""The model with no server around it, one thread: what a server can at best let through."""

from __future__ import annotations

import statistics
import time

import onnxruntime as ort
from models import Rows, ServedModel

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Bare:
    """A session of one model, the same settings as behind every server."""

    def __init__(self, model: ServedModel, threads: int = 1) -> None:
        settings = ort.SessionOptions()
        settings.intra_op_num_threads = threads
        settings.inter_op_num_threads = 1
        self._model = model
        self._session = ort.InferenceSession(model.file, settings, providers=["CPUExecutionProvider"])

    def predict(self, rows: Rows) -> Rows:
        """The outputs for `rows`."""
        (output,) = self._session.run([self._model.output], {self._model.input: rows})
        return output

    def rows_per_second(self, batch: int, seconds: float) -> float:
        """Rows a second at one batch size, measured for about `seconds`."""
        rows = self._model.rows(batch)
        self.predict(rows)
        runs, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            self.predict(rows)
            runs += 1
        return runs * batch / elapsed

    def sweep(self, seconds: float, batches: tuple[int, ...] = BATCHES) -> dict[int, float]:
        """Rows a second by batch size."""
        return {batch: self.rows_per_second(batch, seconds) for batch in batches}

    def single_row_micros(self, runs: int = 2000) -> float:
        """Median time of one run with one row, in microseconds."""
        rows, times = self._model.rows(1), []
        for _ in range(runs):
            start = time.perf_counter()
            self.predict(rows)
            times.append(time.perf_counter() - start)
        return statistics.median(times) * 1e6

"""The data plane by hand: a server and a worker of it in one process, with no registry and no loop in between."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import numpy as np

from poise import _core
from poise.config import BatchSettings, ServerSettings
from poise.types import Signature, TensorSpec, signatures_to_json
from support.clients import Crowd, grpc
from support.serving import LOCAL, metric, until


def signature(dtype: str = "float", shape: Sequence[int] = (-1,)) -> str:
    specs = (TensorSpec("x", dtype, tuple(shape)),), (TensorSpec("y", dtype, tuple(shape)),)
    return signatures_to_json([Signature(*specs)])


class ByHand:
    """One model, `m`, whose batches a test takes and ends itself."""

    def __init__(
        self, signatures: str | None = None, model: str = "m", server: dict[str, Any] | None = None, **batching: Any
    ) -> None:
        self.signatures = signatures or signature()
        self.core = _core.Server(ServerSettings(grpc=LOCAL, http=LOCAL, io_threads=1, **server or {}).to_json())
        grpc_address, http_address = self.core.start()
        assert grpc_address and http_address
        self.grpc, self.http = grpc_address, http_address
        self.handle = self.core.add_version(model, 1, BatchSettings(**batching).to_json())
        self.id, fd = self.core.attach_worker(self.handle)
        self.worker = _core.Worker(fd)
        self.crowd = Crowd(16)

    def publish(self) -> ByHand:
        self.worker.ready(self.signatures)
        assert self.events("worker_ready") == [("worker_ready", self.id, self.signatures)]
        self.core.describe(self.handle, self.signatures)
        self.core.publish(self.handle)
        return self

    def events(self, kind: str) -> list[_core.Event]:
        """The next events, of which one is of this kind."""
        found: list[_core.Event] = []
        until(lambda: found.extend(self.core.events(0.1)) or any(event[0] == kind for event in found), kind)
        return found

    def ask(self, *x: Any, dtype: Any = np.float32, timeout_s: float = 10.0) -> Future[Any]:
        return self.crowd.start(grpc, self.grpc, "m", timeout_s=timeout_s, x=np.array(x, dtype))

    def batch(self) -> _core.Batch:
        found = until(lambda: self.worker.next_batch(0.1), "a batch")
        assert isinstance(found, _core.Batch)
        return found

    def held(self) -> dict[str, int]:
        state = json.loads(self.core.debug_state())
        return {name: count for name, count in state.items() if count and name not in {"connections", "workers"}}

    def metric(self, name: str) -> float:
        return metric(self.core.metrics(), name)

    def close(self) -> None:
        self.core.close()
        self.worker.close()
        self.crowd.__exit__()


@contextmanager
def by_hand(*args: Any, **kwargs: Any) -> Iterator[ByHand]:
    made = ByHand(*args, **kwargs)
    try:
        yield made.publish()
    finally:
        made.close()


def answer(batch: _core.Batch) -> _core.Output:
    """The batch's only input as its only output."""
    [(_, dtype, shape, data)] = batch.inputs
    return "y", dtype, shape, data

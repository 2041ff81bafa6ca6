"""Clients that go on while something else goes wrong, and what they came to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Traffic:
    """Some threads that call, one call after the other, until the block is left."""

    def __init__(self, call: Callable[[], Any], threads: int = 2) -> None:
        self._call = call
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]
        self.answers: list[Any] = []
        self.errors: list[Exception] = []

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self.answers.append(self._call())
            except Exception as error:  # noqa: BLE001  (whatever it is, it is an outcome, and shown)
                self.errors.append(error)

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

"""Work that gives way to the threads that send."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

NICE = 10
"""Priority of the threads that look on; those that send have 0."""


def onlooker() -> ThreadPoolExecutor:
    """One thread for what looks at a measurement while it goes on.

    On one core with the threads that send, each look of a few milliseconds would delay the requests that are due
    meanwhile, and show in the P99.
    """
    return ThreadPoolExecutor(1, "poise-look", _give_way)


def _give_way() -> None:
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)

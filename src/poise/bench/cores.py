"""Which cores threads run on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Set
from contextlib import contextmanager


@contextmanager
def affinity(cores: Set[int]) -> Iterator[None]:
    """Let the calling thread, and those it starts, run on these cores while the block lasts; started ones stay."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def one_core_left() -> Iterator[Set[int]]:
    """Keep the calling thread, and those it starts in the block, off one core, and yield that; one alone is shared."""
    cores = os.sched_getaffinity(0)
    left = {max(cores)}
    with affinity(cores - left or cores):
        yield left

"""Loading beside versions that serve: at low priority, so that they do not notice, and back to normal before serving.

Lowering is always allowed. Raising again is not: a nice value comes back only with the right to raise it
(CAP_SYS_NICE, or RLIMIT_NICE), and a thread in the idle class is stuck there without it. What a thread has started
inherits its priority. So what is lowered is what can be raised again, which a thread that is thrown away finds out,
and it is raised for every thread that there is by then.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)

LOW_NICE = 19
_TASKS = Path("/proc/self/task")
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
"""The number of ioprio_set, which has no function in the C library."""
_IO_AS_NICE = 0
_IO_LOWEST = (2 << 13) | 7
"""The last in line of the best-effort class: to come back from there needs no right, as it does from the idle class."""


@dataclass(frozen=True)
class Rights:
    """What may be undone here."""

    nice: bool
    """A nice value that was raised may be lowered again."""
    idle: bool
    """A thread may leave the idle class."""


@dataclass(frozen=True)
class Plan:
    """How to load."""

    idle: bool = False
    """In the idle class: only on cores that nobody else wants."""
    batch: bool = False
    """In the batch class: as much of a core, but never ahead of a thread that has just woken up."""
    nice: int = 0

    def __str__(self) -> str:
        parts = ["class idle"] * self.idle + ["class batch"] * self.batch
        parts += [f"nice {self.nice}"] * bool(self.nice)
        return ", ".join([*parts, "low I/O priority"])


def plan(rights: Rights) -> Plan:
    """The lowest priority that can be left again."""
    return Plan(idle=rights.idle, batch=not rights.idle, nice=LOW_NICE if rights.nice else 0)


def probe() -> Rights:
    """Find out in a thread that is thrown away."""
    found = {"nice": False, "idle": False}

    def try_out() -> None:
        own = threading.get_native_id()
        before = os.getpriority(os.PRIO_PROCESS, own)
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, own, min(before + 1, LOW_NICE))
            os.setpriority(os.PRIO_PROCESS, own, before)
            found["nice"] = True
        with suppress(OSError):
            os.sched_setscheduler(own, os.SCHED_IDLE, os.sched_param(0))
            os.sched_setscheduler(own, os.SCHED_OTHER, os.sched_param(0))
            found["idle"] = True

    thread = threading.Thread(target=try_out, name="poise-probe")
    thread.start()
    thread.join()
    return Rights(**found)


@contextmanager
def lowered(for_s: float) -> Iterator[Callable[[], None]]:
    """Do something at low priority, for this long at most (0: not at all); yields what raises it again before that.

    Meant for a process of its own: all of its threads are raised. The limit is for machines so busy that low priority
    means standing still.
    """
    if not for_s:
        yield lambda: None
        return
    low = Lowered(plan(probe()))
    timer = threading.Timer(for_s, low.back)
    timer.daemon = True
    timer.start()
    low.lower()  # this thread alone, and those that it starts: the one that beats, and the timer, stay as they are
    try:
        yield low.back
    finally:
        timer.cancel()
        low.back()


class Lowered:
    """A priority that was lowered, and is raised once."""

    def __init__(self, chosen: Plan) -> None:
        self._plan = chosen
        self._nice = os.getpriority(os.PRIO_PROCESS, 0)
        self._lock = threading.Lock()
        self._low = False

    def lower(self) -> None:
        logger.info("loading with %s", self._plan)
        if not (self._plan.idle or self._plan.nice):
            logger.info("a lower one could not be left again: that takes CAP_SYS_NICE, or an RLIMIT_NICE of 20 or more")
        self._low = True
        policy = os.SCHED_IDLE if self._plan.idle else os.SCHED_BATCH
        self._set(threading.get_native_id(), policy, self._plan.nice, _IO_LOWEST)

    def back(self) -> None:
        """Every thread that there is by now: twice over, as one that was not seen may start another meanwhile."""
        with self._lock:
            if self._low:
                self._low = False
                for thread in (*_threads(), *_threads()):
                    self._set(thread, os.SCHED_OTHER, self._nice, _IO_AS_NICE)

    def _set(self, thread: int, policy: int, nice: int, io: int) -> None:
        with suppress(OSError):  # a thread that has just ended
            os.sched_setscheduler(thread, policy, os.sched_param(0))
            if self._plan.nice:
                os.setpriority(os.PRIO_PROCESS, thread, nice)
            _set_io(thread, io)


def _threads() -> Iterator[int]:
    return (int(task.name) for task in _TASKS.iterdir())


def _set_io(thread: int, priority: int) -> None:
    """On a machine whose number for the call is not known, nothing is done."""
    number = _IOPRIO_SET.get(os.uname().machine)
    if number is not None:
        who_is_a_thread = 1
        ctypes.CDLL(None).syscall(number, who_is_a_thread, thread, priority)

"""How a worker comes to run: as a process of its own, or as a thread of this one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Literal, Protocol

from poise.workers.child import WorkerSpec, run_thread

Isolation = Literal["process", "thread"]


class Running(Protocol):
    """A worker that was started."""

    @property
    def label(self) -> str:
        """Process or thread, and its number."""

    def outcome(self) -> str | None:
        """How it ended; None while it runs. A process that has ended is reaped by this."""

    def kill(self) -> bool:
        """End it at once; False when that cannot be done."""


class Launcher(Protocol):
    """Starts workers."""

    def launch(self, spec: WorkerSpec, isolation: Isolation, name: str, fd: int) -> Running:
        """Start a worker that takes over the descriptor, whatever comes of it."""


class ProcessesAndThreads:
    """Starts real ones."""

    def launch(self, spec: WorkerSpec, isolation: Isolation, name: str, fd: int) -> Running:
        return start_thread(spec, name, fd) if isolation == "thread" else start_process(spec, fd)


def start_process(spec: WorkerSpec, fd: int) -> Running:
    """A child process; it inherits the descriptor, and our stderr for its log."""
    # -P: the directory we were started in shadows nobody's modules. The spec comes as a file, so that no child can
    # keep us waiting by not reading it.
    command = [sys.executable, "-P", "-X", "faulthandler", "-m", "poise.workers.child", "--fd", str(fd)]
    stdin = os.memfd_create("poise-worker-spec")
    try:
        os.write(stdin, spec.to_json().encode())
        os.lseek(stdin, 0, os.SEEK_SET)
        process = subprocess.Popen(command, pass_fds=[fd], stdin=stdin, env=_environment(spec.threads))
    finally:
        os.close(stdin)
        os.close(fd)
    return ProcessWorker(process)


def start_thread(spec: WorkerSpec, name: str, fd: int) -> Running:
    """A thread of this process. It is a daemon: a model that hangs must not keep the interpreter from ending."""
    thread = threading.Thread(target=run_thread, args=(fd, spec), name=f"poise:{name}", daemon=True)
    try:
        thread.start()
    except BaseException:
        os.close(fd)
        raise
    return ThreadWorker(thread)


def _environment(threads: int) -> dict[str, str]:
    """Ours, and for libraries below NumPy the number of threads that they would else take from the machine."""
    return {"OMP_NUM_THREADS": str(threads), **os.environ}


class ProcessWorker:
    """A child process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.label = f"process {process.pid}"

    def outcome(self) -> str | None:
        status = self._process.poll()
        return None if status is None else describe_exit(status)

    def kill(self) -> bool:
        self._process.kill()
        return True


class ThreadWorker:
    """A thread of this process."""

    def __init__(self, thread: threading.Thread) -> None:
        self._thread = thread
        self.label = f"thread {thread.name}"

    def outcome(self) -> str | None:
        return None if self._thread.is_alive() else "thread ended"

    def kill(self) -> bool:
        return False


def describe_exit(status: int) -> str:
    """A status of subprocess in words."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"

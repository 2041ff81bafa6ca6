"""Start a server, wait until it answers, measure its CPU time, stop it: always by the process that was started here."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

READY_SECONDS = 60.0
STOP_SECONDS = 15.0
LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """A TCP port of the loopback address that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        return int(listener.getsockname()[1])


@contextmanager
def running(
    command: Sequence[str], log: Path, ready: Callable[[], bool], env: Mapping[str, str] | None = None
) -> Iterator[int]:
    """Run `command` until the block ends and yield its pid once `ready` says so; its output goes to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
    try:
        _wait(process, ready, log)
        yield process.pid
    finally:
        _stop(process)


def _wait(process: subprocess.Popen[bytes], ready: Callable[[], bool], log: Path) -> None:
    limit = time.monotonic() + READY_SECONDS
    while not ready():
        if process.poll() is not None or time.monotonic() > limit:
            tail = log.read_text(errors="replace")[-20000:]
            raise RuntimeError(f"{process.args!r} did not become ready (exit code {process.poll()}):\n{tail}")
        time.sleep(0.05)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with suppress(ProcessLookupError):  # what the server left behind of its own session
        os.killpg(process.pid, signal.SIGKILL)


def http_ok(port: int, path: str) -> bool:
    """Whether GET `path` answers 200."""
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}{path}", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def listening(port: int) -> bool:
    """Whether something accepts connections on `port`."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=2):
            return True
    except OSError:
        return False


def others_cpu_seconds(pid: int) -> float:
    """CPU time of the whole machine less that of `pid`'s family and of the programs this process ran and waited for.

    Its growth tells how much of the machine somebody else had meanwhile. Time stolen by a hypervisor counts.
    """
    user, nice, system, _idle, _wait, _irq, _softirq, stolen = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    )
    busy = (user + nice + system + stolen) / os.sysconf("SC_CLK_TCK")
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return busy - cpu_seconds(pid) - sum(usage.ru_utime + usage.ru_stime for usage in used)


def cpu_seconds(pid: int) -> float:
    """CPU time used so far by a process and its descendants, ended ones included."""
    ticks = sum(sum(int(field) for field in fields[11:15]) for fields in _family(pid))
    return ticks / os.sysconf("SC_CLK_TCK")


def _family(pid: int) -> list[list[str]]:
    """Fields of /proc/PID/stat after the name (state is 0, parent 1, CPU times 11 to 14) of `pid` and all below it."""
    processes = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            processes[int(stat.parent.name)] = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
    family = {pid}
    while more := {child for child, fields in processes.items() if int(fields[1]) in family} - family:
        family |= more
    return [processes[member] for member in family if member in processes]

"""Servers to test: in this process, or as the command line starts them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from poise.config import BatchSettings, Config, ModelConfig, ServerSettings
from poise.registry.control import Control
from poise.server import PoiseServer, serve_in_background

MODELS = Path(__file__).with_name("models.py")
LOCAL = "127.0.0.1:0"
SOON_S = 10.0
"""What shall happen, happens within this time, however busy the machine."""
HELD = ("queued_rows", "queued_bytes", "queues", "reruns", "batches", "leases", "requests", "body_bytes")


def until(true: Callable[[], Any], what: str, timeout_s: float = SOON_S) -> Any:
    """Wait for a condition; what it came to."""
    deadline = time.monotonic() + timeout_s
    while not (found := true()):
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.005)
    return found


def model(name: str, cls: str, options: dict[str, Any] | None = None, /, **settings: Any) -> ModelConfig:
    """A class of models.py to be served; fields of ModelConfig and of BatchSettings as keywords."""
    batching = {key: settings.pop(key) for key in list(settings) if key in BatchSettings.__dataclass_fields__}
    defaults: dict[str, Any] = {"isolation": "thread", "restart_delay_s": 0.05, "stop_timeout_s": 2.0}
    return ModelConfig(
        name=name,
        options=options or {},
        batching=BatchSettings(**batching),
        **{"path": f"{MODELS}:{cls}", **defaults, **settings},
    )


@dataclass
class Stand:
    """A server with its addresses, and what may be asked about it."""

    server: PoiseServer
    grpc: str = field(init=False)
    http: str = field(init=False)

    def __post_init__(self) -> None:
        assert self.server.grpc_address and self.server.http_address
        self.grpc, self.http = self.server.grpc_address, self.server.http_address

    @property
    def state(self) -> dict[str, int]:
        state: dict[str, int] = json.loads(self.server.core.debug_state())
        return state

    def settle(self) -> None:
        """Wait until nothing is held for anybody."""
        until(lambda: not self.held(), f"nothing held any more; there is {self.state}")

    def held(self) -> dict[str, int]:
        state = self.state
        return {name: state[name] for name in HELD if state[name]}

    def wait_for_models(self, names: set[str]) -> None:
        """Wait until all of these serve, whatever becomes of others."""
        until(lambda: not names & set(self.server.not_ready()), f"all of {names} ready", 30.0)

    def metric(self, name: str, **labels: str) -> float:
        """The sum over all series of a metric that have these labels."""
        return metric(self.server.core.metrics(), name, **labels)


def metric(text: str, name: str, **labels: str) -> float:
    total = 0.0
    for line in text.splitlines():
        found = re.match(rf"poise_{name}(?:\{{(.*)\}})? (\S+)", line)
        if found and all(f'{key}="{value}"' in (found[1] or "") for key, value in labels.items()):
            total += float(found[2])
    return total


@contextmanager
def serving(
    *models: ModelConfig,
    drain_timeout_s: float = 5.0,
    ready: bool = True,
    control: Control | None = None,
    **server: Any,
) -> Iterator[Stand]:
    """A server in this process; fields of ServerSettings as keywords."""
    settings = ServerSettings(**{"grpc": LOCAL, "http": LOCAL, "io_threads": 1, **server})
    config = Config(server=settings, models=models, drain_timeout_s=drain_timeout_s)
    with serve_in_background(config, 30.0 if ready else 0.0, control) as running:
        yield Stand(running)


class ServerProcess:
    """`poise serve` as an operator starts it. What it logs is kept."""

    COMMAND: tuple[str, ...] = ("serve", "--grpc", LOCAL, "--http", LOCAL)

    def __init__(self, *arguments: str, ready: bool = True, ready_s: float = 30.0) -> None:
        command = [sys.executable, "-m", "poise", *self.COMMAND, *arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        try:
            self.grpc, self.http = until(self._addresses, "the addresses in the log", 30.0)
            if ready:
                until(lambda: "ready: every model" in self.log, "a ready server", ready_s)
        except BaseException:
            self.close()
            raise

    def _read(self) -> None:
        assert self.process.stderr
        self.lines.extend(self.process.stderr)

    @property
    def log(self) -> str:
        return "".join(self.lines)

    def _addresses(self) -> tuple[str, str] | None:
        assert self.process.poll() is None, self.log
        found = re.search(r"listening: gRPC (\S+), HTTP (\S+)", self.log)
        return (found[1], found[2]) if found else None

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, timeout_s: float = SOON_S) -> int:
        return self.process.wait(timeout_s)

    def workers(self) -> list[int]:
        return workers(self.process.pid)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stderr
        self.process.stderr.close()

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def workers(server: int | None = None) -> list[int]:
    """Processes of workers that a server, by default this process, has started and that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if int(parent) == (server or os.getpid()) and state != "Z" and b"poise.workers.child" in command:
                found.append(int(entry.name))
    return found


def alive(pid: int) -> bool:
    """Whether this process runs, or at least has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

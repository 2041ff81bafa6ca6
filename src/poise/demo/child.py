"""The demo's server: `poise serve` as anyone would start it, in a process of its own."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from poise.clock import Clock, SystemClock
from poise.demo.models import DemoError

HOST = "127.0.0.1"
READY_WITHIN_S = 60.0
STOP_WITHIN_S = 20.0
LINES_OF_LOG = 15

CONFIG = """\
# Written by `make demo`; any of it can be tried with: poise serve --config {path}
[server]
grpc = "{grpc}"
http = "{http}"

# Heavy: about 20 ms of one core for each row, so batches are kept short.
[models.filetype]
path = "{models}/filetype"
backend = "onnxruntime"
[models.filetype.batching]
max_batch_size = 8
batch_timeout_micros = 0

# Light: what is measured here is the server itself.
[models.ranker]
path = "{models}/ranker"
backend = "onnxruntime"
[models.ranker.batching]
max_batch_size = 64
batch_timeout_micros = 0
[models.ranker.options]
intra_op_threads = 1
"""


@dataclass(frozen=True)
class Address:
    """Where the demo's server listens."""

    grpc_port: int
    http_port: int

    @property
    def grpc(self) -> str:
        return f"{HOST}:{self.grpc_port}"

    @property
    def http(self) -> str:
        return f"{HOST}:{self.http_port}"


def write_config(path: Path, address: Address, models: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(CONFIG.format(path=path, grpc=address.grpc, http=address.http, models=models))


def refuse_busy_ports(address: Address) -> None:
    """Say which port is taken, before anything is started."""
    for port, option in ((address.grpc_port, "--grpc-port"), (address.http_port, "--http-port")):
        with socket.socket() as probe:
            # As the server will do it: a port whose last owner has just left counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError as error:
                taken = f"cannot listen on {HOST}:{port} ({error.strerror})"
                raise DemoError(f'{taken}; choose another with: make demo ARGS="{option} N"') from error


@contextmanager
def serving(config: Path, address: Address, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the server, wait until it is ready, and end it whatever happens."""
    refuse_busy_ports(address)
    command = [str(Path(sys.executable).with_name("poise")), "serve", "--config", str(config)]
    with log.open("wb") as output:
        # A group of its own: Ctrl-C then reaches the demo alone, which ends the server with the one signal it needs.
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, process_group=0)
    try:
        wait_ready(child, f"http://{address.http}/readyz", log, SystemClock())
        yield child
    finally:
        stop(child)
    if child.returncode:
        raise DemoError(f"the server did not end cleanly (status {child.returncode}); its last words:\n{tail(log)}")


def wait_ready(child: subprocess.Popen[bytes], url: str, log: Path, clock: Clock) -> None:
    deadline = clock.now() + READY_WITHIN_S
    while not answers(url):
        if child.poll() is not None:
            raise DemoError(f"the server ended with status {child.returncode}; its last words:\n{tail(log)}")
        if clock.now() > deadline:
            raise DemoError(f"the server was not ready within {READY_WITHIN_S:.0f} s; its last words:\n{tail(log)}")
        clock.sleep(0.05)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:  # noqa: S310 - always http, on this machine
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def stop(child: subprocess.Popen[bytes]) -> None:
    """Let it drain; a server that cannot is killed, and says so by its exit status."""
    child.send_signal(signal.SIGTERM)  # does nothing to one that has ended
    try:
        child.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-LINES_OF_LOG:])

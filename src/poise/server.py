"""The composition root: one server with its registry, its supervisor and the loop that drives both.

    PoiseServer(config).run()                      # until SIGTERM or SIGINT
    with serve_in_background(config) as server:    # in tests and notebooks
        ...

Requests never come through here. The loop sleeps in the data plane until something happens to a worker or a timer is
due, so that an idle server stays idle.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn, Protocol

from poise.clock import Clock, SystemClock
from poise.config import Config
from poise.cpu import cpu_budget
from poise.registry.calls import Calls
from poise.registry.calls import Core as CallsCore
from poise.registry.control import Control, Requirement, Rereader
from poise.registry.registry import Core as RegistryCore
from poise.registry.registry import Registry
from poise.workers.crew import Notice, VersionEnded, VersionFailed, VersionReady, WorkersChanged
from poise.workers.launch import Launcher, ProcessesAndThreads
from poise.workers.supervisor import Core as SupervisorCore
from poise.workers.supervisor import Supervisor

logger = logging.getLogger(__name__)
core_logger = logging.getLogger("poise.core")

#: The longest sleep of the loop: Python learns of a signal only between calls into the data plane.
MAX_WAIT_S = 0.5
#: Stopping is done in slices: drain a little, look after workers, look at the time.
SLICE_S = 0.1
#: Beyond what workers are given to end by themselves.
STOP_MARGIN_S = 2.0


class Core(RegistryCore, SupervisorCore, CallsCore, Protocol):
    """What a server needs of `poise._core.Server`."""

    def start(self) -> tuple[str | None, str | None]: ...
    def set_ready(self, ready: bool) -> None: ...
    def events(self, timeout_s: float) -> list[tuple[str, int, str]]: ...
    def metrics(self) -> str: ...
    def debug_state(self) -> str: ...
    def drain(self, timeout_s: float) -> bool: ...
    def close(self) -> None: ...


class PoiseServer:
    """One model server. `start`, the loop and `stop` belong to one thread; `request_stop` to any."""

    def __init__(
        self,
        config: Config,
        core: Core | None = None,
        launcher: Launcher | None = None,
        clock: Clock | None = None,
        control: Control | None = None,
    ) -> None:
        self.config = config
        self.grpc_address: str | None = None
        self.http_address: str | None = None
        self._clock = clock or SystemClock()
        self._core = core or _new_core(config)
        self._supervisor = Supervisor(self._core, launcher or ProcessesAndThreads(), cpu_budget(), config.log_level)
        control = control or Control()
        self._registry = Registry(self._core, self._supervisor, config.models, control.source, control.batching)
        may_wait = control.new_labels_may_wait
        self._calls = Calls(self._core, self._registry, control.formats, new_labels_may_wait=may_wait)
        self._rereader = Rereader(self._registry, control, self._clock.now())
        self._requirement = Requirement(self._registry) if config.require_all_models else None
        self._exit_status = 0
        self._ready = threading.Event()
        self._stop_requested = threading.Event()
        self._stopped = False

    @property
    def stop_requested(self) -> bool:
        return self._stop_requested.is_set()

    @property
    def core(self) -> Core:
        """The data plane's handle, for metrics and state."""
        return self._core

    def start(self) -> None:
        """Bind and listen; models load in the loop. Raises OSError when an address cannot be had."""
        self.grpc_address, self.http_address = self._core.start()
        logger.info("listening: gRPC %s, HTTP %s", self.grpc_address or "off", self.http_address or "off")

    def run(self) -> int:
        """Start, serve until SIGTERM or SIGINT, or a required model fails; drain, stop; returns the exit status."""
        self.start()
        with _signals_to(self):
            self.loop()
        return self._exit_status

    def loop(self) -> None:
        """Serve until a stop is requested, then stop in order."""
        try:
            while not self._stop_requested.is_set():
                self.step(MAX_WAIT_S)
        finally:
            self.stop()

    def step(self, timeout_s: float) -> None:
        """Wait for events, at most until the next timer or the timeout, and do what there is to do."""
        now = self._clock.now()
        owners = (self._registry, self._supervisor, self._rereader)
        due = [due for owner in owners if (due := owner.next_due()) is not None]
        wait_s = max(0.0, min([timeout_s, *(moment - now for moment in due)]))
        for kind, number, text in self._core.events(wait_s):
            if kind == "log":
                core_logger.log(number, "%s", text)
            elif kind == "call" and self.stop_requested:
                self._core.reply(number, "UNAVAILABLE", "the server is stopping")
            elif kind == "call":
                self._calls.handle(number, text, self._clock.now())
            else:
                self._supervisor.on_event(kind, number, text, self._clock.now())
        now = self._clock.now()
        if not self.stop_requested:
            self._rereader.tick(now)
        self._registry.tick(now)
        self._supervisor.tick(now)
        self._deliver(now)
        self._calls.settle()
        self._check_requirement()
        self._tell_readiness()

    def request_stop(self) -> None:
        """Let the loop stop the server; returns at once."""
        self._stop_requested.set()

    def request_reload(self) -> None:
        """Let the loop read again what is to be served; returns at once."""
        self._rereader.request()

    def wait_ready(self, timeout_s: float) -> bool:
        """From another thread: wait until every configured model serves."""
        return self._ready.wait(timeout_s)

    def not_ready(self) -> list[str]:
        """Names of the models without a version that serves."""
        return self._registry.missing()

    def stop(self) -> None:
        """Readiness off, serve on for the delay, drain, retire every version, end every worker, close. Idempotent."""
        if self._stopped:
            return
        self._stopped = True
        self._stop_requested.set()
        self._tell_readiness()
        try:
            self._linger()
            self._drain()
            self._registry.retire_all(self._clock.now())
            self._step_until(lambda: self._registry.idle and self._supervisor.idle, self._stop_timeout_s())
        finally:
            self._supervisor.close(self._clock)
            self._core.close()
        logger.info("stopped")

    def kill(self) -> None:
        """End every worker at once and wait for nothing: the caller is about to exit."""
        self._supervisor.kill_all()

    def _linger(self) -> None:
        """Serve on while who sends requests finds out that readiness is off."""
        delay_s = self.config.drain_delay_s
        if delay_s:
            logger.info("not ready any more, but serving for another %g s (drain_delay_s)", delay_s)
            self._step_until(lambda: False, delay_s)

    def _drain(self) -> None:
        timeout_s = self.config.drain_timeout_s
        logger.info("draining: up to %g s for requests under way", timeout_s)
        if not self._step_until(lambda: self._core.drain(SLICE_S), timeout_s, wait_s=0.0):
            logger.warning("drain_timeout_s of %g s is over: requests still under way are cut off", timeout_s)

    def _step_until(self, done: Callable[[], bool], timeout_s: float, wait_s: float = SLICE_S) -> bool:
        deadline = self._clock.now() + timeout_s
        while not done():
            if self._clock.now() >= deadline:
                return False
            self.step(wait_s)
        return True

    def _stop_timeout_s(self) -> float:
        return STOP_MARGIN_S + max((model.stop_timeout_s for model in self._registry.configs), default=0.0)

    def _deliver(self, now: float) -> None:
        while notices := self._supervisor.take_notices():
            for notice in notices:
                self._on_notice(notice, now)

    def _on_notice(self, notice: Notice, now: float) -> None:
        match notice:
            case VersionReady(handle, signatures_json):
                self._registry.version_ready(handle, signatures_json, now)
            case VersionFailed(handle, why):
                self._registry.version_failed(handle, why, now)
            case VersionEnded(handle):
                self._registry.version_ended(handle, now)
            case WorkersChanged(handle, trouble):
                self._registry.version_troubled(handle, trouble)

    def _check_requirement(self) -> None:
        """End a server that cannot serve all that it was started for."""
        if self._requirement and (failure := self._requirement.failure()) is not None:
            self._requirement = None
            if failure:
                logger.error("Failed to start server. Error: UNKNOWN: %s", failure)
                self._exit_status = 1
                self.request_stop()

    def _tell_readiness(self) -> None:
        ready = self._registry.ready and not self._stop_requested.is_set()
        if ready == self._ready.is_set():
            return
        self._core.set_ready(ready)
        if ready:
            self._ready.set()
            logger.info("ready: every model has a version that serves")
        else:
            self._ready.clear()
            logger.info("not ready any more: %s", ", ".join(self._registry.missing()) or "stopping")


def _new_core(config: Config) -> Core:
    from poise import _core  # noqa: PLC0415  (only a server that really serves needs the compiled module)

    return _core.Server(config.server.to_json())


@contextmanager
def _signals_to(server: PoiseServer) -> Iterator[None]:
    """The first SIGTERM or SIGINT asks for a stop in order, a second one exits at once. SIGHUP reads files again."""

    def handle(number: int, _frame: FrameType | None) -> None:
        if server.stop_requested:
            _exit_now(server, number)
        logger.info("%s: stopping; once more exits at once", signal.Signals(number).name)
        server.request_stop()

    def reread(_number: int, _frame: FrameType | None) -> None:
        logger.info("SIGHUP: reading again what is to be served")
        server.request_reload()

    handlers = {signal.SIGTERM: handle, signal.SIGINT: handle, signal.SIGHUP: reread}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit_now(server: PoiseServer, number: int) -> NoReturn:
    server.kill()
    os._exit(128 + number)


@contextmanager
def serve_in_background(
    config: Config, ready_timeout_s: float = 60.0, control: Control | None = None
) -> Iterator[PoiseServer]:
    """A server in a thread of this process, ready when the block is entered and stopped when it is left.

    With a timeout of 0 the block is entered at once. Raises TimeoutError, and OSError as `PoiseServer.start` does.
    """
    server = PoiseServer(config, control=control)
    server.start()
    thread = threading.Thread(target=server.loop, name="poise-server")
    thread.start()
    try:
        if ready_timeout_s and not server.wait_ready(ready_timeout_s):
            raise TimeoutError(f"not ready within {ready_timeout_s:g} s: {', '.join(server.not_ready())}")
        yield server
    finally:
        server.request_stop()
        thread.join()

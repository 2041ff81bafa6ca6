"""Starts, watches, replaces and ends the workers of every version. What to do is decided in `restart`.

One thread owns a supervisor: it hands over the events of the data plane, calls `tick` when `next_due` says so, and
collects with `take_notices` what versions have come to.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Protocol

from poise.backoff import Backoff
from poise.clock import Clock
from poise.config import ModelConfig
from poise.workers.child import WorkerSpec
from poise.workers.crew import Crew, Notice, Seat, VersionEnded, VersionFailed, VersionReady, Worker, WorkersChanged
from poise.workers.launch import Launcher
from poise.workers.reaper import REAP_EVERY_S, Leaving, Reaper
from poise.workers.restart import Phase, Verdict, after_loss, failures_after, low_priority_s, threads_per_worker
from poise.workers.warmup import Plan

logger = logging.getLogger(__name__)

#: A worker whose channel has ended gets this long to say by its exit status why.
LOSS_GRACE_S = 0.2
#: A process that was killed is gone by then, unless the kernel is stuck with it.
KILL_WITHIN_S = 5.0


class Core(Protocol):
    """What a supervisor needs of `poise._core.Server`."""

    def attach_worker(self, handle: int) -> tuple[int, int]: ...
    def detach_worker(self, worker: int) -> None: ...
    def note_load(self, handle: int, path: str, succeeded: bool, took_s: float) -> None: ...


class Supervisor:
    """Owner of all worker processes and threads of one server."""

    def __init__(self, core: Core, launcher: Launcher, cpus: int = 1, log_level: str = "INFO") -> None:
        self._core = core
        self._launcher = launcher
        self._cpus = cpus
        self._log_level = log_level
        self._crews: dict[int, Crew] = {}
        self._seats: dict[int, Seat] = {}
        self._reaper = Reaper()
        self._notices: list[Notice] = []

    def start(self, handle: int, config: ModelConfig, version: int, location: str, now: float) -> None:
        """Start the workers of a version; the outcome is a VersionReady or a VersionFailed."""
        backoff = Backoff(config.restart_delay_s, config.restart_delay_max_s)
        spec = WorkerSpec(
            model=config.name,
            version=version,
            path=location,
            backend=config.backend,
            options=config.options,
            threads=threads_per_worker(self._cpus, config.workers),
            log_level=self._log_level,
            warmup=_warmup(config),
        )
        crew = self._crews[handle] = Crew(handle, config, spec, backoff, now)
        crew.seats = [Seat(crew, f"{config.name}/{version}/{index}") for index in range(config.workers)]
        for seat in crew.seats:
            if crew.phase is Phase.LOADING:
                self._launch(seat, now)

    def retire(self, handle: int, now: float) -> None:
        """Start no workers for a version any more; those that serve go on until the data plane says `retired`."""
        if crew := self._crews.get(handle):
            crew.phase = Phase.RETIRING
            self._dismiss(crew, now, keep_ready=True)

    def abandon(self, handle: int, now: float) -> None:
        """End a version's workers at once, whatever they do; unknown handles are ignored."""
        if crew := self._crews.get(handle):
            crew.phase = Phase.ENDING
            self._dismiss(crew, now)

    def on_event(self, kind: str, number: int, text: str, now: float) -> None:
        """Take in an event of the data plane that is about a worker, or that a version is `retired`."""
        if kind == "retired":
            if crew := self._crews.get(number):
                self._close(crew, now)
            return
        seat = self._seats.get(number)
        if seat is None:  # its loss was dealt with before the event came
            return
        if kind == "worker_ready":
            self._on_ready(seat, text, now)
        elif kind == "worker_failed":
            self._lose(seat, text, now, explained=True)
        elif kind == "worker_lost":
            self._lose(seat, f"worker lost: {text}", now)
        elif kind == "worker_closed":
            self._release(seat, now + seat.crew.config.stop_timeout_s, lost=False)

    def tick(self, now: float) -> None:
        """Do what is due: restarts, load timeouts, kills, reaping."""
        for seat in [seat for crew in self._crews.values() for seat in crew.seats]:
            due = seat.due()
            if due is None or now < due:
                continue
            if seat.worker and seat.close_by is not None:
                self._release(seat, now, lost=False)
            elif seat.worker:
                timeout = seat.crew.config.load_timeout_s
                self._lose(seat, f"it did not load within {timeout:g} s (load_timeout_s)", now, grace_s=0.0)
            else:
                self._launch(seat, now)
        self._reap(now)

    def next_due(self) -> float | None:
        """When `tick` has something to do."""
        due = [self._reaper.next_due()]
        due += [seat.due() for crew in self._crews.values() for seat in crew.seats]
        # A crew that has nothing left to wait for ends in the next tick.
        due += [0.0 for crew in self._crews.values() if self._is_over(crew) and self._reaper.next_due() is None]
        return min((moment for moment in due if moment is not None), default=None)

    def take_notices(self) -> list[Notice]:
        """What versions have come to since the last call."""
        notices, self._notices = self._notices, []
        return notices

    def close(self, clock: Clock) -> None:
        """End every worker at once, and wait a little until each is reaped."""
        deadline = clock.now() + KILL_WITHIN_S
        for handle in list(self._crews):
            self.abandon(handle, clock.now())
        self.tick(clock.now())
        while not self.idle and clock.now() < deadline:
            clock.sleep(REAP_EVERY_S)
            self.tick(clock.now())

    def kill_all(self) -> None:
        """Kill every worker and wait for nothing. May interrupt anything else that goes on in here."""
        for seat in list(self._seats.values()):
            if seat.worker:
                seat.worker.running.kill()
        self._reaper.kill_all()

    @property
    def idle(self) -> bool:
        """Whether no worker is left."""
        return not self._crews and not self._reaper.handles()

    def _launch(self, seat: Seat, now: float) -> None:
        seat.restart_at = None
        crew = seat.crew
        try:
            worker_id, fd = self._core.attach_worker(crew.handle)
        except Exception as error:  # noqa: BLE001  (whatever it is, this version has one worker less)
            self._fall(seat, f"no channel for a worker: {error}", now, served_s=None)
            return
        try:
            running = self._launcher.launch(self._orders(crew), crew.config.isolation, seat.name, fd)
        except Exception as error:  # noqa: BLE001  (as above)
            self._core.detach_worker(worker_id)
            self._fall(seat, f"no worker could be started: {error}", now, served_s=None)
            return
        seat.worker = Worker(worker_id, running, now)
        self._seats[worker_id] = seat
        logger.debug("%s: started (%s)", seat.name, running.label)

    def _orders(self, crew: Crew) -> WorkerSpec:
        others_serve = any(seat.worker and seat.worker.ready_at is not None for seat in self._seats.values())
        low_s = low_priority_s(crew.phase, crew.config.load_timeout_s, others_serve=others_serve)
        return replace(crew.spec, low_priority_s=low_s)

    def _on_ready(self, seat: Seat, signatures_json: str, now: float) -> None:
        crew, worker = seat.crew, seat.worker
        assert worker is not None  # noqa: S101  (a seat is found by the id of its worker)
        if crew.phase is Phase.SERVING and json.loads(signatures_json) != json.loads(crew.signatures_json):
            self._lose(seat, "it has other signatures than the version had at first: were its files replaced?", now)
            return
        worker.ready_at = now
        logger.info("%s: ready after %.2f s (%s)", seat.name, now - worker.started_at, worker.running.label)
        if crew.phase is Phase.LOADING:
            crew.phase = Phase.SERVING
            crew.signatures_json = signatures_json
            self._core.note_load(crew.handle, crew.spec.path, True, now - crew.started_at)
            self._notices.append(VersionReady(crew.handle, signatures_json))
        elif crew.phase is Phase.SERVING and crew.is_complete():
            self._notices.append(WorkersChanged(crew.handle, ""))

    def _lose(
        self, seat: Seat, why: str, now: float, grace_s: float = LOSS_GRACE_S, *, explained: bool = False
    ) -> None:
        """A worker is gone, or shall be. Unless it has explained itself, its exit status may tell more."""
        worker = seat.worker
        assert worker is not None  # noqa: S101  (callers have looked)
        served_s = None if worker.ready_at is None else now - worker.ready_at
        self._release(seat, now + grace_s, lost=not explained)
        self._fall(seat, why, now, served_s)

    def _fall(self, seat: Seat, why: str, now: float, served_s: float | None) -> None:
        crew = seat.crew
        verdict = after_loss(crew.phase)
        if verdict is Verdict.RESTART:
            seat.failures = failures_after(seat.failures, served_s)
            wait_s = crew.backoff.wait_s(seat.failures)
            seat.restart_at = now + wait_s
            logger.warning("%s: %s; restarting in %g s", seat.name, why, wait_s)
            self._notices.append(WorkersChanged(crew.handle, f"{seat.name}: {why}; restart {seat.failures}"))
        elif verdict is Verdict.GIVE_UP:
            crew.why = why
            self._core.note_load(crew.handle, crew.spec.path, False, now - crew.started_at)
            self.abandon(crew.handle, now)
        else:
            logger.warning("%s: %s, while its version retires", seat.name, why)

    def _close(self, crew: Crew, now: float) -> None:
        """The workers have been told to close; a time is set for it."""
        crew.phase = Phase.ENDING
        self._dismiss(crew, now, keep_ready=True)
        for seat in crew.seats:
            seat.close_by = now + crew.config.stop_timeout_s

    def _dismiss(self, crew: Crew, now: float, *, keep_ready: bool = False) -> None:
        """Let nobody load any more; with `keep_ready` those that serve stay."""
        for seat in crew.seats:
            seat.restart_at = None
            if seat.worker and not (keep_ready and seat.worker.ready_at is not None):
                self._release(seat, now, lost=False)
        if not keep_ready:
            self._reaper.hurry(crew.handle, now + LOSS_GRACE_S)

    def _release(self, seat: Seat, kill_at: float, *, lost: bool) -> None:
        """Take the worker's channel away and see to it that it goes."""
        worker, seat.worker = seat.worker, None
        assert worker is not None  # noqa: S101  (callers have looked)
        del self._seats[worker.id]
        self._core.detach_worker(worker.id)
        self._reaper.add(Leaving(seat.crew.handle, seat.name, worker.running, kill_at, lost))

    def _is_over(self, crew: Crew) -> bool:
        return crew.phase is Phase.ENDING and crew.is_empty()

    def _reap(self, now: float) -> None:
        for handle, outcome in self._reaper.tick(now):
            crew = self._crews.get(handle)
            if crew and crew.why is not None:
                crew.why += f" ({outcome})"
        leaving = self._reaper.handles()
        for crew in [crew for crew in self._crews.values() if self._is_over(crew) and crew.handle not in leaving]:
            del self._crews[crew.handle]
            ended = VersionEnded(crew.handle) if crew.why is None else VersionFailed(crew.handle, crew.why)
            self._notices.append(ended)


def _warmup(config: ModelConfig) -> Plan:
    batching = config.batching
    return Plan(
        enabled=config.warmup,
        iterations=config.warmup_iterations,
        limit_s=config.warmup_limit_s,
        allowed=batching.allowed_batch_sizes,
        most=batching.execution_size,
    )

"""What a supervisor remembers of the workers of a version, and the news that it has for others."""

from __future__ import annotations

from dataclasses import dataclass, field

from poise.backoff import Backoff
from poise.config import ModelConfig
from poise.workers.child import WorkerSpec
from poise.workers.launch import Running
from poise.workers.restart import Phase


@dataclass(frozen=True)
class VersionReady:
    """The first worker of a version has loaded it."""

    handle: int
    signatures_json: str


@dataclass(frozen=True)
class VersionFailed:
    """A version could not be loaded, and all its workers are gone."""

    handle: int
    why: str


@dataclass(frozen=True)
class VersionEnded:
    """A version was retired or abandoned, and all its workers are gone."""

    handle: int


@dataclass(frozen=True)
class WorkersChanged:
    """A version that serves has lost a worker, or got all of them back: then `trouble` is empty."""

    handle: int
    trouble: str


Notice = VersionReady | VersionFailed | VersionEnded | WorkersChanged


@dataclass
class Worker:
    """A worker with a channel."""

    id: int
    running: Running
    started_at: float
    ready_at: float | None = None


@dataclass
class Seat:
    """A place for one worker, through all its restarts."""

    crew: Crew
    name: str
    worker: Worker | None = None
    failures: int = 0
    restart_at: float | None = None
    close_by: float | None = None
    """When a worker that was told to close has to be gone."""

    def due(self) -> float | None:
        """When something is to be done about it: a restart, or the end of its time to load or to close."""
        if self.worker and self.worker.ready_at is None:
            return self.worker.started_at + self.crew.config.load_timeout_s
        return self.close_by if self.worker else self.restart_at


@dataclass
class Crew:
    """The workers of one version."""

    handle: int
    config: ModelConfig
    spec: WorkerSpec
    backoff: Backoff
    started_at: float = 0.0
    phase: Phase = Phase.LOADING
    signatures_json: str = ""
    why: str | None = None
    """Why the version failed to load; None when it did not."""
    seats: list[Seat] = field(default_factory=list)

    def is_empty(self) -> bool:
        return all(seat.worker is None for seat in self.seats)

    def is_complete(self) -> bool:
        return all(seat.worker and seat.worker.ready_at is not None for seat in self.seats)

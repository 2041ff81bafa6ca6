"""Sees to it that workers without a channel go: by themselves within their grace, else killed; reaped either way."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from poise.workers.launch import Running

logger = logging.getLogger(__name__)

#: How often leaving workers are looked at, while there are any.
REAP_EVERY_S = 0.05


@dataclass
class Leaving:
    """A worker on its way out."""

    handle: int
    """The version that it worked for."""
    name: str
    running: Running
    kill_at: float
    lost: bool
    """Whether nobody told it to leave."""
    killed: bool = False


class Reaper:
    """Owner of workers that are leaving. No zombie stays as long as `tick` is called when `next_due` says."""

    def __init__(self) -> None:
        self._leaving: list[Leaving] = []
        self._look_at = 0.0

    def add(self, leaving: Leaving) -> None:
        self._leaving.append(leaving)
        self._look_at = 0.0

    def hurry(self, handle: int, kill_at: float) -> None:
        """Shorten the grace of a version's workers."""
        for leaving in self._leaving:
            if leaving.handle == handle:
                leaving.kill_at = min(leaving.kill_at, kill_at)

    def next_due(self) -> float | None:
        return self._look_at if self._leaving else None

    def tick(self, now: float) -> list[tuple[int, str]]:
        """Kill and reap; returns (version, how it ended) of lost workers that ended by themselves."""
        told, staying = [], []
        for leaving in self._leaving:
            outcome = _outcome(leaving, now)
            if outcome is None:
                staying.append(leaving)
            elif leaving.lost and not leaving.killed:
                logger.warning("%s: %s (%s)", leaving.name, outcome, leaving.running.label)
                told.append((leaving.handle, outcome))
        self._leaving = staying
        self._look_at = now + REAP_EVERY_S
        return told

    def handles(self) -> set[int]:
        """Versions that have workers leaving."""
        return {leaving.handle for leaving in self._leaving}

    def kill_all(self) -> None:
        for leaving in list(self._leaving):
            leaving.running.kill()


def _outcome(leaving: Leaving, now: float) -> str | None:
    """How the worker ended, None while it runs. Kills it when its time is over."""
    outcome = leaving.running.outcome()
    if outcome is not None or leaving.killed or now < leaving.kill_at:
        return outcome
    leaving.killed = True
    if leaving.running.kill():
        return leaving.running.outcome()
    logger.error("%s: it does not end and cannot be killed (%s)", leaving.name, leaving.running.label)
    return "left behind"

"""What to do about workers that are gone, late or leaving. Pure functions."""

from __future__ import annotations

from enum import Enum

#: A worker that has served this long owes nothing to earlier failures.
STABLE_S = 60.0


class Phase(Enum):
    """Where the workers of one version stand."""

    LOADING = "loading"
    """None has been ready yet: whether the version can be served is not known."""
    SERVING = "serving"
    """At least one has been ready: the version is good, losses are accidents."""
    RETIRING = "retiring"
    """No new work comes, what is queued is still served: by the workers that there are."""
    ENDING = "ending"
    """No more work will come."""


class Verdict(Enum):
    """What a loss means."""

    GIVE_UP = "give up"
    RESTART = "restart"
    LET_GO = "let go"


def after_loss(phase: Phase) -> Verdict:
    """A loss while loading condemns the version: the registry decides whether to try it again, and when."""
    return {
        Phase.LOADING: Verdict.GIVE_UP,
        Phase.SERVING: Verdict.RESTART,
        Phase.RETIRING: Verdict.LET_GO,
        Phase.ENDING: Verdict.LET_GO,
    }[phase]


def failures_after(failures: int, served_s: float | None) -> int:
    """Failures in a row, this loss included. `served_s` is None for a worker that never got ready."""
    return 1 if served_s is not None and served_s >= STABLE_S else failures + 1


def low_priority_s(phase: Phase, load_timeout_s: float, *, others_serve: bool) -> float:
    """How long a worker loads at low priority: not when nobody would be disturbed, nor when it is missed already.

    Half of the time that there is: on a busy machine low priority may mean standing still.
    """
    return load_timeout_s / 2 if others_serve and phase is Phase.LOADING else 0.0


def threads_per_worker(cpus: int, workers: int) -> int:
    """Cores that one batch may use: the workers of a model share them out."""
    return max(1, cpus // workers)

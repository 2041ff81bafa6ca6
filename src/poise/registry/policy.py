"""Which versions should be served, and what to do next about it. Pure functions: tables in, answers out."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

#: Older versions taken in place of newest ones that fail to load, so that a restart is never worse than staying up.
FALLBACKS = 1


class State(IntEnum):
    """TensorFlow Serving's ModelVersionStatus.State; an END with an error is a version that failed."""

    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


@dataclass(frozen=True)
class VersionView:
    """What a policy knows about one version."""

    version: int
    state: State
    aspired: bool


@dataclass(frozen=True)
class Load:
    """Start serving a version."""

    version: int


@dataclass(frozen=True)
class Unload:
    """Stop serving a version, or stop loading it."""

    version: int


Action = Load | Unload | None
Policy = Callable[[Sequence[VersionView]], Action]


def availability_preserving(versions: Sequence[VersionView]) -> Action:
    """Load the new beside the old, and drop the old only when an aspired version serves."""
    if (cancelled := _lowest(versions, State.LOADING, aspired=False)) is not None:
        return Unload(cancelled)
    aspired = [view for view in versions if view.aspired]
    served = any(view.state is State.AVAILABLE for view in aspired)
    surplus = [view.version for view in versions if view.state is State.AVAILABLE and not view.aspired]
    if surplus and (not aspired or served or len(surplus) > 1):
        return Unload(min(surplus))
    return _load_highest(aspired)


def resource_preserving(versions: Sequence[VersionView]) -> Action:
    """Never hold two at once: all that is not aspired has ended before anything loads."""
    for state in (State.LOADING, State.AVAILABLE):
        if (surplus := _lowest(versions, state, aspired=False)) is not None:
            return Unload(surplus)
    if any(view.state is State.UNLOADING and not view.aspired for view in versions):
        return None
    return _load_highest([view for view in versions if view.aspired])


def _lowest(versions: Sequence[VersionView], state: State, *, aspired: bool) -> int | None:
    found = [view.version for view in versions if view.state is state and view.aspired is aspired]
    return min(found, default=None)


def _load_highest(aspired: Sequence[VersionView]) -> Action:
    new = [view.version for view in aspired if view.state is State.START]
    return Load(max(new)) if new else None


POLICIES: dict[str, Policy] = {"availability": availability_preserving, "resource": resource_preserving}
"""By the names that `ModelConfig.load_policy` takes."""


@dataclass(frozen=True)
class Aspired:
    """The versions that should be served, and those that would be if their files were complete."""

    versions: frozenset[int]
    incomplete: frozenset[int] = frozenset()


def aspired_versions(
    policy: int | str | Collection[int],
    found: Iterable[int],
    is_complete: Callable[[int], bool],
    is_failing: Callable[[int], bool],
) -> Aspired:
    """What `ModelConfig.versions` asks for, of the versions that were found.

    `is_complete` is asked about as few versions as will do: it reads files.
    """
    if isinstance(policy, int):
        return _latest(found, policy, is_complete, is_failing)
    wanted = [version for version in found if isinstance(policy, str) or version in policy]
    complete = frozenset(version for version in wanted if is_complete(version))
    return Aspired(complete, frozenset(wanted) - complete)


def _latest(
    found: Iterable[int], count: int, is_complete: Callable[[int], bool], is_failing: Callable[[int], bool]
) -> Aspired:
    """The newest complete versions; where some of them fail to load, a few older ones in their place as well."""
    versions, incomplete = set[int](), set[int]()
    failing = 0
    for version in sorted(found, reverse=True):
        if len(versions) >= count + min(failing, FALLBACKS):
            break
        if is_complete(version):
            versions.add(version)
            failing += is_failing(version)
        else:
            incomplete.add(version)
    return Aspired(frozenset(versions), frozenset(incomplete))


def is_retry_due(retry_at: float, now: float, *, files_changed: bool) -> bool:
    """Whether a version that failed is worth another try: at once when somebody has mended it, else at its time."""
    return files_changed or now >= retry_at

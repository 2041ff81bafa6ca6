"""One model: what was found for it, what is wanted of that, and what each version has come to."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from poise.config import ModelConfig
from poise.errors import code_number
from poise.registry.policy import Aspired, State, VersionView, aspired_versions, is_retry_due
from poise.registry.source import Listing, Source
from poise.registry.versions import CHANGED, Version

logger = logging.getLogger(__name__)

#: Ended versions that are remembered per model.
HISTORY = 10
#: A directory that is looked at once is looked at until it holds still.
SETTLING_POLL_S = 1.0
COMPARE_EVERY_S = 10.0
"""How often the files of versions that serve are compared with what was loaded."""
INCOMPLETE = "its files are still changing: it is taken up when they hold still"
NO_VERSION = 0
"""Stands for the version of a model that has none."""


class Model:
    """The versions of one model, loaded under one configuration."""

    def __init__(self, config: ModelConfig, source: Source) -> None:
        self.config = config
        self.name = config.name
        self.source = source
        self.versions: dict[int, Version] = {}
        self._listing = Listing({})
        self._aspired = Aspired(frozenset())
        self._next_look: float | None = 0.0
        self._next_compare = 0.0
        self._noted: tuple[str, ...] = ()
        self._looked = False
        self._kept: frozenset[int] | None = None

    @property
    def serves(self) -> bool:
        return any(version.state is State.AVAILABLE for version in self.versions.values())

    @property
    def kept(self) -> frozenset[int] | None:
        """Of a leaver, the versions that serve on; None while it is no leaver."""
        return None if self._kept is None else self._kept & self.available

    @property
    def holds(self) -> bool:
        """Whether a version of it has a handle in the data plane."""
        return any(version.holds for version in self.versions.values())

    @property
    def available(self) -> frozenset[int]:
        """Versions that serve."""
        return frozenset(version.number for version in self.versions.values() if version.state is State.AVAILABLE)

    @property
    def wanted(self) -> frozenset[int]:
        """Versions that should serve, or would if their files were complete."""
        return self._aspired.versions | self._aspired.incomplete

    def reconfigure(self, config: ModelConfig) -> None:
        """Take over settings for which nothing need be loaded again."""
        self.config = config
        self.look_soon()

    def look_soon(self) -> None:
        """Look at the disk at the next tick, and try again then what has failed."""
        self._next_look = 0.0
        for version in self.versions.values():
            version.retry_at = 0.0

    def prospects(self, versions: int | str | tuple[int, ...]) -> frozenset[int]:
        """Versions that serve, or would in time if these were asked for, by what is on disk now."""
        listing = self.source.look()
        found = (self._listing if listing.problem else listing).versions
        coming = aspired_versions(versions, found, lambda _: True, lambda _: False).versions
        return self.available | coming | frozenset(versions if isinstance(versions, tuple) else ())

    def leave(self, kept: frozenset[int], now: float) -> None:
        """Load nothing any more, whatever is on disk; of what serves only these serve on."""
        self._kept = kept
        self.refresh(now)

    def verdict(self) -> str | None:
        """What has become of a model that was to be served: "" when it serves, why not, or None while that is open."""
        if self.serves:
            return ""
        if not self._looked or self._aspired.incomplete:
            return None
        wanted = [self.versions[number] for number in sorted(self._aspired.versions)]
        if not wanted:
            return f"{{name: {self.name}}} due to error: {self._lack()[1]}"
        if not all(version.given_up for version in wanted):
            return None
        worst = wanted[-1]
        return f"{{name: {self.name} version: {worst.number}}} due to error: {worst.message}"

    @property
    def is_settling(self) -> bool:
        """Whether a look, or a version that is wanted, is still to come to something."""
        loading = {State.START, State.LOADING}
        return self._next_look == 0.0 or any(
            version.state in loading or (version.is_failing and not version.given_up)
            for number in self._aspired.versions
            if (version := self.versions.get(number))
        )

    def due(self) -> float | None:
        """When to look again: at the interval, or when a version that failed is to be tried again."""
        if self._kept is not None:
            return None
        due = [] if self._next_look is None else [self._next_look]
        due += [self.versions[number].retry_at for number in self._aspired.versions if self._waits(number)]
        return min(due, default=None)

    def look(self, now: float) -> None:
        """See what is on disk. A path that cannot be read says nothing: what is served stays."""
        listing = self.source.look()
        self._looked = True
        self._listing = (
            replace(self._listing, problem=listing.problem, code=listing.code) if listing.problem else listing
        )
        self._note(listing)
        self.refresh(now)
        self._compare(now)
        every = self.config.poll_interval_s
        settling = bool(self._aspired.incomplete) or not self._aspired.versions
        self._next_look = now + (every or SETTLING_POLL_S) if every or settling else None

    def refresh(self, now: float) -> None:
        """Work out anew which versions are wanted, and which of them may be loaded (again)."""
        if self._kept is not None:
            self._aspired = Aspired(self._kept & self.available)
            return
        self._aspired = aspired_versions(
            self.config.versions,
            self._listing.versions,
            lambda number: self._is_complete(number, now),
            self._is_failing,
        )
        for number in self._aspired.versions:
            version = self.versions.setdefault(number, Version(number, self._listing.versions[number]))
            if version.state is State.END:
                self._revive(version, now)
        self._forget()

    def views(self) -> list[VersionView]:
        """As the policy sees it."""
        return [
            VersionView(number, version.state, number in self._aspired.versions)
            for number, version in self.versions.items()
        ]

    def statuses(self) -> list[dict[str, Any]]:
        """As `core.set_status` takes it: newest version first."""
        found = {
            number: {"version": number, "state": int(State.START), "code": 0, "message": INCOMPLETE}
            for number in self._aspired.incomplete
        }
        for number, version in self.versions.items():
            state = int(version.shown)
            found[number] = {"version": number, "state": state, "code": version.code, "message": version.remark}
        return [found[number] for number in sorted(found, reverse=True)] or self._lacking()

    def _lacking(self) -> list[dict[str, Any]]:
        """The reason why there is nothing, under the numbers that were asked for by name, or else 0."""
        if self._kept is not None or not self._looked:
            return []
        named = self.config.versions if isinstance(self.config.versions, tuple) else (NO_VERSION,)
        code, message = self._lack()
        lack = {"state": int(State.START), "code": code_number(code), "message": message}
        return [{"version": number, **lack} for number in sorted(named, reverse=True)]

    def _lack(self) -> tuple[str, str]:
        """Code and text of why there is no version to load."""
        if self._listing.problem:
            return self._listing.code, self._listing.problem
        which = "none of the versions asked for" if isinstance(self.config.versions, tuple) else "no version"
        return "NOT_FOUND", f"{self.config.path} holds {which} yet"

    def _waits(self, number: int) -> bool:
        version = self.versions.get(number)
        return version is not None and version.state is State.END and version.is_failing

    def _is_failing(self, number: int) -> bool:
        version = self.versions.get(number)
        return version is not None and version.is_failing

    def _is_complete(self, number: int, now: float) -> bool:
        """What has been taken up stays so: files that change under a version do not end it."""
        version = self.versions.get(number)
        return (version is not None and version.holds) or self.source.complete(number, now)

    def _revive(self, version: Version, now: float) -> None:
        """Start over a version that has ended and is wanted."""
        changed = version.is_failing and self.source.tree(version.number) != version.tree
        if version.is_failing and not is_retry_due(version.retry_at, now, files_changed=changed):
            return
        version.state = State.START
        version.location = self._listing.versions[version.number]
        if changed:
            version.begin_anew()

    def _forget(self) -> None:
        """Versions that never started, and all but the newest of those that ended."""
        idle = [number for number in self.versions if number not in self._aspired.versions]
        ended = sorted(number for number in idle if self.versions[number].state is State.END)
        unstarted = [number for number in idle if self.versions[number].state is State.START]
        for number in ended[:-HISTORY] + unstarted:
            del self.versions[number]

    def _compare(self, now: float) -> None:
        """Report once files that were replaced under a version that serves. Reading trees costs: not at every look."""
        if now < self._next_compare:
            return
        self._next_compare = now + COMPARE_EVERY_S
        for version in self.versions.values():
            if version.state is not State.AVAILABLE or version.changed or version.number not in self._listing.versions:
                continue
            self.source.complete(version.number, now)
            if self.source.tree(version.number) != version.tree:
                version.changed = True
                logger.warning("%s version %d: %s", self.name, version.number, CHANGED)

    def _note(self, listing: Listing) -> None:
        """Log what is odd about the path, once for as long as it stays the same."""
        notes = (listing.problem, *listing.warnings) if listing.problem else listing.warnings
        if isinstance(self.config.versions, tuple):
            missing = sorted(set(self.config.versions) - self._listing.versions.keys())
            notes += tuple(f"there is no version {number}" for number in missing)
        elif not self._listing.versions and not listing.problem:
            notes += (f"{self.config.path} holds no version yet",)
        for note in notes:
            if note not in self._noted:
                logger.warning("%s: %s", self.name, note)
        self._noted = notes

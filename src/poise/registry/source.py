"""Where versions come from: the directories below a base path, or a path that is itself a model.

A look is a listing and, for the few versions somebody wants, the sizes and times of their files: microseconds on a
local disk. Looks are made on a timer rather than by inotify, which is silent about changes that other machines make
on network file systems, where models often live.
"""

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from poise.backends.select import AUTO, choose
from poise.errors import BackendUnavailable, InvalidModel

MAX_VERSION = 2**63 - 1
#: Files of one version that are compared between looks; a version that has more is judged by the first so many.
MAX_ENTRIES = 10_000
#: A tree that has looked the same for this long is complete.
SETTLE_S = 1.0
#: A tree whose newest change is this old is complete at first sight. Generous, because clocks of file servers differ.
LONG_QUIET_S = 60.0
#: A directory changed less than this before it was listed may have changed again without a trace.
GRAIN_S = 2.0
#: A directory that shows no change is listed again after this long all the same.
LISTING_SERVES_S = 10.0
PROBLEM_CODES = {
    errno.ENOENT: "NOT_FOUND",
    errno.ENOTDIR: "NOT_FOUND",
    errno.EACCES: "PERMISSION_DENIED",
    errno.EPERM: "PERMISSION_DENIED",
}
"""What a status says about a path that cannot be read; anything else may pass."""


@dataclass(frozen=True)
class Tree:
    """What a version's files look like from outside."""

    entries: tuple[tuple[str, int, int], ...]
    """(relative name, size, modification time in ns) of every file."""
    changed_at: float = field(compare=False)
    """Newest change of any file or directory, in seconds of the wall clock. It may move while nothing else does."""


@dataclass(frozen=True)
class Sight:
    """A tree, and since when it has looked the same."""

    tree: Tree
    since: float


@dataclass(frozen=True)
class Listing:
    """What exists under a model's path; `problem` says why nothing can be said, which is not the same as nothing."""

    versions: dict[int, str]
    """Version number to what a backend loads: a directory, a file, or `file.py:Class`."""
    warnings: tuple[str, ...] = ()
    problem: str = ""
    code: str = "UNAVAILABLE"
    """Of the problem, as a gRPC code."""


def parse_version(name: str) -> int | None:
    """A directory name as an int64: `00000123` is 123; anything but digits is no version."""
    if not re.fullmatch(r"[0-9]+", name):
        return None
    number = int(name)
    return number if number <= MAX_VERSION else None


def choose_versions(names: Iterable[str]) -> tuple[dict[int, str], tuple[str, ...]]:
    """Version numbers and their names. Of names for one number the last in order wins, with a warning."""
    chosen: dict[int, str] = {}
    warnings = []
    for name in sorted(names):
        number = parse_version(name)
        if number is None:
            continue
        if number in chosen:
            warnings.append(f"{chosen[number]!r} and {name!r} both name version {number}; {name!r} is used")
        chosen[number] = name
    return chosen, tuple(warnings)


def settle(before: Sight | None, tree: Tree, now: float) -> Sight:
    """The newer sight: it keeps its age as long as the tree stays the same."""
    if before is not None and before.tree == tree:
        return before
    return Sight(tree, now)


def is_complete(sight: Sight, now: float, wall_now: float, settle_s: float) -> bool:
    """Whether nobody is still writing: the same over the settle time, or untouched for long."""
    if not sight.tree.entries:
        return False
    return now - sight.since >= settle_s or wall_now - sight.tree.changed_at >= LONG_QUIET_S


def split_location(location: str) -> tuple[Path, str]:
    """The file or directory, and the class when it is `file.py:Class`."""
    path, colon, name = location.rpartition(":")
    return (Path(path), name) if colon and path.endswith(".py") else (Path(location), "")


def holds_model(backend: str) -> Callable[[Path], bool]:
    """Whether a directory without versions is itself a model: it has what a backend looks for, or one was named."""

    def judge(directory: Path) -> bool:
        files = sorted(entry.name for entry in directory.iterdir() if entry.is_file())
        if backend != AUTO:
            return bool(files)
        try:
            choose(str(directory), files)
        except InvalidModel:
            return False
        except BackendUnavailable:  # loading it tells what is missing here
            return True
        return bool(files)

    return judge


def list_versions(location: str, holds_model: Callable[[Path], bool]) -> Listing:
    """Numeric children of a directory; or version 1 when the location itself is a model."""
    path, _ = split_location(location)
    try:
        if path.is_file():
            return Listing({1: location})
        with os.scandir(path) as children:
            names = [child.name for child in children if child.is_dir()]
        chosen, warnings = choose_versions(names)
        if not chosen and holds_model(path):
            return Listing({1: location})
    except OSError as error:
        code = PROBLEM_CODES.get(error.errno or 0, "UNAVAILABLE")
        return Listing({}, problem=f"cannot read {path}: {error.strerror or error}", code=code)
    return Listing({number: str(path / name) for number, name in chosen.items()}, warnings)


def read_tree(path: Path) -> Tree:
    """The tree of a version's directory or file. What cannot be read counts as changing: it is empty."""
    entries: list[tuple[str, int, int]] = []
    newest = 0.0
    try:
        for name, info in _walk(path):
            newest = max(newest, info.st_ctime)
            if name and len(entries) < MAX_ENTRIES:
                entries.append((name, info.st_size, info.st_mtime_ns))
    except OSError:
        return Tree((), 0.0)
    return Tree(tuple(sorted(entries)), newest)


def _walk(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """(relative name, status) of each file, and ("", status) of each directory; compiled Python is nobody's model."""
    if path.is_file():
        yield path.name, path.stat()
        return
    for folder, folders, files in os.walk(path, onerror=_raise):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield "", Path(folder).stat()
        for name in files:
            file = Path(folder, name)
            yield str(file.relative_to(path)), _status(file)


def _status(file: Path) -> os.stat_result:
    try:
        return file.stat()
    except FileNotFoundError:
        return file.lstat()  # a link to nothing


def _raise(error: OSError) -> None:
    raise error


@dataclass(frozen=True, slots=True)
class Stamp:
    """What changes when an entry of a directory comes, goes or is renamed."""

    inode: int
    changed_ns: int


def is_unchanged(before: Stamp | None, now: Stamp | None, listed_at: float, wall_now: float) -> bool:
    """Whether a directory need not be listed again, at `wall_now`, after it was at `listed_at`.

    A change within the clock's grain of the listing leaves no trace, so the directory must have been quiet for a
    while by then; and links may come to life without one, so a listing serves for a bounded time only.
    """
    if before is None or before != now:
        return False
    return listed_at - before.changed_ns / 1e9 >= GRAIN_S and 0 <= wall_now - listed_at < LISTING_SERVES_S


def read_stamp(path: Path) -> Stamp | None:
    """None for what is no directory or cannot be read."""
    try:
        info = path.stat()
    except OSError:
        return None
    return Stamp(info.st_ino, info.st_mtime_ns) if stat.S_ISDIR(info.st_mode) else None


class Source:
    """What is under one model's path, and how long its files have been quiet."""

    def __init__(
        self, location: str, holds_model: Callable[[Path], bool], wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._location = location
        self._holds_model = holds_model
        self._wall_clock = wall_clock
        self._sights: dict[int, Sight] = {}
        self._listing = Listing({})
        self._stamp: Stamp | None = None
        self._listed_at = 0.0

    def look(self) -> Listing:
        """List the versions that exist now; when nothing can be said, what was known stays."""
        stamp, wall_now = read_stamp(split_location(self._location)[0]), self._wall_clock()
        if is_unchanged(self._stamp, stamp, self._listed_at, wall_now):
            return self._listing
        self._stamp, self._listed_at = stamp, wall_now
        listing = list_versions(self._location, self._holds_model)
        if listing.problem:
            self._stamp = None
        else:
            self._listing = listing
            self._sights = {number: sight for number, sight in self._sights.items() if number in listing.versions}
        return listing

    def complete(self, version: int, now: float) -> bool:
        """Look once more at the files of a version in the listing; True when they have settled.

        A model that was named itself, not found below a base path, is meant as it is.
        """
        location = self._listing.versions[version]
        sight = settle(self._sights.get(version), read_tree(split_location(location)[0]), now)
        self._sights[version] = sight
        return location == self._location or is_complete(sight, now, self._wall_clock(), SETTLE_S)

    def tree(self, version: int) -> Tree | None:
        """The files of a version when they were last looked at."""
        sight = self._sights.get(version)
        return sight.tree if sight else None

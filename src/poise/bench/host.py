"""How busy this machine is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")
IDLE, IO_WAIT = 3, 4
"""Places of these times in the first line of /proc/stat."""


@dataclass(frozen=True, slots=True)
class HostTimes:
    """CPU time of all cores so far, in ticks."""

    busy: int
    total: int

    def busy_share_since(self, before: HostTimes) -> float | None:
        """Share of all cores that were busy since `before`, 0 to 1."""
        total = self.total - before.total
        return (self.busy - before.busy) / total if total > 0 else None


def parse(stat: str) -> HostTimes:
    """From the text of /proc/stat. Raises ValueError for another text."""
    name, *fields = stat.split("\n", 1)[0].split()
    if name != "cpu" or len(fields) <= IO_WAIT:
        raise ValueError(f"expected /proc/stat, got {stat[:80]!r}")
    times = [int(field) for field in fields[:8]]  # the rest is contained in the first ones
    return HostTimes(sum(times) - times[IDLE] - times[IO_WAIT], sum(times))


def read() -> HostTimes:
    """Now; all zero where there is no /proc/stat."""
    try:
        return parse(STAT.read_text())
    except OSError:
        return HostTimes(0, 0)

"""How many cores this process may really use: less than the machine has inside a container with a quota."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class CpuFiles:
    """Texts of the files that limit a process, None where there is no such file."""

    cpu_max: tuple[str, ...]
    """cgroup v2: cpu.max of this process' group and of each group above it."""
    quota_us: str | None
    """cgroup v1: cpu.cfs_quota_us."""
    period_us: str | None
    """cgroup v1: cpu.cfs_period_us."""


def budget(files: CpuFiles, allowed: int) -> int:
    """Cores that may be used at once, at least 1: the smallest of the quotas, rounded up, and of `allowed`."""
    limits = [float(allowed)]
    limits += [limit for text in files.cpu_max if (limit := _v2_limit(text)) is not None]
    v1 = _ratio(files.quota_us, files.period_us)
    if v1 is not None:
        limits.append(v1)
    smallest = min(limits)
    return max(1, int(smallest) + (smallest > int(smallest)))


def cpu_budget() -> int:
    """The budget of this process, read from its affinity mask and its cgroups (v2, or v1)."""
    return budget(read_files(CGROUP, Path("/proc/self/cgroup")), len(os.sched_getaffinity(0)))


def read_files(root: Path, proc_self_cgroup: Path) -> CpuFiles:
    """Read what there is; a file that is missing or may not be read limits nothing."""
    groups = _groups_v2(_text(proc_self_cgroup))
    # Inside a container the hierarchy is often mounted at its own group: the path then leads nowhere, the root counts.
    cpu_max = [text for group in groups if (text := _text(root / group / "cpu.max")) is not None]
    v1 = root / "cpu"
    return CpuFiles(tuple(cpu_max), _text(v1 / "cpu.cfs_quota_us"), _text(v1 / "cpu.cfs_period_us"))


def _groups_v2(own: str | None) -> list[str]:
    """Relative paths of this process' v2 group and of all above it, ending with the root."""
    lines = (own or "").splitlines()
    path = next((line.removeprefix("0::").strip("/") for line in lines if line.startswith("0::")), "")
    parts = [part for part in path.split("/") if part not in {"", ".."}]
    return ["/".join(parts[:depth]) for depth in range(len(parts), -1, -1)]


def _v2_limit(text: str) -> float | None:
    quota, _, period = text.strip().partition(" ")
    return None if quota == "max" else _ratio(quota, period)


def _ratio(quota: str | None, period: str | None) -> float | None:
    try:
        above, below = float(quota or ""), float(period or "")
    except ValueError:
        return None
    return above / below if above > 0 and below > 0 else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None

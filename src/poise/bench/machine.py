"""The machine that a result was measured on; nothing that names a user or a place."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import numpy as np

CPU_INFO = Path("/proc/cpuinfo")
MEM_INFO = Path("/proc/meminfo")
GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def describe() -> dict[str, Any]:
    """Facts of this machine; None where it does not tell."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    memory = field(read(MEM_INFO), "MemTotal")
    return {
        "cpu": field(read(CPU_INFO), "model name") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(int(memory.split()[0]) / 2**20, 1) if memory else None,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "load_average": load,
        "governor": read(GOVERNOR).strip() or None,
    }


def field(text: str, name: str) -> str:
    """The value of a line `name : value`, empty without one."""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""

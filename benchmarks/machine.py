"""What the numbers were measured on and with."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("nvidia-pytriton", "grpcio", "onnxruntime", "onnx", "numpy", "protobuf", "magika")
PROGRAMS = {"nginx": ["nginx", "-v"], "h2load": ["h2load", "--version"], "wrk": ["wrk", "-v"]}


def use_two_cores() -> list[int]:
    """Keep this process and all that it starts on the first two cores, load generator and servers alike."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cores)
    return cores


def facts(cores: Sequence[int]) -> dict[str, object]:
    """Machine and versions."""
    return {
        "cpu": _cpu(),
        "cores_of_machine": os.cpu_count(),
        "cores_used": list(cores),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", ""),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "programs": {name: _first_version(command) for name, command in PROGRAMS.items()},
        "poise": _said([str(ROOT / ".venv" / "bin" / "poise"), "--version"]),
        "commit": _said(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]),
        "load_average_before": [round(load, 2) for load in os.getloadavg()],
    }


def _cpu() -> str:
    found = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    return found.group(1) if found else platform.processor()


def _first_version(command: list[str]) -> str:
    found = re.search(r"\d+\.\d+(\.\d+)?", _said(command))
    return found.group(0) if found else "?"


def _said(command: list[str]) -> str:
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except OSError:
        return "not here"
    said = (ended.stdout + ended.stderr).strip()
    return said if ended.returncode == 0 or command[0] == "wrk" else "does not run"

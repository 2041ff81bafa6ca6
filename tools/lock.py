"""Resolve requirements/*.in into hash-locked requirements/*.txt.

The files name no index: whoever installs uses the one that pip is configured with. Versions already locked stay;
delete a .txt first to take the newest of everything. (requirements/bench.* belongs to benchmarks/setup.sh.)
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements"
COMMON = ["--quiet", "--generate-hashes", "--python-version=3.11", "--custom-compile-command=make lock"]
OPTIONS: dict[str, list[str]] = {
    "dev": [],
    "tfclient": ["--override=tfclient.override"],
    "demo": ["--no-deps"],  # these wheels are opened, never installed
    "pitch": ["--no-deps"],
    "export": [],
}


def main() -> None:
    """Compile each file, or stop at the first that cannot be resolved."""
    for name, own in OPTIONS.items():
        options = [*COMMON, *own, f"--output-file={name}.txt"]
        command = [sys.executable, "-m", "uv", "pip", "compile", *options, f"{name}.in"]
        subprocess.run(command, cwd=REQUIREMENTS, check=True)


if __name__ == "__main__":
    main()

"""Every script here runs in benchmarks/.venv, whichever Python it was started with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OWN = HERE / ".venv"


def enter() -> None:
    """Make what is missing (setup.sh), then start the running script again in the environment of the benchmark."""
    if Path(sys.prefix).resolve() == OWN:
        return
    subprocess.run([HERE / "setup.sh"], check=True)
    python = str(OWN / "bin" / "python")
    os.execv(python, [python, *sys.argv])

"""Check that every crate Poise is built from has a licence that deny.toml allows.

`cargo deny` checks more, but has to be installed first; this asks cargo alone.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Print every crate whose licence is not allowed."""
    allowed = set(tomllib.loads((CHECKOUT / "deny.toml").read_text())["licenses"]["allow"])
    crates = list_crates()
    refused = [(name, licence) for name, licence in crates if not satisfied(licence, allowed)]
    for name, licence in refused:
        print(f"{name}: licence {licence or 'not stated'} is not allowed by deny.toml", file=sys.stderr)
    print(f"licences: {len(crates)} crates, {len(refused)} refused")
    return 1 if refused else 0


def list_crates() -> list[tuple[str, str]]:
    """Name with version, and licence expression, of everything in Cargo.lock that this platform builds."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--all-features"]
    host = re.search(r"^host: (\S+)", run(["rustc", "-vV"]), re.MULTILINE)
    if host:
        command += ["--filter-platform", host[1]]
    packages = json.loads(run(command))["packages"]
    return sorted((f"{one['name']} {one['version']}", one["license"] or "") for one in packages)


def run(command: list[str]) -> str:
    return subprocess.run(command, cwd=CHECKOUT, check=True, stdout=subprocess.PIPE, text=True).stdout


def satisfied(expression: str, allowed: set[str]) -> bool:
    """Whether an SPDX expression of AND, OR and parentheses can be met from `allowed`."""
    inner = re.search(r"\(([^()]*)\)", expression)
    if inner:
        # A bracket is replaced by a word that is allowed or not, as what stood in it was.
        verdict = "YES" if satisfied(inner[1], allowed) else "NO"
        rest = expression[: inner.start()] + verdict + expression[inner.end() :]
        return satisfied(rest, allowed | {"YES"})
    choices = re.split(r"\s+OR\s+|/", expression)  # a slash is how old crates write OR
    return any(all(part.strip() in allowed for part in re.split(r"\s+AND\s+", choice)) for choice in choices)


if __name__ == "__main__":
    sys.exit(main())

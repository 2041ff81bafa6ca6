"""Check the two import rules that no linter for Rust knows.

Only rust/src/python/ may name pyo3: everything else must build and be tested without an interpreter. And modules of
the crate import in one direction, from the layer named first to those named after it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "rust" / "src"

# Modules of one layer do not import each other, except in the last, whose plain values may.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("python",),
    ("server", "loadgen"),  # loadgen is the client: it speaks the wires of the frontends
    ("frontends", "gateway", "workers"),
    ("routes", "calls"),
    ("batching",),
    ("telemetry", "events"),
    ("tensor", "model", "error", "config", "clock", "proto", "protojson", "tfrecord", "sockets"),
)
RANK = {module: rank for rank, layer in enumerate(LAYERS) for module in layer}
LAST = len(LAYERS) - 1

COMMENT = re.compile(r"//[^\n]*")
PYO3 = re.compile(r"\bpyo3\b")
BRANCHES = re.compile(r"\bcrate::\{([^;]*)\};")
PATH = re.compile(r"\bcrate::(\w+)")


def main() -> int:
    """Print every breach and tell how many there are."""
    breaches = [breach for path in sorted(SOURCES.rglob("*.rs")) for breach in breaches_of(path)]
    for breach in breaches:
        print(breach, file=sys.stderr)
    print(f"border and layers: {len(breaches)} breaches")
    return 1 if breaches else 0


def breaches_of(path: Path) -> Iterator[str]:
    """What one file imports that its layer may not."""
    text = COMMENT.sub("", path.read_text())
    owner = module_of(path)
    if owner == "lib":
        return  # declares the modules
    if owner != "python" and PYO3.search(text):
        yield f"{shown(path)}: names pyo3, which only rust/src/python/ may"
    if owner not in RANK:
        yield f"{shown(path)}: module `{owner}` has no layer yet; give it one in tools/check_border.py"
        return
    for target in sorted(imports_of(text) & RANK.keys()):
        if not may_import(owner, target):
            yield f"{shown(path)}: `{owner}` imports `{target}`, against the layers"


def module_of(path: Path) -> str:
    """The top-level module that a file belongs to."""
    return path.relative_to(SOURCES).parts[0].removesuffix(".rs")


def imports_of(text: str) -> set[str]:
    """First segments of every `crate::` path, in `use` trees and in expressions alike."""
    found = set(PATH.findall(text))
    for tree in BRANCHES.findall(text):
        found.update(first_segments(tree))
    return found


def first_segments(tree: str) -> Iterator[str]:
    """`a::{b, c}, d::e` → a, d: the names at depth zero."""
    depth, name = 0, ""
    for part in re.findall(r"\w+|[{},]|::", tree):
        depth += {"{": 1, "}": -1}.get(part, 0)
        if depth == 0 and part == ",":
            name = ""
        elif depth == 0 and not name and part.isidentifier():
            name = part
            yield name


def may_import(owner: str, target: str) -> bool:
    return owner == target or RANK[owner] < RANK[target] or RANK[owner] == LAST == RANK[target]


def shown(path: Path) -> str:
    return str(path.relative_to(SOURCES.parent.parent))


if __name__ == "__main__":
    sys.exit(main())

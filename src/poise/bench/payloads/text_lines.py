"""Lines of text, each a string."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from poise.bench.payloads.records import Record, only_input, row_spec
from poise.client.arrays import objects
from poise.types import Signature


def read(path: Path, signature: Signature, name: str) -> Iterator[Record]:
    spec = row_spec(signature, only_input(signature, name, "text"))
    if spec.dtype != "string":
        raise ValueError(f"input {spec.name} takes {spec.dtype}, not text: give its rows as .jsonl or .npz")
    ones = (1,) * len(spec.shape or ())
    with path.open("rb") as lines:
        for line in lines:
            if text := line.strip():
                yield {spec.name: objects([text], ones)}

"""One row on each line: `{"input": value, …}`, or the value alone where there is one input. As REST's "instances"."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from poise.bench.payloads.records import Record, only_input, row_spec
from poise.client.tensor_json import to_array
from poise.types import Signature


def read(path: Path, signature: Signature, name: str) -> Iterator[Record]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield _record(line, number, signature, name)


def _record(line: str, number: int, signature: Signature, name: str) -> Record:
    try:
        value: Any = json.loads(line)
        if not isinstance(value, dict) or value.keys() == {"b64"}:
            value = {only_input(signature, name, "a value alone"): value}
        return {each: to_array(row_spec(signature, each), one) for each, one in value.items()}
    except ValueError as error:
        raise ValueError(f"line {number}: {error}") from None

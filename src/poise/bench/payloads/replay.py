"""Requests that were recorded: TFRecord files of PredictionLog, as `poise record` writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from poise import _core
from poise.bench.payloads.check import checked
from poise.client.arrays import from_border
from poise.records import suggest
from poise.types import Array, Signature

MAX_RECORDS = 100_000

Recorded = tuple[str, str, tuple[int, ...], bytearray | list[bytes]]
"""(name, dtype, shape, elements)"""


def read_recorded(path: Path, signature: Signature, by_name: bool) -> Iterator[dict[str, Array]]:
    """Inputs of the requests of this signature, in the order of the file; with `by_name` false, of all.

    Raises ValueError when the file cannot be read, has no such request, or one that the signature does not take.
    """
    calls = _core.read_warmup(str(path), MAX_RECORDS)
    names = {name for name, _ in calls}
    if not calls:
        raise ValueError(f"{path} holds no request")
    if by_name and signature.name not in names:
        raise ValueError(f"{path} has no request for signature {signature.name!r}; {suggest(signature.name, names)}")
    for number, (name, tensors) in enumerate(calls):
        if by_name and name != signature.name:
            continue
        try:
            yield checked(signature, from_border(map(_plain, tensors)))
        except ValueError as error:
            raise ValueError(f"{path}, record {number}: {error}") from None


def _plain(tensor: Recorded) -> tuple[str, str, tuple[int, ...], bytes | list[bytes]]:
    name, dtype, shape, elements = tensor
    return name, dtype, shape, elements if isinstance(elements, list) else bytes(elements)

"""NumPy's files: .npz holds one array for each input, .npy the array of one; dimension 0 counts records."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from poise.bench.payloads.check import known_input
from poise.bench.payloads.records import Record, only_input, split_rows
from poise.types import Array, Signature

MAX_BYTES = 4 << 30
"""Of a file, whose arrays are held in memory."""


def read_npz(path: Path, signature: Signature, _input: str) -> Iterator[Record]:
    _check_size(path)
    with path.open("rb") as file:
        try:
            arrays = np.load(file, allow_pickle=False)
        except zipfile.BadZipFile as error:
            raise ValueError(f"this is no .npz: {error}") from None
        if not isinstance(arrays, np.lib.npyio.NpzFile):
            raise ValueError("this is one array without a name: call the file .npy")  # noqa: TRY004  (of its content)
        return _rows(signature, dict(arrays))


def read_npy(path: Path, signature: Signature, name: str) -> Iterator[Record]:
    _check_size(path)
    wanted = only_input(signature, name, "an array")
    return _rows(signature, {wanted: np.load(path, allow_pickle=False)})


def _rows(signature: Signature, arrays: Mapping[str, Array]) -> Iterator[Record]:
    columns = {known_input(signature, name).name: split_rows(signature, name, array) for name, array in arrays.items()}
    if len({len(column) for column in columns.values()}) > 1:
        told = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
        raise ValueError(f"every array needs as many rows as the others; got {told}")
    for rows in zip(*columns.values(), strict=True):
        yield {name: np.asarray(row) for name, row in zip(columns, rows, strict=True)}


def _check_size(path: Path) -> None:
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ValueError(f"{size} bytes are more than the {MAX_BYTES} that are read: cut the file")

"""Which reader a file of data needs, by the end of its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from poise.bench.payloads import array_files, images, json_lines, parquet, text_lines
from poise.bench.payloads.prepare import MAX_BYTES
from poise.bench.payloads.records import Record, checked_record, joined
from poise.records import suggest
from poise.types import Array, Signature

Reader = Callable[[Path, Signature, str], Iterable[Record]]
"""(file, signature, name of the input for data without names, or empty) → records, one by one."""

READERS: dict[str, Reader] = {
    ".npz": array_files.read_npz,
    ".npy": array_files.read_npy,
    ".jsonl": json_lines.read,
    ".ndjson": json_lines.read,
    ".parquet": parquet.read,
    ".txt": text_lines.read,
    **dict.fromkeys(images.SUFFIXES, images.read),
}


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file, or a folder of images, and the input that it is for when it has no names itself."""

    path: Path
    input: str = ""


def read_files(files: Iterable[DataFile], signature: Signature, most: int) -> list[Record]:
    """Up to `most` records of each file, and about as many bytes as requests may have.

    Raises ValueError for what cannot be read or does not fit, OSError for files that are not there.
    """
    return joined(list(islice(_bounded(_records(file, signature)), most)) for file in files)


def _bounded(records: Iterable[Record]) -> Iterator[Record]:
    size = 0
    for record in records:
        yield record
        size += sum(size_of(array) for array in record.values())
        if size >= MAX_BYTES:
            return


def size_of(array: Array) -> int:
    """Bytes of its elements."""
    return sum(map(len, array.ravel())) if array.dtype.kind == "O" else array.nbytes


def _records(file: DataFile, signature: Signature) -> Iterator[Record]:
    if file.path.is_dir():
        for image in images.in_folder(file.path):
            yield from _records(DataFile(image, file.input), signature)
        return
    reader = READERS.get(file.path.suffix.lower())
    if reader is None:
        raise ValueError(f"{file.path}: no data is known by this ending; {suggest(file.path.suffix, READERS)}")
    try:
        yield from _checked(reader(file.path, signature, file.input), signature)
    except ValueError as error:
        raise ValueError(f"{file.path}: {error}") from None


def _checked(records: Iterable[Record], signature: Signature) -> Iterator[Record]:
    for number, record in enumerate(records, 1):
        try:
            yield checked_record(signature, record)
        except ValueError as error:
            raise ValueError(f"record {number}: {error}") from None

"""Rows of Parquet files: columns that are called like inputs; lists are dimensions."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from poise.bench.payloads.records import Record, row_spec
from poise.client.tensor_json import to_array
from poise.records import suggest
from poise.types import Array, Signature, TensorSpec

ROWS_AT_ONCE = 1024


def read(path: Path, signature: Signature, _input: str) -> Iterator[Record]:
    try:
        from pyarrow.parquet import ParquetFile  # noqa: PLC0415  (optional, and slow to import)
    except ImportError:
        raise ValueError('Parquet files need the package pyarrow: pip install "poise-serving[bench]"') from None
    with ParquetFile(path) as file:
        specs = [row_spec(signature, name) for name in _columns(file.schema_arrow.names, signature)]
        for batch in file.iter_batches(ROWS_AT_ONCE, columns=[spec.name for spec in specs]):
            for row in batch.to_pylist():
                yield {spec.name: _array(spec, row[spec.name]) for spec in specs}


def _columns(names: list[str], signature: Signature) -> list[str]:
    """Those of the inputs; others, such as labels, are left."""
    found = [spec.name for spec in signature.inputs if spec.name in names]
    if not found:
        wanted = signature.inputs[0].name if signature.inputs else ""
        raise ValueError(f"no column is called like an input; for {wanted!r} {suggest(wanted, names)}")
    return found


def _array(spec: TensorSpec, value: Any) -> Array:
    """Lists of lists are nested in Parquet at a cost, so that tensors are often stored flat."""
    if value is None:
        raise ValueError(f"input {spec.name} is null: give every row a value")
    if spec.dtype == "string":
        value = _text(value)
    array = to_array(spec, value)
    flat = spec.shape is not None and array.ndim == 1 and len(spec.shape) > 1 and -1 not in spec.shape
    return array.reshape(spec.shape) if flat and array.size == math.prod(spec.shape or ()) else array


def _text(value: Any) -> Any:
    """Bytes in the form that JSON has for them."""
    if isinstance(value, list):
        return [_text(item) for item in value]
    return {"b64": base64.b64encode(value)} if isinstance(value, bytes) else value

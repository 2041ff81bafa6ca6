"""Tensors in TensorFlow Serving's JSON: rows (`instances`) or columns (`inputs`), binary strings as `{"b64": …}`."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from poise.client.arrays import cast, match_inputs, objects
from poise.types import Array, Signature, TensorSpec, numpy_dtype


def request_body(signature: Signature, inputs: Mapping[str, Array], rows: bool = False) -> bytes:
    """The body of a predict call, in column format or, where every input has as many rows, in row format."""
    columns = {spec.name: to_value(array) for spec, array in match_inputs(signature, inputs)}
    payload: dict[str, Any] = {"signature_name": signature.name}
    if rows:
        payload["instances"] = _to_rows(columns)
    else:
        payload["inputs"] = columns
    return json.dumps(payload, separators=(",", ":")).encode()


def to_value(array: Array) -> Any:
    """Nested lists, or one value for a scalar. Text stays text, other bytes become `{"b64": …}`."""
    if array.dtype.kind in "SUO":
        return _nest([_to_text(item) for item in array.ravel().tolist()], array.shape)
    if array.dtype.kind == "c":
        pairs = [[item.real, item.imag] for item in array.ravel().tolist()]
        return _nest(pairs, array.shape)
    return array.tolist()


def read_inputs(signature: Signature, payload: object) -> dict[str, Array]:
    """Arrays from the JSON that a predict call would take. Raises ValueError, saying what was expected."""
    if not isinstance(payload, dict) or ("instances" in payload) == ("inputs" in payload):
        raise ValueError('expected a JSON object with either "instances" (a list of rows) or "inputs" (columns)')
    specs = {spec.name: spec for spec in signature.inputs}
    columns = _named(specs, payload["inputs"]) if "inputs" in payload else _columns_of(specs, payload["instances"])
    unknown = [name for name in columns if name not in specs]
    if unknown:
        raise ValueError(f"signature {signature.name} has no input {unknown[0]!r}; its inputs: {', '.join(specs)}")
    return {name: to_array(specs[name], value) for name, value in columns.items()}


def read_outputs(signature: Signature, answer: Mapping[str, Any]) -> dict[str, Array]:
    """Arrays from an answer in column format. Raises ValueError when it is none."""
    if "outputs" not in answer:
        raise ValueError('the answer has no "outputs"')
    specs = {spec.name: spec for spec in signature.outputs}
    columns = _named(specs, answer["outputs"])
    return {name: to_array(specs[name], value) for name, value in columns.items() if name in specs}


def to_array(spec: TensorSpec, value: object) -> Array:
    """Nested lists as an array of the spec's dtype. Raises ValueError when they are ragged or of another kind."""
    if spec.dtype == "string":
        items, shape = _flatten(value)
        return objects([_to_bytes(spec, item) for item in items], shape)
    try:
        array = np.array(value)
        if array.dtype.kind in "iuf" and numpy_dtype(spec.dtype).kind == "V":  # bfloat16
            return array.astype(numpy_dtype(spec.dtype))
        return cast(spec, array) if array.size else array.astype(numpy_dtype(spec.dtype))
    except ValueError as error:
        raise ValueError(f"tensor {spec.name}: {error}") from None


def _to_rows(columns: Mapping[str, Any]) -> list[Any]:
    if len(columns) == 1:
        return list(next(iter(columns.values())))
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _named(specs: Mapping[str, TensorSpec], value: Any) -> dict[str, Any]:
    """Columns by name; a single tensor may stand without one."""
    if isinstance(value, dict) and value.keys() != {"b64"}:
        return value
    if len(specs) != 1:
        raise ValueError(f"expected an object with one key per tensor: {', '.join(specs)}")
    return {next(iter(specs)): value}


def _columns_of(specs: Mapping[str, TensorSpec], rows: object) -> dict[str, Any]:
    if not isinstance(rows, list) or not rows:
        raise ValueError('"instances" is a list of at least one row')
    named = [_named(specs, row) for row in rows]
    if any(row.keys() != named[0].keys() for row in named):
        raise ValueError('every row of "instances" names the same inputs')
    return {name: [row[name] for row in named] for name in named[0]}


def _nest(items: list[Any], shape: tuple[int, ...]) -> Any:
    if not shape:
        return items[0]
    step = len(items) // shape[0] if shape[0] else 0
    return [_nest(items[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


def _flatten(value: object) -> tuple[list[Any], tuple[int, ...]]:
    if not isinstance(value, list):
        return [value], ()
    parts = [_flatten(item) for item in value]
    shapes = {shape for _, shape in parts}
    if len(shapes) > 1:
        raise ValueError("its lists have different lengths")
    return [item for items, _ in parts for item in items], (len(value), *(shapes.pop() if shapes else ()))


def _to_text(item: str | bytes) -> str | dict[str, str]:
    if isinstance(item, str):
        return item
    try:
        return item.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(item).decode()}


def _to_bytes(spec: TensorSpec, item: object) -> bytes:
    if isinstance(item, str):
        return item.encode()
    if isinstance(item, dict) and item.keys() == {"b64"}:
        return base64.b64decode(item["b64"])
    raise ValueError(f'tensor {spec.name} holds strings: expected text or {{"b64": "…"}}, got {json.dumps(item)[:80]}')

"""Rows from files: what a request carries when it is not made up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from poise.bench.payloads.check import check_shape, checked, known_input
from poise.bench.payloads.random_inputs import RandomInputs
from poise.client.arrays import cast, describe
from poise.types import Array, Signature, TensorSpec

Record = Mapping[str, Array]
"""One row of some inputs, without the dimension that counts rows; whole inputs where the signature counts none."""


@dataclass(slots=True)
class Records:
    """Requests of one record after another, from the beginning again after the last.

    Inputs that no record has are made up by `rest`. Raises ValueError when there is none for them.
    """

    signature: Signature
    records: Sequence[Record]
    rest: RandomInputs | None = None
    position: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if not self.records:
            raise ValueError("the data holds no record: expected at least one")
        missing = [spec.name for spec in self.signature.inputs if spec.name not in self.records[0]]
        if missing and self.rest is None:
            raise ValueError(
                f"signature {self.signature.name} needs input {missing[0]!r}, which the data does not have:"
                " add it, or have it made up with --fill"
            )

    @property
    def distinct(self) -> int | None:
        made_up = len(self.records[0]) < len(self.signature.inputs)
        return None if made_up else len(self.records)

    def inputs(self, rows: int) -> dict[str, Array]:
        taken = [self.records[(self.position + step) % len(self.records)] for step in range(rows)]
        self.position = (self.position + rows) % len(self.records)
        found = {name: self._stack(name, [record[name] for record in taken]) for name in taken[0]}
        for spec in self.signature.inputs:
            if spec.name not in found and self.rest is not None:
                found[spec.name] = self.rest.array(spec, rows)
        return checked(self.signature, found)

    def _stack(self, name: str, arrays: list[Array]) -> Array:
        if not self.signature.batched:
            return arrays[0]
        shapes = {array.shape for array in arrays}
        if len(shapes) > 1:
            one, other, *_ = sorted(shapes)
            raise ValueError(
                f"input {name}: records of shapes {list(one)} and {list(other)} cannot share a request;"
                " give --rows 1, or bring the data to one shape"
            )
        return np.stack(arrays)


def row_spec(signature: Signature, name: str) -> TensorSpec:
    """What one record holds of an input. Raises ValueError, with the nearest, for a name that is no input."""
    spec = known_input(signature, name)
    if not signature.batched or spec.shape is None:
        return spec
    return TensorSpec(spec.name, spec.dtype, spec.shape[1:])


def checked_record(signature: Signature, record: Record) -> dict[str, Array]:
    """The record, cast. Raises ValueError for names, dtypes and shapes that do not fit."""
    found = {}
    for name, array in record.items():
        spec = row_spec(signature, name)
        found[name] = cast(spec, array)
        check_shape(spec, array)
    return found


def split_rows(signature: Signature, name: str, array: Array) -> list[Array]:
    """Records of an array whose dimension 0 counts them. Raises ValueError when it has none."""
    if not signature.batched:
        return [array]
    if array.ndim == 0:
        raise ValueError(f"input {name}: expected rows in dimension 0, got {describe(array)}: add that dimension")
    return list(array)


def only_input(signature: Signature, given: str, what: str) -> str:
    """The input that nameless data is for. Raises ValueError when it is not clear which."""
    if given:
        return known_input(signature, given).name
    names = [spec.name for spec in signature.inputs]
    if len(names) != 1:
        raise ValueError(f"{what} has no names, and the inputs are {', '.join(names)}: say which, --data NAME=PATH")
    return names[0]


def joined(parts: Iterable[Sequence[Record]]) -> list[Record]:
    """Records of several files: of the same inputs one after another, of others side by side, as many as the fewest.

    Raises ValueError for an input that is in files which have other inputs as well.
    """
    groups: dict[frozenset[str], list[Record]] = {}
    for part in parts:
        for record in part:
            groups.setdefault(frozenset(record), []).append(record)
    names = [name for group in groups for name in group]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"some records have input {twice[0]!r} with other inputs than the rest: give all the same")
    beside = zip(*groups.values(), strict=False)
    return [{name: array for record in records for name, array in record.items()} for records in beside]

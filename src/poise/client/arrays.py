"""NumPy arrays to the tensors of a signature, and from the border's tuples back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from poise.records import suggest
from poise.types import Array, Signature, TensorSpec, dtype_name, numpy_dtype

BorderTensor = tuple[str, str, tuple[int, ...], bytes | list[bytes]]
"""(name, dtype, shape, elements)"""


def to_border(signature: Signature, inputs: Mapping[str, Array]) -> list[BorderTensor]:
    """Inputs as the data plane takes them, cast to the signature's dtypes. Raises ValueError, saying how to mend it."""
    return [_tensor(spec, array) for spec, array in match_inputs(signature, inputs)]


def match_inputs(signature: Signature, inputs: Mapping[str, Array]) -> list[tuple[TensorSpec, Array]]:
    """Each input with its spec, cast. Raises ValueError for unknown and missing names, and for lossy casts."""
    specs = {spec.name: spec for spec in signature.inputs}
    for name in inputs:
        if name not in specs:
            raise ValueError(f"signature {signature.name} has no input {name!r}; {suggest(name, specs)}")
    if missing := sorted(specs.keys() - inputs.keys()):
        raise ValueError(f"signature {signature.name} needs input {missing[0]!r}, which is not given")
    return [(specs[name], cast(specs[name], array)) for name, array in inputs.items()]


def cast(spec: TensorSpec, array: Array) -> Array:
    """The array in the spec's dtype, when no more than precision is lost by it. Raises ValueError otherwise."""
    wanted = numpy_dtype(spec.dtype)
    if array.dtype == wanted:
        return array
    if spec.dtype == "string" and array.dtype.kind in "SUO":
        return _to_bytes(array)
    if wanted.kind != "O" and array.dtype.kind != "O" and np.can_cast(array.dtype, wanted, "same_kind"):
        return array.astype(wanted)
    if array.dtype.kind in "iu" and wanted.kind in "iu" and _fits(array, wanted):
        return array.astype(wanted)
    raise ValueError(f"input {spec.name} takes {spec.dtype}, and an array of {array.dtype} cannot be cast to it safely")


def from_border(tensors: Iterable[tuple[str, str, Sequence[int], bytes | Sequence[bytes]]]) -> dict[str, Array]:
    """Arrays by name; those of strings have dtype object, with elements of bytes."""
    found: dict[str, Array] = {}
    for name, dtype, shape, data in tensors:
        if isinstance(data, bytes):
            found[name] = np.frombuffer(data, numpy_dtype(dtype)).reshape(shape)
        else:
            found[name] = objects(data, shape)
    return found


def objects(items: Sequence[object], shape: Sequence[int]) -> Array:
    """An array of Python objects, even where they are sequences themselves."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array.reshape(shape)


def describe(array: Array) -> str:
    """Element type and shape as people read them: `float[1,64]`."""
    name = "string" if array.dtype.kind in "SUO" else dtype_name(array.dtype)
    return f"{name}[{','.join(map(str, array.shape))}]"


def _tensor(spec: TensorSpec, array: Array) -> BorderTensor:
    if spec.dtype == "string":
        return spec.name, spec.dtype, array.shape, list(array.ravel())
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return spec.name, spec.dtype, array.shape, little.tobytes()


def _to_bytes(array: Array) -> Array:
    items = [_element(item) for item in array.ravel().tolist()]
    return objects(items, array.shape)


def _element(item: object) -> bytes:
    if isinstance(item, bytes):
        return item
    if isinstance(item, str):
        return item.encode()
    raise ValueError(f"a string tensor holds text or bytes, not {type(item).__name__}")


def _fits(array: Array, wanted: np.dtype[Any]) -> bool:
    if not array.size:
        return True
    bounds = np.iinfo(wanted)
    return bool(bounds.min <= int(array.min()) and int(array.max()) <= bounds.max)

"""Whether inputs are what a signature takes."""

from __future__ import annotations

from collections.abc import Mapping

from poise.client.arrays import describe, match_inputs
from poise.records import suggest
from poise.types import Array, Signature, TensorSpec


def known_input(signature: Signature, name: str) -> TensorSpec:
    """The input of this name. Raises ValueError with the nearest when there is none."""
    for spec in signature.inputs:
        if spec.name == name:
            return spec
    names = [spec.name for spec in signature.inputs]
    raise ValueError(f"signature {signature.name} has no input {name!r}; {suggest(name, names)}")


def checked(signature: Signature, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs of one request, cast to the signature's dtypes.

    Raises ValueError for names, dtypes, shapes and numbers of rows that do not fit.
    """
    found = {}
    for spec, array in match_inputs(signature, inputs):
        check_shape(spec, array)
        found[spec.name] = array
    if signature.batched and len({len(array) for array in found.values()}) > 1:
        told = ", ".join(f"{name} {len(array)}" for name, array in found.items())
        raise ValueError(f"every input needs as many rows as the others; got {told}: give all the same dimension 0")
    return found


def check_shape(spec: TensorSpec, array: Array) -> None:
    """Raises ValueError unless the array has the spec's rank and its fixed dimensions."""
    wanted = spec.shape
    if wanted is None:
        return
    if len(wanted) == array.ndim and all(want in {-1, dim} for want, dim in zip(wanted, array.shape, strict=True)):
        return
    mend = "reshape it; -1 is any length" if -1 in wanted else "reshape it"
    raise ValueError(f"input {spec.name}: expected {spec.dtype}{list(wanted)}, got {describe(array)}: {mend}")

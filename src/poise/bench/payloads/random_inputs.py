"""Random inputs for a signature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from poise.bench.payloads.check import known_input
from poise.bench.payloads.distributions import Keys, Lengths
from poise.types import Array, Signature, TensorSpec, numpy_dtype

Shapes = Mapping[str, tuple[int, ...]]
ALL = ""
"""The name under which lengths stand that hold for every input."""


@dataclass(slots=True)
class RandomInputs:
    """Inputs without end, the same for the same seed.

    `shapes` give one row of an input where the signature leaves it open; what is still open has a length drawn for
    each request from `lengths` (one for all inputs under the name ALL, so that a mask is as long as its tokens), else
    1. Whole numbers of an input in `keys` are drawn from it. Raises ValueError for names that are no inputs.
    """

    signature: Signature
    random: np.random.Generator
    shapes: Shapes = field(default_factory=dict)
    lengths: Mapping[str, Lengths] = field(default_factory=dict)
    keys: Mapping[str, Keys] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (*self.shapes, *self.lengths, *self.keys):
            if name != ALL:
                known_input(self.signature, name)
        for spec in self.signature.inputs:
            if spec.name in self.keys and (spec.dtype == "bfloat16" or numpy_dtype(spec.dtype).kind not in "iu"):
                raise ValueError(f"--keys {spec.name}: expected an input of whole numbers, got one of {spec.dtype}")

    @property
    def distinct(self) -> None:
        """How many different requests there are: without end."""

    def inputs(self, rows: int) -> dict[str, Array]:
        """An array for every input, with so many rows where the signature counts them."""
        shared = self.lengths[ALL].draw(self.random) if ALL in self.lengths else None
        return {spec.name: self.array(spec, rows, shared) for spec in self.signature.inputs}

    def array(self, spec: TensorSpec, rows: int, shared: int | None = None) -> Array:
        """One input; `shared` is the length that this request has in common."""
        own = self.lengths.get(spec.name)
        length = own.draw(self.random) if own else shared or 1
        shape = shape_of(spec, self.signature.batched, rows, self.shapes.get(spec.name), length)
        keys = self.keys.get(spec.name)
        if keys is None:
            return random_array(spec.dtype, shape, self.random)
        wanted = numpy_dtype(spec.dtype)
        if keys.vocabulary - 1 > np.iinfo(wanted).max:
            raise ValueError(f"--keys {spec.name}: {spec.dtype} cannot hold {keys.vocabulary} keys; give fewer")
        return keys.draw(int(np.prod(shape)), self.random).reshape(shape).astype(wanted)


def shape_of(
    spec: TensorSpec, batched: bool, rows: int, given: tuple[int, ...] | None, length: int = 1
) -> tuple[int, ...]:
    """The shape to send: dimension 0 counts rows where requests may share a batch, others that vary are `length`.

    `given` replaces that; the dimension of the rows may be left out of it. Raises ValueError when it does not fit.
    """
    if spec.shape is None:
        return (rows, *(given or ())) if batched else (given or ())
    wanted = spec.shape[1:] if batched else spec.shape
    if given is not None and batched and len(given) == len(spec.shape):
        given = given[1:]
    dims = given if given is not None else tuple(length if dim < 0 else dim for dim in wanted)
    fits = len(dims) == len(wanted) and all(want in {-1, dim} for want, dim in zip(wanted, dims, strict=True))
    if not fits:
        raise ValueError(f"input {spec.name} has shape {list(spec.shape)}, which {list(dims)} does not fit")
    return (rows, *dims) if batched else dims


def random_array(dtype: str, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """Numbers around 0, whole numbers from 0 to 9 (most tables of embeddings have as many rows), short words."""
    wanted = numpy_dtype(dtype)
    if dtype == "string":
        words = np.empty(shape, dtype=object)
        words.ravel()[:] = [random.integers(97, 123, 8, dtype=np.uint8).tobytes() for _ in range(words.size)]
        return words
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(wanted)
    if dtype.startswith("complex"):
        return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(wanted)
    if wanted.kind in "iu" and dtype != "bfloat16":
        return random.integers(0, 256 if dtype == "uint8" else 10, shape).astype(wanted)
    values = random.standard_normal(shape).astype(np.float32)
    if dtype == "bfloat16" and wanted == np.dtype(np.uint16):
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(wanted)

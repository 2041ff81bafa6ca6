"""What a model in Python looks like.

    class Ranker(poise.Model):
        inputs = {"x": ("float32", [-1, 64])}
        outputs = {"score": ("float32", [-1, 1])}

        def load(self):
            self.weights = np.load(Path(__file__).with_name("weights.npy"))

        def predict(self, inputs):
            return {"score": inputs["x"] @ self.weights}

`poise serve ranker=ranker.py:Ranker` serves it. Any class with a `predict` will do: deriving from Model is not needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from poise.errors import InvalidModel
from poise.types import Array, Signature, TensorSpec, dtype_name, rows_can_be_counted

Declaration = Mapping[str, tuple[str, Sequence[int | None] | None]]
"""Name to (dtype, shape): dtypes as NumPy or TensorFlow call them, -1 or None for a dimension that may vary, None
instead of a shape when even the rank may. Where dim 0 varies in every input and output it counts rows."""

HOW_TO_DECLARE = (
    'write `inputs = {"x": ("float32", [-1, 64])}` and `outputs = {"score": ("float32", [-1, 1])}` in the class,'
    " or a method `example_inputs()` that returns a dict of arrays to try it with"
)


class Model:
    """A model as users write it; each method but `predict` may be left out.

    The class is made once per worker, with the model's `options` as keyword arguments; `load`, `predict` and `close`
    are called from one thread, one after another.
    """

    inputs: ClassVar[Declaration]
    outputs: ClassVar[Declaration]
    batched: ClassVar[bool]
    """False when dim 0 does not count rows although it may vary: requests are then run one by one."""

    def load(self) -> None:
        """Get ready to predict. What it raises becomes the version's error; nothing is served until it returns."""

    def example_inputs(self) -> Mapping[str, Array] | None:
        """Arrays to try the model with, once after `load`, when no `inputs` and `outputs` are declared.

        The signature then has the names, dtypes and ranks of what goes in and comes out, with no size fixed.
        """
        return None

    def predict(self, inputs: dict[str, Array]) -> Mapping[str, Array] | Array:
        """Answer one batch: arrays by name in, arrays by name out (or the array alone when there is one output).

        Strings are object arrays of bytes. An array that came in is valid, and may be read, until predict returns:
        copy what is to be kept. Outputs have the declared dtype and, when batched, as many rows as the inputs. Raise
        `poise.InvalidInput(message, rows=[i])` to refuse rows; any other exception fails the batch as INTERNAL.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Let go of what `load` took. Called once, when the version is retired; not when a worker is killed."""


def declared_signature(model: object) -> Signature | None:
    """The signature that a model's class declares, None when it declares none. Raises InvalidModel for nonsense."""
    inputs, outputs = getattr(model, "inputs", None), getattr(model, "outputs", None)
    if inputs is None and outputs is None:
        return None
    owner = type(model).__name__
    if inputs is None or outputs is None:
        raise InvalidModel(f"{owner} declares {'outputs' if inputs is None else 'inputs'} only; {HOW_TO_DECLARE}")
    return _signature(model, _specs(owner, "inputs", inputs), _specs(owner, "outputs", outputs))


def inferred_signature(model: object, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Signature:
    """The signature of a model that was tried once: names, dtypes and ranks of what went in and came out.

    It is batched when dim 0 was of one size everywhere. Raises InvalidModel for arrays that cannot be served.
    """
    rows = {array.shape[:1] for array in (*inputs.values(), *outputs.values())}
    batched = len(rows) == 1 and rows != {()}
    try:
        specs = [[_spec_of(name, array) for name, array in side.items()] for side in (inputs, outputs)]
    except ValueError as error:
        raise InvalidModel(f"{type(model).__name__}, tried with example_inputs(): {error}") from None
    return _signature(model, specs[0], specs[1], batched=batched)


def _spec_of(name: str, array: Array) -> TensorSpec:
    return TensorSpec(name, dtype_name(array.dtype), (-1,) * array.ndim)


def _signature(
    model: object, inputs: list[TensorSpec], outputs: list[TensorSpec], *, batched: bool | None = None
) -> Signature:
    if batched is None:
        batched = rows_can_be_counted([*inputs, *outputs])
    try:
        return Signature(tuple(inputs), tuple(outputs), batched=getattr(model, "batched", batched))
    except ValueError as error:
        raise InvalidModel(f"{type(model).__name__}: {error}") from None


def _specs(owner: str, side: str, declared: object) -> list[TensorSpec]:
    if not isinstance(declared, Mapping):
        raise InvalidModel(f"{owner}.{side} must be a dict, not {type(declared).__name__}; {HOW_TO_DECLARE}")
    return [_spec(f"{owner}.{side}[{name!r}]", name, value) for name, value in declared.items()]


def _spec(place: str, name: object, value: object) -> TensorSpec:
    if not isinstance(name, str) or not isinstance(value, tuple | list) or len(value) != 2:
        raise InvalidModel(f'{place} must be a pair of dtype and shape, e.g. ("float32", [-1, 64]); got {value!r}')
    dtype, shape = value
    if shape is not None and not isinstance(shape, list | tuple):
        raise InvalidModel(f"{place}: the shape must be a list of dimensions, or None; got {shape!r}")
    try:
        return TensorSpec(name, dtype_name(dtype), None if shape is None else tuple(shape))
    except ValueError as error:
        raise InvalidModel(f"{place}: {error}") from None

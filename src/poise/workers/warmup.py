"""Running a model before it is offered, so that no client pays for what it does only once.

First the requests of `assets.extra/tf_serving_warmup_requests`, as with TensorFlow Serving: one that fails fails the
load. Then every batch size that batches may have, the largest first: buffers and arenas grow once instead of step by
step, and when time runs out the size that takes longest has been run. Rows are those of a recorded request, else zeros,
which some models rightly refuse: that is logged and no more.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from poise.clock import Clock, SystemClock
from poise.errors import ModelLoadError, PoiseError, one_line
from poise.types import Array, Signature, TensorSpec, numpy_dtype
from poise.workers.loop import view

if TYPE_CHECKING:
    from poise.backends.base import LoadedModel

logger = logging.getLogger(__name__)

FILE = Path("assets.extra", "tf_serving_warmup_requests")
MOST_RECORDS = 1000
MOST_BYTES = 1 << 30
"""Of the inputs of a batch that is made up here; larger ones are not tried."""

Inputs = dict[str, Array]
Reader = Callable[[str, int], Sequence[tuple[str, Sequence[tuple[str, str, tuple[int, ...], Any]]]]]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a model is warmed up."""

    enabled: bool = True
    iterations: int = 1
    """How often each recorded request is run."""
    limit_s: float = 5.0
    """No batch of a made-up size is begun later than this."""
    allowed: tuple[int, ...] = ()
    """Sizes of batches, ascending; empty when any will do."""
    most: int = 1
    """Most rows of a batch."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes to try, ascending."""
        return self.allowed or tuple(sorted({1, self.most}))

    def size_of(self, rows: int) -> int:
        """The size of the batch that so many rows make in service."""
        return next((size for size in self.allowed if size >= rows), rows)


@dataclass(frozen=True)
class Warmed:
    """What was run."""

    records: int = 0
    batches: int = 0
    elapsed_s: float = 0.0


def warm_up(
    model: LoadedModel, path: str, plan: Plan, read: Reader | None = None, clock: Clock | None = None
) -> Warmed:
    """Run the model as it will be run. Raises ModelLoadError when a recorded request cannot be read or fails."""
    if not plan.enabled:
        return Warmed()
    clock = clock or SystemClock()
    began = clock.now()
    recorded = _recorded(path, read or _read)
    signatures = {signature.name: signature for signature in model.signatures}
    for index, (name, inputs) in enumerate(recorded):
        _replay(model, signatures.get(name), name, inputs, plan, index)
    samples = dict(reversed(recorded))
    batches = 0
    for signature, size in _to_try(model, samples, plan):
        if clock.now() - began >= plan.limit_s:
            logger.info("warm-up: not all batch sizes were tried within %g s (warmup_limit_s)", plan.limit_s)
            break
        batches += _try(model, signature, size, samples.get(signature.name))
    return Warmed(len(recorded), batches, clock.now() - began)


def _read(path: str, most: int) -> Any:
    from poise._core import read_warmup  # noqa: PLC0415  (what is tested without it must not need it)

    return read_warmup(path, most)


def _recorded(path: str, read: Reader) -> list[tuple[str, Inputs]]:
    file = Path(path) / FILE
    if not file.is_file():
        return []
    try:
        calls = read(str(file), MOST_RECORDS)
    except ValueError as error:
        raise ModelLoadError(f"warm-up: {error}") from None
    return [(name, {key: view(dtype, shape, data) for key, dtype, shape, data in inputs}) for name, inputs in calls]


def _replay(model: LoadedModel, signature: Signature | None, name: str, inputs: Inputs, plan: Plan, index: int) -> None:
    if signature is None:
        raise ModelLoadError(f'warm-up: call {index}: Serving signature key "{name}" not found.')
    omitted = {spec.name for spec in signature.inputs} - inputs.keys()
    if omitted and omitted <= {spec.name for spec in signature.inputs if spec.default is not None}:
        logger.warning("warm-up: call %d leaves out %s, which has a default; it is not run", index, min(omitted))
        return
    try:
        for batch in _batches(signature, inputs, plan):
            for _ in range(plan.iterations):
                model.run(name, dict(batch), [spec.name for spec in signature.outputs])
    except Exception as error:
        logger.exception("warm-up: call %d of signature %s failed", index, name)
        text = str(error) if isinstance(error, PoiseError) else one_line(error)
        raise ModelLoadError(f"warm-up: call {index} of signature {name} failed: {text}") from None


def _batches(signature: Signature, inputs: Inputs, plan: Plan) -> Iterator[Inputs]:
    """A request as batches of the sizes that occur in service: cut where it is larger, filled up where smaller."""
    rows = _rows(signature, inputs)
    if not rows:
        yield inputs
        return
    for start in range(0, rows, plan.most):
        part = {name: array[start : start + plan.most] for name, array in inputs.items()}
        yield _resized(part, plan.size_of(min(rows - start, plan.most)))


def _rows(signature: Signature, inputs: Inputs) -> int | None:
    """Rows of a request; None when it is run as a whole."""
    found = {array.shape[:1] for array in inputs.values()}
    return found.pop()[0] if signature.batched and len(found) == 1 and () not in found else None


def _resized(inputs: Inputs, size: int) -> Inputs:
    """The rows, the first of them repeated, or as many as fit."""
    index = np.arange(size)
    return {name: array[np.where(index < array.shape[0], index, 0)] for name, array in inputs.items()}


def _to_try(model: LoadedModel, samples: dict[str, Inputs], plan: Plan) -> Iterator[tuple[Signature, int]]:
    """Signatures and sizes: all signatures at their largest before any at a smaller one."""
    made_up = getattr(model, "takes_made_up_inputs", True)
    found = [each for each in model.signatures if each.name in samples or (made_up and _can_be_made_up(each))]
    for size in reversed(plan.sizes):
        yield from ((each, size) for each in found if each.batched)
    yield from ((each, 1) for each in found if not each.batched and each.name not in samples)


def _can_be_made_up(signature: Signature) -> bool:
    return all(spec.dtype != "string" and spec.shape is not None for spec in signature.inputs)


def _try(model: LoadedModel, signature: Signature, size: int, sample: Inputs | None) -> bool:
    """Run one batch; whether that went well."""
    if sample is not None and not _rows(signature, sample):
        return False
    cost = sum(_bytes(spec, size) for spec in signature.inputs) if sample is None else _scaled(sample, size)
    if cost > MOST_BYTES:
        return False
    inputs = _zeros(signature, size) if sample is None else _resized(sample, size)
    try:
        model.run(signature.name, inputs, [spec.name for spec in signature.outputs])
    except Exception as error:  # noqa: BLE001  (a model may raise anything, and may refuse what it never gets)
        logger.info("warm-up: signature %s at %d rows: %s", signature.name, size, one_line(error))
        return False
    return True


def _shape(spec: TensorSpec, size: int) -> tuple[int, ...]:
    """With rows for the first dimension that varies in front, and one for the others that may."""
    dims = spec.shape or ()
    return tuple((size if axis == 0 else 1) if dim < 0 else dim for axis, dim in enumerate(dims))


def _bytes(spec: TensorSpec, size: int) -> int:
    return math.prod(_shape(spec, size)) * numpy_dtype(spec.dtype).itemsize


def _scaled(sample: Inputs, size: int) -> int:
    return sum(array.nbytes // max(array.shape[0], 1) * size for array in sample.values())


def _zeros(signature: Signature, size: int) -> Inputs:
    return {spec.name: np.zeros(_shape(spec, size), numpy_dtype(spec.dtype)) for spec in signature.inputs}

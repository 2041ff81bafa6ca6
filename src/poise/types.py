"""What a model can be asked: named, typed tensors in and out. Twins of `rust/src/model.rs` and of its `DType`."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

DEFAULT_SIGNATURE = "serving_default"
"""The signature that answers when a request names none."""
PREDICT = "tensorflow/serving/predict"
"""The method name of a signature that is neither a classification nor a regression."""

Array = npt.NDArray[Any]

_NUMPY: dict[str, np.dtype[Any]] = {
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
    "int32": np.dtype(np.int32),
    "uint8": np.dtype(np.uint8),
    "int16": np.dtype(np.int16),
    "int8": np.dtype(np.int8),
    "string": np.dtype(np.object_),
    "complex64": np.dtype(np.complex64),
    "int64": np.dtype(np.int64),
    "bool": np.dtype(np.bool_),
    "uint16": np.dtype(np.uint16),
    "complex128": np.dtype(np.complex128),
    "half": np.dtype(np.float16),
    "uint32": np.dtype(np.uint32),
    "uint64": np.dtype(np.uint64),
}
_ALIASES = {
    "float32": "float",
    "float64": "double",
    "float16": "half",
    "str": "string",
    "bytes": "string",
    "object": "string",
}
_NAMES = {dtype: name for name, dtype in _NUMPY.items()}

DTYPES = (*_NUMPY, "bfloat16")
"""TensorFlow's lower-case names of the element types that Poise serves."""


@cache
def _bfloat16() -> np.dtype[Any] | None:
    try:
        import ml_dtypes  # noqa: PLC0415  (optional: found beside JAX, TensorFlow, ONNX)
    except ImportError:
        return None
    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of arrays of this element type; `object` (elements are bytes) for strings.

    `bfloat16` needs the package `ml_dtypes`; without it arrays carry the raw bits as uint16.
    Raises ValueError for a name that Poise does not serve.
    """
    canonical = _ALIASES.get(name, name)
    if canonical == "bfloat16":
        return _bfloat16() or np.dtype(np.uint16)
    try:
        return _NUMPY[canonical]
    except KeyError:
        raise ValueError(f"unknown dtype {name!r}: expected one of {', '.join(DTYPES)}") from None


def dtype_name(dtype: npt.DTypeLike) -> str:
    """TensorFlow's name for a NumPy dtype, or for a name of either world (`float32` and `float` both give `float`).

    Raises ValueError when Poise does not serve it.
    """
    if isinstance(dtype, str):
        canonical = _ALIASES.get(dtype, dtype)
        if canonical in DTYPES:
            return canonical
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise ValueError(f"unknown dtype {dtype!r}: expected one of {', '.join(DTYPES)}") from None
    if found.kind in "SU":
        return "string"
    name = "bfloat16" if found == _bfloat16() else _NAMES.get(found)
    if name is None:
        raise ValueError(f"dtype {found} cannot be served: expected one of {', '.join(DTYPES)}")
    return name


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One named input or output.

    `dtype` is TensorFlow's lower-case name (NumPy's is accepted and turned into it). `shape` has -1 (None is
    accepted) for a dimension that may vary, and is None when even the rank may. `tensor` names the tensor of a graph
    behind it, if that is not `name:0`. `default` is what an input is that a request leaves out, as a serialized
    TensorProto. Raises ValueError on anything else.
    """

    name: str
    dtype: str
    shape: tuple[int, ...] | None
    tensor: str | None = None
    default: bytes | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a tensor needs a name")
        object.__setattr__(self, "dtype", dtype_name(self.dtype))
        if self.shape is not None:
            object.__setattr__(self, "shape", _dims(self.name, self.shape))

    @property
    def varies_in_rows(self) -> bool:
        """Whether dim 0 may vary, so that it can count rows."""
        return self.shape is not None and self.shape[:1] == (-1,)

    def to_dict(self) -> dict[str, Any]:
        shape = None if self.shape is None else list(self.shape)
        record: dict[str, Any] = {"name": self.name, "dtype": self.dtype, "shape": shape}
        if self.tensor is not None:
            record["tensor"] = self.tensor
        if self.default is not None:
            record["default"] = base64.b64encode(self.default).decode()
        return record

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> TensorSpec:
        shape = None if raw["shape"] is None else tuple(raw["shape"])
        default = base64.b64decode(raw["default"]) if raw.get("default") is not None else None
        return cls(raw["name"], raw["dtype"], shape, raw.get("tensor"), default)


def _dims(name: str, shape: Iterable[object]) -> tuple[int, ...]:
    dims = []
    for dim in shape:
        size = -1 if dim is None else dim
        if not isinstance(size, int) or isinstance(size, bool) or size < -1:
            raise ValueError(f"tensor {name}: a dimension is a whole number, or -1 when it may vary; got {dim!r}")
        dims.append(size)
    return tuple(dims)


@dataclass(frozen=True, slots=True)
class Signature:
    """One callable of a version.

    `batched` says that dim 0 of every input and output counts rows, so that requests may share a batch; a dimension 0
    that is fixed somewhere contradicts it. Without `check_shapes` inputs of other shapes than declared reach the model,
    which judges them itself. Raises ValueError for the contradiction, for a name used twice, and for no outputs.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    name: str = DEFAULT_SIGNATURE
    method_name: str = PREDICT
    batched: bool = True
    check_shapes: bool = True

    def __post_init__(self) -> None:
        for kind, specs in (("input", self.inputs), ("output", self.outputs)):
            names = [spec.name for spec in specs]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"signature {self.name}: {kind} {twice[0]} is declared twice")
        if not self.outputs:
            raise ValueError(f"signature {self.name}: it has no outputs")
        fixed = [
            spec.name for spec in (*self.inputs, *self.outputs) if spec.shape is not None and not spec.varies_in_rows
        ]
        if self.batched and fixed:
            raise ValueError(
                f"signature {self.name}: batched, yet dimension 0 of {', '.join(fixed)} does not vary;"
                " give it as -1, or declare the signature not batched"
            )

    def to_dict(self) -> dict[str, Any]:
        """As it crosses the border: plain values, tensors sorted by name."""
        return {
            "name": self.name,
            "method_name": self.method_name,
            "batched": self.batched,
            "check_shapes": self.check_shapes,
            "inputs": [spec.to_dict() for spec in _sorted(self.inputs)],
            "outputs": [spec.to_dict() for spec in _sorted(self.outputs)],
        }

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Signature:
        return cls(
            inputs=tuple(TensorSpec.from_dict(spec) for spec in raw["inputs"]),
            outputs=tuple(TensorSpec.from_dict(spec) for spec in raw["outputs"]),
            name=raw["name"],
            method_name=raw["method_name"],
            batched=raw["batched"],
            check_shapes=raw.get("check_shapes", True),
        )


def _sorted(specs: Sequence[TensorSpec]) -> list[TensorSpec]:
    return sorted(specs, key=lambda spec: spec.name)


def rows_can_be_counted(specs: Iterable[TensorSpec]) -> bool:
    """Whether dim 0 of every one of these may vary: the rule by which a model that says nothing is batched."""
    found = list(specs)
    return bool(found) and all(spec.varies_in_rows for spec in found)


def signatures_to_json(signatures: Iterable[Signature]) -> str:
    """The text that `Worker.ready` and `Server.describe` take."""
    return json.dumps([signature.to_dict() for signature in signatures])


def signatures_from_json(text: str) -> tuple[Signature, ...]:
    """The inverse of `signatures_to_json`."""
    return tuple(Signature.from_dict(raw) for raw in json.loads(text))

"""The Open Inference Protocol, version 2 (KServe, Triton): what its gRPC and its REST form share."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from poise.bench.targets.base import TargetOptions
from poise.client import CallError
from poise.client.arrays import match_inputs
from poise.records import suggest
from poise.types import Array, Signature, TensorSpec, rows_can_be_counted

DATATYPES = {
    "BOOL": "bool",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "FP16": "half",
    "FP32": "float",
    "FP64": "double",
    "BF16": "bfloat16",
    "BYTES": "string",
}
"""The protocol's names of element types, and ours."""
NAMES = {dtype: name for name, dtype in DATATYPES.items()}


@dataclass(frozen=True, slots=True)
class V2Tensor:
    """One input in the protocol's terms."""

    name: str
    datatype: str
    array: Array

    @property
    def shape(self) -> list[int]:
        return list(self.array.shape)

    def raw(self) -> bytes:
        """Little-endian elements, row by row; each of BYTES behind its length in four bytes."""
        if self.datatype == "BYTES":
            return b"".join(struct.pack("<I", len(item)) + item for item in self.array.ravel())
        return np.ascontiguousarray(self.array.astype(self.array.dtype.newbyteorder("<"), copy=False)).tobytes()


@dataclass(slots=True)
class OpenInference(ABC):
    """A model of a server with the Open Inference Protocol."""

    url: str
    options: TargetOptions
    served_version: int | None = field(default=None, init=False)
    found: Signature | None = field(default=None, init=False)

    @property
    def has_signatures(self) -> bool:
        return False

    @property
    def version(self) -> str:
        return "" if self.options.version is None else str(self.options.version)

    @abstractmethod
    def metadata(self) -> Any:
        """The model's metadata in the protocol's JSON. Raises CallError."""

    def ask(self) -> None:
        metadata = self.metadata()
        try:
            versions = [int(version) for version in metadata.get("versions") or () if str(version).isdecimal()]
            inputs, outputs = (tuple(map(read_spec, metadata[kind])) for kind in ("inputs", "outputs"))
            self.found = Signature(inputs, outputs, batched=bool(inputs) and rows_can_be_counted((*inputs, *outputs)))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise CallError(f"the metadata of model {self.options.model} cannot be used: {error}") from None
        self.served_version = max(versions, default=None) if self.options.version is None else self.options.version

    def signature(self) -> Signature:
        if self.options.signature:
            raise CallError(f"this server's protocol has no signatures: leave --signature {self.options.signature} out")
        if self.found is None:
            raise CallError("the server was not asked what it serves")
        return self.found


def read_spec(raw: Mapping[str, Any]) -> TensorSpec:
    """An input or output as metadata tells it. Raises ValueError for a datatype that is not known."""
    datatype = str(raw["datatype"])
    if datatype not in DATATYPES:
        raise ValueError(f"tensor {raw['name']} has datatype {datatype}; {suggest(datatype, DATATYPES)}")
    return TensorSpec(str(raw["name"]), DATATYPES[datatype], tuple(max(int(dim), -1) for dim in raw["shape"]))


def tensors(signature: Signature, inputs: Mapping[str, Array]) -> list[V2Tensor]:
    """Inputs in the protocol's terms. Raises ValueError for what the signature or the protocol forbids."""
    found = []
    for spec, array in match_inputs(signature, inputs):
        if spec.dtype not in NAMES:
            raise ValueError(f"input {spec.name} is {spec.dtype}, which the Open Inference Protocol does not have")
        found.append(V2Tensor(spec.name, NAMES[spec.dtype], array))
    return found

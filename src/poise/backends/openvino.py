"""Runs SavedModels, ONNX, TFLite and OpenVINO's own .xml files with OpenVINO, which reads all of them by itself."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from poise import records
from poise.backends.base import ModelSource
from poise.errors import BackendUnavailable, ConfigError, InvalidInput, InvalidModel, ModelLoadError, one_line
from poise.formats import saved_model
from poise.types import DEFAULT_SIGNATURE, Array, Signature, TensorSpec, rows_can_be_counted

try:
    import openvino
except ImportError as missing:
    raise BackendUnavailable(
        f"openvino cannot be imported ({missing}); install it with: pip install 'poise-serving[openvino]'"
    ) from missing

logger = logging.getLogger(__name__)

SUFFIXES = (".xml", ".onnx", ".tflite")
DTYPES = {
    "f32": "float",
    "f64": "double",
    "f16": "half",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "boolean": "bool",
}
"""OpenVINO's names of element types to Poise's, of those that it shares with NumPy."""
LONGEST_REASON = 300


@dataclass(frozen=True, kw_only=True)
class OpenVinoOptions:
    """`[models.NAME.options]` of this backend."""

    file: str = ""
    """Which file of the directory; empty for the SavedModel, or else the only model file that there is."""
    device: str = "CPU"
    """Where it runs, by OpenVINO's names: `GPU`, `NPU`, `AUTO:GPU,CPU`."""
    threads: int = 0
    """Threads that share the work of one batch; 0 for the worker's share of the cores. CPU only."""
    streams: int = 1
    """Parts that the device is divided into. A worker runs one batch at a time: raise `workers` instead, unless the
    device's documentation says otherwise."""
    performance_hint: Literal["latency", "throughput"] = "latency"
    """What the device is tuned for, where streams and threads leave it a choice."""
    precision: Literal["f32", "bf16", "f16", "device"] = "f32"
    """What the arithmetic is done in. OpenVINO would use bf16 by itself on processors that have it (`device`): faster,
    and less exact."""
    batched: bool | None = None
    """Whether dim 0 counts rows; unset to find out: it does when it may vary in every input and output."""
    config: dict[str, Any] = field(default_factory=dict)
    """Further properties of the device, by OpenVINO's own names; they win over the options above."""

    def __post_init__(self) -> None:
        if self.threads < 0 or self.streams < 1:
            raise ConfigError("threads must be non-negative and streams positive")


@dataclass(frozen=True)
class Port:
    """One input or output as OpenVINO tells it, at its place among them."""

    place: int
    names: frozenset[str]
    dtype: str | None
    """None for one that Poise does not exchange with OpenVINO."""
    shape: tuple[int, ...] | None
    shown: str


class OpenVinoModel:
    """A compiled model with its signature, and the one request in which all batches are run."""

    def __init__(
        self, compiled: Any, signature: Signature, inputs: Mapping[str, int], outputs: Mapping[str, int]
    ) -> None:
        self._request = compiled.create_infer_request()
        self._inputs = tuple(inputs.items())
        self._outputs = outputs
        self.signatures = (signature,)

    def run(self, signature: str, inputs: dict[str, Array], outputs: Sequence[str]) -> Mapping[str, Any]:  # noqa: ARG002
        request = self._request
        try:
            for name, place in self._inputs:
                request.set_input_tensor(place, openvino.Tensor(inputs[name], shared_memory=True))
        except RuntimeError as error:  # a shape that the model cannot have
            raise InvalidInput(f"input {name}: {reason(error)}") from error
        request.infer()
        return {name: request.get_output_tensor(self._outputs[name]).data for name in outputs}

    def close(self) -> None:
        del self._request


def load(source: ModelSource) -> OpenVinoModel:
    """Compile the file, or what is in the directory, for the device. Raises ModelLoadError or ConfigError."""
    options = records.read(OpenVinoOptions, [records.Source(source.options, f"options of model {source.name}")])
    path = find(Path(source.path), options.file)
    declared = _declared(path, options.batched) if path.is_dir() else None
    try:
        compiled = openvino.Core().compile_model(path, options.device, properties(options, source.threads))
    except Exception as error:
        logger.exception("%s: OpenVINO does not load it", path)
        raise ModelLoadError(f"{path}: OpenVINO does not load it: {reason(error)}") from error
    ins, outs = _ports(compiled.inputs), _ports(compiled.outputs)
    signature = declared or own_signature(ins, outs, batched=options.batched)
    return OpenVinoModel(compiled, signature, places(signature.inputs, ins), places(signature.outputs, outs))


def find(path: Path, file: str = "") -> Path:
    """The directory of a SavedModel, or the file of another kind. Raises InvalidModel when it cannot be told."""
    if not path.is_dir():
        return path.parent if path.name == saved_model.FILE else path
    if file:
        return path / file
    if (path / saved_model.FILE).exists():
        return path
    files = sorted(each for each in path.iterdir() if each.suffix in SUFFIXES)
    if len(files) != 1:
        found = ", ".join(each.name for each in files) or "none"
        kinds = ", ".join(f"*{suffix}" for suffix in SUFFIXES)
        raise InvalidModel(
            f"{path}: expected {saved_model.FILE}, or only one of {kinds}; found {found}. Name one with options.file"
        )
    return files[0]


def properties(options: OpenVinoOptions, threads: int) -> dict[str, Any]:
    """What the device is set to."""
    found: dict[str, Any] = {"PERFORMANCE_HINT": options.performance_hint.upper(), "NUM_STREAMS": options.streams}
    if options.precision != "device":
        found["INFERENCE_PRECISION_HINT"] = options.precision
    if options.device == "CPU":
        found["INFERENCE_NUM_THREADS"] = options.threads or threads
        # Every worker would pin its threads to the same first cores.
        found["ENABLE_CPU_PINNING"] = False
    return found | options.config


def _declared(folder: Path, batched: bool | None) -> Signature:
    """The one signature of a SavedModel that OpenVINO converts. Raises InvalidModel when it is not there."""
    served = {one.name: one for one in saved_model.signatures(saved_model.read(folder), batched=batched)}
    others = ", ".join(sorted(served.keys() - {DEFAULT_SIGNATURE}))
    if DEFAULT_SIGNATURE not in served:
        raise InvalidModel(f"{folder}: OpenVINO runs {DEFAULT_SIGNATURE} only; it has {others or 'no signatures'}")
    if others:
        logger.warning("%s: OpenVINO runs %s only; left out: %s", folder, DEFAULT_SIGNATURE, others)
    return served[DEFAULT_SIGNATURE]


def own_signature(inputs: Iterable[Port], outputs: Iterable[Port], *, batched: bool | None = None) -> Signature:
    """The signature of a file that has no other than its inputs and outputs. Raises InvalidModel."""
    ins, outs = tuple(map(_spec, inputs)), tuple(map(_spec, outputs))
    if batched is None:
        batched = rows_can_be_counted([*ins, *outs])
    try:
        return Signature(ins, outs, batched=batched)
    except ValueError as error:
        raise InvalidModel(str(error)) from None


def places(specs: Iterable[TensorSpec], ports: Sequence[Port]) -> dict[str, int]:
    """Where each tensor of a signature is among OpenVINO's. Raises InvalidModel when they are not the same.

    OpenVINO calls them as the signature does, or, in other releases of it, as the graph does.
    """
    found = {}
    for spec in specs:
        port = next((port for port in ports if port.names & {spec.name, spec.tensor}), None)
        if port is None:
            there = ", ".join(port.shown for port in ports) or "none"
            raise InvalidModel(f"OpenVINO lost {spec.name} in converting the model; it has {there}")
        if port.dtype != spec.dtype:
            raise InvalidModel(f"{spec.name} is {spec.dtype}, which OpenVINO cannot serve; it made {port.shown} of it")
        found[spec.name] = port.place
    return found


def _spec(port: Port) -> TensorSpec:
    if port.dtype is None:
        raise InvalidModel(f"{port.shown} cannot be served by OpenVINO")
    name = min(port.names)
    return TensorSpec(name, port.dtype, port.shape, name)


def _ports(found: Iterable[Any]) -> list[Port]:
    """Those that have no name are called by the node that they belong to."""
    ports = []
    for place, each in enumerate(found):
        names = frozenset(each.names or {each.node.friendly_name})
        kind, shape = each.element_type.get_type_name(), each.partial_shape
        dims = None if shape.rank.is_dynamic else tuple(-1 if dim.is_dynamic else dim.get_length() for dim in shape)
        ports.append(Port(place, names, DTYPES.get(kind), dims, f"{min(names)} {kind}{shape}"))
    return ports


def reason(error: Exception) -> str:
    """OpenVINO's own words without the places in its sources that come before them."""
    lines = [line.strip() for line in str(error).splitlines()]
    words = [line for line in lines if line and not re.match(r"Exception from |Check '.*' failed at ", line)]
    text = " ".join(words)
    return (text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 1] + "…") or one_line(error)

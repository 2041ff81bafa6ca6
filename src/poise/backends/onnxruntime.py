"""Runs ONNX files with ONNX Runtime, on whatever execution providers its installed build has."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from poise import records
from poise.backends.base import ModelSource
from poise.errors import BackendUnavailable, ConfigError, InvalidInput, InvalidModel, ModelLoadError, one_line
from poise.types import Array, Signature, TensorSpec, rows_can_be_counted

try:
    import onnxruntime
except ImportError as missing:
    raise BackendUnavailable(
        f"onnxruntime cannot be imported ({missing}); install it with: pip install 'poise-serving[onnxruntime]'"
    ) from missing

logger = logging.getLogger(__name__)

FILE = "model.onnx"
DTYPES = {
    "tensor(float)": "float",
    "tensor(double)": "double",
    "tensor(float16)": "half",
    "tensor(int8)": "int8",
    "tensor(int16)": "int16",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
    "tensor(uint8)": "uint8",
    "tensor(uint16)": "uint16",
    "tensor(uint32)": "uint32",
    "tensor(uint64)": "uint64",
    "tensor(bool)": "bool",
    "tensor(string)": "string",
}
"""ONNX Runtime's type names to Poise's, of the tensors that it exchanges with NumPy (bfloat16 is not among them)."""


@dataclass(frozen=True, kw_only=True)
class OnnxOptions:
    """`[models.NAME.options]` of this backend."""

    providers: tuple[str | dict[str, Any], ...] = ()
    """Execution providers in order of preference, each a name or a table with `name` and that provider's own options,
    e.g. `["CUDAExecutionProvider", "CPUExecutionProvider"]`; empty for the CPU."""
    intra_op_threads: int = 0
    """Threads that share the work of one operator; 0 for the worker's share of the cores."""
    inter_op_threads: int = 1
    """Operators that run at once. Raise it for wide graphs of small operators; only then does it help."""
    allow_spinning: bool = False
    """Let idle threads of a pool spin for work. Lower latency on cores of its own, wasted time on shared ones."""
    graph_optimization: str = "all"
    """How far the graph is rewritten at load: `disabled`, `basic`, `extended` or `all`."""
    batched: bool | None = None
    """Whether dim 0 counts rows; unset to find out: it does when it is symbolic in every input and output."""
    session_config: dict[str, str] = field(default_factory=dict)
    """Further entries of ONNX Runtime's session configuration, by their own keys."""

    def __post_init__(self) -> None:
        if self.graph_optimization not in _LEVELS:
            expected = records.suggest(self.graph_optimization, _LEVELS)
            raise ConfigError(f"graph_optimization: unknown level {self.graph_optimization!r}; {expected}")
        if self.intra_op_threads < 0 or self.inter_op_threads < 1:
            raise ConfigError("intra_op_threads must be non-negative and inter_op_threads positive")


_LEVELS = {
    "disabled": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}


class OnnxModel:
    """An inference session with its signature."""

    def __init__(self, session: Any, signature: Signature) -> None:
        self._run = session.run
        self._session = session
        self._strings = [spec.name for spec in signature.inputs if spec.dtype == "string"]
        self.signatures = (signature,)

    def run(self, signature: str, inputs: dict[str, Array], outputs: Sequence[str]) -> Mapping[str, Any]:  # noqa: ARG002
        for name in self._strings:
            inputs[name] = _text(name, inputs[name])
        try:
            found = self._run(list(outputs), inputs)
        except _InvalidArgument as error:  # two inputs that do not fit each other, which a signature cannot say
            raise InvalidInput(_reason(error)) from error
        return dict(zip(outputs, found, strict=True))

    def close(self) -> None:
        del self._run, self._session


_InvalidArgument: type[Exception] = onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument


def load(source: ModelSource) -> OnnxModel:
    """Open a session on the file, or on the only `*.onnx` in the directory. Raises ModelLoadError or ConfigError."""
    options = records.read(OnnxOptions, [records.Source(source.options, f"options of model {source.name}")])
    path = find_file(Path(source.path))
    providers = providers_for(options.providers, onnxruntime.get_available_providers())
    try:
        session = onnxruntime.InferenceSession(path, _session_options(options, source.threads), providers)
    except Exception as error:
        logger.exception("%s: ONNX Runtime does not load it", path)
        raise ModelLoadError(f"{path}: ONNX Runtime does not load it: {_reason(error)}") from error
    _warn_of_fallback(source.name, providers, session.get_providers())
    return OnnxModel(session, signature_of(session.get_inputs(), session.get_outputs(), batched=options.batched))


def find_file(path: Path) -> Path:
    """The model file at, or in, `path`. Raises InvalidModel when there is none, or more than one to choose from."""
    if not path.is_dir():
        return path
    files = sorted(path.glob("*.onnx"))
    if path / FILE in files:
        return path / FILE
    if len(files) != 1:
        found = ", ".join(file.name for file in files) or "none"
        raise InvalidModel(f"{path}: expected {FILE}, or only one *.onnx; found {found}")
    return files[0]


def providers_for(
    wanted: Sequence[str | Mapping[str, Any]], available: Sequence[str]
) -> list[tuple[str, dict[str, Any]]]:
    """Names and options as ONNX Runtime takes them. Raises BackendUnavailable for one that is not there."""
    found = []
    for each in wanted or ["CPUExecutionProvider"]:
        options = {} if isinstance(each, str) else dict(each)
        name = each if isinstance(each, str) else options.pop("name", None)
        if name not in available:
            raise BackendUnavailable(
                f"providers: {name!r} is not in this build of ONNX Runtime, which has {', '.join(available)}"
            )
        found.append((str(name), options))
    return found


def signature_of(inputs: Sequence[Any], outputs: Sequence[Any], *, batched: bool | None = None) -> Signature:
    """The one signature of a session, from what it says of its inputs and outputs (name, type, shape).

    Outputs of other kinds than DTYPES has (maps, sequences) are left out with a warning. Raises InvalidModel when an
    input is of another kind, or no output is left.
    """
    for node in inputs:
        if node.type not in DTYPES:
            raise InvalidModel(f"input {node.name} is a {node.type}, which cannot be served")
    served = [node for node in outputs if node.type in DTYPES]
    for node in outputs:
        if node not in served:
            logger.warning("output %s is a %s, which cannot be served; it is left out", node.name, node.type)
    ins, outs = tuple(map(_spec, inputs)), tuple(map(_spec, served))
    if batched is None:
        batched = rows_can_be_counted([*ins, *outs])
    try:
        return Signature(ins, outs, batched=batched)
    except ValueError as error:
        raise InvalidModel(str(error)) from None


def _spec(node: Any) -> TensorSpec:
    """ONNX Runtime gives an empty shape both for a scalar and where it does not know the rank."""
    dims = tuple(dim if isinstance(dim, int) and dim >= 0 else -1 for dim in node.shape)
    return TensorSpec(node.name, DTYPES[node.type], dims or None)


def _session_options(options: OnnxOptions, threads: int) -> Any:
    found = onnxruntime.SessionOptions()
    found.intra_op_num_threads = options.intra_op_threads or threads
    found.inter_op_num_threads = options.inter_op_threads
    if options.inter_op_threads > 1:
        found.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    found.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, _LEVELS[options.graph_optimization])
    spinning = "1" if options.allow_spinning else "0"
    entries = {"session.intra_op.allow_spinning": spinning, "session.inter_op.allow_spinning": spinning}
    for key, value in (entries | options.session_config).items():
        found.add_session_config_entry(key, str(value))
    return found


def _warn_of_fallback(name: str, wanted: Sequence[tuple[str, Any]], got: Sequence[str]) -> None:
    lost = [provider for provider, _ in wanted if provider not in got]
    if lost:
        logger.warning("model %s: %s could not be started; it runs on %s", name, ", ".join(lost), ", ".join(got))


def _text(name: str, array: Array) -> Array:
    """ONNX Runtime reads strings as text only. Raises InvalidInput naming the rows that are not UTF-8."""
    flat = array.ravel()
    found = np.empty(flat.shape, dtype=np.object_)
    try:
        found[:] = [element.decode() for element in flat]
    except UnicodeDecodeError:
        raise InvalidInput(f"input {name}: expected strings in UTF-8", rows=_not_utf8(array)) from None
    return found.reshape(array.shape)


def _not_utf8(array: Array) -> list[int] | None:
    """Indices of the rows that hold something else, None where there are no rows."""
    if not array.ndim:
        return None
    return [index for index, row in enumerate(array) if not _is_utf8(np.asarray(row, dtype=np.object_))]


def _is_utf8(row: Array) -> bool:
    try:
        b"\n".join(row.ravel()).decode()  # a line feed never completes a sequence of bytes that is broken off
    except UnicodeDecodeError:
        return False
    return True


def _reason(error: Exception) -> str:
    """ONNX Runtime's own words without the code in front: `[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : words`."""
    first = str(error).strip().split("\n", 1)[0]
    return first.rsplit(" : ", 1)[-1] if first.startswith("[ONNXRuntimeError]") else one_line(error)

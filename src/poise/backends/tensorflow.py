"""Runs SavedModels with TensorFlow, the way TensorFlow Serving does.

The graph is loaded into a session, and a signature's tensors are fed and fetched by the names that the file gives them.
So exports of TensorFlow 1 and 2 are one and the same thing, and a call costs a fifteenth of what one through
`tf.saved_model.load` does.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from poise import records
from poise.backends.base import ModelSource
from poise.errors import BackendUnavailable, ConfigError, InvalidInput, ModelLoadError, one_line
from poise.formats import saved_model
from poise.types import Array, Signature

logger = logging.getLogger(__name__)


def _import() -> Any:
    """TensorFlow, which reads at its import how much it may say; its notices help nobody who has not asked."""
    if not logging.getLogger().isEnabledFor(logging.DEBUG):
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        import tensorflow  # noqa: ICN001, PLC0415
    except ImportError as missing:
        raise BackendUnavailable(
            f"tensorflow cannot be imported ({missing}); install it with: pip install 'poise-serving[tensorflow]'"
        ) from missing
    tensorflow.get_logger().setLevel(logging.ERROR)
    return tensorflow


tensorflow = _import()
tf1 = tensorflow.compat.v1
config_pb2 = importlib.import_module("tensorflow.core.protobuf.config_pb2")

ALIGNMENT = 64
"""TensorFlow takes arrays that begin at such addresses as they are, and copies others."""
MOST_SUBSETS = 32
"""Sets of outputs of a model for which the graph is cut down; with more of them all outputs are computed."""

LONGEST_REASON = 300


@dataclass(frozen=True, kw_only=True)
class TensorFlowOptions:
    """`[models.NAME.options]` of this backend."""

    tags: tuple[str, ...] = (saved_model.SERVE,)
    """Which graph of the file, by all of its tags."""
    intra_op_threads: int = 0
    """Threads that share the work of one operator; 0 for the worker's share of the cores."""
    inter_op_threads: int = 1
    """Operators that run at once. Raise it for wide graphs; at 1 the worker's own thread runs them, which saves the
    time to wake another."""
    xla: bool = False
    """Compile what XLA can compile. Each new shape of inputs costs a compilation, of seconds: set
    `allowed_batch_sizes` with it. They are run with zeros at the load, so a model that has a state needs
    `warmup = false` as well."""
    mixed_precision: Literal["", "bfloat16"] = ""
    """Compute in bfloat16 where TensorFlow finds it safe; faster on processors that have it, and less exact."""
    batched: bool | None = None
    """Whether dim 0 counts rows; unset to find out: it does when it may vary in every input and output. Set it to true
    for signatures that do not tell their shapes."""
    check_shapes: bool = False
    """Refuse inputs of other shapes than the signature tells. Without it they reach the graph, as with TensorFlow
    Serving, whose clients send `[1.0, 2.0]` to a signature of shape [-1, 1]."""
    gpu_memory_fraction: float = 0.0
    """Share of a GPU's memory that the worker may take; 0 for as much as it asks for."""
    gpu_memory_growth: bool = True
    """Take a GPU's memory as it is needed, and not all of it at the start."""
    visible_gpus: str = ""
    """Numbers of the GPUs to use, with commas between; empty for all."""
    session_config: dict[str, Any] = field(default_factory=dict)
    """Further fields of TensorFlow's ConfigProto by their own names, in tables; the options above win."""

    def __post_init__(self) -> None:
        if self.intra_op_threads < 0 or self.inter_op_threads < 1:
            raise ConfigError("intra_op_threads must be non-negative and inter_op_threads positive")
        if not 0.0 <= self.gpu_memory_fraction <= 1.0:
            raise ConfigError(f"gpu_memory_fraction must be between 0 and 1; was {self.gpu_memory_fraction}")


class TensorFlowModel:
    """A session with the signatures of its graph."""

    def __init__(self, session: Any, signatures: tuple[Signature, ...], *, inline: bool, compiled: bool) -> None:
        # A graph may have a state, which nobody but clients may change, and its calls are made at the load already:
        # only compilation is worth a run before the first request.
        self.takes_made_up_inputs = compiled
        self._session = session
        self._inline = inline
        self._inputs = {one.name: {spec.name: spec.tensor for spec in one.inputs} for one in signatures}
        self._outputs = {one.name: {spec.name: spec.tensor for spec in one.outputs} for one in signatures}
        everything = [(name, tuple(outputs)) for name, outputs in self._outputs.items()]
        self._calls = {one: self._call(*one) for one in everything}
        self.signatures = signatures

    def run(self, signature: str, inputs: dict[str, Array], outputs: Sequence[str]) -> Mapping[str, Any]:
        wanted = tuple(outputs)
        call = self._calls.get((signature, wanted))
        if call is None:
            wanted, call = self._another(signature, wanted)
        try:
            found = call(*[own(inputs[name]) for name in self._inputs[signature]])
        except _InvalidArgument as error:  # TensorFlow Serving tells clients so, too
            raise InvalidInput(reason(error)) from error
        except UnicodeDecodeError as error:  # its words quote an input that is no text, and cannot become an exception
            raise InvalidInput(words(error.object.decode(errors="replace"))) from error
        return dict(zip(wanted, map(np.asarray, found), strict=True))

    def close(self) -> None:
        self._calls.clear()
        self._session.close()

    def _another(self, signature: str, wanted: tuple[str, ...]) -> tuple[tuple[str, ...], Any]:
        """The call for outputs that were not asked for together before: of a graph cut down to them, or for all."""
        if len(self._calls) >= MOST_SUBSETS + len(self._outputs):
            wanted = tuple(self._outputs[signature])
        call = self._calls.get((signature, wanted)) or self._call(signature, wanted)
        self._calls[signature, wanted] = call
        return wanted, call

    def _call(self, signature: str, outputs: tuple[str, ...]) -> Any:
        options = config_pb2.CallableOptions()
        options.feed.extend(self._inputs[signature].values())
        options.fetch.extend(self._outputs[signature][name] for name in outputs)
        if self._inline:
            options.run_options.inter_op_thread_pool = -1  # the caller's thread
        # What Session.make_callable ends in, less 0.4 ms that it spends in Python on each call.
        return self._session._make_callable_from_options(options)  # noqa: SLF001


_InvalidArgument: type[Exception] = tensorflow.errors.InvalidArgumentError


def load(source: ModelSource) -> TensorFlowModel:
    """Open a session on the SavedModel in the directory. Raises ModelLoadError or ConfigError."""
    options = records.read(TensorFlowOptions, [records.Source(source.options, f"options of model {source.name}")])
    path = Path(source.path)
    folder = path if path.is_dir() else path.parent
    graph = _read(folder, options)
    signatures = saved_model.signatures(graph, batched=options.batched, check_shapes=options.check_shapes)
    config = session_config(options, source.threads)
    try:
        session = _session(folder, options, config)
        model = TensorFlowModel(session, signatures, inline=options.inter_op_threads == 1, compiled=options.xla)
    except Exception as error:
        logger.exception("%s: TensorFlow does not load it", path)
        raise ModelLoadError(f"{path}: TensorFlow does not load it: {reason(error)}") from error
    if not signatures:
        logger.warning("model %s: %s has no signatures, so that every request will be refused", source.name, path)
    return model


def _read(folder: Path, options: TensorFlowOptions) -> saved_model.MetaGraph:
    if (folder / saved_model.FILE).exists():
        return saved_model.read(folder, options.tags)
    try:  # the form as text, which TensorFlow alone can read
        whole = tf1.saved_model.loader_impl.parse_saved_model(str(folder))
    except Exception as error:
        raise ModelLoadError(f"{folder}: TensorFlow does not load it: {reason(error)}") from error
    return saved_model.choose(saved_model.parse(whole.SerializeToString()), frozenset(options.tags), str(folder))


def _session(folder: Path, options: TensorFlowOptions, config: Any) -> Any:
    """The graph, with its variables restored and its tables filled."""
    if options.xla:
        # Read once in the life of a process, before its first graph is compiled.
        os.environ["TF_XLA_FLAGS"] = f"{os.environ.get('TF_XLA_FLAGS', '')} --tf_xla_cpu_global_jit".strip()
    session = tf1.Session(graph=tf1.Graph(), config=config)
    try:
        tf1.saved_model.load(session, list(options.tags), str(folder))
    except BaseException:
        session.close()
        raise
    return session


def session_config(options: TensorFlowOptions, threads: int) -> Any:
    """The ConfigProto that these options come to. Raises ConfigError for fields that it does not have."""
    try:
        config = tf1.ConfigProto(**options.session_config)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"session_config: not fields of a ConfigProto: {one_line(error)}") from None
    config.intra_op_parallelism_threads = options.intra_op_threads or threads
    config.inter_op_parallelism_threads = options.inter_op_threads
    config.gpu_options.allow_growth = options.gpu_memory_growth
    config.gpu_options.per_process_gpu_memory_fraction = options.gpu_memory_fraction
    config.gpu_options.visible_device_list = options.visible_gpus
    if options.xla:
        config.graph_options.optimizer_options.global_jit_level = config_pb2.OptimizerOptions.ON_2
    if options.mixed_precision:
        rewrites = config.graph_options.rewrite_options
        rewrites.auto_mixed_precision_onednn_bfloat16 = type(rewrites).ON
    return config


def own(array: Array) -> Array:
    """A copy that TensorFlow takes as it is.

    It would take the batch's own memory too, but a model that keeps an input, in a variable say, would then see it
    change with the next batch.
    """
    if array.dtype.hasobject:
        return array
    memory = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    copy: Array = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def reason(error: Exception) -> str:
    """What TensorFlow says, on one line."""
    text = getattr(error, "message", None)
    return (words(text) if isinstance(text, str) else "") or one_line(error)


def words(text: str) -> str:
    """TensorFlow's own words in one short line, without the names of nodes that it puts around them."""
    own = re.sub(r"^(\{\{[^}]*\}\}\s*)+", "", text.strip()).split("\n\t [[", 1)[0]
    return " ".join(own.split())[:LONGEST_REASON]

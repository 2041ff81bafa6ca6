"""What a saved_model.pb says that its model can be asked: tags, and the signatures of each graph.

The file is a protocol buffer that holds the graph, and often gigabytes of constants. Only what is needed is read;
the rest is skipped by its length and never leaves the disk.
"""

from __future__ import annotations

import logging
import mmap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from poise.errors import InvalidModel, ModelLoadError
from poise.types import Signature, TensorSpec, rows_can_be_counted

logger = logging.getLogger(__name__)

FILE = "saved_model.pb"
SERVE = "serve"
"""The tag of a graph that is meant to be served."""
INTERNAL = "__saved_model_"
"""How the names begin of entries that are no signatures, but note what initialises the graph."""
DTYPES = {
    1: "float",
    2: "double",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    7: "string",
    8: "complex64",
    9: "int64",
    10: "bool",
    14: "bfloat16",
    17: "uint16",
    18: "complex128",
    19: "half",
    22: "uint32",
    23: "uint64",
}
"""Numbers of `tensorflow.DataType` that Poise serves."""


@dataclass(frozen=True)
class TensorInfo:
    """One input or output of a signature."""

    tensor: str
    """Its name in the graph, `x:0` say; empty for a tensor that has none of its own, such as a sparse one."""
    dtype: int
    shape: tuple[int, ...] | None
    """-1 for a dimension that may vary, None when even the rank may."""


@dataclass(frozen=True)
class SignatureDef:
    """One signature as the file has it."""

    inputs: Mapping[str, TensorInfo]
    outputs: Mapping[str, TensorInfo]
    method_name: str
    defaults: Mapping[str, bytes]
    """For inputs that a request may leave out: a serialized TensorProto."""


@dataclass(frozen=True)
class MetaGraph:
    """One graph of the file."""

    tags: frozenset[str]
    signatures: Mapping[str, SignatureDef]


def read(folder: Path, tags: Iterable[str] = (SERVE,)) -> MetaGraph:
    """The graph with exactly these tags. Raises ModelLoadError; InvalidModel when it is what the file holds."""
    file = folder / FILE
    try:
        with file.open("rb") as opened:
            graphs = parse(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise ModelLoadError(f"{file}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InvalidModel(f"{file}: not a SavedModel: {error}") from None
    return choose(graphs, frozenset(tags), str(folder))


def choose(graphs: Iterable[MetaGraph], tags: frozenset[str], where: str) -> MetaGraph:
    """The graph with exactly these tags. Raises InvalidModel that lists what there is."""
    found = list(graphs)
    for graph in found:
        if graph.tags == tags:
            return graph
    there = "; ".join(sorted(_show(graph.tags) for graph in found)) or "no graph at all"
    raise InvalidModel(f"{where}: no graph is tagged {_show(tags)}; it has {there}. Set options.tags")


def signatures(graph: MetaGraph, *, batched: bool | None = None, check_shapes: bool = True) -> tuple[Signature, ...]:
    """The signatures that can be served, by name; others are left out with a warning.

    A signature is batched when dim 0 of every input and output may vary. `batched` overrules that: false for none,
    true also for those of whose shapes nothing is known.
    """
    found = []
    for name, definition in sorted(graph.signatures.items()):
        if name.startswith(INTERNAL):
            continue
        try:
            found.append(_served(name, definition, batched, check_shapes))
        except ValueError as error:
            logger.warning("signature %s is left out: %s", name, error)
    return tuple(found)


def _served(name: str, definition: SignatureDef, batched: bool | None, check_shapes: bool) -> Signature:
    defaults = definition.defaults
    inputs = tuple(_spec(alias, info, defaults.get(alias)) for alias, info in sorted(definition.inputs.items()))
    outputs = tuple(_spec(alias, info) for alias, info in sorted(definition.outputs.items()))
    specs = [*inputs, *outputs]
    countable = rows_can_be_counted(specs if batched is None else [spec for spec in specs if spec.shape is not None])
    shared = bool(inputs) and countable and batched is not False
    return Signature(inputs, outputs, name, definition.method_name, batched=shared, check_shapes=check_shapes)


def _spec(alias: str, info: TensorInfo, default: bytes | None = None) -> TensorSpec:
    if info.dtype not in DTYPES or not info.tensor:
        raise ValueError(f"{alias} is no plain tensor of a type that can be served (tensorflow.DataType {info.dtype})")
    return TensorSpec(alias, DTYPES[info.dtype], info.shape, info.tensor, default)


def _show(tags: frozenset[str]) -> str:
    return ", ".join(sorted(tags)) or "(no tags)"


def parse(data: bytes | mmap.mmap) -> tuple[MetaGraph, ...]:
    """All the graphs. Raises ValueError for bytes that are no SavedModel."""
    graphs = tuple(_meta_graph(part) for number, part in _messages(memoryview(data)) if number == 2)
    if not graphs:
        raise ValueError("it has no graphs")
    return graphs


def _meta_graph(data: memoryview) -> MetaGraph:
    tags: set[str] = set()
    signatures = {}
    for number, part in _messages(data):
        if number == 1:
            tags |= {_text(tag) for key, tag in _messages(part) if key == 4}
        elif number == 5:
            name, value = _entry(part)
            signatures[name] = _signature(value)
    return MetaGraph(frozenset(tags), signatures)


def _signature(data: memoryview) -> SignatureDef:
    inputs, outputs, defaults = {}, {}, {}
    method_name = ""
    for number, part in _messages(data):
        if number == 3:
            method_name = _text(part)
            continue
        name, value = _entry(part)
        if number == 1:
            inputs[name] = _tensor(value)
        elif number == 2:
            outputs[name] = _tensor(value)
        elif number == 4:
            defaults[name] = bytes(value)
    return SignatureDef(inputs, outputs, method_name, defaults)


def _tensor(data: memoryview) -> TensorInfo:
    name, dtype = "", 0
    dims: tuple[int, ...] | None = ()
    for number, value in _fields(data):
        if number == 1 and isinstance(value, memoryview):
            name = _text(value)
        elif number == 2 and isinstance(value, int):
            dtype = value
        elif number == 3 and isinstance(value, memoryview):
            dims = _shape(value)
    return TensorInfo(name, dtype, dims)


def _shape(data: memoryview) -> tuple[int, ...] | None:
    dims = []
    for number, value in _fields(data):
        if number == 2 and isinstance(value, memoryview):
            sizes = [size for key, size in _fields(value) if key == 1 and isinstance(size, int)]
            dims.append(_signed(sizes[-1]) if sizes else 0)
        elif number == 3 and value:
            return None
    return tuple(max(dim, -1) for dim in dims)


# --- the encoding of protocol buffers, as far as it is needed


def _entry(data: memoryview) -> tuple[str, memoryview]:
    """Key and value of a map's entry."""
    found = dict(_messages(data))
    return _text(found.get(1, data[:0])), found.get(2, data[:0])


def _messages(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The fields that have a length: messages, texts, bytes."""
    for number, value in _fields(data):
        if isinstance(value, memoryview):
            yield number, value


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of each field; fixed-width numbers are passed over, as nothing here uses them."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield number, value
        elif kind == 2:
            length, at = _varint(data, at)
            if length > len(data) - at:
                raise ValueError("it is cut off")
            yield number, data[at : at + length]
            at += length
        elif kind in {1, 5}:
            at += 8 if kind == 1 else 4
        else:
            raise ValueError(f"byte {at} begins no field")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("it is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(f"byte {at} ends no number")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _text(data: memoryview) -> str:
    return bytes(data).decode()

from __future__ import annotations

from pathlib import Path

import pytest

from poise.errors import InvalidModel, ModelLoadError
from poise.formats import saved_model
from poise.formats.saved_model import MetaGraph, SignatureDef, TensorInfo
from poise.types import Signature, TensorSpec

FLOAT, STRING, RESOURCE = 1, 7, 20
SERVE = frozenset({"serve"})


# --- bytes as protocol buffers have them


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    found = b""
    while value > 0x7F:
        found += bytes([value & 0x7F | 0x80])
        value >>= 7
    return found + bytes([value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def part(field: int, *parts: bytes | str) -> bytes:
    data = b"".join(each.encode() if isinstance(each, str) else each for each in parts)
    return varint(field << 3 | 2) + varint(len(data)) + data


def shape(*dims: int) -> bytes:
    return part(3, *(part(2, number(1, dim) if dim else b"") for dim in dims))


def tensor(name: str, dtype: int, dims: bytes = b"") -> bytes:
    return part(1, name) + number(2, dtype) + dims


def entry(field: int, key: str, value: bytes) -> bytes:
    return part(field, part(1, key), part(2, value))


def graph(tags: tuple[str, ...], *signatures: tuple[str, bytes]) -> bytes:
    info = part(1, *(part(4, tag) for tag in tags), part(5, "2.21.0"))
    constants = part(2, b"\xff" * 1000)  # a graph, which nobody reads
    return part(2, info, constants, *(entry(5, name, body) for name, body in signatures))


def file(*graphs: bytes) -> bytes:
    return number(1, 1) + b"".join(graphs)


SCALE = (
    entry(1, "x", tensor("x:0", FLOAT, shape(-1, 0, 3)))
    + entry(1, "factor", tensor("f:0", FLOAT))
    + entry(2, "y", tensor("y:0", STRING, part(3, number(3, 1))))
    + part(3, "tensorflow/serving/predict")
    + entry(4, "factor", b"tensor\xff")
)


def test_tags_and_signatures_are_read_and_graphs_passed_over():
    [plain, large] = saved_model.parse(file(graph(("serve",), ("scale", SCALE)), graph(("serve", "large"))))
    assert plain.tags == SERVE
    assert plain.signatures["scale"] == SignatureDef(
        inputs={"x": TensorInfo("x:0", FLOAT, (-1, 0, 3)), "factor": TensorInfo("f:0", FLOAT, ())},
        outputs={"y": TensorInfo("y:0", STRING, None)},
        method_name="tensorflow/serving/predict",
        defaults={"factor": b"tensor\xff"},
    )
    assert large == MetaGraph(frozenset({"serve", "large"}), {})


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it has no graphs"),
        (b"not a model", "begins no field"),
        (file(graph(("serve",)))[:-1], "it is cut off"),
        (b"\x12", "it is cut off"),
        (b"\x12" + b"\xff" * 11, "ends no number"),
        (b"\x12\xff\xff\xff\xff\x7f", "it is cut off"),
        (file(part(2, part(1, part(4, b"\xff")))), "utf-8"),
    ],
    ids=["empty", "text", "cut off", "no length", "endless number", "huge length", "tag"],
)
def test_bytes_that_are_no_saved_model_are_refused(data, why):
    with pytest.raises(ValueError, match=why):
        saved_model.parse(data)


def test_a_graph_is_chosen_by_all_of_its_tags(tmp_path: Path):
    (tmp_path / "saved_model.pb").write_bytes(file(graph(("serve",)), graph(("serve", "large"))))
    assert saved_model.read(tmp_path, ("large", "serve")).tags == {"serve", "large"}
    with pytest.raises(InvalidModel, match=r"no graph is tagged large; it has large, serve; serve\. Set options\.tags"):
        saved_model.read(tmp_path, ("large",))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path):
    with pytest.raises(ModelLoadError, match=r"saved_model\.pb: cannot be read: No such file"):
        saved_model.read(tmp_path)
    for content in (b"", b"nonsense"):
        (tmp_path / "saved_model.pb").write_bytes(content)
        with pytest.raises(InvalidModel, match=r"saved_model\.pb: not a SavedModel: "):
            saved_model.read(tmp_path)


def info(shape: tuple[int, ...] | None, dtype: int = FLOAT, name: str = "t:0") -> TensorInfo:
    return TensorInfo(name, dtype, shape)


def served(inputs, outputs, **how) -> tuple[Signature, ...]:
    definition = SignatureDef(inputs, outputs, "m", {})
    return saved_model.signatures(MetaGraph(SERVE, {"f": definition}), **how)


@pytest.mark.parametrize(
    ("inputs", "outputs", "declared", "batched"),
    [
        pytest.param({"x": info((-1, 2))}, {"y": info((-1,))}, None, True, id="rows everywhere"),
        pytest.param({"x": info((-1, 2))}, {"y": info(())}, None, False, id="a scalar"),
        pytest.param({"x": info((-1, 2))}, {"y": info(None)}, None, False, id="unknown rank"),
        pytest.param({"x": info((-1, 2))}, {"y": info(None)}, True, True, id="unknown rank, declared"),
        pytest.param({"x": info((1, 2))}, {"y": info(None)}, True, False, id="fixed rows, declared"),
        pytest.param({"x": info((-1, 2))}, {"y": info((-1,))}, False, False, id="declared otherwise"),
        pytest.param({}, {"y": info((-1,))}, True, False, id="no inputs"),
    ],
)
def test_signatures_are_batched_where_rows_can_be_counted(inputs, outputs, declared, batched):
    [signature] = served(inputs, outputs, batched=declared)
    assert signature.batched is batched


def test_what_is_in_the_file_is_what_is_told():
    inputs = {"b": info((-1,), STRING, "b_0:0"), "a": info((-1, 2))}
    definition = SignatureDef(inputs, {"y": info((-1,))}, "m", {"b": b"tensor"})
    [signature] = saved_model.signatures(MetaGraph(SERVE, {"f": definition}), check_shapes=False)
    assert signature == Signature(
        (TensorSpec("a", "float", (-1, 2), "t:0"), TensorSpec("b", "string", (-1,), "b_0:0", b"tensor")),
        (TensorSpec("y", "float", (-1,), "t:0"),),
        name="f",
        method_name="m",
        check_shapes=False,
    )


@pytest.mark.parametrize(
    ("inputs", "outputs", "why"),
    [
        ({"x": info((), RESOURCE)}, {"y": info(())}, "x is no plain tensor of a type that can be served"),
        ({"x": info((), name="")}, {"y": info(())}, "x is no plain tensor"),
        ({"x": info(())}, {}, "it has no outputs"),
    ],
    ids=["dtype", "sparse", "no outputs"],
)
def test_a_signature_that_cannot_be_served_is_left_out_and_said_so(caplog, inputs, outputs, why):
    assert served(inputs, outputs) == ()
    assert "signature f is left out: " in caplog.text
    assert why in caplog.text


def test_notes_about_the_graph_are_no_signatures(caplog):
    note = SignatureDef({}, {"__saved_model_init_op": TensorInfo("NoOp", 0, None)}, "", {})
    assert saved_model.signatures(MetaGraph(SERVE, {"__saved_model_init_op": note})) == ()
    assert not caplog.text

import json
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from poise.bench.payloads import files as files_module
from poise.bench.payloads.files import DataFile, read_files
from poise.bench.payloads.images import Layout, layout
from poise.bench.payloads.random_inputs import RandomInputs
from poise.bench.payloads.records import Records
from poise.types import Signature, TensorSpec

Y = (TensorSpec("y", "float", (-1,)),)
X = TensorSpec("x", "float", (-1, 2))
N = TensorSpec("n", "int32", (-1,))
TEXT = TensorSpec("text", "string", (-1,))


def signature(*inputs, batched=True):
    return Signature(inputs, Y, batched=batched)


def read(path: Path, *inputs, name="", most=100):
    return read_files([DataFile(path, name)], signature(*inputs), most)


@pytest.fixture
def npz(tmp_path) -> Path:
    np.savez(tmp_path / "d.npz", x=np.arange(10, dtype=np.float64).reshape(5, 2), n=np.arange(5))
    return tmp_path / "d.npz"


def test_npz_has_records_in_dimension_0_cast_to_the_signature(npz):
    records = read(npz, X, N)
    assert len(records) == 5
    assert records[2]["x"].tolist() == [4, 5]
    assert {name: array.dtype.name for name, array in records[0].items()} == {"x": "float32", "n": "int32"}
    assert len(read(npz, X, N, most=2)) == 2


def test_npy_is_for_the_only_input_or_the_one_named(tmp_path):
    np.save(tmp_path / "d.npy", np.ones((3, 2), np.float32))
    assert len(read(tmp_path / "d.npy", X)) == 3
    assert list(read(tmp_path / "d.npy", X, N, name="x")[0]) == ["x"]
    with pytest.raises(ValueError, match="say which, --data NAME=PATH"):
        read(tmp_path / "d.npy", X, N)


def test_without_rows_an_array_is_one_input(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.ones((3, 2), np.float32))
    fixed = signature(TensorSpec("x", "float", (3, 2)), batched=False)
    source = Records(fixed, read_files([DataFile(tmp_path / "d.npz")], fixed, 9))
    assert source.inputs(1)["x"].shape == (3, 2)
    assert source.distinct == 1


@pytest.mark.parametrize(
    ("arrays", "mend"),
    [
        ({"xx": np.ones((2, 2))}, "no input 'xx'; did you mean x"),
        ({"x": np.ones((2, 3))}, r"d.npz: record 1: input x: expected float\[2\], got double\[3\]: reshape"),
        ({"x": np.ones(()), "n": np.ones(2, int)}, "expected rows in dimension 0"),
        ({"x": np.ones((2, 2)), "n": np.ones(2)}, "input n takes int32"),
        ({"x": np.ones((2, 2)), "n": np.ones(3, int)}, "as many rows as the others; got x 2, n 3"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_with_file_and_record(tmp_path, arrays, mend):
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(ValueError, match=mend):
        read(tmp_path / "d.npz", X, N)


def test_json_lines_are_rows_as_rest_takes_them(tmp_path):
    file = tmp_path / "d.jsonl"
    file.write_text('{"x": [1, 2], "text": "a"}\n\n{"x": [3, 4.5], "text": {"b64": "/w=="}}\n')
    first, second = read(file, X, TEXT)
    assert (first["x"].tolist(), second["x"].tolist()) == ([1, 2], [3, 4.5])
    assert (first["text"].item(), second["text"].item()) == (b"a", b"\xff")
    file.write_text("[1, 2]\n[3, 4]")
    assert [record["x"].tolist() for record in read(file, X)] == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("line", "mend"),
    [
        ("{", "d.jsonl: line 2: "),
        ('{"xs": [1, 2]}', "line 2: .*did you mean x"),
        ('{"x": [1, 2, 3]}', r"record 2: input x: expected float\[2\], got .*\[3\]"),
        ('{"x": "a"}', "line 2: tensor x"),
    ],
)
def test_lines_that_do_not_fit_are_named(tmp_path, line, mend):
    (tmp_path / "d.jsonl").write_text('{"x": [1, 2]}\n' + line)
    with pytest.raises(ValueError, match=mend):
        read(tmp_path / "d.jsonl", X)


def test_lines_of_text_are_strings(tmp_path):
    (tmp_path / "d.txt").write_text("one two\n\nüber \n")
    assert [record["text"].item() for record in read(tmp_path / "d.txt", TEXT)] == [b"one two", "über".encode()]
    row = read(tmp_path / "d.txt", TensorSpec("text", "string", (-1, 1)))[0]["text"]
    assert row.shape == (1,)
    with pytest.raises(ValueError, match="input x takes float, not text"):
        read(tmp_path / "d.txt", X)


def test_files_of_the_same_inputs_follow_one_another_and_others_stand_beside_them(tmp_path, npz):
    (tmp_path / "a.txt").write_text("a\nb\n")
    (tmp_path / "b.txt").write_text("c\n")
    found = [DataFile(npz), DataFile(tmp_path / "a.txt", "text"), DataFile(tmp_path / "b.txt", "text")]
    records = read_files(found, signature(X, N, TEXT), 100)
    assert [record["text"].item() for record in records] == [b"a", b"b", b"c"]
    assert all(set(record) == {"x", "n", "text"} for record in records)
    np.save(tmp_path / "x.npy", np.ones((5, 2)))
    with pytest.raises(ValueError, match="records have input 'x' with other inputs"):
        read_files([DataFile(npz), DataFile(tmp_path / "x.npy", "x")], signature(X, N), 100)


def test_an_ending_that_is_not_known_is_refused_with_the_nearest(tmp_path):
    (tmp_path / "d.json").write_text("{}")
    with pytest.raises(ValueError, match=r"did you mean \.jsonl"):
        read(tmp_path / "d.json", X)


def test_no_more_is_read_than_requests_may_have(tmp_path, monkeypatch):
    monkeypatch.setattr(files_module, "MAX_BYTES", 20)
    np.save(tmp_path / "d.npy", np.ones((9, 2), np.float32))
    assert len(read(tmp_path / "d.npy", X)) == 3
    (tmp_path / "d.txt").write_text("0123456789\n" * 9)
    assert len(read(tmp_path / "d.txt", TEXT)) == 2


def records(*values):
    return [{"x": np.array(value, np.float32)} for value in values]


def test_requests_take_records_in_turn_and_begin_again():
    source = Records(signature(X), records([1, 1], [2, 2], [3, 3]))
    taken = [source.inputs(2)["x"][:, 0].tolist() for _ in range(3)]
    assert taken == [[1, 2], [3, 1], [2, 3]]
    assert source.distinct == 3


def test_ragged_records_share_no_request():
    ragged = signature(TensorSpec("x", "float", (-1, -1)))
    source = Records(ragged, records([1, 2, 3], [1]))
    assert [source.inputs(1)["x"].shape for _ in range(2)] == [(1, 3), (1, 1)]
    with pytest.raises(ValueError, match=r"shapes \[1\] and \[3\] cannot share a request; give --rows 1"):
        source.inputs(2)


def test_inputs_without_data_are_made_up_when_that_is_asked():
    both = signature(X, N)
    with pytest.raises(ValueError, match=r"needs input 'n'.*--fill"):
        Records(both, records([1, 1]))
    source = Records(both, records([1, 1]), RandomInputs(both, np.random.default_rng(0)))
    assert source.inputs(3)["n"].shape == (3,)
    assert source.distinct is None
    with pytest.raises(ValueError, match="holds no record"):
        Records(both, [])


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((-1, 8, 6, 3), Layout(8, 6, 3)),
        ((-1, 3, 8, 6), Layout(8, 6, 3, channels_first=True)),
        ((-1, 28, 28), Layout(28, 28, 1, flat=True)),
        ((-1, -1, -1, 3), Layout(-1, -1, 3)),
        ((-1, 1, 28, 28), Layout(28, 28, 1, channels_first=True)),
    ],
)
def test_the_order_of_pixels_is_seen_in_the_shape(shape, expected):
    assert layout(TensorSpec("x", "float", shape[1:])) == expected


def test_shapes_of_no_picture_are_refused():
    with pytest.raises(ValueError, match="which no picture has"):
        layout(TensorSpec("x", "float", (7,)))


IMAGE = TensorSpec("image", "uint8", (-1, 2, 4, 3))


def bitmap(path: Path, width: int, height: int, bgr: tuple[int, int, int]) -> Path:
    """An uncompressed BMP of one colour."""
    row = bytes(bgr) * width
    row += bytes(-len(row) % 4)
    pixels = row * height
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, len(pixels), 2835, 2835, 0, 0)
    path.write_bytes(struct.pack("<2sIHHI", b"BM", 54 + len(pixels), 0, 0, 54) + head + pixels)
    return path


def test_files_of_pictures_go_whole_into_inputs_of_strings(tmp_path):
    content = bitmap(tmp_path / "a.bmp", 2, 2, (0, 0, 0)).read_bytes()
    assert read(tmp_path / "a.bmp", TEXT)[0]["text"].item() == content


def test_pictures_are_resized_and_scaled_as_the_input_takes_them(tmp_path):
    pytest.importorskip("PIL")
    bitmap(tmp_path / "b.bmp", 20, 10, (10, 20, 255))
    bitmap(tmp_path / "a.bmp", 3, 3, (0, 0, 0))
    black, red = read(tmp_path, IMAGE)
    assert red["image"].shape == (2, 4, 3)
    assert black["image"].max() == 0
    assert red["image"][0, 0].tolist() == [255, 20, 10]
    first = read(tmp_path / "b.bmp", TensorSpec("image", "float", (-1, 3, -1, -1)))[0]["image"]
    assert first.shape == (3, 10, 20)
    assert first[:, 0, 0].tolist() == pytest.approx([1, 20 / 255, 10 / 255])
    grey = read(tmp_path / "b.bmp", TensorSpec("image", "float", (-1, 4, 4)))[0]["image"]
    assert grey.shape == (4, 4)
    (tmp_path / "c.bmp").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"c\.bmp: this is no picture"):
        read(tmp_path, IMAGE)


def test_a_folder_without_pictures_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has no pictures"):
        read(tmp_path, IMAGE)


@pytest.mark.parametrize(("module", "ending"), [("pyarrow.parquet", ".parquet"), ("PIL", ".png")])
def test_a_package_that_is_missing_is_named_with_the_way_to_get_it(tmp_path, monkeypatch, module, ending):
    monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / f"d{ending}").write_bytes(b"")
    with pytest.raises(ValueError, match=r'pip install "poise-serving\[bench\]"'):
        read(tmp_path / f"d{ending}", IMAGE)


def test_parquet_has_columns_called_like_inputs(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "d.parquet"
    columns = {"x": [[1, 2], [3, 4]], "text": [b"\xff", b"b"], "label": [0, 1], "grid": [[1.0] * 6, [2.0] * 6]}
    parquet.write_table(arrow.table(columns), file)
    grid = TensorSpec("grid", "float", (-1, 2, 3))
    first, second = read(file, X, TEXT, grid)
    assert (first["x"].tolist(), second["text"].item()) == ([1, 2], b"b")
    assert first["text"].item() == b"\xff"
    assert second["grid"].shape == (2, 3), "flat lists become the shape that they fill"
    with pytest.raises(ValueError, match="no column is called like an input; for 'labels' did you mean label"):
        read(file, TensorSpec("labels", "int64", (-1,)))
    parquet.write_table(arrow.table({"x": [[1, 2], None]}), file)
    with pytest.raises(ValueError, match="input x is null"):
        read(file, X)


def test_a_file_that_is_not_what_its_name_says_is_refused(tmp_path):
    (tmp_path / "d.npz").write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(ValueError, match=r"d\.npz: this is no \.npz"):
        read(tmp_path / "d.npz", X)
    with (tmp_path / "d.npz").open("wb") as file:
        np.save(file, np.ones(2))
    with pytest.raises(ValueError, match=r"call the file \.npy"):
        read(tmp_path / "d.npz", X)


def test_big_lines_stay_json(tmp_path):
    rows = [{"x": [index, index]} for index in range(1000)]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert len(read(tmp_path / "d.jsonl", X, most=10_000)) == 1000

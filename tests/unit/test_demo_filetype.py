from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from poise.demo.filetype import FileTypeModel

PAD = 256
MODEL = FileTypeModel(
    beg_size=4,
    end_size=3,
    block_size=8,
    padding_token=PAD,
    min_file_size=2,
    labels=("text", "image"),
    descriptions={"text": "A text", "image": "An image"},
)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"abcdefgh", [*b"abcd", *b"fgh"], id="long enough for both ends"),
        pytest.param(b"ab", [*b"ab", PAD, PAD, PAD, *b"ab"], id="short: padding lies in the middle"),
        pytest.param(b" \n\tab \n", [*b"ab \n", *b"\tab"], id="white space goes only from the outer side"),
        pytest.param(b"", [PAD] * 7, id="empty"),
        pytest.param(b"        x", [PAD] * 4 + [*b"  x"], id="a first block of blanks counts as nothing"),
        pytest.param(b"start-and-much-more-end", [*b"star", *b"end"], id="only the outer blocks are read"),
        pytest.param(b"\x00\xff\x80z", [0, 255, 128, ord("z"), 255, 128, ord("z")], id="bytes, not characters"),
    ],
)
def test_tokens_are_the_two_ends_of_the_file(tmp_path: Path, content: bytes, expected: list[int]) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    tokens = MODEL.tokens(path)
    assert tokens.dtype == np.int32
    assert tokens.tolist() == expected


@pytest.mark.parametrize(
    ("content", "worth"),
    [
        pytest.param(b"ab", True, id="enough"),
        pytest.param(b"a", False, id="short"),
        pytest.param(b"   ", False, id="blank"),
    ],
)
def test_a_file_with_nothing_in_it_is_not_worth_asking_about(content: bytes, worth: bool) -> None:
    assert MODEL.worth_asking(MODEL.tokens_of(content, content)) is worth


def test_the_best_label_is_the_one_with_the_highest_score() -> None:
    assert MODEL.best([0.25, 0.75]) == ("image", 0.75)


def write_config(folder: Path, **changes: object) -> tuple[Path, Path]:
    config = {
        "beg_size": 1024,
        "mid_size": 0,
        "end_size": 512,
        "use_inputs_at_offsets": False,
        "min_file_size_for_dl": 8,
        "padding_token": PAD,
        "block_size": 4096,
        "target_labels_space": ["png", "mystery"],
    }
    kinds = {"png": {"description": "PNG image"}}
    (folder / "config.json").write_text(json.dumps(config | changes))
    (folder / "kinds.json").write_text(json.dumps(kinds))
    return folder / "config.json", folder / "kinds.json"


def test_the_config_of_the_model_is_read(tmp_path: Path) -> None:
    model = FileTypeModel.read(*write_config(tmp_path))
    assert (model.beg_size, model.end_size, model.block_size, model.min_file_size) == (1024, 512, 4096, 8)
    assert model.tokens_of(b"x", b"x").shape == (1536,)
    assert model.descriptions == {"png": "PNG image", "mystery": "mystery"}


@pytest.mark.parametrize("changes", [{"mid_size": 16}, {"use_inputs_at_offsets": True}], ids=["middle", "offsets"])
def test_a_model_that_wants_other_bytes_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="from the middle"):
        FileTypeModel.read(*write_config(tmp_path, **changes))

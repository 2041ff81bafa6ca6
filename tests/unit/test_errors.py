import re
from pathlib import Path

import pytest

from poise import errors

RUST = Path(__file__).parents[2] / "rust" / "src" / "error.rs"
CLASSES = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, errors.PoiseError)]


def test_codes_are_those_of_the_data_plane_in_order():
    assert tuple(re.findall(r'Code::\w+ => "([A-Z_]+)"', RUST.read_text())) == errors.CODES


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_has_a_code_and_stands_in_the_tree_drawn(cls):
    assert cls.code in errors.CODES
    assert re.search(rf"{cls.__name__} +{cls.code}\b", errors.__doc__)


def test_only_errors_of_the_moment_are_retryable():
    assert {cls.__name__ for cls in CLASSES if cls.retryable} == {"Unavailable", "WorkerClosed"}


@pytest.mark.parametrize(("code", "number"), [("CANCELLED", 1), ("INTERNAL", 13), ("UNAUTHENTICATED", 16)])
def test_a_code_has_its_grpc_number(code, number):
    assert errors.code_number(code) == number


def test_an_unknown_code_has_no_number():
    with pytest.raises(KeyError):
        errors.code_number("OK")


def test_an_input_error_carries_its_rows():
    assert errors.InvalidInput("no", rows=[2, 0]).rows == (2, 0)
    assert errors.InvalidInput("no").rows is None


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "line"),
    [
        pytest.param(ValueError("one\ntwo"), "ValueError: one", id="first line only"),
        pytest.param(ValueError(), "ValueError", id="no message"),
        pytest.param(UnprintableError(), "UnprintableError", id="message that raises"),
        pytest.param(KeyError("k"), "KeyError: 'k'", id="key error"),
    ],
)
def test_one_line_says_type_and_first_line(error, line):
    assert errors.one_line(error) == line


def test_one_line_is_bounded():
    assert len(errors.one_line(ValueError("x" * 10_000))) < 350

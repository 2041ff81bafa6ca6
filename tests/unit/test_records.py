from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from poise import records
from poise.errors import ConfigError


@dataclass(frozen=True)
class Record:
    number: float
    words: tuple[str | dict[str, Any], ...] = ()
    kind: Literal["a", "b"] = "a"
    maybe: bool | None = None
    table: dict[str, str] = field(default_factory=dict)


def read(*tables):
    return records.read(Record, [records.Source(table, f"source {at}") for at, table in enumerate(tables)])


def test_values_become_what_the_fields_are():
    assert read({"number": 1, "words": ["x", {"y": 1}], "maybe": True}) == Record(1.0, ("x", {"y": 1}), maybe=True)


def test_the_last_source_counts():
    assert read({"number": 1, "kind": "b"}, {"number": 2}) == Record(2.0, kind="b")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"number": "1"}, "source 0: number: expected a number, got '1' (text)"),
        ({"number": 1, "words": "x"}, "source 0: words: expected a list (each text or a table), got 'x' (text)"),
        ({"number": 1, "words": [1]}, "source 0: words: expected a list (each text or a table), got [1] (a list)"),
        ({"number": 1, "kind": ["a"]}, "source 0: kind: expected 'a' or 'b', got ['a'] (a list)"),
        ({"number": 1, "maybe": 0}, "source 0: maybe: expected true or false, got 0 (a whole number)"),
        ({"number": 1, "tabel": {}}, "source 0: tabel: unknown key; did you mean table?"),
        ({}, "source 0: number is missing; expected a number"),
    ],
    ids=str,
)
def test_a_mistake_is_told_with_its_remedy(table, message):
    with pytest.raises(ConfigError) as caught:
        read(table)
    assert str(caught.value) == message


def test_a_long_value_is_shown_short():
    assert len(records.show("x" * 1000)) < 100

"""Plain tables into frozen dataclasses, with errors that say how to mend them."""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

from poise.errors import ConfigError

T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """A table, and where it comes from as people name it: a file, or the command line."""

    table: Mapping[str, Any]
    where: str
    folder: Path | None = None
    """Where relative paths in it start."""
    keys: tuple[str, ...] = ()
    """The tables around this one."""

    def at(self, key: str = "") -> str:
        """The place of a key of this table, as the start of a message."""
        parts = [f"[{'.'.join(self.keys)}]" if self.keys else "", key]
        place = " ".join(part for part in parts if part)
        return f"{self.where}: {place}" if place else self.where

    def inner(self, key: str) -> Source:
        """The table under this key. Raises ConfigError when it is no table."""
        value = self.table[key]
        if not isinstance(value, Mapping):
            raise ConfigError(f"{self.at(key)}: expected a table, got {show(value)}")
        return Source(value, self.where, self.folder, (*self.keys, key))

    def rooted(self, key: str) -> Source:
        """The same with the relative path under this key, if any, starting at the source's folder."""
        path = self.table.get(key)
        if self.folder is None or not isinstance(path, str) or not path:
            return self
        return dataclasses.replace(self, table={**self.table, key: str(self.folder / path)})


def inner(sources: Sequence[Source], *keys: str) -> list[Source]:
    """The tables under these keys, one in another, of the sources that have them."""
    found = list(sources)
    for key in keys:
        found = [source.inner(key) for source in found if key in source.table]
    return found


def read(cls: type[T], sources: Sequence[Source], **given: object) -> T:
    """An instance of the dataclass `cls`; where a key stands in several sources the last one counts.

    Fields that are `given` were read elsewhere. Raises ConfigError.
    """
    fields = {each.name: each for each in dataclasses.fields(cls) if each.init}  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    values: dict[str, object] = {}
    for source in sources:
        values |= _values(source, {name: hints[name] for name in fields}, given)
    values |= given
    missing = [name for name, each in fields.items() if name not in values and _required(each)]
    place = " and ".join(source.at() for source in sources) or cls.__name__
    if missing:
        raise ConfigError(f"{place}: {missing[0]} is missing; expected {describe(hints[missing[0]])}")
    try:
        return cls(**values)
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from None


def _values(source: Source, hints: Mapping[str, Any], given: Mapping[str, object]) -> dict[str, object]:
    own = [name for name in hints if name not in given]
    tables = [name for name, value in given.items() if not isinstance(value, str)]  # read by the caller
    for key, value in source.table.items():
        if key not in own and not (key in tables and isinstance(value, Mapping)):
            raise ConfigError(f"{source.at(key)}: unknown key; {suggest(key, own + tables)}")
    return {key: convert(source.table[key], hints[key], source.at(key)) for key in own if key in source.table}


def convert(value: object, hint: Any, where: str) -> Any:
    """`value` as the type hint wants it. Raises ConfigError, beginning with `where`, when it is something else."""
    matched, result = _match(value, hint)
    if matched:
        return result
    raise ConfigError(f"{where}: expected {describe(hint)}, got {show(value)}")


def suggest(word: str, valid: Iterable[str]) -> str:
    """`did you mean ...?` when something is near, else what there is."""
    names = sorted(valid)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]}?"
    return f"expected one of {', '.join(names)}" if names else "nothing is expected here"


def describe(hint: Any) -> str:
    """A type hint in words."""
    return " or ".join(_describe(option) for option in _options(hint) or (hint,) if option is not type(None))


def show(value: object, limit: int = 80) -> str:
    """A value and its kind, short enough for one line."""
    text = repr(value)
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    return f"{text} ({_KINDS.get(type(value), type(value).__name__)})"


_KINDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a table",
}


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _options(hint: Any) -> tuple[Any, ...]:
    """The members of a union; none when the hint is not one."""
    return typing.get_args(hint) if typing.get_origin(hint) in {Union, types.UnionType} else ()


def _match(value: object, hint: Any) -> tuple[bool, Any]:
    """Whether `value` is what the hint wants, and it as such."""
    if _options(hint):
        matches = [_match(value, option) for option in _options(hint)]
        return next((match for match in matches if match[0]), (False, value))
    origin = typing.get_origin(hint)
    if origin is Literal:
        return isinstance(value, str) and value in typing.get_args(hint), value
    if origin is tuple:
        return _match_list(value, typing.get_args(hint)[0])
    if origin is dict:
        return isinstance(value, Mapping), value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return True, float(value)
    return isinstance(value, hint) and (hint is bool or not isinstance(value, bool)), value


def _match_list(value: object, item: Any) -> tuple[bool, Any]:
    if not isinstance(value, list | tuple):
        return False, value
    matches = [_match(each, item) for each in value]
    return all(matched for matched, _ in matches), tuple(result for _, result in matches)


def _describe(hint: Any) -> str:
    origin = typing.get_origin(hint)
    if origin is Literal:
        return " or ".join(repr(value) for value in typing.get_args(hint))
    if origin is tuple:
        return f"a list (each {describe(typing.get_args(hint)[0])})"
    if origin is dict:
        return "a table"
    return _KINDS.get(hint, getattr(hint, "__name__", str(hint)))

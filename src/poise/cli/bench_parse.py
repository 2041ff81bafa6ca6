"""How options of `poise bench` with a form of their own are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from poise.bench.payloads.distributions import Keys, Lengths, parse_keys, parse_lengths
from poise.bench.payloads.files import DataFile
from poise.bench.payloads.mix import Share, parse_mix
from poise.bench.payloads.random_inputs import ALL
from poise.client.calls import Headers

Found = TypeVar("Found")


def parse_headers(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> Headers:
    """`name: value` → (("name", "value"),)."""
    headers = []
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon or not name.strip() or any(ch.isspace() for ch in name.strip()):
            raise click.BadParameter(f"expected NAME: VALUE, e.g. 'x-team: search'; got {text!r}")
        headers.append((name.strip().lower(), value.strip()))
    return tuple(headers)


def parse_shapes(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
    """`name=3,224,224` → {"name": (3, 224, 224)}."""
    shapes = {}
    for text in texts:
        name, _, dims = text.rpartition("=")
        try:
            shape = tuple(int(dim) for dim in dims.split(",") if dim)
        except ValueError:
            shape = (-1,)
        if not name or any(dim < 0 for dim in shape):
            raise click.BadParameter(f"expected NAME=DIM,DIM,… in whole numbers, e.g. image=224,224,3; got {text!r}")
        shapes[name] = shape
    return shapes


def parse_named_lengths(
    _context: click.Context, _option: click.Parameter, texts: tuple[str, ...]
) -> dict[str, Lengths]:
    """`tokens=uniform:1:128`, or without a name for all inputs."""
    found: dict[str, Lengths] = {}
    for text in texts:
        name, _, distribution = text.rpartition("=")
        found[name or ALL] = _parsed(parse_lengths, distribution)
    return found


def parse_named_keys(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> dict[str, Keys]:
    """`user=100000:1.1`."""
    found = {}
    for text in texts:
        name, _, keys = text.rpartition("=")
        if not name:
            raise click.BadParameter(f"expected INPUT=VOCABULARY:EXPONENT, e.g. user=100000:1.1; got {text!r}")
        found[name] = _parsed(parse_keys, keys)
    return found


def parse_data(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> tuple[DataFile, ...]:
    """`photos/` or `image=photos/`."""
    files = []
    for text in texts:
        name, _, path = text.partition("=")
        found = DataFile(Path(text)) if not path or Path(text).exists() else DataFile(Path(path), name)
        if not found.path.exists():
            raise click.BadParameter(f"there is no file or folder {found.path}; expected [INPUT=]PATH")
        files.append(found)
    return tuple(files)


def parse_row_mix(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[Share, ...]:
    return _parsed(parse_mix, text) if text else ()


def _parsed(parse: Callable[[str], Found], text: str) -> Found:
    try:
        return parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None

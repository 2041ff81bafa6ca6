"""Runs a user's class: `file.py:Class`, or a directory whose model.py has one class of a model. See `poise.model`."""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from poise.backends.base import ModelSource
from poise.errors import InvalidModel, ModelLoadError, one_line
from poise.model import HOW_TO_DECLARE, Model, declared_signature, inferred_signature
from poise.records import suggest
from poise.types import Array, Signature

logger = logging.getLogger(__name__)

FILE = "model.py"
LONE_OUTPUT = "output"
"""What the output of a model is called that declares none and returns one array."""


class PythonModel:
    """A user's object with its signature. What it does with rows that nobody sent is its own affair: it has `load`."""

    takes_made_up_inputs = False

    def __init__(self, model: Any, signature: Signature) -> None:
        self._model = model
        self._predict = model.predict
        self._lone = signature.outputs[0].name if len(signature.outputs) == 1 else None
        self.signatures = (signature,)

    def run(self, signature: str, inputs: dict[str, Array], outputs: Sequence[str]) -> Mapping[str, Any]:  # noqa: ARG002
        return _named(self._predict(inputs), self._lone, self._model)

    def close(self) -> None:
        close = getattr(self._model, "close", None)
        if close is not None:
            close()


def load(source: ModelSource) -> PythonModel:
    """Import the file, make the class with the options as keyword arguments, `load` it, find its signature.

    Raises InvalidModel for how the class is written, ModelLoadError for what its code raises.
    """
    path, name = _target(source.path)
    module = _import(path, f"poise_model_{source.name}_{source.version}")
    cls = _find_class(module, path, name)
    model = _call(f"{cls.__name__}(...)", cls, **source.options)
    if hasattr(model, "load"):
        _call(f"{cls.__name__}.load()", model.load)
    return PythonModel(model, declared_signature(model) or _try_out(model))


def _target(path: str) -> tuple[Path, str | None]:
    file, colon, name = path.rpartition(":")
    if colon and file.endswith(".py"):
        return Path(file), name
    there = Path(path)
    return (there / FILE, None) if there.is_dir() else (there, None)


def _import(path: Path, name: str) -> ModuleType:
    """The file as a module of a name of its own, so that two models never share one; it may import its neighbours."""
    unique = "".join(char if char.isalnum() else "_" for char in name)
    if not path.is_file():
        raise ModelLoadError(f"{path}: no such file")
    spec = importlib.util.spec_from_file_location(unique, path)
    if spec is None or spec.loader is None:
        raise InvalidModel(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[unique] = module  # pickles and dataclasses of the module look it up
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    _call(f"import of {path}", spec.loader.exec_module, module)
    return module


def _find_class(module: ModuleType, path: Path, name: str | None) -> type[Any]:
    own = {
        key: value for key, value in vars(module).items() if _is_model(value) and value.__module__ == module.__name__
    }
    if name is None:
        if len(own) != 1:
            found = f"it has {', '.join(sorted(own))}; name one: {path}:{min(own)}" if own else "it has none"
            raise InvalidModel(f"{path}: expected one class with a method predict(inputs); {found}")
        name = min(own)
    cls: type[Any] | None = vars(module).get(name)
    if cls is None:
        raise InvalidModel(f"{path}: no class {name}; {suggest(name, own)}")
    if not _is_model(cls):
        raise InvalidModel(f"{path}: {name} must be a class with a method predict(inputs)")
    return cls


def _is_model(value: object) -> bool:
    predict = getattr(value, "predict", None)
    return isinstance(value, type) and callable(predict) and predict is not Model.predict


def _try_out(model: Any) -> Signature:
    """The signature of a model that declares none, from one run on its own example."""
    owner = type(model).__name__
    example = _call(f"{owner}.example_inputs()", model.example_inputs) if hasattr(model, "example_inputs") else None
    if example is None:
        raise InvalidModel(f"{owner} does not say what it takes and returns; {HOW_TO_DECLARE}")
    inputs = _arrays(f"{owner}.example_inputs()", example)
    returned = _call(f"{owner}.predict(example_inputs())", model.predict, dict(inputs))
    outputs = _arrays(f"{owner}.predict(example_inputs())", _named(returned, LONE_OUTPUT, model))
    return inferred_signature(model, inputs, outputs)


def _named(returned: object, lone: str | None, model: object) -> Mapping[str, Any]:
    """What predict returned, by name: a lone array belongs to the only output."""
    if isinstance(returned, dict):
        return returned
    if isinstance(returned, Mapping):
        return dict(returned)
    if lone is not None:
        return {lone: returned}
    raise TypeError(
        f"{type(model).__name__}.predict returned {type(returned).__name__}; expected a dict of arrays by output name"
    )


def _arrays(place: str, value: Any) -> dict[str, Array]:
    if not isinstance(value, Mapping) or not all(hasattr(array, "dtype") for array in value.values()):
        raise InvalidModel(f"{place} must give a dict of NumPy arrays by name")
    return dict(value)


def _call(what: str, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Run the user's code: the traceback goes to the log, one line of it to whoever asked."""
    try:
        return function(*args, **kwargs)
    except ModelLoadError:
        raise
    except Exception as error:
        logger.exception("%s failed", what)
        raise ModelLoadError(f"{what} failed: {one_line(error)}") from error

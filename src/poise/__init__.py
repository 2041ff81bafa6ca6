"""Poise: a model server that keeps its balance between QPS, latency and throughput.

What stands in `__all__` is the whole public API. Names are looked up when first used, so that `import poise` costs
nothing and never imports a backend.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from poise.config import BatchSettings, Config, ModelConfig, ServerSettings
    from poise.errors import (
        BackendUnavailable,
        ConfigError,
        InvalidInput,
        InvalidModel,
        ModelLoadError,
        PoiseError,
        Unavailable,
    )
    from poise.model import Model
    from poise.types import Signature, TensorSpec

__all__ = [
    "BackendUnavailable",
    "BatchSettings",
    "Config",
    "ConfigError",
    "InvalidInput",
    "InvalidModel",
    "Model",
    "ModelConfig",
    "ModelLoadError",
    "PoiseError",
    "ServerSettings",
    "Signature",
    "TensorSpec",
    "Unavailable",
]

_HOMES = {
    "config": ("BatchSettings", "Config", "ModelConfig", "ServerSettings"),
    "errors": (
        "BackendUnavailable",
        "ConfigError",
        "InvalidInput",
        "InvalidModel",
        "ModelLoadError",
        "PoiseError",
        "Unavailable",
    ),
    "model": ("Model",),
    "types": ("Signature", "TensorSpec"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(importlib.import_module(f"poise.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'poise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

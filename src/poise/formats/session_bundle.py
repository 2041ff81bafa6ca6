"""How TensorFlow Serving is told to run SavedModels: `PlatformConfigMap` and `ConfigProto`, or flags that say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from poise.errors import ConfigError
from poise.formats import batching_parameters, text_proto
from poise.formats.batching_parameters import BatchingParameters
from poise.formats.model_config import TENSORFLOW

ADAPTER = "SavedModelBundleSourceAdapterConfig"
SERVE = ["serve"]
#: Fields of SessionBundleConfig that change something here, apart from batching.
USED = {"session_config", "batching_parameters", "saved_model_tags", "enable_model_warmup", "model_warmup_options"}
USED |= {"enable_per_model_batching_params", "mixed_precision"}


@dataclass(frozen=True)
class SessionBundle:
    """What holds for every SavedModel."""

    batching: BatchingParameters | None = None
    """None: requests are not batched."""
    per_model_batching: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    """For the backend `tensorflow`."""
    warmup: bool = True
    warmup_iterations: int = 1
    unused: tuple[str, ...] = ()
    """Fields that the file sets, and that have no effect."""


def read_platforms(path: Path) -> SessionBundle:
    """A PlatformConfigMap, of which the platform `tensorflow` counts. Raises ConfigError that names the file."""
    platforms = text_proto.read(path, "PlatformConfigMap").get("platform_configs", {})
    if TENSORFLOW not in platforms:
        named = ", ".join(sorted(platforms)) or "none"
        raise ConfigError(f"{path}: expected a platform_configs entry with the key {TENSORFLOW!r}; got {named}")
    adapter = platforms[TENSORFLOW].get("source_adapter_config", {})
    kind = adapter.get("@type", "nothing")
    if not kind.endswith(f".{ADAPTER}"):
        raise ConfigError(f"{path}: source_adapter_config: expected a {text_proto.PACKAGE}.{ADAPTER}; got {kind}")
    return bundle_from_json(adapter.get("legacy_config", {}), str(path))


def bundle_from_json(raw: Mapping[str, Any], where: str) -> SessionBundle:
    """A SessionBundleConfig. Raises ConfigError."""
    batching = raw.get("batching_parameters")
    warmup = raw.get("model_warmup_options", {})
    options = session_options(raw.get("session_config", {}), threads=True)
    if (tags := raw.get("saved_model_tags", SERVE)) != SERVE:
        options["tags"] = list(tags)
    if precision := raw.get("mixed_precision"):
        options["mixed_precision"] = precision
    return SessionBundle(
        batching=None if batching is None else batching_parameters.from_json(batching, where),
        per_model_batching=raw.get("enable_per_model_batching_params", False),
        options=options,
        warmup=raw.get("enable_model_warmup", False),
        warmup_iterations=max(1, warmup.get("num_request_iterations", 1)),
        unused=tuple(sorted(set(raw) - USED)),
    )


def read_session(path: Path) -> dict[str, Any]:
    """Options of the backend `tensorflow` that a ConfigProto comes to; flags set its threads. Raises ConfigError."""
    return session_options(text_proto.read(path, "tensorflow.ConfigProto"), threads=False)


def session_options(raw: Mapping[str, Any], *, threads: bool) -> dict[str, Any]:
    """As above; the numbers of threads count with `threads` only."""
    rest, options = dict(raw), dict[str, Any]()
    for name, option in (
        ("intra_op_parallelism_threads", "intra_op_threads"),
        ("inter_op_parallelism_threads", "inter_op_threads"),
    ):
        count = rest.pop(name, 0)
        if threads and count > 0:
            options[option] = count
    gpu = dict(rest.pop("gpu_options", {}))
    fraction = gpu.pop("per_process_gpu_memory_fraction", 0.0)
    if threads and fraction:
        options["gpu_memory_fraction"] = fraction
    for name, option in (("allow_growth", "gpu_memory_growth"), ("visible_device_list", "visible_gpus")):
        if name in gpu:
            options[option] = gpu.pop(name)
    if gpu:
        rest["gpu_options"] = gpu
    return {**options, "session_config": rest} if rest else options

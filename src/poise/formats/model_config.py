"""`models.config`: TensorFlow Serving's ModelServerConfig, as JSON of its own field names, to and from ModelConfig.

    {"model_config_list": {"config": [{"name": "m", "base_path": "/models/m", "model_platform": "tensorflow"}]}}

The texts of errors are TensorFlow Serving's where it has one: scripts look for them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from poise import records
from poise.config import BatchSettings, ModelConfig
from poise.errors import ConfigError

logger = logging.getLogger(__name__)

TENSORFLOW = "tensorflow"
PLATFORMS = {
    TENSORFLOW: "auto",
    "auto": "auto",
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "python": "python",
}
"""`model_platform` to backend. The first is TensorFlow Serving's; what runs a SavedModel is for its files to say."""
LIST, CUSTOM = "model_config_list", "custom_model_config"
NOT_A_LIST = (
    "ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList is currently supported"
)
FIELDS = {
    "name": str,
    "base_path": str,
    "model_type": str,
    "model_platform": str,
    "logging_config": dict[str, Any],
    "model_version_policy": dict[str, Any],
    "version_labels": dict[str, Any],
}
"""Of a model in the list, with their types."""
MAX_INT64 = 2**63 - 1

_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*://")

Versions = int | Literal["all"] | tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ModelDefaults:
    """What is the same for every model of a ModelServerConfig, which itself says little more than where they are."""

    batching: BatchSettings = field(default_factory=BatchSettings)
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options for the backend of SavedModels, so for models of the platform `tensorflow`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of ModelConfig: `poll_interval_s`, `load_attempts`, `workers` …"""


def is_list(config: Mapping[str, Any]) -> bool:
    """Whether there is a list of models in it, be it empty; a configuration without one changes nothing."""
    return LIST in config


def models_from_json(config: Mapping[str, Any], defaults: ModelDefaults | None = None) -> tuple[ModelConfig, ...]:
    """The models of a ModelServerConfig, none when it has no list.

    Raises ConfigError, naming the model and the field. Logs a line for what is accepted without effect.
    """
    source = records.Source(config, "ModelServerConfig")
    _known(source, (LIST, CUSTOM))
    if CUSTOM in config:
        raise ConfigError(f"{NOT_A_LIST}; got {CUSTOM}")
    if LIST not in config:
        return ()
    listed = source.inner(LIST)
    _known(listed, ("config",))
    entries = records.convert(listed.table.get("config", []), tuple[dict[str, Any], ...], listed.at("config"))
    models = tuple(model_from_json(entry, defaults) for entry in entries)
    names = [model.name for model in models]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"Illegal to list model {twice} multiple times in config list")
    return models


def model_from_json(entry: Mapping[str, Any], defaults: ModelDefaults | None = None) -> ModelConfig:
    """One ModelConfig of TensorFlow Serving. Raises ConfigError."""
    defaults = defaults or ModelDefaults()
    name = entry.get("name", "")
    source = records.Source(entry, f"model {name}" if isinstance(name, str) and name else "a model without a name")
    values = _fields(source)
    platform = _platform(source.where, values)
    if "logging_config" in values:
        logger.warning("%s: logging_config is accepted, but requests are not logged", source.where)
    given = {
        "name": values.get("name", ""),
        "path": _location(source.where, values),
        "backend": PLATFORMS[platform],
        "versions": _versions(source, values.get("model_version_policy", {})),
        "labels": _labels(source, values.get("version_labels", {})),
        "batching": defaults.batching,
        "options": dict(defaults.options) if platform == TENSORFLOW else {},
    }
    try:
        return ModelConfig(**given, **defaults.settings)
    except ConfigError as error:
        raise ConfigError(f"{source.where}: {error}") from None


def models_to_json(models: Iterable[ModelConfig]) -> dict[str, Any]:
    """The ModelServerConfig that lists these models; what it has no fields for is left out."""
    return {LIST: {"config": [model_to_json(model) for model in models]}}


def model_to_json(model: ModelConfig) -> dict[str, Any]:
    """One model of the list."""
    entry = {
        "name": model.name,
        "base_path": model.path,
        "model_platform": TENSORFLOW if model.backend == "auto" else model.backend,
        "model_version_policy": _policy(model.versions),
    }
    return {**entry, "version_labels": dict(model.labels)} if model.labels else entry


def _policy(versions: Versions) -> dict[str, Any]:
    if isinstance(versions, int):
        return {"latest": {"num_versions": versions}}
    return {"all": {}} if versions == "all" else {"specific": {"versions": list(versions)}}


def _fields(source: records.Source) -> dict[str, Any]:
    _known(source, FIELDS)
    return {key: records.convert(value, FIELDS[key], source.at(key)) for key, value in source.table.items()}


def _known(source: records.Source, names: Iterable[str]) -> None:
    for key in source.table:
        if key not in names:
            raise ConfigError(f"{source.at(key)}: unknown field; {records.suggest(key, names)}")


def _platform(where: str, values: Mapping[str, Any]) -> str:
    """Its own name for what runs the model; a model that names none is judged by its files."""
    platform, kind = values.get("model_platform", ""), values.get("model_type", "MODEL_TYPE_UNSPECIFIED")
    if kind != "MODEL_TYPE_UNSPECIFIED":
        if platform:
            raise ConfigError(
                f"{where}: Illegal setting both ModelServerConfig::model_type (deprecated) and"
                " ModelServerConfig::model_platform; leave model_type out"
            )
        platform = kind.lower()
    platform = platform or TENSORFLOW
    if platform not in PLATFORMS:
        raise ConfigError(
            f"{where[:1].upper()}{where[1:]} requests unsupported platform {platform};"
            f" {records.suggest(platform, PLATFORMS)}"
        )
    return platform


def _location(where: str, values: Mapping[str, Any]) -> str:
    """As a path of this machine. Raises ConfigError for a relative one, and for a URI of anything but a file."""
    given = values.get("base_path", "")
    if not _ABSOLUTE.match(given):
        raise ConfigError(f"Expected {where} to have an absolute path or URI; got base_path()={given}")
    path = str(given).removeprefix("file://")
    if not path.startswith("/"):
        raise ConfigError(f"{where}: base_path {given}: expected a path of this machine; mount it, or copy it here")
    return path


def _versions(source: records.Source, policy: Mapping[str, Any]) -> Versions:
    where = source.at("model_version_policy")
    _known(records.Source(policy, where), ("latest", "all", "specific"))
    if len(policy) > 1:
        raise ConfigError(f"{where}: expected one of latest, all, specific; got {' and '.join(policy)}")
    for choice, body in policy.items():
        table = records.convert(body, dict[str, Any], f"{where} {choice}")
        inner = records.Source(table, f"{where} {choice}")
        match choice:
            case "latest":
                _known(inner, ("num_versions",))
                return whole(table.get("num_versions", 1), inner.at("num_versions")) or 1
            case "specific":
                _known(inner, ("versions",))
                return _numbers(table.get("versions", []), inner.at("versions"))
            case _:
                _known(inner, ())
                return "all"
    return 1


def _numbers(listed: object, where: str) -> tuple[int, ...]:
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
        raise ConfigError(f"{where}: expected a list of at least one version; got {records.show(listed)}")
    return tuple(dict.fromkeys(whole(number, where) for number in listed))


def _labels(source: records.Source, labels: Mapping[str, Any]) -> dict[str, int]:
    where = source.at("version_labels")
    return {label: whole(version, f"{where} {label}") for label, version in labels.items()}


def whole(value: object, where: str) -> int:
    """A 64-bit number that is not negative; as text, too, which is how protobuf writes them in JSON."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,19}", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_INT64:
        raise ConfigError(f"{where}: expected a whole number from 0; got {records.show(value)}")
    return value

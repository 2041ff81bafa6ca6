"""From a line of TensorFlow Serving's flags, and the files that it names, to what Poise is started with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from poise.cli.tfs_flags import Line, file_of, without_effect
from poise.cli.tfs_server import server_settings
from poise.config import BatchSettings, Config, ModelConfig
from poise.errors import ConfigError
from poise.formats import batching_parameters, model_config, session_bundle, text_proto
from poise.formats.batching_parameters import BatchingParameters
from poise.formats.model_config import ModelDefaults
from poise.formats.session_bundle import SessionBundle

#: Flags that a platform configuration file takes the place of.
OF_THE_PLATFORM = (
    "enable_batching",
    "batching_parameters_file",
    "enable_per_model_batching_parameters",
    "tensorflow_session_parallelism",
    "tensorflow_intra_op_parallelism",
    "tensorflow_inter_op_parallelism",
    "tensorflow_session_config_file",
    "per_process_gpu_memory_fraction",
    "saved_model_tags",
    "enable_model_warmup",
    "num_request_iterations_for_warmup",
    "mixed_precision",
)
SHORTEST_RETRY_S = 1.0


class ModelsFile:
    """A ModelServerConfig on disk, which may be read again and again."""

    def __init__(self, path: Path, defaults: ModelDefaults) -> None:
        self.path = path
        self._defaults = defaults
        self._text: str | None = None
        self._models: tuple[ModelConfig, ...] = ()

    def read(self) -> tuple[ModelConfig, ...]:
        """The models that it lists now; those from before when it has no list. Raises ConfigError that names it."""
        text = text_proto.text_of(self.path)
        if text == self._text:
            return self._models
        raw = text_proto.parse_file(self.path, text, "ModelServerConfig")
        try:
            found = model_config.models_from_json(raw, self._defaults)
        except ConfigError as error:
            raise ConfigError(f"{self.path}: {error}") from None
        self._text, self._models = text, found if model_config.is_list(raw) else self._models
        return self._models


@dataclass(frozen=True)
class Plan:
    """What is to be served, and what the operator should know about it."""

    config: Config
    defaults: ModelDefaults
    """For models that a later configuration brings."""
    models_file: ModelsFile | None = None
    poll_s: float = 0.0
    """How often that file is read again; 0 for never."""
    per_model_batching: bool = False
    new_labels_may_wait: bool = False
    notes: tuple[str, ...] = field(default=())
    """What was given and has no effect, or another one than in TensorFlow Serving."""


def plan(line: Line) -> Plan:
    """Read the files and put everything together. Raises ConfigError with flag or file, and what was expected."""
    notes = [*line.unknown, *without_effect(line)]
    if line["use_alts_credentials"]:
        raise ConfigError("--use_alts_credentials: there is no ALTS here; encrypt with --ssl_config_file")
    bundle = _bundle(line, notes)
    defaults = _defaults(line, bundle, notes)
    listed = file_of(line, "model_config_file")
    file = None if listed is None else ModelsFile(listed, defaults)
    config = Config(
        server=server_settings(line, notes),
        models=_models(line, file, defaults, notes),
        drain_delay_s=line["drain_delay_seconds"],
        drain_timeout_s=line["drain_timeout_seconds"],
        require_all_models=line["require_all_models"],
        log_level=_one_of(line, "log_level", ("DEBUG", "INFO", "WARNING", "ERROR")),
    )
    return Plan(
        config=config,
        defaults=defaults,
        models_file=file,
        poll_s=_poll_s(line, file, notes),
        per_model_batching=bundle.per_model_batching,
        new_labels_may_wait=line["allow_version_labels_for_unavailable_models"],
        notes=tuple(notes),
    )


def _models(line: Line, file: ModelsFile | None, defaults: ModelDefaults, notes: list[str]) -> tuple[ModelConfig, ...]:
    if file is not None:
        ignored = sorted(line.given & {"model_name", "model_base_path"})
        notes += [f"--{name} has no effect: --model_config_file names the models" for name in ignored]
        return file.read()
    if not line["model_base_path"]:
        raise ConfigError("Both server_options.model_base_path and server_options.model_config_file are empty!")
    entry = {"name": line["model_name"], "base_path": line["model_base_path"], "model_platform": "tensorflow"}
    return (model_config.model_from_json(entry, defaults),)


def _poll_s(line: Line, file: ModelsFile | None, notes: list[str]) -> float:
    seconds = max(0, line["model_config_file_poll_wait_seconds"])
    if seconds and file is None:
        notes.append("--model_config_file_poll_wait_seconds has no effect: there is no --model_config_file")
        return 0.0
    return float(seconds)


def _bundle(line: Line, notes: list[str]) -> SessionBundle:
    """How SavedModels are run: by a platform configuration file, or by flags."""
    if (file := file_of(line, "platform_config_file")) is None:
        return SessionBundle(
            batching=_batching(line, notes),
            per_model_batching=line["enable_batching"] and line["enable_per_model_batching_parameters"],
            options=_options(line),
            warmup=line["enable_model_warmup"],
            warmup_iterations=max(1, line["num_request_iterations_for_warmup"]),
        )
    ignored = [name for name in OF_THE_PLATFORM if name in line.given]
    notes += [f"--{name} has no effect: --platform_config_file says it all" for name in ignored]
    bundle = session_bundle.read_platforms(file)
    notes += [f"{file}: {name} has no effect" for name in bundle.unused]
    return bundle


def _batching(line: Line, notes: list[str]) -> BatchingParameters | None:
    file = file_of(line, "batching_parameters_file")
    if not line["enable_batching"]:
        if file is not None:
            raise ConfigError(
                "server_options.batching_parameters_file is set without setting server_options.enable_batching to true."
            )
        if line["enable_per_model_batching_parameters"]:
            notes.append("--enable_per_model_batching_parameters has no effect without --enable_batching")
        return None
    return batching_parameters.from_json({}, "--enable_batching") if file is None else batching_parameters.read(file)


def _defaults(line: Line, bundle: SessionBundle, notes: list[str]) -> ModelDefaults:
    """What holds for every model."""
    settings = {
        "workers": _at_least(line, "num_workers", 1),
        "poll_interval_s": float(max(0, line["file_system_poll_wait_seconds"])),
        "load_attempts": 1 + max(0, line["max_num_load_retries"]),
        "load_retry_max_s": max(SHORTEST_RETRY_S, line["load_retry_interval_micros"] / 1e6),
        "load_timeout_s": line["load_timeout_seconds"],
        "load_policy": _one_of(line, "load_policy", ("availability", "resource")),
        "warmup": bundle.warmup,
        "warmup_iterations": bundle.warmup_iterations,
    }
    return ModelDefaults(batching=_batch_settings(line, bundle, notes), options=bundle.options, settings=settings)


def _batch_settings(line: Line, bundle: SessionBundle, notes: list[str]) -> BatchSettings:
    max_run_s = line["max_run_seconds"]
    if bundle.batching is None:
        return BatchSettings(enable_batching=False, max_run_s=max_run_s)
    if threads := bundle.batching.num_batch_threads:
        notes.append(
            f"num_batch_threads of {threads} has no effect: a worker is a process with a copy of the model of its own,"
            f" so there are --num_workers of them ({line['num_workers']}), each running one batch at a time"
        )
    return replace(bundle.batching.settings, enable_batching=True, max_run_s=max_run_s)


def _options(line: Line) -> dict[str, Any]:
    """For the backend `tensorflow`; empty when all is as it would be anyway, so that another backend may take over."""
    file = file_of(line, "tensorflow_session_config_file")
    options = {} if file is None else session_bundle.read_session(file)
    both, intra, inter = (line[f"tensorflow_{name}_parallelism"] for name in ("session", "intra_op", "inter_op"))
    if both > 0 and intra > 0 and inter > 0:
        raise ConfigError(
            "--tensorflow_session_parallelism sets both --tensorflow_intra_op_parallelism and"
            " --tensorflow_inter_op_parallelism; expected it, or these two, not all three"
        )
    flags = {
        "intra_op_threads": intra or both,
        "inter_op_threads": inter or both,
        "gpu_memory_fraction": line["per_process_gpu_memory_fraction"],
        "xla": line["xla_cpu_compilation_enabled"] or line["xla_gpu_compilation_enabled"],
        "mixed_precision": line["mixed_precision"],
        "tags": _tags(line["saved_model_tags"]),
    }
    if flags["mixed_precision"] not in {"", "bfloat16"}:
        raise ConfigError(f'--mixed_precision: expected "bfloat16"; got {flags["mixed_precision"]!r}')
    return {**options, **{name: value for name, value in flags.items() if value}}


def _tags(text: str) -> list[str]:
    """Nothing for the usual one."""
    tags = [tag.strip() for tag in text.split(",") if tag.strip()]
    return [] if tags == session_bundle.SERVE else tags


def _at_least(line: Line, name: str, least: int) -> int:
    if line[name] < least:
        raise ConfigError(f"--{name}: expected at least {least}; got {line[name]}")
    number: int = line[name]
    return number


def _one_of(line: Line, name: str, choices: tuple[str, ...]) -> Any:
    if line[name] not in choices:
        raise ConfigError(f"--{name}: expected one of {', '.join(choices)}; got {line[name]!r}")
    return line[name]

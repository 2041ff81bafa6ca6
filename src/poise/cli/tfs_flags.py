"""The flags of `tensorflow_model_server` as data, those of our own beside them, and the reading of a line of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from poise.errors import ConfigError
from poise.records import suggest

Kind = Literal["int32", "int64", "float", "bool", "string"]


@dataclass(frozen=True)
class Flag:
    """One flag. `unused` says why it is accepted and changes nothing."""

    name: str
    kind: Kind
    default: Any
    help: str
    unused: str = ""


def _unused(name: str, kind: Kind, default: Any, why: str) -> Flag:
    return Flag(name, kind, default, "Accepted, no effect.", why)


LISTENING = (
    Flag("port", "int32", 8500, "gRPC port; 0 for none."),
    Flag("grpc_socket_path", "string", "", "Listen for gRPC on this Unix socket, too."),
    Flag("rest_api_port", "int32", 0, "HTTP port: REST, metrics, /readyz; 0 for none."),
    Flag("rest_api_timeout_in_ms", "int32", 30_000, "Time limit of a REST call; 0 or less for none."),
    Flag("rest_api_enable_cors_support", "bool", False, "Let web pages of any origin call the REST API."),
    Flag("ssl_config_file", "string", "", "SSLConfig: TLS for gRPC; see also rest_api_ssl."),
    Flag(
        "grpc_channel_arguments",
        "string",
        "",
        "k=v,k=v; grpc.max_concurrent_streams and grpc.max_receive_message_length count.",
    ),
    Flag("enable_serialization_as_tensor_content", "bool", False, "Answer tensors as tensor_content."),
    _unused("rest_api_num_threads", "int32", 0, "no thread waits for a request, so there is no number of them to set"),
    _unused("grpc_max_threads", "int32", 0, "no thread waits for a request, so no number of them caps concurrency"),
    _unused("enable_grpc_healthcheck_service", "bool", False, "gRPC health is always there, and follows the models"),
)
MODELS = (
    Flag("model_name", "string", "default", "Name of the model at model_base_path."),
    Flag("model_base_path", "string", "", "Directory of the model's versions, absolute."),
    Flag("model_config_file", "string", "", "ModelServerConfig: which models are served. SIGHUP reads it again."),
    Flag("model_config_file_poll_wait_seconds", "int32", 0, "Read it again so often; 0 for never."),
    Flag("file_system_poll_wait_seconds", "int32", 1, "Look for versions so often; 0 for once."),
    Flag(
        "max_num_load_retries",
        "int32",
        5,
        "Further tries before a version's status says END. It is tried on all the same.",
    ),
    Flag("load_retry_interval_micros", "int64", 60_000_000, "Longest wait between tries; the first come sooner."),
    Flag("saved_model_tags", "string", "serve", "Which graph of a SavedModel, by its tags, with commas between."),
    Flag(
        "enable_model_warmup", "bool", True, "Replay assets.extra/tf_serving_warmup_requests before a version serves."
    ),
    _unused("num_load_threads", "int32", 0, "every version loads in a process of its own, beside all others"),
    _unused("num_unload_threads", "int32", 0, "versions are unloaded beside one another"),
    Flag(
        "allow_version_labels_for_unavailable_models",
        "bool",
        False,
        "Let a new label wait for a version that is not there.",
    ),
    Flag("num_request_iterations_for_warmup", "int32", 0, "How often each of them is replayed; 0 for once."),
    _unused("flush_filesystem_caches", "bool", True, "the system gives back what it caches when memory is short"),
    _unused("enable_signature_method_name_check", "bool", False, "Predict answers for signatures of any method"),
    _unused(
        "remove_unused_fields_from_bundle_metagraph", "bool", True, "only signatures are kept of a graph's description"
    ),
    _unused("prefer_tflite_model", "bool", False, "model.tflite is served where there is no SavedModel beside it"),
    _unused("num_tflite_pools", "int32", 0, "each worker has one interpreter"),
    _unused("num_tflite_interpreters_per_pool", "int32", 1, "each worker has one interpreter"),
)
BATCHING = (
    Flag("enable_batching", "bool", False, "Run requests together in batches."),
    Flag("batching_parameters_file", "string", "", "BatchingParameters; needs enable_batching."),
    Flag(
        "enable_per_model_batching_parameters",
        "bool",
        False,
        "Batch only versions with a batching_params.pbtxt, by what it says; needs enable_batching.",
    ),
)
RUNNING = (
    Flag("tensorflow_session_parallelism", "int64", 0, "Both of the next two."),
    Flag(
        "tensorflow_intra_op_parallelism", "int64", 0, "Threads of one operator; 0 for the worker's share of the cores."
    ),
    Flag("tensorflow_inter_op_parallelism", "int64", 0, "Operators at once; 0 for one."),
    Flag("tensorflow_session_config_file", "string", "", "ConfigProto."),
    Flag(
        "platform_config_file",
        "string",
        "",
        "PlatformConfigMap; then flags of batching, session, warm-up and tags do not count.",
    ),
    Flag(
        "per_process_gpu_memory_fraction",
        "float",
        0.0,
        "Share of a GPU's memory for each worker; 0 to take it as needed.",
    ),
    Flag("xla_cpu_compilation_enabled", "bool", False, "Compile graphs with XLA."),
    Flag("xla_gpu_compilation_enabled", "bool", False, "The same."),
    Flag("mixed_precision", "string", "", 'Only "bfloat16".'),
    _unused("enable_profiler", "bool", True, "there is no profiler service"),
    _unused("thread_pool_factory_config_file", "string", "", "each worker's threads are TensorFlow's own"),
    _unused("skip_initialize_tpu", "bool", False, "no TPU is looked for"),
)
WATCHING = (
    Flag("monitoring_config_file", "string", "", "MonitoringConfig: where the metrics are; without it they are on."),
    Flag("use_alts_credentials", "bool", False, "Refused: there is no ALTS here; use ssl_config_file."),
    Flag("version", "bool", False, "Print the version and exit."),
)
OURS = (
    Flag("check", "bool", False, "Read all files and flags, print what would be served, start nothing."),
    Flag("allow_unknown_flags", "bool", False, "Start in spite of flags that there are not."),
    Flag("bind_address", "string", "", "Listen on this address only; all of IPv4 and IPv6 otherwise."),
    Flag("grpc_bind_address", "string", "", "The same for gRPC alone."),
    Flag("rest_api_ssl", "bool", False, "With ssl_config_file, TLS on the HTTP port as well."),
    Flag("num_workers", "int32", 1, "Processes of each model; each holds a copy of it and runs one batch at a time."),
    Flag("require_all_models", "bool", False, "Fail to start when a model fails to load, as TensorFlow Serving does."),
    Flag(
        "load_policy",
        "string",
        "availability",
        "availability: load the new version beside the old. resource: unload first.",
    ),
    Flag("load_timeout_seconds", "float", 300.0, "Longest time a version may take to load."),
    Flag("max_run_seconds", "float", 300.0, "Longest run of one batch; a worker that takes longer is replaced."),
    Flag("max_message_bytes", "int64", 2**31 - 1, "Largest request."),
    Flag("drain_delay_seconds", "float", 0.0, "Time between readiness going off and ports closing after SIGTERM."),
    Flag("drain_timeout_seconds", "float", 30.0, "Time for requests under way after that."),
    Flag("enable_admin", "bool", True, "Let clients load, unload and configure models."),
    Flag("enable_reflection", "bool", False, "gRPC reflection."),
    Flag("log_level", "string", "INFO", "DEBUG, INFO, WARNING or ERROR."),
    Flag("allow_debug_build", "bool", False, "Serve with a slow build meant for debugging."),
)
GROUPS: dict[str, tuple[Flag, ...]] = {
    "Listening": LISTENING,
    "Models": MODELS,
    "Batching": BATCHING,
    "Running": RUNNING,
    "Watching": WATCHING,
    "Not in TensorFlow Serving": OURS,
}
FLAGS: dict[str, Flag] = {flag.name: flag for group in GROUPS.values() for flag in group}

TRUE, FALSE = {"true", "1"}, {"false", "0"}
RANGES = {"int32": 2**31, "int64": 2**63}


@dataclass(frozen=True)
class Line:
    """What stands on a line of flags."""

    values: Mapping[str, Any]
    """Of every flag: as given, else its default."""
    given: frozenset[str]
    unknown: tuple[str, ...] = ()
    """Why each argument that is no flag is none; empty unless they are allowed."""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


def parse(arguments: Sequence[str]) -> Line:
    """`--name=value` or `--name value`; a bool alone is true; the last one counts.

    Raises ConfigError for a value that is none of the flag's, and for unknown flags unless `--allow_unknown_flags`.
    """
    given: dict[str, Any] = {}
    unknown: list[str] = []
    waiting = list(reversed(arguments))
    while waiting:
        argument = waiting.pop()
        found = re.fullmatch(r"--?(\w+)(?:=(.*))?", argument, re.DOTALL)
        flag = FLAGS.get(found[1]) if found else None
        if found is None or flag is None:
            unknown.append(_unknown(argument))
        else:
            text = found[2] if found[2] is not None else _next(flag, waiting)
            given[flag.name] = convert(flag, text)
    values = {flag.name: given.get(flag.name, flag.default) for flag in FLAGS.values()}
    if unknown and not values["allow_unknown_flags"]:
        raise ConfigError(
            "\n".join(unknown) + "\nTensorFlow Serving would start all the same; --allow_unknown_flags does so here"
        )
    return Line(values, frozenset(given), tuple(unknown))


def _next(flag: Flag, waiting: list[str]) -> str:
    """The value in the argument behind the flag. A bool has one only if it looks like one."""
    if flag.kind == "bool":
        return waiting.pop() if waiting and waiting[-1].lower() in TRUE | FALSE else "true"
    if not waiting:
        raise ConfigError(f"--{flag.name}: the value is missing; expected --{flag.name}=VALUE")
    return waiting.pop()


def _unknown(argument: str) -> str:
    name = re.sub(r"=.*", "", argument, flags=re.DOTALL).lstrip("-").replace("-", "_")
    if not argument.startswith("-"):
        return f"unknown argument: {argument}; flags begin with --"
    hint = suggest(name, FLAGS)
    return f"unknown argument: {argument}; " + (
        re.sub(r"did you mean (\w+)\?", r"did you mean --\1?", hint) if hint.startswith("did") else "see --help"
    )


def convert(flag: Flag, text: str) -> Any:
    """The text of a value as what the flag takes. Raises ConfigError."""
    try:
        return _KINDS[flag.kind](text)
    except ValueError:
        raise ConfigError(f"--{flag.name}: expected {_EXPECTED[flag.kind]}; got {text!r}") from None


def _bool(text: str) -> bool:
    if text.lower() not in TRUE | FALSE:
        raise ValueError(text)
    return text.lower() in TRUE


def _int(kind: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
            raise ValueError(text)
        number = int(text)
        if not -RANGES[kind] <= number < RANGES[kind]:
            raise ValueError(text)
        return number

    return read


def _float(text: str) -> float:
    number = float(text)
    if not abs(number) < float("inf"):
        raise ValueError(text)
    return number


_KINDS: dict[str, Callable[[str], Any]] = {
    "int32": _int("int32"),
    "int64": _int("int64"),
    "float": _float,
    "bool": _bool,
    "string": str,
}
_EXPECTED = {
    "int32": "a whole number of 32 bits",
    "int64": "a whole number of 64 bits",
    "float": "a number",
    "bool": "true, false, 1 or 0",
}


def without_effect(line: Line) -> Iterable[str]:
    """A line for each flag that was given, changes nothing, and why."""
    for name in sorted(line.given):
        if why := FLAGS[name].unused:
            yield f"--{name} has no effect: {why}"


def file_of(line: Line, name: str) -> Path | None:
    """The file that a flag names, None when it names none."""
    return Path(line[name]) if line[name] else None


def shown_default(flag: Flag) -> str:
    """As it would be written on the line."""
    if flag.kind == "bool":
        return str(flag.default).lower()
    return f"{flag.default:g}" if flag.kind == "float" else str(flag.default) or '""'

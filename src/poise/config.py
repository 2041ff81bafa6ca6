"""Every setting, its default, and when to change it. A file is read once, at the start, by `load`.

    drain_timeout_s = 30
    [server]                    # ServerSettings
    [models.NAME]               # ModelConfig
    [models.NAME.batching]      # BatchSettings
    [models.NAME.options]       # whatever the model's backend takes

`ServerSettings` and `BatchSettings` have twins, field for field, in `rust/src/config.rs`.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from poise import records
from poise.cpu import cpu_budget
from poise.errors import ConfigError

MIB = 1 << 20
COMMAND_LINE = "command line"
LONGEST_S = 7 * 24 * 3600
"""A week: the longest time that a setting may mean."""


def default_io_threads() -> int:
    """Half of the cores that may be used: the other half runs models."""
    return max(1, cpu_budget() // 2)


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """How the server listens and what it bounds for every client."""

    grpc: str | None = "0.0.0.0:8500"
    """HOST:PORT of the gRPC listener, port 0 for a free one, "" for none. Change it to listen on one interface only."""
    http: str | None = "0.0.0.0:8501"
    """HOST:PORT of the HTTP listener (REST, /metrics, /healthz, /readyz), likewise."""
    grpc_socket: str | None = None
    """Path of a Unix socket that speaks gRPC too, null for none. Set it for clients on the same machine or in the same
    pod. A socket that a server has left there is replaced."""
    tls_cert: str | None = None
    """Certificates of the gRPC listener, its own first: PEM, or the path of a PEM file, which is read again when it
    changes. Set it, with tls_key, to have TLS; null for none."""
    tls_key: str | None = field(default=None, repr=False)
    """The private key, likewise."""
    tls_client_ca: str | None = None
    """Authorities of client certificates, likewise. Set it to refuse clients that have no certificate of theirs."""
    tls_http: bool = False
    """Whether the HTTP listener has TLS too. TensorFlow Serving has none there, so clients expect none."""
    io_threads: int = field(default_factory=default_io_threads)
    """Threads that move bytes; half of the cores that may be used, if not given. Raise it when small models leave cores
    idle, but not beyond the cores that there are."""
    max_message_bytes: int = 128 * MIB
    """Largest request body. Raise it for large tensors, lower it to bound one client."""
    max_body_bytes_held: int = 1024 * MIB
    """Bytes of request bodies held at once, over all connections. Lower it where memory is short."""
    max_connections: int = 10_000
    """Connections open at once, over both listeners; further ones are closed on arrival."""
    max_concurrent_streams: int = 1024
    """Requests under way on one HTTP/2 connection. Lower it when few clients must not crowd out many."""
    client_timeout_s: float = 60.0
    """Time a client has to send a whole request, and to take a whole answer. Raise it for slow links."""
    default_timeout_s: float = 60.0
    """Time limit of a request whose client names none; 0 for no limit. Lower it to what your clients really wait."""
    rest_timeout_s: float | None = None
    """The same over REST, if it is to differ; 0 for no limit. TensorFlow Serving's is 30."""
    cors: bool = False
    """Whether web pages of any origin may call the REST API. Set it where browsers are clients."""
    tensor_content: bool = False
    """Answer tensors as raw `tensor_content`, not in typed fields: faster, but old clients read typed fields only."""
    admin: bool = True
    """Whether clients may load, unload and configure models over gRPC and HTTP, as with TensorFlow Serving. Unset it
    where clients are not trusted with that."""
    reflection: bool = False
    """Whether gRPC clients may ask which services and messages there are (server reflection). Set it to explore the
    server with grpcurl and the like."""
    metrics: bool = True
    """Whether requests and batches are counted and timed. Unset it to see what that costs; there is no other reason."""
    tfs_metrics: bool = False
    """Count under TensorFlow Serving's names too, for dashboards that know those; answered at monitoring_path."""
    monitoring_path: str | None = "/monitoring/prometheus/metrics"
    """Path that answers all metrics in Prometheus' text format 0.0.4, "" for none. Set it to where your Prometheus
    looks; /metrics answers them as OpenMetrics."""

    def __post_init__(self) -> None:
        for name in ("grpc", "http", "grpc_socket", "tls_cert", "tls_key", "tls_client_ca"):
            object.__setattr__(self, name, getattr(self, name) or None)
        for name in ("grpc", "http"):
            _check_address(name, getattr(self, name))
        _check_times(self)
        if self.grpc is None and self.http is None and self.grpc_socket is None:
            raise ConfigError("grpc and http are both off; the server would have nothing to listen on")
        object.__setattr__(self, "monitoring_path", self.monitoring_path or None)
        _check_path("monitoring_path", self.monitoring_path)
        self._check_tls()
        _positive(self, "io_threads", "max_message_bytes", "max_connections", "max_concurrent_streams")
        _positive(self, "client_timeout_s")
        _not_negative(self, "default_timeout_s")
        if self.rest_timeout_s is not None:
            _not_negative(self, "rest_timeout_s")
        if self.max_body_bytes_held < self.max_message_bytes:
            raise ConfigError(
                f"max_body_bytes_held must hold at least one message of max_message_bytes"
                f" ({self.max_message_bytes}); was {self.max_body_bytes_held}"
            )

    def _check_tls(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ConfigError("tls_cert and tls_key go together; only one of them is set")
        if self.tls_cert is None and (self.tls_client_ca is not None or self.tls_http):
            raise ConfigError("tls_client_ca and tls_http need tls_cert and tls_key")

    def to_json(self) -> str:
        """As the data plane takes it."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """How one endpoint forms batches. Names and meanings are TensorFlow Serving's where it has them."""

    enable_batching: bool = True
    """Run the rows of several requests together. Unset it for models that must see each request by itself: every
    request then runs alone whatever its rows, and only the bounds of the queue apply of what follows."""
    max_batch_size: int = 64
    """Most rows of one batch (and of one request, unless large requests are split). Raise it while rows per second
    still grow with it; lower it when one batch takes longer than your clients wait."""
    batch_timeout_micros: int = 0
    """How long the oldest row may wait for company once a worker is free. At 0 batches form while the worker is busy,
    which suits most models; raise it when larger batches are much cheaper per row and latency is to spare."""
    allowed_batch_sizes: tuple[int, ...] = ()
    """Sizes that the model may be run at, ascending; empty for any. Set it when each new size costs a compilation
    (XLA, TensorRT): batches are filled up to the next size and the surplus is dropped."""
    max_enqueued_batches: int = 64
    """Full batches' worth of rows (without enable_batching: of requests) that may wait at one signature before requests
    are refused. Lower it to refuse sooner instead of answering late."""
    max_enqueued_bytes: int = 256 * MIB
    """Queued bytes per version before requests are refused. Raise it for large rows."""
    pad_variable_length_inputs: bool = False
    """Pad dimensions that differ between requests, and crop the outputs back. Set it for models over sequences whose
    results do not depend on padding; without it only rows of one shape share a batch."""
    enable_large_batch_splitting: bool = True
    """Cut requests larger than a batch into slices. Unset it to refuse them instead."""
    max_execution_batch_size: int = 0
    """Most rows of one executed batch when splitting; 0 for max_batch_size. Set it as TensorFlow Serving users do, to
    accept requests of max_batch_size rows while running smaller batches."""
    isolate_failures: bool = True
    """Run the parts of a failed batch again to find the request at fault. Unset it when running a row twice harms."""
    retry_lost_batches: bool = False
    """Run a batch once more when its worker died under it. Set it when running a row twice does no harm."""
    max_run_s: float = 60.0
    """Longest run of one batch; a worker that takes longer is replaced. Set it well above the slowest batch."""

    def __post_init__(self) -> None:
        _check_times(self)
        _positive(self, "max_batch_size", "max_enqueued_batches", "max_enqueued_bytes", "max_run_s")
        _not_negative(self, "batch_timeout_micros", "max_execution_batch_size")
        if self.max_execution_batch_size > self.max_batch_size:
            raise ConfigError(
                f"max_execution_batch_size must be at most max_batch_size ({self.max_batch_size});"
                f" was {self.max_execution_batch_size}"
            )
        if self.max_execution_batch_size not in {0, self.max_batch_size} and not self.enable_large_batch_splitting:
            raise ConfigError("max_execution_batch_size needs enable_large_batch_splitting")
        self._check_allowed_sizes()

    def _check_allowed_sizes(self) -> None:
        sizes = self.allowed_batch_sizes
        if not sizes:
            return
        if sizes[0] < 1 or any(low >= high for low, high in pairwise(sizes)):
            raise ConfigError(f"allowed_batch_sizes must be positive and ascending; was {list(sizes)}")
        limit = "max_execution_batch_size" if self.max_execution_batch_size else "max_batch_size"
        if sizes[-1] != self.execution_size:
            raise ConfigError(
                f"Last entry in allowed_batch_sizes must match {limit};"
                f" last entry was {sizes[-1]}; expected {self.execution_size}"
            )

    @property
    def execution_size(self) -> int:
        """Most rows that one executed batch may hold."""
        return self.max_execution_batch_size or self.max_batch_size

    def to_json(self) -> str:
        """As the data plane takes it."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """One model: where its versions are, what runs them, how its batches form."""

    name: str
    """What clients call it."""
    path: str
    """A directory of versions (`<path>/<number>/...`), a model file, or `file.py:Class`. In a configuration file a
    relative path starts at the file's own directory."""
    backend: str = "auto"
    """What runs it: `tensorflow`, `openvino`, `onnxruntime`, `python`, or `auto`: by the files that there are, and the
    next that fits when one is not installed or does not load the model. Name one to have no other."""
    isolation: Literal["process", "thread"] = "process"
    """A process of its own, or a thread of the server for the smallest footprint. A thread shares the server's
    interpreter: a model that crashes takes the server with it, and one that hangs cannot be ended."""
    workers: int = 1
    """Batches of this model that run at once, each in a worker. Raise it for models that use one core each; the cores
    are shared out between the workers."""
    versions: int | Literal["all"] | tuple[int, ...] = 1
    """How many of the newest versions to serve, "all", or a list of version numbers. Set it to 2 to go back fast."""
    labels: dict[str, int] = field(default_factory=dict)
    """Names for versions, `{stable = 3, canary = 4}`, that clients may ask for in place of a number. A label moves
    when its new version serves."""
    load_policy: Literal["availability", "resource"] = "availability"
    """Whether a new version loads beside the old one, or only after it has gone. Set it to "resource" where memory
    does not hold two; there is then a gap in which nothing serves."""
    batching: BatchSettings = field(default_factory=BatchSettings)
    """See BatchSettings."""
    options: dict[str, Any] = field(default_factory=dict)
    """What the backend takes, for instance `providers` of onnxruntime; keyword arguments of a Python model's class."""
    warmup: bool = True
    """Run a version before it is offered: the requests in its `assets.extra/tf_serving_warmup_requests`, and, but for
    models in Python, a batch of every size that batches may have. Unset it when loading must be fast."""
    warmup_iterations: int = 1
    """How often each request of that file is run. Raise it for models that compile only at a later run."""
    warmup_limit_s: float = 5.0
    """How long batches of further sizes are tried; 0 to run the file's requests only. Raise it for models that compile
    for each size."""
    load_timeout_s: float = 300.0
    """A worker that is not ready after this long is ended. Raise it for models that compile or download at start."""
    load_attempts: int = 3
    """Loads of a version that may fail in a row before its status says END with the error. It is tried again all the
    same, at once when its files change. Lower it to hear of trouble sooner."""
    load_retry_max_s: float = 60.0
    """The longest wait between such tries; the first ones come after 1, 2, 4 … seconds. Lower it when what a load waits
    for is mended without a change of its files."""
    poll_interval_s: float = 1.0
    """How often the directory is looked at for new versions; 0 to look once, at the start."""
    restart_delay_s: float = 0.5
    """Wait before a lost worker is started again; doubled after each further loss."""
    restart_delay_max_s: float = 30.0
    """The longest such wait."""
    stop_timeout_s: float = 10.0
    """Time a worker has to end by itself when its version is retired, before it is killed."""

    def __post_init__(self) -> None:
        if not self.name.isprintable() or not self.name.strip():
            raise ConfigError(f"name must be of printable characters, and not empty; was {self.name!r}")
        if not self.path:
            raise ConfigError("path must not be empty")
        _check_times(self)
        _positive(self, "workers", "load_timeout_s", "load_attempts", "restart_delay_s", "stop_timeout_s")
        _positive(self, "load_retry_max_s", "warmup_iterations")
        _not_negative(self, "poll_interval_s", "warmup_limit_s")
        if self.restart_delay_max_s < self.restart_delay_s:
            raise ConfigError(f"restart_delay_max_s must be at least restart_delay_s; was {self.restart_delay_max_s}")
        self._check_versions()
        for label, version in self.labels.items():
            if not label or not _is_version(version):
                raise ConfigError(f"labels must give each name the number of a version; was {label!r} = {version!r}")

    def _check_versions(self) -> None:
        versions = self.versions
        if isinstance(versions, int) and versions < 1:
            raise ConfigError(f"versions must be positive; was {versions}")
        if isinstance(versions, tuple) and (not versions or min(versions) < 0):
            raise ConfigError(f"versions must name at least one version, none negative; was {list(versions)}")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that one server is started with."""

    server: ServerSettings = field(default_factory=ServerSettings)
    """See ServerSettings."""
    models: tuple[ModelConfig, ...] = ()
    """See ModelConfig; names are unique."""
    drain_delay_s: float = 0.0
    """Time between readiness going off and the ports closing after SIGTERM, in which requests are served as ever. Set
    it behind a load balancer, to twice the interval of its health checks: it sends requests until it has noticed."""
    drain_timeout_s: float = 30.0
    """Time that requests under way have to end after SIGTERM. Keep it below your orchestrator's grace period."""
    require_all_models: bool = False
    """End with status 1 when a model cannot be served at the start. Set it where a deployment shall stop rather than
    serve in part; otherwise the others serve, and what failed is tried again."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """The least severe messages that are logged."""

    def __post_init__(self) -> None:
        _check_times(self)
        _not_negative(self, "drain_delay_s", "drain_timeout_s")
        names = [model.name for model in self.models]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(f"model {twice[0]} is given twice")


def load(path: Path | None, overrides: Mapping[str, Any] | None = None) -> Config:
    """The configuration in the TOML file at `path` (none: defaults) with `overrides` on top.

    `overrides` has the file's own form, e.g. `{"server": {"grpc": "[::]:9000"}, "models": {"m": {"path": "x.onnx"}}}`.
    What is None in it is not given. Raises ConfigError naming the source, the key, what was expected and what was got.
    """
    sources = [] if path is None else [records.Source(_read_toml(path), str(path), path.parent)]
    sources.append(records.Source(_given(overrides or {}), COMMAND_LINE))
    server = records.read(ServerSettings, records.inner(sources, "server"))
    names = dict.fromkeys(name for source in records.inner(sources, "models") for name in source.table)
    models = tuple(_model(records.inner(sources, "models", name), name) for name in names)
    return records.read(Config, sources, server=server, models=models)


def _model(sources: list[records.Source], name: str) -> ModelConfig:
    batching = records.read(BatchSettings, records.inner(sources, "batching"))
    rooted = [source.rooted("path") for source in sources]
    return records.read(ModelConfig, rooted, name=name, batching=batching)


def _given(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _given(value) if isinstance(value, Mapping) else value
        for key, value in overrides.items()
        if value is not None
    }


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not TOML: {error}") from None


def _check_address(name: str, address: str | None) -> None:
    if address is None:
        return
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdecimal() and int(port) <= 65535):
        raise ConfigError(f"{name} must be HOST:PORT with a port of at most 65535; was {address!r}")


def _is_version(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_path(name: str, path: str | None) -> None:
    if path is not None and (not re.fullmatch(r"/[^\s?#]+", path) or path.startswith("/v1/")):
        raise ConfigError(f"{name} must be a path like /monitoring/metrics, and not below /v1/; was {path!r}")


def _check_times(record: ServerSettings | BatchSettings | ModelConfig | Config) -> None:
    """One rule for every setting that is a time: a number, and at most a week."""
    units = {"s": 1, "micros": 1_000_000}
    for name in (one.name for one in fields(record)):
        per_second = units.get(name.rpartition("_")[2])
        value = getattr(record, name)
        if per_second is None or value is None:
            continue
        most = LONGEST_S * per_second
        if not math.isfinite(value) or value > most:
            raise ConfigError(f"{name} must be a number of at most {most} (a week); was {value}")


def _positive(record: object, *names: str) -> None:
    for name in names:
        if getattr(record, name) <= 0:
            raise ConfigError(f"{name} must be positive; was {getattr(record, name)}")


def _not_negative(record: object, *names: str) -> None:
    for name in names:
        if getattr(record, name) < 0:
            raise ConfigError(f"{name} must be non-negative; was {getattr(record, name)}")

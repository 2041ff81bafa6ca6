"""`poise serve`: from a line in a shell to a running server."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from poise import config as configuration
from poise.backends import select
from poise.cli.summary import describe_model
from poise.config import Config, ModelConfig, ServerSettings
from poise.cpu import cpu_budget
from poise.errors import ConfigError
from poise.registry.control import Control
from poise.registry.source import split_location
from poise.workers.child import LOG_FORMAT

logger = logging.getLogger("poise.serve")

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
#: Options that are settings of a model: they go to every model named on the line.
MODEL_OPTIONS = ("backend", "workers", "isolation", "load_timeout_s")
BATCHING_OPTIONS = ("max_batch_size", "batch_timeout_micros", "allowed_batch_sizes")
NO_MODEL = """no model given. Name one, for instance:

  poise serve model.onnx                   a file, served as "model"
  poise serve ranker=ranker.py:Ranker      a Python class, served as "ranker"
  poise serve resnet=/models/resnet        a directory of versions: /models/resnet/1, /models/resnet/2, …

or give a file that does, with --config"""


def parse_sizes(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """Whole numbers with commas between them."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"expected whole numbers with commas between, e.g. 1,8,64; got {text!r}") from None


@click.command()
@click.argument("models", nargs=-1, metavar="[NAME=]PATH...")
@click.option("--config", "file", type=click.Path(path_type=Path), help="Settings in TOML; options here override it.")
@click.option("--grpc", metavar="HOST:PORT", help='gRPC listener, port 0 for a free one, "" for none. [0.0.0.0:8500]')
@click.option("--http", metavar="HOST:PORT", help="HTTP listener: REST, /metrics, /readyz. [0.0.0.0:8501]")
@click.option("--backend", metavar="NAME", help=f"What runs the models: auto, {', '.join(select.BACKENDS)}. [auto]")
@click.option("--max-batch-size", type=int, help="Most rows of one batch. [64]")
@click.option("--batch-timeout-micros", type=int, help="How long a row may wait for company. [0]")
@click.option(
    "--allowed-batch-sizes", metavar="N,N,…", callback=parse_sizes, help="Sizes that the model may be run at. [any]"
)
@click.option("--workers", type=int, help="Batches of one model that run at once. [1]")
@click.option("--isolation", type=click.Choice(["process", "thread"]), help="What a worker is. [process]")
@click.option("--load-timeout-s", type=float, help="Longest time a model may take to load. [300]")
@click.option("--drain-delay-s", type=float, help="Time after SIGTERM before the ports close. [0]")
@click.option("--drain-timeout-s", type=float, help="Time for requests under way after SIGTERM. [30]")
@click.option(
    "--log-level", type=click.Choice(LEVELS, case_sensitive=False), help="Least severe messages logged. [INFO]"
)
@click.option("--allow-debug-build", is_flag=True, help="Serve with a slow build meant for debugging.")
def serve(models: tuple[str, ...], file: Path | None, *, allow_debug_build: bool, **options: Any) -> None:
    """Serve models over gRPC (TensorFlow Serving's API) and HTTP until SIGTERM or Ctrl-C.

    PATH is a model file, a Python class (FILE.py:CLASS), a directory that holds a model, or a directory of versions
    (PATH/1, PATH/2, ...): of these the newest is served, and a newer one is taken up when it appears. NAME is what
    clients call the model; without it the file, class or directory lends its own.

    \b
    Examples:
      poise serve model.onnx
      poise serve ranker=ranker.py:Ranker --max-batch-size 128
      poise serve resnet=/models/resnet bert=/models/bert --workers 2
      poise serve --config poise.toml --grpc 127.0.0.1:9000

    \b
    Then:
      curl localhost:8501/v1/models/NAME
      curl localhost:8501/v1/models/NAME:predict -d '{"instances": [...]}'

    Options about batching, backend and workers apply to every model named on the line. SIGTERM drains: readiness goes
    off, requests under way are answered; a second signal exits at once. SIGHUP reads the models in the file again.
    """  # noqa: D301  (\b is a control character to click)
    try:
        config = read_config(models, file, options)
        refuse_debug_build(allowed=allow_debug_build)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    logging.basicConfig(level=config.log_level, format=LOG_FORMAT, stream=sys.stderr)
    again = None if file is None else lambda: reread(config, read_config(models, file, options))
    sys.exit(run(config, Control(reread=again)))


def reread(before: Config, after: Config) -> tuple[ModelConfig, ...]:
    """The models of a configuration that was read again; the rest of it must wait."""
    if replace(before, models=()) != replace(after, models=()):
        logger.warning("settings other than those of models have changed: they apply when the server starts again")
    return after.models


def read_config(models: Iterable[str], file: Path | None, options: dict[str, Any]) -> Config:
    """Defaults, overridden by the file, overridden by the line. Raises ConfigError that says how to mend it."""
    named = dict(parse_model(model) for model in models)
    per_model = {key: options[key] for key in MODEL_OPTIONS if options.get(key) is not None}
    batching = {key: options[key] for key in BATCHING_OPTIONS if options.get(key) is not None}
    if (per_model or batching) and not named:
        given = ", ".join("--" + key.replace("_", "-") for key in (*per_model, *batching))
        raise ConfigError(
            f"{given}: applies to models named on the line, and there is none; set it in the file instead"
        )
    overrides = {
        "server": {"grpc": options.get("grpc"), "http": options.get("http")},
        "models": {name: {"path": path, **per_model, "batching": batching} for name, path in named.items()},
        "drain_delay_s": options.get("drain_delay_s"),
        "drain_timeout_s": options.get("drain_timeout_s"),
        "log_level": options.get("log_level"),
    }
    config = configuration.load(file, overrides)
    if not config.models:
        raise ConfigError(NO_MODEL)
    for model in config.models:
        check_backend(model.name, model.backend)
    return config


def parse_model(text: str) -> tuple[str, str]:
    """`NAME=PATH`, or a PATH that lends its own name, into both. Raises ConfigError when there is nothing there."""
    name, equals, path = text.partition("=")
    if not equals or "/" in name:  # directories may have = in their names
        path, name = text, default_name(text)
    if not path:
        raise ConfigError(f"{text}: the path is missing; expected NAME=PATH")
    path = str(Path(path).expanduser())  # a shell leaves the ~ of NAME=~/PATH as it is
    there, _ = split_location(path)
    if not there.exists():
        hint = "; expected NAME=PATH, with a file, FILE.py:CLASS or directory as PATH"
        raise ConfigError(f"model {name}: there is nothing at {there}{hint}")
    return name, path


def default_name(path: str) -> str:
    """What a path without a name is called: by its class, else its file or directory, in lower case."""
    there, cls = split_location(path)
    there = there.resolve() if there.name in {"", "..", "."} else there
    return (cls or (there.name if there.is_dir() else there.stem)).lower()


def check_backend(model: str, backend: str) -> None:
    try:
        select.check_name(backend)
    except ConfigError as error:
        raise ConfigError(f"model {model}: {error}") from None


def refuse_debug_build(*, allowed: bool) -> None:
    """A debug build is several times slower: nobody shall serve, or measure, one by accident."""
    try:
        from poise import _core  # noqa: PLC0415  (that it may be missing is the point)
    except ImportError as error:
        raise ConfigError(f"the compiled part of Poise cannot be loaded ({error}); build it with: make build") from None
    if _core.build_profile != "release" and not allowed:
        raise ConfigError(
            f"this is a {_core.build_profile} build, which is slow; build a release with: make build"
            " (or insist with --allow-debug-build)"
        )


def run(config: Config, control: Control | None = None) -> int:
    """Serve until told to stop. Raises ClickException when an address cannot be had."""
    from poise.server import PoiseServer  # noqa: PLC0415  (what is refused before needs none of it)

    cpus = cpu_budget()
    logger.info("%d cores to use, %d of them for I/O threads", cpus, config.server.io_threads)
    for model in config.models:
        logger.info("%s", describe_model(model, cpus))
    server = PoiseServer(config, control=control)
    try:
        return server.run()
    except OSError as error:
        raise click.ClickException(explain_listen_error(config.server, error)) from error


def explain_listen_error(settings: ServerSettings, error: OSError) -> str:
    """The data plane names the address; which option sets it, and what to do, is added here."""
    for option in ("grpc", "http"):
        address = getattr(settings, option)
        if address and address in str(error):
            return (
                f"{error}; stop what listens there, or choose another address with --{option} HOST:PORT"
                " (port 0 takes a free one)"
            )
    return f"cannot serve: {error}"

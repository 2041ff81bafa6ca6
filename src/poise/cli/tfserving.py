"""`poise tfserving`: the command line of `tensorflow_model_server`, with the flags and files that it has."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from importlib.metadata import version

import click

from poise.cli import tfs_config, tfs_flags
from poise.cli.serve import refuse_debug_build
from poise.cli.summary import describe_model
from poise.cli.tfs_config import Plan
from poise.cpu import cpu_budget
from poise.errors import ConfigError
from poise.formats import batching_parameters
from poise.registry.calls import ServerConfigs
from poise.registry.control import Control
from poise.registry.registry import configured_batching
from poise.workers.child import LOG_FORMAT

logger = logging.getLogger("poise.tfserving")

HELP = {"--help", "-help", "-h", "--help=true"}


class FlagCommand(click.Command):
    """A command that reads its line by TensorFlow Serving's rules, which are not click's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if HELP.intersection(args):
            click.echo(self.get_help(ctx))
            ctx.exit()
        ctx.params["arguments"] = tuple(args)
        return []

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's form)
        return ["[--FLAG=VALUE]..."]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for title, flags in tfs_flags.GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"--{flag.name}", _described(flag)) for flag in flags])


def _described(flag: tfs_flags.Flag) -> str:
    text = f"No effect: {flag.unused}." if flag.unused else flag.help
    return f"{text} [{tfs_flags.shown_default(flag)}]"


@click.command(cls=FlagCommand, add_help_option=False)
def tfserving(arguments: tuple[str, ...]) -> None:
    """Serve as tensorflow_model_server does: with its flags and its files.

    \b
    Examples:
      poise tfserving --port=8500 --rest_api_port=8501 --model_name=m --model_base_path=/models/m
      poise tfserving --rest_api_port=8501 --model_config_file=models.config \\
        --enable_batching --batching_parameters_file=batching.txt
      poise tfserving --check --model_config_file=models.config

    A flag is written --name=value or --name value; true and false ones also --name alone. What is wrong in a flag or a
    file, or unknown, is said before anything starts. The ports open at once; /readyz and gRPC health tell when every
    model serves.
    """  # noqa: D301  (\b is a control character to click)
    try:
        line = tfs_flags.parse(arguments)
        if line["version"]:
            click.echo(f"Poise {version('poise-serving')}, in place of TensorFlow ModelServer")
            return
        plan = tfs_config.plan(line)
        if line["check"]:
            click.echo("\n".join(summary(plan)))
            return
        refuse_debug_build(allowed=line["allow_debug_build"])
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    logging.basicConfig(level=plan.config.log_level, format=LOG_FORMAT, stream=sys.stderr)
    for text in summary(plan):
        logger.info("%s", text)
    sys.exit(run(plan))


def summary(plan: Plan) -> Iterator[str]:
    """What is served, where, on how many cores, and what had no effect."""
    server, cpus = plan.config.server, cpu_budget()
    yield f"gRPC {_where(server.grpc)}, HTTP {_where(server.http)}"
    yield f"{cpus} cores to use, {server.io_threads} of them for I/O threads"
    batching_file = batching_parameters.PER_MODEL_FILE if plan.per_model_batching else None
    for model in plan.config.models:
        yield describe_model(model, cpus, batching_file)
    if plan.models_file:
        again = f"every {plan.poll_s:g} s and at SIGHUP" if plan.poll_s else "at SIGHUP"
        yield f"{plan.models_file.path} is read again {again}"
    yield from (f"note: {note}" for note in plan.notes)


def _where(address: str | None) -> str:
    return f"at {address}" if address else "off"


def run(plan: Plan) -> int:
    """Serve until told to stop. Raises ClickException when an address cannot be had."""
    from poise.server import PoiseServer  # noqa: PLC0415  (what is refused before needs none of it)

    server = PoiseServer(plan.config, control=control(plan))
    try:
        return server.run()
    except OSError as error:
        raise click.ClickException(f"cannot serve: {error}; see --port, --rest_api_port and --bind_address") from error


def control(plan: Plan) -> Control:
    """How what is served may change later."""
    return Control(
        formats=ServerConfigs(plan.defaults),
        reread=plan.models_file.read if plan.models_file else None,
        reread_every_s=plan.poll_s,
        batching=batching_parameters.for_version if plan.per_model_batching else configured_batching,
        new_labels_may_wait=plan.new_labels_may_wait,
    )

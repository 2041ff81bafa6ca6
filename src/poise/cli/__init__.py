"""The command line. A command's module is imported when it is run: `poise --help` costs nothing."""

from __future__ import annotations

import difflib
import importlib
from dataclasses import dataclass

import click


@dataclass(frozen=True)
class Entry:
    """Where a command lives."""

    module: str
    name: str
    help: str


COMMANDS = {
    "serve": Entry("poise.cli.serve", "serve", "Serve models over gRPC and HTTP."),
    "models": Entry("poise.cli.models", "models", "List what a server serves."),
    "load": Entry("poise.cli.models", "load", "Let a server load a model."),
    "unload": Entry("poise.cli.models", "unload", "Let a server unload a model."),
    "reload": Entry("poise.cli.models", "reload", "Let a server look at a model's versions now."),
    "config": Entry("poise.cli.models", "config", "Show what a server is configured to serve, or change it."),
    "tfserving": Entry(
        "poise.cli.tfserving", "tfserving", "Serve as tensorflow_model_server does, with its flags and files."
    ),
    "record": Entry("poise.cli.record", "record", "Record a warm-up file from a server's traffic."),
    "predict": Entry("poise.cli.predict", "predict", "Ask a served model."),
    "bench": Entry("poise.cli.bench", "bench", "Measure a served model under load."),
}


class LazyGroup(click.Group):
    """Commands by name, imported when used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's form)
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            if near := difflib.get_close_matches(cmd_name, COMMANDS, n=1):
                ctx.fail(f"No such command {cmd_name!r}. Did you mean {near[0]!r}?")
            return None
        command = getattr(importlib.import_module(entry.module), entry.name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.module}:{entry.name} is no command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="poise-serving", prog_name="poise")
def main() -> None:
    """Poise serves models: QPS, latency and throughput in balance.

    \b
    Try:
      poise serve model.onnx
      poise serve --help
    """  # noqa: D301  (\b is a control character to click)

"""`poise models`, `load`, `unload`, `reload`, `config`: what a running server serves, and changes to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from poise.cli.usage import UsageCommand
from poise.client import CallError
from poise.client.admin import Admin

DEFAULT_TARGET = "http://127.0.0.1:8501"


def http_target(_context: click.Context, _option: click.Parameter, target: str) -> str:
    """These calls go to the HTTP port."""
    if target.startswith("http://"):
        return target
    raise click.BadParameter(f"expected http://HOST:PORT, got {target!r}")


def of_a_server(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which server is meant."""
    timeout = click.option(
        "--timeout", "timeout_s", type=float, default=120.0, show_default=True, help="Limit of the call in seconds."
    )
    target = click.option(
        "--target", default=DEFAULT_TARGET, show_default=True, callback=http_target, help="The server's HTTP address."
    )
    return target(timeout(command))


as_json_option = click.option("--json", "as_json", is_flag=True, help="Print the server's answer as JSON.")


@contextmanager
def explained() -> Iterator[None]:
    """What the server refuses is told, and ends the command with status 1."""
    try:
        yield
    except CallError as error:
        raise click.ClickException(str(error)) from None


@click.command(cls=UsageCommand)
@of_a_server
@as_json_option
def models(target: str, timeout_s: float, *, as_json: bool) -> None:
    """List the models of a server, with their versions, states and labels.

    \b
    Try:
      poise models
      poise models --target http://10.0.0.7:8501 --json
    """  # noqa: D301  (\b is a control character to click)
    with explained():
        found = Admin(target, timeout_s).models()
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        Console().print(table(found))


@click.command(cls=UsageCommand)
@click.argument("model")
@click.option("--path", type=click.Path(path_type=Path), help="Its base path: a directory of versions.")
@click.option("--platform", help="What runs it: tensorflow, onnxruntime, openvino, python or auto. [by its files]")
@of_a_server
@as_json_option
def load(model: str, path: Path | None, platform: str | None, target: str, **options: Any) -> None:
    """Let a server load MODEL from a path, or load again what failed, and wait until it serves.

    A model that is served already from another path is loaded beside the old one, which goes when the new one serves.

    \b
    Try:
      poise load resnet --path /models/resnet
      poise load resnet
    """  # noqa: D301  (\b is a control character to click)
    said = {"base_path": path and str(path.absolute()), "model_platform": platform}
    config = {field: value for field, value in said.items() if value}
    with explained():
        answer = Admin(target, options["timeout_s"]).load(model, config)
    show_versions(model, answer, as_json=options["as_json"])


@click.command(cls=UsageCommand)
@click.argument("model")
@of_a_server
def unload(model: str, target: str, timeout_s: float) -> None:
    """Let a server unload MODEL, and wait until it has. Requests under way are answered first.

    \b
    Try:
      poise unload resnet
    """  # noqa: D301  (\b is a control character to click)
    with explained():
        Admin(target, timeout_s).unload(model)
    click.echo(f"{model} is unloaded")


@click.command(cls=UsageCommand)
@click.argument("model", required=False)
@of_a_server
@as_json_option
def reload(model: str | None, target: str, timeout_s: float, *, as_json: bool) -> None:
    """Let a server look for new versions of MODEL now, of every model without one, and try again those that failed.

    \b
    Try:
      poise reload resnet
      poise reload
    """  # noqa: D301  (\b is a control character to click)
    admin = Admin(target, timeout_s)
    with explained():
        if model:
            show_versions(model, admin.reload(model), as_json=as_json)
            return
        names = admin.configured()
    reload_all(admin, names, as_json=as_json)


def reload_all(admin: Admin, names: list[str], *, as_json: bool) -> None:
    """One after the other; one that fails keeps none of the others from it."""
    answers, failures = {}, []
    for name in names:
        try:
            answers[name] = admin.reload(name)
        except CallError as error:
            failures.append(f"{name}: {error}")
    if as_json:
        click.echo(json.dumps(answers, indent=2))
    else:
        for name, answer in answers.items():
            show_versions(name, answer, as_json=False)
    if failures:
        raise click.ClickException("\n".join(failures))


@click.command(cls=UsageCommand)
@click.argument("file", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@of_a_server
def config(file: Path | None, target: str, timeout_s: float) -> None:
    """Show what a server is configured to serve, or replace that by what FILE says.

    FILE is a models.config of TensorFlow Serving, as text of protobuf or as JSON. What is printed can be given back.

    \b
    Try:
      poise config
      poise config models.config
    """  # noqa: D301  (\b is a control character to click)
    admin = Admin(target, timeout_s)
    with explained():
        answer = admin.config()["config"] if file is None else admin.apply(file.read_bytes())
    click.echo(json.dumps(answer, indent=2))


def table(found: list[dict[str, Any]]) -> Table:
    """One line for each version."""
    made = Table("model", "version", "state", "labels", "message", box=None)
    for model in found:
        for status in model["model_version_status"]:
            version = status["version"]
            labels = [name for name, number in model["version_labels"].items() if str(number) == version]
            message = status["status"]["error_message"]
            made.add_row(model["name"], version, status["state"], ", ".join(sorted(labels)), message)
    return made


def show_versions(model: str, answer: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    for status in answer["model_version_status"]:
        click.echo(f"{model} version {status['version']}: {status['state']}")

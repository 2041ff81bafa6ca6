"""`poise bench`: load on a served model, and one table of what it can do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from poise import _core
from poise.bench.payload import make_bodies
from poise.bench.plan import BenchPlan, default_connections
from poise.bench.report import Report
from poise.client import CallError, ModelAddress, fetch_signatures, pick_signature

DURATION_S = 10.0
"""How long a load test measures when neither a duration nor a number of requests is given."""


class WrongUse(click.UsageError):
    """Wrong use of a command, with exit status 1."""

    exit_code = 1


class UsageCommand(click.Command):
    """A command whose wrong use exits with 1, like everything else that goes wrong in it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise WrongUse(error.format_message(), ctx) from None


def check_target(_context: click.Context, _option: click.Parameter, target: str) -> str:
    """A target has a scheme that is known; the rest is the data plane's to check."""
    if target.startswith(("grpc://", "http://")):
        return target
    raise click.BadParameter(f"expected grpc://HOST:PORT or http://HOST:PORT, got {target!r}")


def parse_shapes(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
    """`name=3,224,224` → {"name": (3, 224, 224)}."""
    shapes = {}
    for text in texts:
        name, _, dims = text.rpartition("=")
        try:
            shape = tuple(int(dim) for dim in dims.split(",") if dim)
        except ValueError:
            shape = (-1,)
        if not name or any(dim < 0 for dim in shape):
            raise click.BadParameter(f"expected NAME=DIM,DIM,… in whole numbers, e.g. image=224,224,3; got {text!r}")
        shapes[name] = shape
    return shapes


@click.command(cls=UsageCommand)
@click.argument("target", callback=check_target)
@click.option("--model", required=True, metavar="NAME", help="The model to ask.")
@click.option("--version", type=int, metavar="N", help="Its version. [latest]")
@click.option("--signature", default="", metavar="NAME", help="Its signature. [serving_default]")
@click.option(
    "--concurrency", type=click.IntRange(1), default=32, show_default=True, help="Requests under way at once."
)
@click.option("--connections", type=click.IntRange(1), help="Connections they share. [grpc: up to 8; http: one each]")
@click.option("--duration", type=float, metavar="SECONDS", help="Length of the measurement. [10, or until --requests]")
@click.option("--requests", type=click.IntRange(1), metavar="N", help="End the measurement after so many requests.")
@click.option("--rows", type=click.IntRange(1), default=1, show_default=True, help="Rows of one request.")
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME=DIM,…",
    callback=parse_shapes,
    help="Shape of one row of an input, where the signature leaves it open. [1 for each open dimension]",
)
@click.option("--warmup", type=float, default=2.0, show_default=True, metavar="SECONDS", help="Load before measuring.")
@click.option("--timeout", type=float, default=10.0, show_default=True, metavar="SECONDS", help="Limit of one request.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the random inputs.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the result there.")
def bench(target: str, model: str, json_file: Path | None, **options: Any) -> None:
    """Measure a served model under load, with random inputs that fit its signature.

    TARGET is grpc://HOST:PORT or http://HOST:PORT. The load is a closed loop: each of --concurrency clients sends its
    next request when its last one was answered. A percentile that the number of requests cannot support is not shown.

    \b
    Try:
      poise bench grpc://localhost:8500 --model ranker
      poise bench http://localhost:8501 --model ranker --concurrency 64 --duration 30 --json result.json
    """  # noqa: D301  (\b is a control character to click)
    try:
        report = measure(ModelAddress(target, model, options["version"]), options)
    except (CallError, ValueError, OSError) as error:
        raise click.ClickException(str(error)) from None
    if json_file:
        write(json_file, report)
    Console().print(report.to_table(f"{model} at {target}, {options['concurrency']} at once"))
    if not report.answered:
        raise click.ClickException(f"not one request was answered: {json.dumps(report.errors)}")


def measure(address: ModelAddress, options: dict[str, Any]) -> Report:
    """Ask for the signature, send load, and report."""
    rows = options["rows"]
    signature = pick_signature(fetch_signatures(address, options["timeout"]), options["signature"])
    if rows > 1 and not signature.batched:
        raise ValueError(f"signature {signature.name} does not count rows: leave --rows out")
    bodies = make_bodies(address, signature, rows, options["shapes"], options["seed"])
    plan = make_plan(address, options)
    return Report.from_raw(json.loads(_core.run_load(plan.to_json(), bodies)), rows)


def make_plan(address: ModelAddress, options: dict[str, Any]) -> BenchPlan:
    """The plan that the options ask for. Raises ValueError when they contradict each other."""
    concurrency, connections = options["concurrency"], options["connections"]
    duration_s, requests = options["duration"], options["requests"]
    if connections is None:
        connections = default_connections(address, concurrency)
    elif connections > concurrency:
        raise ValueError("--connections beyond --concurrency would idle: raise --concurrency, or leave it out")
    elif not address.is_grpc and connections < concurrency:
        raise ValueError("over HTTP/1.1 each client needs its own connection: leave --connections out, or use grpc://")
    if duration_s is None and requests is None:
        duration_s = DURATION_S
    return BenchPlan(
        address=address,
        concurrency=concurrency,
        connections=connections,
        warmup_s=options["warmup"],
        duration_s=duration_s,
        requests=requests,
        timeout_s=options["timeout"],
    )


def write(file: Path, report: Report) -> None:
    try:
        file.write_text(report.to_json() + "\n")
    except OSError as error:
        raise click.ClickException(f"cannot write the result: {error}") from None

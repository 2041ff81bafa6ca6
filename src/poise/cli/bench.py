"""`poise bench`: load on a server, and what it can do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from poise.bench import report
from poise.bench.load import Load
from poise.bench.progress import Progress
from poise.bench.session import Method, measure
from poise.bench.table import show_point
from poise.bench.traffic import Traffic
from poise.bench.verdict import Exit
from poise.cli.bench_load import load_options, make_loads, make_method
from poise.cli.bench_payload import make_traffic, payload_options
from poise.cli.usage import UsageCommand, check_target
from poise.client import CallError

Json = dict[str, Any]


@click.command(cls=UsageCommand)
@click.argument("target", callback=check_target)
@load_options
@payload_options
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the result there.")
@click.pass_context
def bench(context: click.Context, /, target: str, json_file: Path | None, **options: Any) -> None:
    """Measure a server under load: Poise, TensorFlow Serving, Triton, KServe, or any URL.

    TARGET is grpc://HOST:PORT or http://HOST:PORT, with TLS grpcs:// or https://. With --model, requests fit the
    model's signature; without it they are what --body says. Latency counts from the moment at which a request was due.

    \b
    Try:
      poise bench grpc://localhost:8500 --model ranker
      poise bench http://localhost:8501 --model ranker --rate 500 --slo p99=50ms --json result.json

    Exit status: 0, 1 for wrong use, 2 when an SLO is not met, 3 when the measurement is not valid, 4 when the server
    was not stable.
    """  # noqa: D301  (\b is a control character to click)
    console = Console()
    try:
        loads, method = make_loads(options), make_method(options)
        traffic = make_traffic(target, options)
        results = [run_point(console, traffic, load, method) for load in loads]
    except (CallError, ValueError, OSError) as error:
        raise click.ClickException(str(error)) from None
    if json_file:
        write(json_file, results[0])
    context.exit(max(exit_code(result) for result in results))


def run_point(console: Console, traffic: Traffic, load: Load, method: Method) -> Json:
    """Measure one point, and show it."""
    with Progress(Console(stderr=True)) as progress:
        measurement = measure(traffic, load, method, progress.show)
    result = report.point(measurement)
    show_point(console, result, f"{traffic.model or traffic.requests[0].path} at {traffic.url}, {load}")
    return result


def exit_code(result: Json) -> int:
    """Of one point: an invalid measurement says nothing about its SLO."""
    status = result["verdict"]["status"]
    if status in {"INVALID", "SATURATED"}:
        return Exit.SLO if status == "SATURATED" and result["slo"] else Exit.INVALID
    if report.slo_breached(result):
        return Exit.SLO
    return Exit.UNSTABLE if status == "UNSTABLE" else Exit.OK


def write(file: Path, result: Json) -> None:
    try:
        file.write_text(json.dumps(result, indent=2) + "\n")
    except OSError as error:
        raise click.ClickException(f"cannot write the result: {error}") from None

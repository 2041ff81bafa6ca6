"""`make demo`: serve two models, name some real files through the API, measure, and stay up to be tried."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from poise.demo.child import Address, serving, write_config
from poise.demo.files import Answer, classify, sample_files
from poise.demo.measure import Load, Measurement, common_batches, measure
from poise.demo.models import DemoError, prepare

LATENCIES = ("mean", "p50", "p90", "p95", "p99", "max")


@click.command(context_settings={"show_default": True})
@click.option("--grpc-port", default=8500, help="Port of the gRPC API.")
@click.option("--http-port", default=8501, help="Port of the REST API.")
@click.option("--duration", default=5, help="Seconds that each load test lasts.")
@click.option("--cache", type=click.Path(path_type=Path), default=Path(".cache"), help="Where models are kept.")
@click.option("--check", is_flag=True, help="Stop after the table instead of staying up.")
def main(grpc_port: int, http_port: int, duration: int, cache: Path, *, check: bool) -> None:
    """Serve two models, classify real files, run a short load test and print what was measured."""
    # A shell that starts jobs in the background has them ignore Ctrl-C; this one promises to end by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGHUP, leave)
    console = Console()
    address = Address(grpc_port, http_port)
    loads = [Load("filetype", 8, duration), Load("ranker", 64, duration)]
    try:
        run(console, address, cache.resolve(), loads, stay=not check)
    except DemoError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        console.print("\nStopped.")


def leave(*_: object) -> NoReturn:
    """End through the same `finally` clauses as Ctrl-C, so that no server is left behind."""
    sys.exit(143)


def run(console: Console, address: Address, cache: Path, loads: list[Load], *, stay: bool) -> None:
    console.print("Preparing the two demo models …")
    models = prepare(cache, Path("requirements/demo.txt"))
    work = cache / "demo"
    write_config(work / "poise.toml", address, models.root)
    console.print(f"Starting: poise serve --config {shown(work / 'poise.toml')}")
    with serving(work / "poise.toml", address, work / "server.log") as server:
        files = sample_files(Path.cwd(), work / "files")
        console.print(answers_table(classify(files, models.filetype, address)))
        console.print(f"Load test: gRPC, {', '.join(f'{one.concurrency} clients on {one.model}' for one in loads)} …")
        found = [measure(one, address, work / f"bench-{one.model}.json") for one in loads]
        console.print(measurements_table(found))
        if stay:
            invite(console, address, work)
            wait_for(server)


def answers_table(answers: Iterable[Answer]) -> Table:
    table = plain_table("What these files are, by POST /v1/models/filetype:predict")
    for title in ("file", "label"):
        table.add_column(title, no_wrap=True)
    table.add_column("score", justify="right")
    table.add_column("which is")
    for one in answers:
        table.add_row(shown(one.path), one.label, f"{one.score:.3f}", one.description)
    return table


def measurements_table(found: Iterable[Measurement]) -> Table:
    """One line for each model; narrow enough for a terminal of 80 columns."""
    table = plain_table("Measured by clients on this same machine; times in ms")
    table.add_column("model")
    for title in ("QPS", "rows/s", *(key.upper() if key.startswith("p") else key for key in LATENCIES)):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("batches of rows", no_wrap=True)
    for one in found:
        rates = [f"{one.report[key]:,.0f}" for key in ("qps", "rows_per_s")]
        times = [ms(one.report["latency_ms"][key]) for key in LATENCIES]
        table.add_row(one.load.model, *rates, *times, "\n".join(common_batches(one.batches)))
    return table


def plain_table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))


def ms(value: float | None) -> str:
    """A percentile that the sample is too small for is null in the report, and a dash here."""
    return "-" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def invite(console: Console, address: Address, work: Path) -> None:
    """Print lines that work when pasted into another terminal."""
    body = work / "try.json"
    body.write_text(json.dumps({"instances": [[round(0.01 * i, 2) for i in range(64)]]}))
    url = shlex.quote(f"http://{address.http}/v1/models/ranker:predict")
    console.print("Still serving. In another terminal, try:")
    console.print(f"  curl -d @{body} {url}", soft_wrap=True, highlight=False)
    console.print(f"  curl http://{address.http}/metrics", soft_wrap=True, highlight=False)
    console.print("Ctrl-C ends it.")


def wait_for(server: subprocess.Popen[bytes]) -> None:
    status = server.wait()
    raise DemoError(f"the server ended by itself, with status {status}; its log is .cache/demo/server.log")


def shown(path: Path) -> str:
    """Relative to where the reader is, when that is shorter."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


if __name__ == "__main__":
    main()

"""`poise bench`: load on a server, and what it can do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from poise.bench import modes, results, session
from poise.bench.cluster.coordinator import Cluster
from poise.bench.load import Load
from poise.bench.modes import Bench
from poise.bench.progress import Progress
from poise.bench.scenarios import SCENARIOS
from poise.bench.self_test import run_self_test
from poise.bench.table import show_comparison, show_point, show_runs, show_scenario, show_search, show_sweep
from poise.bench.traffic import Traffic
from poise.bench.verdict import Exit, Limits
from poise.cli.bench_group import BenchGroup
from poise.cli.bench_load import load_options, make_loads, make_method
from poise.cli.bench_payload import make_traffic, payload_options
from poise.cli.bench_token import make_worker, read_token
from poise.cli.usage import UsageCommand, check_target
from poise.client import CallError

Json = dict[str, Any]

FILE = click.Path(path_type=Path, dir_okay=False)
SAVED = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.group(cls=BenchGroup)
def bench() -> None:
    """Measure servers under load, and whether the measurements can be believed."""


@bench.command(cls=UsageCommand)
@click.argument("target", callback=check_target)
@load_options
@payload_options
@click.option("--against", callback=check_target, metavar="TARGET", help="Compare with a second server, run in turn.")
@click.option("--pairs", type=click.IntRange(1, 1000), default=8, show_default=True, help="Of runs, with --against.")
@click.option("--runs", type=click.IntRange(1, 1000), default=1, help="Repeat a point, and tell how runs differ. [1]")
@click.option("--scenario", type=click.Choice(list(SCENARIOS)), help="One of MLPerf's, unofficially.")
@click.option("--quick", is_flag=True, help="A scenario in a tenth of its time.")
@click.option(
    "--max-error", type=click.FloatRange(0, 100), default=0.1, show_default=True, help="Allowed errors, in %."
)
@click.option("--workers", metavar="HOST:PORT,…", help="Let `poise bench worker`s there send the load, each a part.")
@click.option("--worker-token-file", type=SAVED, help="The token that the workers ask for.")
@click.option("--no-stages", is_flag=True, help="Do not ask the server where the time of each request went.")
@click.option("--json", "json_file", type=FILE, help="Write the result there.")
@click.option("--report", "page", type=FILE, help="Write the result there as a page with charts.")
@click.pass_context
def run(context: click.Context, /, target: str, **options: Any) -> None:
    """Measure a server under load: Poise, TensorFlow Serving, Triton, KServe, or any URL.

    TARGET is grpc://HOST:PORT or http://HOST:PORT, with TLS grpcs:// or https://. With --model, requests fit the
    model's signature; without it they are what --body says. Latency counts from the moment at which a request was due.

    \b
    Try:
      poise bench grpc://localhost:8500 --model ranker
      poise bench http://localhost:8501 --model ranker --rate 500 --slo p99=50ms --report out.html
      poise bench grpc://localhost:8500 --model ranker --slo p99=50ms
      poise bench grpc://localhost:8500 --model ranker --rate 500 --against grpc://localhost:9500
    Other commands: poise bench compare, poise bench self-test, poise bench worker.

    Exit status: 0, 1 for wrong use, 2 when an SLO is not met, 3 when the measurement is not valid, 4 when the server
    was not stable.
    """  # noqa: D301  (\b is a control character to click)
    console = Console()
    try:
        for file in filter(None, (options["json_file"], options["page"])):
            results.check_writable(file)
        result = measure(console, target, options)
    except (CallError, ValueError, OSError) as error:
        raise click.ClickException(str(error)) from None
    save(result, options["json_file"], options["page"])
    context.exit(results.exit_code(result))


def measure(console: Console, target: str, options: Json) -> Json:
    """What the options ask for, measured and shown."""
    chosen = SCENARIOS.get(options["scenario"])
    if chosen:
        options |= {
            "rows": options["rows"] or chosen.rows,
            "duration": options["duration"] or chosen.seconds(options["quick"]),
        }
    loads, method = make_loads(options), make_method(options)
    traffic = traffic_for(target, options)
    with Progress(Console(stderr=True)) as progress:
        limits = Limits(error_share=options["max_error"] / 100)
        bench = Bench(method, limits, progress.show, progress.point, measure_by(options))
        if options["against"]:
            other = traffic_for(options["against"], options)
            result = modes.against(bench, (traffic, other), only(loads, "--against"), options["pairs"], options["seed"])
        elif chosen:
            result = modes.scenario(bench, traffic, chosen, options["seed"])
        elif not loads:
            result = modes.find_rate(bench, traffic, options["arrival"], options["seed"])
        elif options["runs"] > 1:
            result = modes.repeat(bench, traffic, only(loads, "--runs"), options["runs"])
        elif len(loads) > 1:
            result = modes.sweep(bench, traffic, loads)
        else:
            result = bench.point(traffic, loads[0])[1]
    show(console, result)
    return result


def traffic_for(target: str, options: Json) -> Traffic:
    """Requests to a server, which ask for the times of its stages if it is a model's server."""
    traffic = make_traffic(target, options)
    return traffic if options["no_stages"] or traffic.protocol == "url" else traffic.asking_for_stages()


def measure_by(options: Json) -> modes.Measure:
    """What measures: this process, or workers. Raises ValueError for a token that is none."""
    if not options["workers"]:
        return session.measure
    token = read_token(options["worker_token_file"])
    return Cluster(tuple(options["workers"].split(",")), token).measure


def only(loads: list[Load], option: str) -> Load:
    """Raises ValueError unless there is one load."""
    if len(loads) != 1:
        raise ValueError(f"{option} needs one --rate or one --concurrency, got {len(loads)}")
    return loads[0]


SHOW = {
    "point": show_point,
    "runs": show_runs,
    "sweep": show_sweep,
    "search": show_search,
    "scenario": show_scenario,
    "compare": show_comparison,
}


def show(console: Console, result: Json) -> None:
    SHOW[result["kind"]](console, result)


def save(result: Json, json_file: Path | None, page: Path | None) -> None:
    """Write the files that were asked for."""
    try:
        if json_file:
            results.write(json_file, result)
        if page:
            from poise.bench.html.page import write_page  # noqa: PLC0415  (only when a page is wanted)

            write_page(page, result)
    except OSError as error:
        raise click.ClickException(f"cannot write the result: {error}") from None


@bench.command(cls=UsageCommand)
@click.argument("first", type=SAVED)
@click.argument("second", type=SAVED)
@click.option("--json", "json_file", type=FILE, help="Write the comparison there.")
@click.option("--report", "page", type=FILE, help="Write the comparison there as a page with charts.")
def compare(first: Path, second: Path, json_file: Path | None, page: Path | None) -> None:
    """Compare the SECOND of two saved results of one point each with the FIRST.

    Runs differ from each other by more than what one run can tell; `poise bench TARGET --against TARGET` measures both
    in turn, and tells more.
    """
    try:
        result = modes.saved(results.read_point(first), results.read_point(second))
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    show(Console(), result)
    save(result, json_file, page)


@bench.command("self-test", cls=UsageCommand)
@click.pass_context
def self_test(context: click.Context, /) -> None:
    """Check on this machine whether the load generator tells the truth, and how much load it can make.

    It is let loose on servers whose latencies are known, and must report them within 1 %. Takes about three minutes.
    Exit status 3 when it does not hold.
    """
    console = Console()
    result = run_self_test(
        on_check=lambda check: console.print(f"{'ok  ' if check.passed else 'FAIL'} {check.name}: {check.found}")
    )
    console.print(result.to_table())
    context.exit(Exit.OK if result.passed else Exit.INVALID)


@bench.command(cls=UsageCommand)
@click.option("--listen", default="127.0.0.1:9200", show_default=True, metavar="HOST:PORT", help="Where jobs come in.")
@click.option("--token-file", type=SAVED, help="Who does not know this token is let in nowhere but on loopback.")
def worker(listen: str, token_file: Path | None) -> None:
    """Send load for a `poise bench --workers` on another machine, until it is interrupted.

    Whoever may reach it can have it send load to any server, so beyond loopback it wants a token. The token, like all
    else, goes over the network in the clear.
    """
    try:
        server = make_worker(listen, read_token(token_file))
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from None
    host, port = server.server_address[:2]
    click.echo(f"waiting for jobs on {host!s}:{port}")
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("ended")

"""The options of `poise bench` that say how much load is offered, and how it is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, TypeVar

import click
import numpy as np

from poise.bench.arrivals import parse_arrival
from poise.bench.engine import Wiring
from poise.bench.load import ClosedLoop, Load, OpenLoop
from poise.bench.measurement import Slo
from poise.bench.session import Method

Command = TypeVar("Command", bound=Callable[..., Any])

DURATION_S = 30.0
"""How long a load test measures when neither a duration nor a number of requests is given."""
CONCURRENCY = 32
"""Clients of a closed loop when no load is asked for."""
MAX_POINTS = 100
LEAST_TIMEOUT_S = 1.0
TIMEOUT_S = 10.0


def parse_numbers(_context: click.Context, option: click.Parameter, text: str | None) -> tuple[float, ...]:
    """`100`, `100,200,400` or `100:500:100` (from, to, step) to numbers."""
    if text is None:
        return ()
    try:
        numbers = expand(text)
    except ValueError:
        numbers = ()
    if not numbers or len(numbers) > MAX_POINTS or not all(0 < number < 1e9 for number in numbers):
        raise click.BadParameter(
            f"expected a number above 0, several (100,200,400), or FROM:TO:STEP, at most {MAX_POINTS}; got {text!r}"
        )
    if option.name == "concurrency" and not all(number.is_integer() for number in numbers):
        raise click.BadParameter(f"expected whole numbers, got {text!r}")
    return numbers


def expand(text: str) -> tuple[float, ...]:
    """Raises ValueError for what is no number, list or range."""
    if ":" not in text:
        return tuple(float(part) for part in text.split(","))
    low, high, step = (float(part) for part in text.split(":"))
    if step <= 0 or high < low or (high - low) / step > MAX_POINTS:
        raise ValueError(text)
    return tuple(float(number) for number in np.arange(low, high + step / 1e6, step))


def parse_slos(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> tuple[Slo, ...]:
    """`p99=50ms`, several as several options or with commas."""
    try:
        return tuple(Slo.parse(part) for text in texts for part in text.split(","))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def check_arrival(_context: click.Context, _option: click.Parameter, text: str) -> str:
    try:
        parse_arrival(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return text


OPTIONS = (
    click.option(
        "--concurrency",
        callback=parse_numbers,
        metavar="N[,N…]",
        help="Closed loop: so many requests under way at once. Several, or FROM:TO:STEP: one point each. [32]",
    ),
    click.option(
        "--rate",
        callback=parse_numbers,
        metavar="R[,R…]",
        help="Open loop: so many requests per second, whatever becomes of earlier ones. Several: one point each.",
    ),
    click.option(
        "--arrival",
        default="poisson",
        show_default=True,
        callback=check_arrival,
        help="How requests of an open loop come: poisson, constant, gamma:cv=2, burst:factor=5,on=0.1,off=0.9, ramp,"
        " step, spike, diurnal, or trace:FILE with a time in seconds in each line.",
    ),
    click.option(
        "--slo",
        "slos",
        multiple=True,
        callback=parse_slos,
        metavar="pNN=TIME",
        help="What latencies shall keep to, e.g. p99=50ms. Without --rate and --concurrency: find the highest rate that"
        " does.",
    ),
    click.option(
        "--duration", type=float, metavar="SECONDS", help="Length of the measurement. [30, or until --requests]"
    ),
    click.option("--requests", type=click.IntRange(1), metavar="N", help="End the measurement after so many requests."),
    click.option(
        "--warmup",
        type=click.FloatRange(0, 3600),
        metavar="SECONDS",
        help="Load before measuring. [until latencies settle, 2 to 30 s]",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(0.001, 3600),
        metavar="SECONDS",
        help="Limit of one request; those that reach it count with it. [10; with --slo ten times its limit]",
    ),
    click.option(
        "--connections",
        type=click.IntRange(1, 100_000),
        metavar="N",
        help="Connections. [closed loop: one each, over gRPC up to 8; open loop: 8 over gRPC, else up to 256]",
    ),
    click.option("--threads", type=click.IntRange(1, 256), default=1, show_default=True, help="Threads that send."),
    click.option(
        "--max-inflight",
        type=click.IntRange(1),
        metavar="N",
        help="Open loop: drop requests beyond so many under way, and count them as errors. [no limit]",
    ),
)


def load_options(command: Command) -> Command:
    """Adds the options that `make_loads` and `make_method` read."""
    return reduce(lambda made, option: option(made), reversed(OPTIONS), command)


def make_loads(options: Mapping[str, Any]) -> list[Load]:
    """The points that are asked for; none when a rate is to be found. Raises ValueError for a contradiction."""
    rates, clients = options["rate"], options["concurrency"]
    if rates and clients:
        raise ValueError("--rate makes an open loop and --concurrency a closed one: give one of them")
    if not rates and options["arrival"] != "poisson" and not options["slos"]:
        raise ValueError("--arrival says how requests of an open loop come: give --rate as well")
    if rates:
        return [OpenLoop(rate, options["arrival"], options["seed"]) for rate in rates]
    if not clients and options["slos"]:
        return []
    return [ClosedLoop(int(count)) for count in clients or (CONCURRENCY,)]


def make_method(options: Mapping[str, Any]) -> Method:
    """How each point is measured."""
    duration_s, requests, timeout_s = options["duration"], options["requests"], options["timeout"]
    if duration_s is None and requests is None:
        duration_s = DURATION_S
    if duration_s is not None and not 0 < duration_s <= 86_400:
        raise ValueError(f"--duration: expected seconds above 0, at most a day, got {duration_s:g}")
    if timeout_s is None:
        slowest_s = max((slo.limit_ms / 1e3 for slo in options["slos"]), default=None)
        timeout_s = TIMEOUT_S if slowest_s is None else max(LEAST_TIMEOUT_S, 10 * slowest_s)
    wiring = Wiring(options["connections"], options["threads"], timeout_s, options["max_inflight"])
    return Method(duration_s, requests, options["warmup"], wiring, options["slos"])

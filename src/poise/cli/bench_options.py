"""The options of `poise bench` that say what is sent, and where."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click

from poise.bench.targets import PROTOCOLS
from poise.cli.bench_parse import (
    parse_data,
    parse_headers,
    parse_named_keys,
    parse_named_lengths,
    parse_row_mix,
    parse_shapes,
)

Command = TypeVar("Command", bound=Callable[..., Any])

MAX_DISTINCT = 100_000
FEW, MANY = 32, 1024
"""Distinct requests unless told otherwise: of equal ones a few will do; where they differ, more."""

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)

OPTIONS = (
    click.option("--model", default="", metavar="NAME", help="The model to ask."),
    click.option("--version", type=int, metavar="N", help="Its version. [latest]"),
    click.option("--signature", default="", metavar="NAME", help="Its signature. [serving_default]"),
    click.option(
        "--protocol",
        type=click.Choice(PROTOCOLS),
        default="auto",
        show_default=True,
        help="tfs: TensorFlow Serving's. v2: Open Inference (KServe, Triton), over HTTP in JSON, v2-binary with binary"
        " tensors. url: any URL. auto: what the server answers in.",
    ),
    click.option("--rows", type=click.IntRange(1), help="Rows of one request. [1]"),
    click.option(
        "--mix", metavar="ROWS:WEIGHT,…", callback=parse_row_mix, help="Several numbers of rows, e.g. 1:70,8:20,32:10."
    ),
    click.option(
        "--shape",
        "shapes",
        multiple=True,
        metavar="NAME=DIM,…",
        callback=parse_shapes,
        help="Shape of one row of an input, where the signature leaves it open. [1 for each open dimension]",
    ),
    click.option(
        "--length",
        "lengths",
        multiple=True,
        metavar="[NAME=]DIST",
        callback=parse_named_lengths,
        help="Lengths of open dimensions, drawn for each request: fixed:N, uniform:LOW:HIGH, zipf:MAX[:EXPONENT] or"
        " lognormal:MEDIAN:SIGMA:MAX. Without NAME one length for all inputs.",
    ),
    click.option(
        "--keys",
        multiple=True,
        metavar="NAME=VOCABULARY[:EXPONENT]",
        callback=parse_named_keys,
        help="Whole numbers of an input, in a Zipf distribution (exponent 1 unless given, 0: all alike).",
    ),
    click.option(
        "--data",
        multiple=True,
        metavar="[INPUT=]PATH",
        callback=parse_data,
        help="Rows from a file: .npz, .npy, .jsonl, .parquet, .txt, a picture, or a folder of pictures. Several are"
        " put side by side, those of the same inputs one after another."
        " INPUT says what a file without names is for.",
    ),
    click.option("--fill", is_flag=True, help="Make up inputs that no --data has."),
    click.option("--replay", type=FILE, help="Requests that `poise record` has recorded (TFRecords of PredictionLog)."),
    click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of everything random."),
    click.option(
        "--distinct",
        type=click.IntRange(1, MAX_DISTINCT),
        metavar="N",
        help=f"How many different requests are prepared. [{FEW}; {MANY} where they differ in more than chance]",
    ),
    click.option(
        "--header",
        "headers",
        multiple=True,
        metavar="'NAME: VALUE'",
        callback=parse_headers,
        help="Header (metadata over gRPC) of every request; several are allowed.",
    ),
    click.option("--api-key-file", type=FILE, help="File with a key to send as authorization: Bearer KEY."),
    click.option("--method", metavar="VERB", help="To a URL: the HTTP method. [POST with a body, else GET]"),
    click.option(
        "--body",
        metavar="TEXT",
        help="To a URL: the body. {{seq}}, {{uuid}}, {{int:1:100}}, {{float}} and"
        " {{choice:a|b}} are filled in it and in the URL's path.",
    ),
    click.option("--body-file", type=FILE, help="To a URL: the file that holds the body; over gRPC, the message."),
    click.option("--content-type", metavar="TYPE", help="To a URL: of the body. [application/json]"),
    click.option("--no-template", is_flag=True, help="To a URL: send what looks like a placeholder as it is."),
    click.option("--grpc-method", metavar="/PKG.SERVICE/METHOD", help="Over gRPC without a model: the method to call."),
)


def payload_options(command: Command) -> Command:
    """Adds the options that `make_traffic` reads."""
    return reduce(lambda made, option: option(made), reversed(OPTIONS), command)

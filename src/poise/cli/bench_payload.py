"""The options of `poise bench` that say what is sent where, and the traffic that they make."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial, reduce
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np

from poise.bench.payloads.mix import Share, only
from poise.bench.payloads.prepare import MAX_BYTES, Press, Source, bounded, prepare
from poise.bench.payloads.random_inputs import RandomInputs
from poise.bench.targets import PROTOCOLS, Target, TargetOptions, resolve
from poise.bench.targets.url import UrlOptions, url_target
from poise.bench.traffic import Traffic
from poise.cli.bench_parse import parse_headers, parse_named_keys, parse_named_lengths, parse_row_mix, parse_shapes
from poise.client.calls import Headers
from poise.types import Signature

Command = TypeVar("Command", bound=Callable[..., Any])

MAX_DISTINCT = 100_000
FEW, MANY = 32, 1024
"""Distinct requests unless told otherwise: of equal ones a few will do; where they differ, more."""
DEFAULT_TIMEOUT_S = 10.0

OF_MODELS = ("model", "version", "signature", "rows", "mix", "shapes", "lengths", "keys")
OF_URLS = ("method", "content_type", "body", "body_file", "grpc_method")
"""Options that mean something to a model alone, and to a URL alone."""


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
    click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of everything random."),
    click.option(
        "--distinct",
        type=click.IntRange(1, MAX_DISTINCT),
        metavar="N",
        help=f"How many different requests are prepared. [{FEW}; {MANY} with --length, --keys or placeholders]",
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


def make_traffic(target_url: str, options: Mapping[str, Any]) -> Traffic:
    """What the options of `payload_options` ask for, to be sent to one server. "timeout" limits the calls for metadata.

    Raises ValueError for options that make no sense, CallError when the server does not tell what it takes, and OSError
    for files that cannot be read.
    """
    headers = read_headers(options)
    protocol = options["protocol"]
    if protocol == "url" or (protocol == "auto" and not options["model"]):
        return url_traffic(target_url, headers, options)
    refuse(options, OF_URLS, "needs --protocol url")
    timeout_s = float(options.get("timeout") or DEFAULT_TIMEOUT_S)
    asked = TargetOptions(options["model"], options["version"], options["signature"], headers, timeout_s)
    return model_traffic(resolve(target_url, asked, protocol), options)


def model_traffic(target: Target, options: Mapping[str, Any]) -> Traffic:
    """Requests to a model, by its signature."""
    signature = target.signature()
    mix = row_mix(signature, options)
    press = Press(partial(target.encode, signature), time.perf_counter)
    prepared = prepare(press, source(signature, options), mix, distinct(options))
    return Traffic(
        url=target.url,
        requests=prepared.requests,
        weights=prepared.weights,
        serialise_us=prepared.serialise_us,
        protocol=target.protocol,
        model=options["model"],
        version=target.served_version,
        signature=signature.name if target.has_signatures else "",
    )


def url_traffic(url: str, headers: Headers, options: Mapping[str, Any]) -> Traffic:
    """Requests to any URL."""
    refuse(options, OF_MODELS, "needs a model's protocol")
    if options["body"] is not None and options["body_file"] is not None:
        raise ValueError("--body and --body-file exclude each other: give one")
    body = options["body_file"].read_bytes() if options["body_file"] else (options["body"] or "").encode()
    asked = UrlOptions(
        method=options["method"] or "",
        body=body,
        content_type=options["content_type"] or UrlOptions().content_type,
        grpc_method=options["grpc_method"] or "",
        headers=headers,
        fill=not options["no_template"],
    )
    target = url_target(url, asked)
    requests = bounded(islice(target.requests(options["seed"]), options["distinct"] or MANY), MAX_BYTES)
    return Traffic(url=target.url, requests=tuple(requests), protocol="url")


def source(signature: Signature, options: Mapping[str, Any]) -> Source:
    """Where inputs come from."""
    random = np.random.default_rng(options["seed"])
    return RandomInputs(signature, random, options["shapes"], options["lengths"], options["keys"])


def row_mix(signature: Signature, options: Mapping[str, Any]) -> tuple[Share, ...]:
    """How many rows requests have. Raises ValueError where the signature counts none."""
    mix, rows = options["mix"], options["rows"]
    if mix and rows is not None:
        raise ValueError("--rows and --mix exclude each other: give one")
    shares: tuple[Share, ...] = mix or only(rows or 1)
    if not signature.batched and any(share.rows > 1 for share in shares):
        raise ValueError(f"signature {signature.name} does not count rows: leave {'--mix' if mix else '--rows'} out")
    return shares


def distinct(options: Mapping[str, Any]) -> int:
    """How many requests are prepared."""
    differ = options["lengths"] or options["keys"]
    return int(options["distinct"] or (MANY if differ else FEW))


def read_headers(options: Mapping[str, Any]) -> Headers:
    """Headers of every request, names in lower case, the API key among them."""
    headers: Headers = options["headers"]
    file = options["api_key_file"]
    if file is None:
        return headers
    if any(name == "authorization" for name, _ in headers):
        raise ValueError("--api-key-file and --header authorization exclude each other: give one")
    key = file.read_text().strip()
    if not key or not key.isprintable() or not key.isascii():
        raise ValueError(f"{file} holds no API key: expected one line of printable text")
    return (*headers, ("authorization", f"Bearer {key}"))


def refuse(options: Mapping[str, Any], names: tuple[str, ...], why: str) -> None:
    """Raises ValueError for the first of these options that is given."""
    for name in names:
        if options[name]:
            shown = {"shapes": "shape", "lengths": "length"}.get(name, name).replace("_", "-")
            raise ValueError(f"--{shown} {why}")

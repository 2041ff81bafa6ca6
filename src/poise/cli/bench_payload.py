"""The traffic that the options of `poise bench` ask for."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from poise.bench.payloads.files import read_files
from poise.bench.payloads.mix import Share, only
from poise.bench.payloads.prepare import MAX_BYTES, Press, Source, bounded, prepare, prepare_all
from poise.bench.payloads.random_inputs import RandomInputs
from poise.bench.payloads.records import Records
from poise.bench.payloads.replay import read_recorded
from poise.bench.targets import Target, TargetOptions, resolve
from poise.bench.targets.url import UrlOptions, url_target
from poise.bench.traffic import Traffic
from poise.cli.bench_options import FEW, MANY, payload_options
from poise.client.calls import Headers
from poise.types import Signature

__all__ = ["make_traffic", "payload_options"]

MAX_RECORDS = 1_000_000
"""Of one file of data."""
DEFAULT_TIMEOUT_S = 10.0

OF_RANDOM = ("rows", "mix", "shapes", "lengths", "keys", "data", "fill")
OF_MODELS = ("model", "version", "signature", "replay", *OF_RANDOM)
OF_URLS = ("method", "content_type", "body", "body_file", "grpc_method", "no_template")
"""Options that mean something to inputs that are made or read, to a model, and to a URL alone."""


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
    press = Press(partial(target.encode, signature), time.perf_counter)
    if options["replay"]:
        refuse(options, OF_RANDOM, "means nothing to recorded requests: leave it out")
        recorded = read_recorded(options["replay"], signature, target.has_signatures)
        prepared = prepare_all(press, recorded, options["distinct"] or MANY)
    else:
        mix = row_mix(signature, options)
        prepared = prepare(press, source(signature, mix, options), mix, distinct(options))
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


def source(signature: Signature, mix: Sequence[Share], options: Mapping[str, Any]) -> Source:
    """Where inputs come from: files, or chance."""
    random = np.random.default_rng(options["seed"])
    made_up = RandomInputs(signature, random, options["shapes"], options["lengths"], options["keys"])
    if not options["data"]:
        return made_up
    most = min(distinct(options) * max(share.rows for share in mix), MAX_RECORDS)
    records = read_files(options["data"], signature, most)
    return Records(signature, records, made_up if options["fill"] else None)


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
    differ = options["data"] or options["lengths"] or options["keys"]
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

"""Which protocol a server speaks."""

from __future__ import annotations

from collections.abc import Callable

from poise.bench.targets.base import Target, TargetOptions
from poise.bench.targets.tfs_grpc import TfsGrpc
from poise.bench.targets.tfs_rest import TfsRest
from poise.bench.targets.v2_grpc import V2Grpc
from poise.bench.targets.v2_rest import V2Binary, V2Rest
from poise.client import CallError
from poise.records import suggest

Maker = Callable[[str, TargetOptions], Target]

GRPC: dict[str, Maker] = {"tfs": TfsGrpc, "v2": V2Grpc, "v2-binary": V2Grpc}
REST: dict[str, Maker] = {"tfs": TfsRest, "v2": V2Rest, "v2-binary": V2Binary}
"""By protocol; over gRPC v2 always sends tensors in binary."""

PROTOCOLS = ("auto", *REST, "url")
"""What --protocol takes."""
TRIED = ("tfs", "v2")
"""What `auto` tries, in this order."""


def resolve(url: str, options: TargetOptions, protocol: str = "auto") -> Target:
    """The model behind a protocol, described by its server; `auto` asks in one protocol after the other.

    Raises ValueError for arguments that make no sense, and CallError when the server answers in no protocol.
    """
    if not options.model:
        raise ValueError("--model is missing: name the model to ask, or give a URL with a path and --protocol url")
    makers = GRPC if url.startswith(("grpc://", "grpcs://")) else REST
    if protocol == "auto":
        return _first_that_answers([makers[name](url, options) for name in TRIED])
    if protocol not in makers:
        raise ValueError(f"--protocol {protocol} is not known here; {suggest(protocol, makers)}")
    target = makers[protocol](url, options)
    target.ask()
    return target


def _first_that_answers(candidates: list[Target]) -> Target:
    refusals = []
    for target in candidates:
        try:
            target.ask()
        except CallError as error:
            refusals.append((target.protocol, str(error)))
        else:
            return target
    texts = dict.fromkeys(text for _, text in refusals)
    if len(texts) == 1:  # not reached: the protocol does not matter
        raise CallError(next(iter(texts)))
    told = "; ".join(f"{protocol}: {text}" for protocol, text in refusals)
    raise CallError(f"the server describes the model in no protocol that is tried ({told})")

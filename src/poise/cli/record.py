"""`poise record`: requests that a server answers now, as a warm-up file for the model."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from urllib.parse import quote

import click

from poise import _core
from poise.cli.models import DEFAULT_TARGET, http_target
from poise.cli.usage import UsageCommand

MOST_RECORDS = 1000
GRACE_S = 30.0
"""What the answer itself may take."""


@click.command(cls=UsageCommand)
@click.argument("name")
@click.option(
    "--records", type=click.IntRange(1, MOST_RECORDS), default=100, show_default=True, help="How many requests."
)
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The file to write.")
@click.option("--timeout", "timeout_s", type=float, default=60.0, show_default=True, help="How long to wait for them.")
@click.option(
    "--target", default=DEFAULT_TARGET, show_default=True, callback=http_target, help="The server's HTTP address."
)
def record(name: str, records: int, output: Path, timeout_s: float, target: str) -> None:
    """Record the next requests of the model NAME that a server answers.

    The file belongs into a version's directory as assets.extra/tf_serving_warmup_requests.

    \b
    Try:
      poise record ranker --records 50 --output tf_serving_warmup_requests
    """  # noqa: D301  (\b is a control character to click)
    body = json.dumps({"records": records, "timeout_s": timeout_s}).encode()
    path = f"/v1/models/{quote(name, safe='')}:record"
    try:
        status, answer = _core.http_call(target, "POST", path, body, timeout_s + GRACE_S)
        if status != 200:
            raise click.ClickException(answer.decode(errors="replace"))
        count = write(output, answer)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{output}: {count} requests, {len(answer)} bytes")


def write(output: Path, content: bytes) -> int:
    """Write the file, all of it or nothing, once it has been read back; how many requests it holds.

    Raises ValueError when it holds none, or cannot be read.
    """
    descriptor, name = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
    written = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), 0o644)
        count = len(_core.read_warmup(name, MOST_RECORDS))
        if count == 0:
            raise ValueError("no request of the model was answered in time; nothing is written")
        written.replace(output)
    finally:
        written.unlink(missing_ok=True)
    return count

"""`poise predict`: one question to a served model, from a file."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np

from poise.cli.usage import UsageCommand, check_target
from poise.client import CallError, ModelAddress, Prediction, fetch_signatures, pick_signature
from poise.client import predict as call
from poise.client.arrays import describe
from poise.client.tensor_json import read_inputs, to_value
from poise.types import Array, Signature

NPY_MAGIC = b"\x93NUMPY"
ZIP_MAGIC = b"PK"


@click.command(cls=UsageCommand)
@click.argument("target", callback=check_target)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True, dir_okay=False))
@click.option("--model", required=True, metavar="NAME", help="The model to ask.")
@click.option("--version", type=int, metavar="N", help="Its version. [latest]")
@click.option("--signature", default="", metavar="NAME", help="Its signature. [serving_default]")
@click.option("--timeout", type=float, default=30.0, show_default=True, metavar="SECONDS", help="Limit of each call.")
@click.option("--json", "as_json", is_flag=True, help="Print the outputs as JSON.")
def predict(target: str, file: Path, model: str, *, as_json: bool, **options: Any) -> None:
    """Ask a served model once and print its outputs.

    TARGET is grpc://HOST:PORT or http://HOST:PORT. FILE (- for standard input) holds the inputs: JSON as TensorFlow
    Serving takes it ({"instances": [row, …]} or {"inputs": …}), one array as .npy, or several by name as .npz.

    \b
    Try:
      echo '{"instances": [[1, 2, 3]]}' | poise predict grpc://localhost:8500 - --model ranker
      poise predict http://localhost:8501 image.npy --model resnet --json
    """  # noqa: D301  (\b is a control character to click)
    address, timeout_s = ModelAddress(target, model, options["version"]), options["timeout"]
    try:
        content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        signature = pick_signature(fetch_signatures(address, timeout_s), options["signature"])
        inputs = read(content, signature)
        answer = call(address, signature, inputs, timeout_s)
    except (CallError, ValueError, OSError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(to_json(answer) if as_json else to_text(answer))


def read(content: bytes, signature: Signature) -> dict[str, Array]:
    """Inputs from the bytes of a file, whose kind shows at its beginning. Raises ValueError for anything else."""
    if content.startswith(NPY_MAGIC):
        return {single_input(signature): np.load(io.BytesIO(content), allow_pickle=False)}
    if content.startswith(ZIP_MAGIC):
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return dict(arrays)
    try:
        payload = json.loads(content)
    except ValueError as error:
        raise ValueError(f"the file is neither JSON nor .npy nor .npz ({error})") from None
    return read_inputs(signature, payload)


def single_input(signature: Signature) -> str:
    """The name that an array without one belongs to."""
    names = [spec.name for spec in signature.inputs]
    if len(names) != 1:
        raise ValueError(f"the signature has the inputs {', '.join(names)}: give them by name, as .npz or JSON")
    return names[0]


def to_json(answer: Prediction) -> str:
    """Always one key per output, unlike REST, so that a program need not know how many there are."""
    return json.dumps({"outputs": {name: to_value(array) for name, array in answer.outputs.items()}})


def to_text(answer: Prediction) -> str:
    """Each output with its type and shape, long ones shortened."""
    lines = [] if answer.version is None else [f"version {answer.version}"]
    for name, array in answer.outputs.items():
        lines += [f"{name}: {describe(array)}", show(array)]
    return "\n".join(lines)


def show(array: Array) -> str:
    if array.dtype.kind == "O":
        texts = [item.decode(errors="backslashreplace") for item in array.ravel().tolist()]
        array = np.array(texts).reshape(array.shape)
    return np.array2string(array, precision=6, suppress_small=True, threshold=100)

"""Poise itself, started as a user starts it: `poise serve --config FILE`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from models import ServedModel
from processes import LOOPBACK, free_port, http_ok, running
from wire import TensorFlowServing

from peers import Batching, Running

EXECUTABLE = Path(__file__).parents[2] / ".venv" / "bin" / "poise"
SERVER = """[server]
grpc = "{host}:{grpc}"
http = "{host}:{http}"
"""
MODEL = """
[models.{name}]
path = "{path}"
backend = "onnxruntime"
[models.{name}.batching]
max_batch_size = {rows}
batch_timeout_micros = {delay}
[models.{name}.options]
intra_op_threads = 1
"""


@contextmanager
def serve(models: Sequence[ServedModel], batching: Batching, work: Path) -> Iterator[Running]:
    """Serve any number of models with one Poise."""
    if not EXECUTABLE.exists():
        raise SystemExit("Poise is not built here (.venv/bin/poise): build it, or leave it out with --peers")
    folder = work / "poise"
    folder.mkdir(parents=True, exist_ok=True)
    grpc, http = free_port(), free_port()
    text = SERVER.format(host=LOOPBACK, grpc=grpc, http=http)
    for model in models:
        text += MODEL.format(name=model.name, path=model.folder, rows=batching.max_rows, delay=batching.delay_micros)
    file = folder / "poise.toml"
    file.write_text(text)
    command = [str(EXECUTABLE), "serve", "--config", str(file)]
    with running(command, folder / "out.log", lambda: http_ok(http, "/readyz")) as pid:
        yield Running("poise", pid, TensorFlowServing(), grpc, http)


@contextmanager
def start(model: ServedModel, batching: Batching, work: Path) -> Iterator[Running]:
    """Serve one model."""
    with serve([model], batching, work) as server:
        yield server

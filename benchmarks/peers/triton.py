"""Triton Inference Server with its Python backend and its dynamic batcher, from the wheel nvidia-pytriton."""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models import ServedModel
from processes import LOOPBACK, free_port, http_ok, running
from wire import OIP_DTYPES, OpenInference

from peers import Batching, Running

SITE = Path(sysconfig.get_path("purelib"))
HOME = SITE / "pytriton" / "tritonserver"
CONFIGURATION = """
name: "{name}"
backend: "python"
max_batch_size: {rows}
input [ {{ name: "{input}", data_type: TYPE_{dtype}, dims: [ {width} ] }} ]
output [ {{ name: "{output}", data_type: TYPE_FP32, dims: [ -1 ] }} ]
instance_group [ {{ count: 1, kind: KIND_CPU }} ]
dynamic_batching {{ max_queue_delay_microseconds: {delay} }}
parameters [ {{ key: "file", value: {{ string_value: "{file}" }} }} ]
"""


@contextmanager
def start(model: ServedModel, batching: Batching, work: Path) -> Iterator[Running]:
    """Serve `model` from a model repository made for it."""
    name = f"triton-{batching.delay_micros}"
    repository = work / name / "models"
    _fill(repository / model.name, model, batching)
    grpc, rest = free_port(), free_port()
    command = [
        str(HOME / "bin" / "tritonserver"),
        f"--model-repository={repository}",
        f"--backend-directory={HOME / 'backends'}",
        f"--cache-directory={HOME / 'caches'}",
        f"--grpc-address={LOOPBACK}",
        f"--http-address={LOOPBACK}",
        f"--grpc-port={grpc}",
        f"--http-port={rest}",
        "--allow-metrics=false",
    ]
    env = {"PYTHONPATH": str(SITE), "LD_LIBRARY_PATH": str(sysconfig.get_config_var("LIBDIR"))}
    with running(command, work / name / "out.log", lambda: http_ok(rest, "/v2/health/ready"), env) as pid:
        yield Running(name, pid, OpenInference(), grpc, rest)


def _fill(folder: Path, model: ServedModel, batching: Batching) -> None:
    version = folder / "1"
    version.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(Path(__file__).with_name("triton_model.py"), version / "model.py")
    (folder / "config.pbtxt").write_text(
        CONFIGURATION.format(
            name=model.name,
            rows=batching.max_rows,
            input=model.input,
            dtype=OIP_DTYPES[model.dtype],
            width=model.width,
            output=model.output,
            delay=batching.delay_micros,
            file=model.file,
        )
    )

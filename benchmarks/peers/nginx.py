"""nginx answering a constant: the floor that kernel, HTTP and load generator set, with no model and no batching.

It answers HTTP/2 with a gRPC content type and as many bytes as a real answer has, but with no trailers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models import ServedModel
from processes import LOOPBACK, free_port, listening, running
from wire import TensorFlowServing

from peers import Batching, Running

GRPC_ANSWER_BYTES = 65  # what a Predict answer with one float takes, frame included
REST_ANSWER = '{"predictions": [[0.5123456]]}'
CONFIGURATION = """
daemon off;
worker_processes {workers};
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    http2_max_concurrent_streams 256;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen {host}:{grpc} http2;
        location / {{ default_type application/grpc; return 200 "{grpc_answer}"; }}
    }}
    server {{
        listen {host}:{rest};
        location / {{ default_type application/json; return 200 '{rest_answer}'; }}
    }}
}}
"""


@contextmanager
def start(_model: ServedModel, _batching: Batching, work: Path, workers: int = 1) -> Iterator[Running]:
    """Serve the constant; the model and its batching do not matter."""
    folder = work / "nginx"
    folder.mkdir(parents=True, exist_ok=True)
    grpc, rest = free_port(), free_port()
    file = folder / "nginx.conf"
    file.write_text(
        CONFIGURATION.format(
            workers=workers,
            folder=folder,
            host=LOOPBACK,
            grpc=grpc,
            rest=rest,
            grpc_answer="0" * GRPC_ANSWER_BYTES,
            rest_answer=REST_ANSWER,
        )
    )
    command = ["nginx", "-p", str(folder), "-c", str(file), "-e", str(folder / "error.log")]
    with running(command, folder / "out.log", lambda: listening(grpc) and listening(rest)) as pid:
        yield Running("nginx", pid, TensorFlowServing(), grpc, rest, checked=False)

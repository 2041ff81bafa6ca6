"""What the load generators are compared on: servers whose latencies are known, nginx, Poise."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
from crosscheck_tools import Endpoint
from processes import LOOPBACK, free_port, listening, running

from poise.bench.known import NO_DELAYS, known_server, make_delays
from poise.bench.targets import TargetOptions, resolve
from poise.bench.traffic import Traffic, WireRequest
from poise.config import Config, ModelConfig, ServerSettings
from poise.server import serve_in_background

MODEL = Path(__file__).parents[1] / "examples" / "python_model.py"
SCALE_MS = 5.0
NGINX = """
daemon off;
worker_processes 1;
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
        location / {{
            default_type application/grpc;
            add_header grpc-status 0;
            return 200 "{answer}";
        }}
    }}
    server {{
        listen {host}:{rest};
        location / {{ default_type application/json; return 200 '{{"predictions": [0.5]}}'; }}
    }}
}}
"""


@contextmanager
def endpoints(work: Path) -> Iterator[list[Endpoint]]:
    """All of them, until the block ends."""
    with ExitStack() as stack:
        found: list[Endpoint] = []
        for name in ("constant", "lognormal"):
            known = stack.enter_context(known_server("grpc", make_delays(name, SCALE_MS)))
            found.append(Endpoint(f"known server, {name} 5 ms", known.traffic, 4, 32, bound="latency"))
        known = stack.enter_context(known_server("http", make_delays("lognormal", SCALE_MS)))
        found.append(Endpoint("known server, lognormal 5 ms", known.traffic, 64, bound="latency"))
        known = stack.enter_context(known_server("grpc", NO_DELAYS))
        found.append(Endpoint("null server", known.traffic, 4, 32, bound="tool"))
        if shutil.which("nginx"):
            found += stack.enter_context(nginx(work))
        found += stack.enter_context(poise())
        yield found


@contextmanager
def nginx(work: Path) -> Iterator[list[Endpoint]]:
    """A constant. Over gRPC its status comes in the headers, which clients take like trailers."""
    folder, grpc, rest = work / "nginx", free_port(), free_port()
    folder.mkdir()
    file = folder / "nginx.conf"
    file.write_text(NGINX.format(folder=folder, host=LOOPBACK, grpc=grpc, rest=rest, answer="0" * 65))
    command = ["nginx", "-p", str(folder), "-c", str(file), "-e", str(folder / "error.log")]
    request = (WireRequest("/any.Service/Method", bytes(100)),)
    with running(command, folder / "out.log", lambda: listening(grpc) and listening(rest)):
        yield [
            Endpoint("nginx", Traffic(f"grpc://{LOOPBACK}:{grpc}", request), 4, 32),
            Endpoint("nginx", Traffic(f"grpc://{LOOPBACK}:{grpc}", request), 64),
            Endpoint("nginx", Traffic(f"http://{LOOPBACK}:{rest}", request), 64),
        ]


@contextmanager
def poise() -> Iterator[list[Endpoint]]:
    """The example in plain Python, one row a request."""
    models = (ModelConfig(name="ranker", path=f"{MODEL}:Ranker"),)
    settings = ServerSettings(grpc=f"{LOOPBACK}:0", http=f"{LOOPBACK}:0")
    with serve_in_background(Config(server=settings, models=models)) as server:
        grpc, rest = f"grpc://{server.grpc_address}", f"http://{server.http_address}"
        yield [
            Endpoint("Poise", ranker(grpc), 4, 32),
            Endpoint("Poise", ranker(grpc), 64),
            Endpoint("Poise", ranker(rest), 64),
        ]


def ranker(url: str) -> Traffic:
    """One request for one row."""
    target = resolve(url, TargetOptions(model="ranker"))
    request = target.encode(target.signature(), {"features": np.array([[5.0, 1.0, 0.2]], np.float32)})
    return Traffic(url, (request,))

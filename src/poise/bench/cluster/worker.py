"""`poise bench worker`: measures what a load test elsewhere asks for, one job at a time."""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Callable
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from poise.bench.cluster.wire import MAX_JOB_BYTES, Job, pack, read_job
from poise.bench.measurement import Measurement
from poise.bench.session import OnTick, measure
from poise.bench.tick import Tick

Measure = Callable[[Job, OnTick], Measurement]

IDLE_S = 30.0
"""A client that says nothing for so long is let go."""


def measure_job(job: Job, on_tick: OnTick) -> Measurement:
    """Measure, here."""
    return measure(job.traffic, job.load, job.method, on_tick)


class Worker(ThreadingHTTPServer):
    """Answers POST /measure: the job in the body, ticks as lines of JSON, and at last the samples."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], token: str, measure_it: Measure = measure_job) -> None:
        """Raises OSError when the address cannot be had. An empty token lets everybody in."""
        super().__init__(address, Handler)
        self.token = token
        self.measure = measure_it
        self.busy = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    """One request. The answer ends with the connection."""

    server: Worker
    timeout = IDLE_S

    def do_POST(self) -> None:
        if self.path != "/measure":
            return self.refuse(404, "only POST /measure is served here")
        if not self.is_allowed():
            return self.refuse(401, "the token is not that of this worker: give --worker-token-file")
        length = int(self.headers.get("content-length") or 0)
        if not 0 < length <= MAX_JOB_BYTES:
            return self.refuse(413, f"expected a job of 1 to {MAX_JOB_BYTES} bytes, got {length}")
        try:
            job = read_job(self.rfile.read(length))
        except ValueError as error:
            return self.refuse(400, str(error))
        if not self.server.busy.acquire(blocking=False):
            return self.refuse(409, "this worker measures already: one job at a time")
        try:
            self.answer(job)
        finally:
            self.server.busy.release()

    def is_allowed(self) -> bool:
        given = self.headers.get("authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(given.encode(), self.server.token.encode())

    def answer(self, job: Job) -> None:
        """Ticks while it measures, then the samples. When nobody listens any more, the measurement ends as well."""
        self.send_response(200)
        self.end_headers()
        try:
            data = pack(self.server.measure(job, self.tell))
        except (ValueError, ConnectionError) as error:
            if not isinstance(error, BrokenPipeError | ConnectionResetError):
                self.line({"error": str(error)})
            return
        self.line({"samples": len(data)})
        self.wfile.write(data)

    def tell(self, tick: Tick) -> None:
        self.line({"tick": asdict(tick)})

    def line(self, value: object) -> None:
        self.wfile.write(json.dumps(value).encode() + b"\n")
        self.wfile.flush()

    def refuse(self, status: int, why: str) -> None:
        body = json.dumps({"error": why}).encode() + b"\n"
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the name that http.server calls)
        """Nothing: what is measured is told to those who asked."""

"""The border to the data plane. Python calls Rust, never the other way; nothing here keeps a Python object.

Records cross as JSON of plain values: settings and batching of `poise.config`, signatures as a list of
`{"name", "method_name", "batched", "inputs": [{"name", "dtype", "shape"}], "outputs": [...]}` where `dtype` is
TensorFlow's lower-case name (`float`, `int32`, `string`, ...) and `shape` a list with -1 for a dimension that
may vary, or null when even the rank may. A tensor may also have "tensor", its name in the graph if not NAME:0, and an
input "default", base64 of the TensorProto that it is when a request leaves it out.
"""

from collections.abc import Sequence
from typing import Any, Self, final

from typing_extensions import Buffer as SupportsBuffer

__all__ = [
    "Batch",
    "Buffer",
    "KnownServer",
    "LoadGenerator",
    "Server",
    "Worker",
    "build_profile",
    "encode_infer_request",
    "encode_predict_request",
    "fetch_infer_metadata",
    "fetch_signatures",
    "http_call",
    "outcome_name",
    "predict",
    "proto_to_json",
    "read_warmup",
    "text_proto_to_json",
]

build_profile: str
"""`release` or `debug`."""

Event = tuple[str, int, str]
"""(kind, id, text). Kinds:

- `worker_ready`: worker id, its signatures as JSON
- `worker_failed`: worker id, why its model did not load
- `worker_lost`: worker id, what happened to its channel (ended, hung, silent, nonsense)
- `worker_closed`: worker id, after a retired version was served to its end
- `retired`: version handle, its queue is empty and its last worker has been told to close
- `call`: call number, JSON of {"name", "model", "body"}: what a client asks about the server itself; see `reply`
- `log`: level of the standard `logging` module, message
"""

@final
class Server:
    """The main process's half: listeners, routes, queues and the channels to workers."""

    def __new__(cls, settings_json: str) -> Server: ...
    def start(self) -> tuple[str | None, str | None]:
        """Bind and serve; returns the bound gRPC and HTTP addresses. Raises OSError when an address is taken."""

    def add_version(self, model: str, version: int, batching_json: str) -> int:
        """A version that nobody can reach yet; returns its handle."""

    def attach_worker(self, handle: int) -> tuple[int, int]:
        """A channel for one more worker of a version: (worker id, descriptor for the worker to inherit).

        The descriptor is the caller's to close once the worker has it.
        """

    def detach_worker(self, worker: int) -> None:
        """Close a worker's channel; a batch under way there is lost. Unknown ids are ignored."""

    def describe(self, handle: int, signatures_json: str) -> None:
        """Give a version its signatures. Raises ValueError when they cannot be served with its batching."""

    def note_load(self, handle: int, path: str, succeeded: bool, took_s: float) -> None:
        """Count a load of this version from this path, for the metrics alone."""

    def publish(self, handle: int) -> None:
        """Route requests to a described version; "latest" is the highest published number of a model."""

    def retire(self, handle: int) -> None:
        """Stop routing to a version, serve what is queued, then close its workers; ends in `retired`."""

    def set_status(self, model: str, statuses_json: str) -> None:
        """What status calls answer: a list of {"version", "state", "code", "message"}, newest version first.

        `state` is a number of TensorFlow Serving's ModelVersionStatus.State, `code` a gRPC code number (0 for OK).
        An empty list forgets the model.
        """

    def set_labels(self, model: str, labels_json: str) -> None:
        """The labels of a model's versions: {label: version}; they replace those there were."""

    def reply(self, call: int, code: str, text: str) -> None:
        """Answer a `call`: with "OK" and JSON, or with the name of a gRPC code and a message.

        A call that nobody waits for any more is ignored. Raises ValueError for a name that is no code.
        """

    def set_ready(self, ready: bool) -> None:
        """What /readyz and the overall gRPC health answer."""

    def events(self, timeout_s: float) -> list[Event]:
        """What has happened since the last call; waits up to the timeout for a first event."""

    def metrics(self) -> str:
        """Every metric in Prometheus' text format."""

    def debug_state(self) -> str:
        """JSON of what is held now: queued rows and bytes, held body bytes, requests, batches, workers, connections."""

    def drain(self, timeout_s: float) -> bool:
        """Stop accepting, let requests under way end; True when all did in time."""

    def close(self) -> None:
        """End every thread and socket. Idempotent."""

@final
class Buffer:
    """64-byte-aligned memory of the arena, shared through the buffer protocol."""

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __len__(self) -> int: ...

Input = tuple[str, str, tuple[int, ...], Buffer | list[bytes]]
"""(name, dtype, shape, elements): strings come as a list, all else as little-endian bytes."""

Output = tuple[str, str, tuple[int, ...], SupportsBuffer | Sequence[bytes]]

@final
class Batch:
    """Rows of one or more requests, to be ended exactly once. Dropped unended, its rows fail."""

    @property
    def id(self) -> int: ...
    @property
    def signature(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs that somebody wants."""

    @property
    def inputs(self) -> list[Input]:
        """Views of arena memory: valid until the batch is ended."""

    def complete(self, outputs: Sequence[Output]) -> None:
        """Answer every row. Raises ValueError on outputs that cannot be sent, RuntimeError when already ended."""

    def fail(self, code: str, message: str, rows: Sequence[int] | None = None) -> None:
        """Fail the batch with a gRPC code name; with `rows`, only those are at fault and the others run again."""

@final
class Worker:
    """A worker's half of its channel, in a child process or a thread of its own."""

    def __new__(cls, fd: int, exit_with_server: bool = False) -> Worker:
        """Takes over the descriptor that `attach_worker` gave.

        With `exit_with_server` the whole process is ended soon after its server is gone, even in the middle of a
        batch: for child processes only.
        """

    def ready(self, signatures_json: str) -> None: ...
    def fail_load(self, message: str) -> None: ...
    def next_batch(self, timeout_s: float) -> Batch | None:
        """Wait for work; None when none came in time. Raises poise.errors.WorkerClosed when there will be no more."""

    def close(self) -> None: ...

def encode_predict_request(model: str, version: int | None, signature: str, inputs: Sequence[Output]) -> bytes: ...

@final
class LoadGenerator:
    """Threads that send requests, and a sample of each. Sends until it is closed; what counts is the caller's choice.

    All times are nanoseconds since the start of the session, on one monotonic clock.
    """

    def __new__(cls, plan_json: str, bodies: Sequence[bytes]) -> Self:
        """Connect, as the plan says (`poise.bench.session`), with one body for each of its requests.

        Raises ValueError for a plan that makes no sense, ConnectionError when the server cannot be reached.
        """

    def now_ns(self) -> int: ...
    def feed(self, times_ns: bytes, choices: bytes) -> None:
        """Give more to send: int64 times, ascending, and uint32 numbers of requests, in native byte order.

        A closed loop starts with the first choices that it is fed; it needs no times. Raises ValueError for times and
        choices that cannot be played.
        """

    def take(self, limit_s: float) -> dict[str, Any]:
        """What came since the last time, after `limit_s` seconds or when all has ended, whichever is first.

        Columns as bytes: scheduled, issued, sent (-1: never), done (int64); outcome (uint16); choice, queue_us,
        batch_us, execute_us, batch_rows (uint32; all ones: unknown). Beside them settled_ns, up to when every request
        that was due has been told of; ended; in_flight; connections; and cpu_ns of each thread. Raises ConnectionError
        when a thread failed.
        """

    def close(self) -> None:
        """End all threads. What is under way is left out."""

def outcome_name(outcome: int) -> str:
    """The name under which an outcome of `LoadGenerator.take` is counted: OK, a gRPC code, an HTTP status or other."""

def predict(
    target: str,
    model: str,
    version: int | None,
    signature: str,
    inputs: Sequence[Output],
    timeout_s: float,
) -> tuple[int | None, list[tuple[str, str, list[int], bytes | list[bytes]]]]:
    """One prediction over gRPC: the version that answered, and its outputs.

    Raises ValueError for arguments that make no sense, ConnectionError, TimeoutError, and RuntimeError with
    `CODE: message` for what the server refuses.
    """

def fetch_signatures(
    target: str, model: str, version: int | None, timeout_s: float, headers: Sequence[tuple[str, str]] | None = None
) -> str:
    """Over gRPC, JSON of {"version", "signatures"}. Raises as `predict` does."""

def encode_infer_request(
    model: str, version: str, inputs: Sequence[tuple[str, str, Sequence[int], SupportsBuffer]]
) -> bytes:
    """A ModelInferRequest of the Open Inference Protocol: (name, datatype, shape, raw content) for each input."""

def fetch_infer_metadata(
    target: str, model: str, version: str, timeout_s: float, headers: Sequence[tuple[str, str]] | None = None
) -> str:
    """Over gRPC, the model's metadata in the Open Inference Protocol's JSON. Raises as `predict` does."""

def http_call(
    target: str,
    method: str,
    path: str,
    body: bytes,
    timeout_s: float,
    headers: Sequence[tuple[str, str]] | None = None,
) -> tuple[int, bytes]:
    """One HTTP call: status and body, whatever the status. Raises ValueError, ConnectionError or TimeoutError."""

def text_proto_to_json(message: str, text: str) -> str:
    """A message in protobuf's text format as JSON; `message` is a full name, `tensorflow.serving.ModelServerConfig`.

    Fields have the names of the .proto files and are left out when unset; 64-bit integers are numbers, wrapper messages
    their values, enums names, bytes base64; an Any is opened when its type is known. Raises ValueError with line and
    column, and for an unknown field with the nearest one.
    """

def proto_to_json(message: str, data: bytes) -> str:
    """The same for a serialized message. Fields that are not in our .proto files are left out."""

def read_warmup(
    path: str, most: int
) -> list[tuple[str, list[tuple[str, str, tuple[int, ...], bytearray | list[bytes]]]]]:
    """The calls in a warm-up file of TensorFlow Serving: (signature, inputs in the form of `Batch.inputs`) for each.

    Raises ValueError with TensorFlow Serving's text for more than `most` records and for what is no such file.
    """

@final
class KnownServer:
    """A server on 127.0.0.1 whose answers take known times, for tests of the load generator.

    `protocol` is grpc (HTTP/2 without TLS; every call gets an empty message) or http (HTTP/1.1; every request gets
    `{}`). Request i takes `delays_ns[i % len(delays_ns)]` (int64); none means no delay. A request that is due in one
    of `freezes_ns`, pairs (from, to) counted from the first request, is answered at its end. Raises ValueError for
    negative delays and for freezes that overlap or do not ascend, OSError when there is no free port.
    """

    def __new__(
        cls, protocol: str, delays_ns: SupportsBuffer, freezes_ns: Sequence[tuple[int, int]] = ...
    ) -> KnownServer: ...
    @property
    def address(self) -> str:
        """HOST:PORT."""

    def record(self) -> bytes:
        """Pairs of int64: when the last byte of a request was read, and when its answer was written.

        Nanoseconds of CLOCK_MONOTONIC, in the order of the answers; the first 8 388 608 of them.
        """

    def stop(self) -> None:
        """End the thread and all connections. Idempotent."""

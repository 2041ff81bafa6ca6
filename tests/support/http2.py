"""A client of HTTP/2 that does as it is told, right or wrong, where a gRPC library would know better."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.events

from poise.errors import CODES
from support.clients import connect

PREDICT = "/tensorflow.serving.PredictionService/Predict"
Headers = Sequence[tuple[str, str]]


@dataclass
class Reply:
    """What came back on one stream."""

    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    reset: int | None = None
    ended: bool = False

    @property
    def code(self) -> str:
        """The name of its gRPC status."""
        number = int(self.headers["grpc-status"])
        return "OK" if number == 0 else CODES[number - 1]

    @property
    def text(self) -> str:
        return unquote(self.headers.get("grpc-message", ""))


class Http2:
    """One connection."""

    def __init__(self, where: str, timeout_s: float = 10.0) -> None:
        self.socket = connect(where, timeout_s)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(validate_outbound_headers=False))
        self.replies: dict[int, Reply] = {}
        self.gone = False
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        self.socket.sendall(self.h2.data_to_send())

    def open(self, path: str = PREDICT, extra: Headers = (), end: bool = False) -> int:
        """Send headers; the stream's number."""
        stream = self.h2.get_next_available_stream_id()
        self.replies[stream] = Reply()
        head = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "test"), ("te", "trailers")]
        kind = [] if any(name == "content-type" for name, _ in extra) else [("content-type", "application/grpc")]
        self.h2.send_headers(stream, [*head, *kind, *extra], end_stream=end)
        self.flush()
        return stream

    def send(self, stream: int, data: bytes, end: bool = True) -> None:
        """Send all of it, as the server's windows allow, unless the stream ends first."""
        while not self.replies[stream].ended:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(data))
            if room or not data:
                self.h2.send_data(stream, data[:room], end_stream=end and room == len(data))
                self.flush()
                data = data[room:]
                if not data:
                    return
            else:
                self.receive()

    def call(self, body: bytes, path: str = PREDICT, extra: Headers = ()) -> Reply:
        """One whole request, and its reply."""
        stream = self.open(path, extra)
        self.send(stream, body)
        return self.reply(stream)

    def reply(self, stream: int) -> Reply:
        while not self.replies[stream].ended and not self.gone:
            self.receive()
        return self.replies[stream]

    def receive(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            self.gone = True
            return
        for event in self.h2.receive_data(data):
            self._take(event)
        self.flush()

    def _take(self, event: h2.events.Event) -> None:
        reply = self.replies.get(getattr(event, "stream_id", None) or 0)
        if isinstance(event, h2.events.ConnectionTerminated):
            self.gone = True
        elif reply is None:
            return
        elif isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
            reply.headers |= {bytes(name).decode(): bytes(value).decode() for name, value in event.headers}
        elif isinstance(event, h2.events.DataReceived):
            reply.body += event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            reply.reset, reply.ended = event.error_code, True
        elif isinstance(event, h2.events.StreamEnded):
            reply.ended = True

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Http2:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def frame(message: bytes, flag: int = 0, announced: int | None = None) -> bytes:
    """A gRPC message with its five bytes in front."""
    return struct.pack(">BI", flag, len(message) if announced is None else announced) + message

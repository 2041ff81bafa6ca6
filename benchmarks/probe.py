"""One request by a real client, its answer compared with the bare model's.

The load generators count HTTP statuses, and a failed gRPC call has HTTP status 200: so a measurement counts only
between two probes that got the right numbers, and only if its answers had the right size.
"""

from __future__ import annotations

import http.client

import grpc
import numpy as np
from models import Rows, ServedModel
from peers import Running
from processes import LOOPBACK
from wire import framed

SECONDS = 60.0  # after a series a server may still have its queue to work off
TOLERANCE = 1e-4


class WrongAnswerError(Exception):
    """A server answered, but not with the prediction."""


def grpc_answer_bytes(server: Running, model: ServedModel, expected: Rows) -> int | None:
    """Ask over gRPC, insist on the right answer and return its size; None for a server that answers a constant."""
    if not server.checked:
        return None
    request = server.wire.grpc_request(model, model.rows(1))
    with grpc.insecure_channel(f"{LOOPBACK}:{server.grpc}") as channel:
        message = channel.unary_unary(server.wire.grpc_method)(request, timeout=SECONDS)
    _compare(server, server.wire.grpc_answer(model, message), expected)
    return len(framed(message))


def check_rest(server: Running, model: ServedModel, expected: Rows) -> None:
    """Ask over REST and insist on the right answer."""
    connection = http.client.HTTPConnection(LOOPBACK, server.rest, timeout=SECONDS)
    body = server.wire.rest_request(model, model.rows(1))
    try:
        connection.request("POST", server.wire.rest_path(model), body, {"content-type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise WrongAnswerError(f"{server.name} answered {answer.status}: {content[:200]!r}")
    if server.checked:
        _compare(server, server.wire.rest_answer(content), expected)


def _compare(server: Running, answer: Rows, expected: Rows) -> None:
    if answer.shape != expected.shape or not np.allclose(answer, expected, atol=TOLERANCE):
        raise WrongAnswerError(f"{server.name} answered {answer.tolist()}, the model says {expected.tolist()}")

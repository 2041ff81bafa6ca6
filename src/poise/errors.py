"""Every error that Poise raises or that a model may raise for it.

    PoiseError                  INTERNAL
    ├── ConfigError             INVALID_ARGUMENT     a setting is wrong; names the file, the key and the remedy
    ├── ModelLoadError          FAILED_PRECONDITION  a version cannot be served
    │   ├── BackendUnavailable  UNIMPLEMENTED        ... because nothing installed here can run it
    │   └── InvalidModel        INVALID_ARGUMENT     ... because of how the model is written or declared
    ├── RequestError            INTERNAL             some or all rows of a batch cannot be answered
    │   ├── InvalidInput        INVALID_ARGUMENT     ... because of what the client sent
    │   ├── InvalidOutput       INTERNAL             ... because of what the model returned
    │   └── Unavailable         UNAVAILABLE          ... just now; trying again may help
    └── WorkerClosed            UNAVAILABLE          this worker will get no more work

`code` is the name of a gRPC status code and never changes for a class; `retryable` says whether the same call may
succeed later. Rust's twin is `rust/src/error.rs`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

CODES = (
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
"""The status codes of gRPC in numeric order, less OK: the number of a code is its index plus one."""


class PoiseError(Exception):
    """The root of the tree."""

    code: ClassVar[str] = "INTERNAL"
    retryable: ClassVar[bool] = False


class ConfigError(PoiseError):
    """A setting that cannot be used. The message names where it stands, what was expected and what was got."""

    code = "INVALID_ARGUMENT"


class ModelLoadError(PoiseError):
    """A version of a model that cannot be served."""

    code = "FAILED_PRECONDITION"


class BackendUnavailable(ModelLoadError):  # noqa: N818  (a condition, not a mistake)
    """The backend, or a device it was asked to use, is not there; the message says what is and how to get it."""

    code = "UNIMPLEMENTED"


class InvalidModel(ModelLoadError):  # noqa: N818
    """The model's files, class or declared signature make no sense; the message says what to write."""

    code = "INVALID_ARGUMENT"


class RequestError(PoiseError):
    """Rows that cannot be answered, and why.

    A model raises one of these from `predict` to choose what the client is told. With `rows` (indices into the
    batch, 0 for its first row) only the requests that own those rows fail, and the others run again; without it the
    whole batch is at fault.
    """

    def __init__(self, message: str, rows: Iterable[int] | None = None) -> None:
        super().__init__(message)
        self.rows: tuple[int, ...] | None = None if rows is None else tuple(int(row) for row in rows)


class InvalidInput(RequestError):  # noqa: N818
    """The client sent something that no retry will mend."""

    code = "INVALID_ARGUMENT"


class InvalidOutput(RequestError):  # noqa: N818
    """The model returned something other than its signature says."""

    code = "INTERNAL"


class Unavailable(RequestError):  # noqa: N818
    """The model cannot answer just now, for instance because something it calls is down."""

    code = "UNAVAILABLE"
    retryable = True


class WorkerClosed(PoiseError):  # noqa: N818
    """There will be no more batches for this worker: its version was retired, or the server is gone."""

    code = "UNAVAILABLE"
    retryable = True


def code_number(code: str) -> int:
    """The gRPC number of a code name. Raises KeyError for a name that is none."""
    try:
        return CODES.index(code) + 1
    except ValueError:
        raise KeyError(code) from None


def one_line(error: BaseException, limit: int = 300) -> str:
    """`ExceptionType: first line of its message`, for a reader who shall not see a traceback."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  (a user's __str__ may raise anything; the type still says something)
        text = ""
    first = text.strip().split("\n", 1)[0].strip()
    if len(first) > limit:
        first = first[: limit - 1] + "…"
    return f"{type(error).__name__}: {first}" if first else type(error).__name__

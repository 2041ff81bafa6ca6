"""What the load generator saw: one row for each request, in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

NEVER = -1
"""In `sent`: the request never left, because its time limit came first."""

UNKNOWN = np.uint32(0xFFFF_FFFF)
"""In the columns of stages: the server did not say."""

OK = 0
"""In `outcome`: answered without an error."""


@dataclass(frozen=True, slots=True)
class Samples:
    """N requests. All times are nanoseconds of one monotonic clock since the start of the session.

    A latency counts from `scheduled`, the moment at which the request was due, so that a late generator or a blocked
    connection cannot hide in it. A request that got no answer within its time limit is kept, with `done` at the limit.
    """

    scheduled: NDArray[np.int64]
    issued: NDArray[np.int64]
    """When the generator got to it: later than `scheduled` only because its thread did not run in time."""
    sent: NDArray[np.int64]
    """When it was handed to a connection: later than `issued` because all were taken."""
    done: NDArray[np.int64]
    outcome: NDArray[np.uint16]
    """Index into `labels`."""
    choice: NDArray[np.uint32]
    """Which of the prepared requests was sent."""
    queue_us: NDArray[np.uint32]
    batch_us: NDArray[np.uint32]
    execute_us: NDArray[np.uint32]
    batch_rows: NDArray[np.uint32]
    """Rows of the batch that the request was executed in."""
    labels: tuple[str, ...] = ("OK",)
    """OK, then gRPC code names, HTTP statuses, TRANSPORT, TIMEOUT, CLIENT_DROPPED."""

    def __len__(self) -> int:
        return len(self.scheduled)

    def select(self, rows: NDArray[np.bool_] | NDArray[np.intp] | slice) -> Samples:
        """The rows that a mask (N,) keeps, or those at the given indices, in that order."""
        return replace(self, **{name: getattr(self, name)[rows] for name in COLUMNS})

    def between(self, start_ns: int, end_ns: int) -> Samples:
        """The requests that were due from `start_ns` up to, not including, `end_ns`, in that order."""
        kept = self.select((self.scheduled >= start_ns) & (self.scheduled < end_ns))
        return kept.select(np.argsort(kept.scheduled, kind="stable"))

    @property
    def answered(self) -> NDArray[np.bool_]:
        """(N,): whether the request was answered without an error."""
        return np.equal(self.outcome, OK)

    @property
    def timed(self) -> NDArray[np.bool_]:
        """(N,): whether the latency counts: answers and time-outs do, errors that came fast would flatter."""
        slow = [index for index, label in enumerate(self.labels) if label in {"OK", "TIMEOUT"}]
        return np.isin(self.outcome, slow)

    def latency_ms(self) -> NDArray[np.float64]:
        """(N,): from the scheduled send to the end of the answer, in milliseconds."""
        return (self.done - self.scheduled) / 1e6

    def service_ms(self) -> NDArray[np.float64]:
        """(N,): from the actual send to the end of the answer; NaN for those never sent."""
        return np.where(self.sent == NEVER, np.nan, (self.done - self.sent) / 1e6)

    def send_lag_ms(self) -> NDArray[np.float64]:
        """(N,): from the scheduled send to the actual one; for those never sent, to their end."""
        return (np.where(self.sent == NEVER, self.done, self.sent) - self.scheduled) / 1e6

    def issue_lag_ms(self) -> NDArray[np.float64]:
        """(N,): how late the generator itself was."""
        return (self.issued - self.scheduled) / 1e6

    def wait_ms(self) -> NDArray[np.float64]:
        """(N,): how long a request waited for a connection; for those never sent, until their end."""
        return (np.where(self.sent == NEVER, self.done, self.sent) - self.issued) / 1e6

    def errors(self) -> dict[str, int]:
        """How many requests ended with each error."""
        counts = np.bincount(self.outcome, minlength=len(self.labels))
        return {label: int(counts[index]) for index, label in enumerate(self.labels) if index != OK and counts[index]}


COLUMNS = tuple(field.name for field in fields(Samples) if field.name != "labels")


def join(parts: Sequence[Samples]) -> Samples:
    """All rows of several parts, whose labels may differ. Raises ValueError for no part at all."""
    if not parts:
        raise ValueError("there is no part to join: expected at least one")
    labels = tuple(dict.fromkeys(label for part in parts for label in part.labels))
    outcomes = [np.array([labels.index(label) for label in part.labels], np.uint16)[part.outcome] for part in parts]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS if name != "outcome"}
    return Samples(**columns, outcome=np.concatenate(outcomes), labels=labels)

"""Where the time of requests went: the server's own word for each answer, joined to what the client saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.bench.samples import UNKNOWN, Samples
from poise.bench.statistics import percentile

SERVER_TIMING = "server-timing"
STAGES = ("queue", "batch", "execute", "rest")
"""As they are stacked; `rest` is the latency that the client saw, less the others: network, codecs, the client."""

PerStage = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Stages:
    """Milliseconds for each of STAGES; None where nothing can be said."""

    mean_ms: PerStage
    p50_ms: PerStage
    p99_ms: PerStage
    share: float
    """Of the answers, how many are in these figures; 0 to 1."""
    source: str
    """`server-timing`: told with each answer; `triton statistics`: the server's sums over the window."""
    batch_rows: tuple[tuple[int, float], ...] = ()
    """(rows, batches of so many rows), ascending."""

    def to_json(self) -> dict[str, Any]:
        """Without `batch_rows`, which has a key of its own beside this."""
        per_stage = {"mean_ms": self.mean_ms, "p50_ms": self.p50_ms, "p99_ms": self.p99_ms}
        rounded = {name: {stage: _rounded(values[stage]) for stage in STAGES} for name, values in per_stage.items()}
        return {**rounded, "share": round(self.share, 4), "source": self.source}

    def batch_rows_json(self) -> list[list[float]]:
        return [[rows, round(batches, 2)] for rows, batches in self.batch_rows]


def stages_of(samples: Samples, request_rows: NDArray[np.int64]) -> Stages | None:
    """What the answers among the samples say; None when none of them says anything.

    `request_rows` (prepared requests,) has the rows of each: `Traffic.rows()`.
    """
    told = samples.answered & (samples.queue_us != UNKNOWN)
    told &= (samples.batch_us != UNKNOWN) & (samples.execute_us != UNKNOWN)
    if not told.any():
        return None
    kept = samples.select(told)
    columns = {"queue": kept.queue_us / 1e3, "batch": kept.batch_us / 1e3, "execute": kept.execute_us / 1e3}
    columns["rest"] = np.maximum(kept.latency_ms() - sum(columns.values()), 0.0)
    return Stages(
        mean_ms={stage: float(values.mean()) for stage, values in columns.items()},
        p50_ms={stage: percentile(values, 500) for stage, values in columns.items()},
        p99_ms={stage: percentile(values, 990) for stage, values in columns.items()},
        share=len(kept) / int(samples.answered.sum()),
        source=SERVER_TIMING,
        batch_rows=_batch_rows(kept, request_rows),
    )


def _batch_rows(samples: Samples, request_rows: NDArray[np.int64]) -> tuple[tuple[int, float], ...]:
    """How many batches of each size ran.

    A batch is told of by each request in it, so a request counts for its share of the rows; one that was split tells of
    its last batch and counts for that one alone.
    """
    known = samples.select((samples.batch_rows != UNKNOWN) & (samples.batch_rows > 0))
    sizes, index = np.unique(known.batch_rows, return_inverse=True)
    weights = np.minimum(request_rows[known.choice] / known.batch_rows, 1.0)
    batches = np.bincount(index, weights, minlength=len(sizes))
    return tuple(zip(sizes.tolist(), batches.tolist(), strict=True))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)

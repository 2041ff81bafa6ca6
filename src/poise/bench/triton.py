"""Where the time of requests went, by Triton's own sums: its statistics before and after a window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from poise.bench.stages import STAGES, Stages
from poise.bench.targets.base import TargetOptions
from poise.bench.targets.v2_rest import V2Rest
from poise.bench.traffic import Traffic
from poise.client import CallError
from poise.client.calls import rest

TRITON_STATISTICS = "triton statistics"
DURATIONS = ("queue", "compute_input", "compute_infer", "compute_output")
"""Of each request; one in a batch has the whole batch's time. The names are Triton's."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """Sums since the model was loaded, over all of its versions that were asked for."""

    requests: int
    """Answered from the model, not from the cache of answers."""
    total_ns: Mapping[str, int]
    """For each of DURATIONS, over all requests."""
    batches: Mapping[int, int]
    """How many ran, by rows."""

    @classmethod
    def of(cls, answer: Any) -> Statistics:
        """From what `GET /v2/models/NAME/stats` answers. Raises ValueError for anything else."""
        try:
            return cls._of(answer["model_stats"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"expected the statistics of a model in Triton's form: {error!r}") from error

    @classmethod
    def _of(cls, versions: list[dict[str, Any]]) -> Statistics:
        sums = [version["inference_stats"] for version in versions]
        batches: Counter[int] = Counter()
        for version in versions:
            for batch in version.get("batch_stats", []):
                batches[int(batch["batch_size"])] += int(batch["compute_infer"]["count"])
        return cls(
            requests=sum(int(one["compute_infer"]["count"]) for one in sums),
            total_ns={name: sum(int(one[name]["ns"]) for one in sums) for name in DURATIONS},
            batches=batches,
        )


def fetch(target: V2Rest) -> Statistics:
    """What the model's statistics are now. Raises CallError, also for a server of the protocol that keeps none."""
    options = target.options
    answer = rest(target.url, "GET", f"{target.path}/stats", b"", options.timeout_s, options.headers)
    try:
        return Statistics.of(answer)
    except ValueError as error:
        raise CallError(str(error)) from error


def looker(traffic: Traffic) -> Callable[[], Statistics | None]:
    """How to look at the statistics of the server that gets this traffic: None where it keeps none, or is not asked."""
    if not traffic.protocol.startswith("v2") or not traffic.url.startswith("http"):
        return lambda: None
    target = V2Rest(traffic.url, TargetOptions(traffic.model, traffic.version, headers=traffic.requests[0].headers))

    def look() -> Statistics | None:
        try:
            return fetch(target)
        except CallError:
            return None

    return look


def stages_between(before: Statistics, after: Statistics, latency_ms: float, answers: int) -> Stages | None:
    """The means of the requests that ended between two looks, of which the client had `answers` in `latency_ms` each.

    None when none ended, or when the model was loaded anew in between. Requests of other clients are in the means too.
    """
    requests = after.requests - before.requests
    if requests <= 0:
        return None
    mean = {name: (after.total_ns[name] - before.total_ns[name]) / requests / 1e6 for name in DURATIONS}
    stages = {
        "queue": mean["queue"],
        "batch": mean["compute_input"] + mean["compute_output"],
        "execute": mean["compute_infer"],
    }
    stages["rest"] = max(latency_ms - sum(stages.values()), 0.0)
    unknown = dict.fromkeys(STAGES)
    ran = {rows: count - before.batches.get(rows, 0) for rows, count in after.batches.items()}
    return Stages(
        mean_ms=stages,
        p50_ms=unknown,
        p99_ms=unknown,
        share=min(requests / answers, 1.0) if answers else 0.0,
        source=TRITON_STATISTICS,
        batch_rows=tuple((rows, float(count)) for rows, count in sorted(ran.items()) if count > 0),
    )

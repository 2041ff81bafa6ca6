"""One measured point: what was offered, what was seen, and what is wanted of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from poise.bench.load import Load
from poise.bench.samples import Samples
from poise.bench.stages import Stages
from poise.bench.traffic import Traffic

SLO_PATTERN = re.compile(r"p(\d{1,2}(?:\.\d)?)\s*(?:<=|=)\s*(\d+(?:\.\d+)?)\s*(us|ms|s)")
UNITS_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


@dataclass(frozen=True, slots=True)
class Slo:
    """At least `percentile` percent of the requests take at most `limit_ms` milliseconds."""

    percentile: float
    limit_ms: float

    @classmethod
    def parse(cls, text: str) -> Slo:
        """From `p99=50ms`. Raises ValueError for anything else."""
        match = SLO_PATTERN.fullmatch(text.strip().lower())
        if not match or float(match[1]) == 0 or float(match[2]) == 0:
            raise ValueError(f"expected an SLO like p99=50ms or p99.9=0.2s, got {text!r}")
        return cls(float(match[1]), float(match[2]) * UNITS_MS[match[3]])

    def __str__(self) -> str:
        return f"p{self.percentile:g}={self.limit_ms:g}ms"


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Load before the measurement, never counted."""

    seconds: float
    requests: int
    stable: bool
    """Whether it ended because latencies had settled, or was given a fixed length; else its limit ended it."""
    cold_start_ms: float | None
    """Latency of the very first request."""


@dataclass(frozen=True, slots=True)
class GeneratorUse:
    """What the load generator itself took."""

    threads: int
    connections: int
    cpu_share: float
    """Highest share of one core that one of its threads used in the measured window, 0 to 1."""
    host_cpu_share: float | None = None
    """Share of all cores of this machine that were busy, with whatever."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One point. `samples` holds the whole session; `measured()` what counts."""

    load: Load
    traffic: Traffic
    samples: Samples
    start_ns: int
    end_ns: int
    """The measured window, by the time at which requests were due."""
    timeout_s: float
    warmup: WarmUp
    generator: GeneratorUse
    slos: tuple[Slo, ...] = ()
    server_stages: Stages | None = None
    """Where requests spent their time, where the server says so in sums and not with each answer."""
    saturated: bool = False
    """Whether the run was cut short because its queue grew without end."""
    started_at: str = ""
    """Wall time, ISO 8601."""

    @property
    def window_s(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9

    def measured(self) -> Samples:
        """The requests that were due in the window, in that order."""
        return self.samples.between(self.start_ns, self.end_ns)

"""Scenarios like MLPerf Inference's, on our own engine: unofficial, since MLPerf's rules ask for its own LoadGen."""

from __future__ import annotations

from dataclasses import dataclass

from poise.bench.load import ClosedLoop, Load
from poise.bench.measurement import Measurement
from poise.bench.sequential import least_total, upper_bound

LABEL = "MLPerf-style, unofficial"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One way in which a model is used."""

    name: str
    load: Load | None
    """None: the highest rate that meets the SLO is searched for."""
    rows: int
    """Samples in one query."""
    percentile: float | None
    """Of the reported latency; None: rows per second are reported."""
    duration_s: float
    quick_s: float

    def seconds(self, quick: bool) -> float:
        """How long it is measured."""
        return self.quick_s if quick else self.duration_s

    @property
    def least_queries(self) -> int:
        """As many as the early-stopping rule needs to leave one out."""
        return 1 if self.percentile is None else least_total(1, self.percentile)


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("single-stream", ClosedLoop(1), 1, 90, 600, 60),
        Scenario("multi-stream", ClosedLoop(1), 8, 99, 600, 60),
        Scenario("server", None, 1, 99, 60, 10),
        Scenario("offline", ClosedLoop(4), 64, None, 600, 60),
    )
}


def result(scenario: Scenario, measurement: Measurement) -> dict[str, object]:
    """The figure of a scenario that is one measurement, and whether enough was measured for it."""
    measured = measurement.measured()
    rows = measurement.traffic.rows()[measured.choice][measured.answered].sum()
    found = {"name": scenario.name, "label": LABEL, "queries": len(measured), "least_queries": scenario.least_queries}
    if scenario.percentile is None:
        return found | {"rows_per_s": float(rows) / measurement.window_s, "enough": len(measured) > 0}
    bound = upper_bound(measured.latency_ms()[measured.timed], scenario.percentile)
    return found | {"percentile": f"p{scenario.percentile:g}", "latency_ms": bound, "enough": bound is not None}

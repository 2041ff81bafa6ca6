"""The result of a load test, as JSON for programs and as the source of everything that people see."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np

from poise.bench.load import OpenLoop
from poise.bench.machine import describe
from poise.bench.measurement import Measurement, Slo
from poise.bench.samples import Samples
from poise.bench.series import cdf, series
from poise.bench.stages import stages_of
from poise.bench.statistics import Latencies, intervals, percentile, summary
from poise.bench.verdict import Limits, judge

SCHEMA = 1
INTERVAL_METHOD = "95 %, blocks of one run drawn anew (t of the logarithm)"

Json = dict[str, Any]


def point(measurement: Measurement, limits: Limits | None = None) -> Json:
    """One measured point, with the keys of docs/reference/load-test-result.md."""
    measured = measurement.measured()
    verdict = judge(measurement, limits)
    latencies = measured.latency_ms()[measured.timed]
    return {
        **head("point"),
        "started_at": measurement.started_at,
        "target": target(measurement),
        "load": load(measurement),
        "window_s": measurement.window_s,
        "warmup_s": measurement.warmup.seconds,
        "warmup_stable": measurement.warmup.stable,
        "cold_start_ms": measurement.warmup.cold_start_ms,
        **rates(measurement, measured),
        "errors": measured.errors(),
        "latency_ms": summary(latencies),
        "service_ms": summary(known(measured.service_ms()[measured.timed])),
        "send_lag_ms": lag(measured),
        "serialise_us": measurement.traffic.serialise_us,
        "intervals": intervals(latencies),
        "interval_method": INTERVAL_METHOD,
        "slo": [slo_result(slo, measured) for slo in measurement.slos],
        "verdict": {"status": verdict.status.value, "reasons": list(verdict.reasons)},
        "generator": generator(measurement),
        **server_side(measurement, measured),
        "series": series(measurement),
        "cdf": cdf(latencies),
    }


def head(kind: str) -> Json:
    """What every result begins with."""
    return {"schema": SCHEMA, "kind": kind, "tool": f"poise {version('poise-serving')}", "machine": describe()}


def target(measurement: Measurement) -> Json:
    traffic = measurement.traffic
    names = ("url", "protocol", "model", "version", "signature")
    return {name: getattr(traffic, name) for name in names}


def load(measurement: Measurement) -> Json:
    offered = measurement.load
    if isinstance(offered, OpenLoop):
        return {"mode": "open", "rate": offered.rate, "arrival": offered.arrival, "seed": offered.seed}
    return {"mode": "closed", "concurrency": offered.concurrency}


def rates(measurement: Measurement, measured: Samples) -> Json:
    """Per second of the window. Goodput counts answers that met every SLO; without an SLO there is none."""
    seconds = measurement.window_s
    rows = measurement.traffic.rows()[measured.choice]
    answered = int(np.count_nonzero(measured.answered))
    good = measured.answered & (measured.latency_ms() <= min((slo.limit_ms for slo in measurement.slos), default=0.0))
    return {
        "requests": len(measured),
        "rows_per_request": float(rows.mean()) if len(rows) else 0.0,
        "offered_qps": len(measured) / seconds,
        "qps": answered / seconds,
        "rows_per_s": float(rows[measured.answered].sum()) / seconds,
        "goodput_qps": int(np.count_nonzero(good)) / seconds if measurement.slos else None,
    }


def known(values: Latencies) -> Latencies:
    return values[np.flatnonzero(~np.isnan(values))]


def lag(measured: Samples) -> Json:
    """How late requests were sent, and which part of the P99 was the generator's, which waited for a connection."""
    found = summary(measured.send_lag_ms())
    parts = {"generator_p99": percentile(measured.issue_lag_ms(), 990), "wait_p99": percentile(measured.wait_ms(), 990)}
    return {name: found[name] for name in ("p50", "p99", "max")} | parts


def slo_result(slo: Slo, measured: Samples) -> Json:
    """Whether an SLO was met; null where the sample supports no such percentile. Errors never meet one."""
    latencies = np.where(measured.timed, measured.latency_ms(), np.inf)
    value = percentile(latencies, round(slo.percentile * 10))
    met = None if value is None else value <= slo.limit_ms
    finite = None if value is None or not np.isfinite(value) else value
    return {"percentile": f"p{slo.percentile:g}", "limit_ms": slo.limit_ms, "value_ms": finite, "met": met}


def generator(measurement: Measurement) -> Json:
    use = measurement.generator
    names = ("threads", "connections", "cpu_share", "host_cpu_share")
    return {name: getattr(use, name) for name in names}


def server_side(measurement: Measurement, measured: Samples) -> Json:
    """What the server said of itself; null where it said nothing."""
    found = stages_of(measured, measurement.traffic.rows()) or measurement.server_stages
    if found is None:
        return {"stages": None, "batch_rows": None}
    return {"stages": found.to_json(), "batch_rows": found.batch_rows_json()}

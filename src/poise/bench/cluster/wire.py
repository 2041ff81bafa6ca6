"""What goes between a load test and its workers: a job as JSON, then ticks as lines, then samples."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from poise.bench.engine import Wiring
from poise.bench.load import ClosedLoop, Load, OpenLoop
from poise.bench.measurement import GeneratorUse, Measurement, WarmUp
from poise.bench.samples import COLUMNS, Samples
from poise.bench.session import Method
from poise.bench.traffic import Traffic, WireRequest

SCHEMA = 1
MAX_JOB_BYTES = 1 << 28
MAX_SAMPLES_BYTES = 1 << 33


@dataclass(frozen=True, slots=True)
class Job:
    """One worker's part of a measurement."""

    traffic: Traffic
    load: Load
    method: Method

    def to_json(self) -> bytes:
        requests = [asdict(each) | {"body": base64.b64encode(each.body).decode()} for each in self.traffic.requests]
        kind = "closed" if isinstance(self.load, ClosedLoop) else "open"
        method = asdict(self.method) | {"slos": []}
        traffic = asdict(self.traffic) | {"requests": requests}
        job = {"schema": SCHEMA, "traffic": traffic, "load": {"kind": kind, **asdict(self.load)}, "method": method}
        return json.dumps(job).encode()


def read_job(text: bytes) -> Job:
    """Raises ValueError for what is no job of this version."""
    try:
        raw = json.loads(text)
        if raw["schema"] != SCHEMA:
            raise ValueError(f"schema {raw['schema']}, expected {SCHEMA}: use one version of poise everywhere")
        return Job(read_traffic(raw["traffic"]), read_load(raw["load"]), read_method(raw["method"]))
    except (KeyError, TypeError, UnicodeDecodeError) as error:
        raise ValueError(f"this is no job of a load test: {type(error).__name__} {error}") from None


def read_traffic(raw: Mapping[str, Any]) -> Traffic:
    requests = tuple(
        WireRequest(
            path=each["path"],
            body=base64.b64decode(each["body"], validate=True),
            headers=tuple((name, value) for name, value in each["headers"]),
            method=each["method"],
            rows=each["rows"],
        )
        for each in raw["requests"]
    )
    return Traffic(**(dict(raw) | {"requests": requests, "weights": tuple(raw["weights"])}))


def read_load(raw: Mapping[str, Any]) -> Load:
    fields = {name: value for name, value in raw.items() if name != "kind"}
    return ClosedLoop(**fields) if raw["kind"] == "closed" else OpenLoop(**fields)


def read_method(raw: Mapping[str, Any]) -> Method:
    return Method(**(dict(raw) | {"wiring": Wiring(**raw["wiring"]), "slos": ()}))


def pack(measurement: Measurement) -> bytes:
    """What a worker found; times count from the start of its measured window."""
    samples = measurement.samples
    columns = {name: getattr(samples, name) for name in COLUMNS}
    facts = {
        "start_ns": measurement.start_ns,
        "end_ns": measurement.end_ns,
        "labels": samples.labels,
        "warmup": asdict(measurement.warmup),
        "generator": asdict(measurement.generator),
        "saturated": measurement.saturated,
        "started_at": measurement.started_at,
    }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, facts=np.frombuffer(json.dumps(facts).encode(), np.uint8), **columns)
    return buffer.getvalue()


def unpack(data: bytes, job: Job) -> Measurement:
    """Raises ValueError for what no worker packed."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            facts = json.loads(archive["facts"].tobytes())
            columns = {name: archive[name] for name in COLUMNS}
        samples = Samples(**columns, labels=tuple(facts["labels"]))
        return Measurement(
            load=job.load,
            traffic=job.traffic,
            samples=samples,
            start_ns=facts["start_ns"],
            end_ns=facts["end_ns"],
            timeout_s=job.method.wiring.timeout_s,
            warmup=WarmUp(**facts["warmup"]),
            generator=GeneratorUse(**facts["generator"]),
            saturated=facts["saturated"],
            started_at=facts["started_at"],
        )
    except (OSError, KeyError, TypeError, ValueError, EOFError) as error:
        raise ValueError(f"a worker sent no samples: {type(error).__name__} {error}") from None

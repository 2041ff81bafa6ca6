"""The result of a load test: as JSON for programs, as a table for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from poise.bench.statistics import Histogram


@dataclass(frozen=True, slots=True)
class Report:
    """Rates are per second of the measurement; latencies in milliseconds, None where the sample says too little.

    `offered_qps` counts all requests that were sent, `qps` those that were answered; `errors` counts the others by
    gRPC code name or HTTP status, TRANSPORT or TIMEOUT.
    """

    offered_qps: float
    qps: float
    rows_per_s: float
    requests: int
    errors: dict[str, int]
    latency_ms: dict[str, float | None]

    @classmethod
    def from_raw(cls, raw: Mapping[str, Any], rows: int) -> Report:
        """From what the load generator found, with so many rows in each request."""
        elapsed_s = raw["elapsed_s"]
        qps = raw["answered"] / elapsed_s if elapsed_s else 0.0
        return cls(
            offered_qps=raw["requests"] / elapsed_s if elapsed_s else 0.0,
            qps=qps,
            rows_per_s=qps * rows,
            requests=raw["requests"],
            errors=dict(raw["errors"]),
            latency_ms=Histogram.from_dict(raw["latency_ns"]).summary_ms(),
        )

    @property
    def answered(self) -> int:
        return self.requests - sum(self.errors.values())

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2)

    def to_table(self, title: str) -> Table:
        """Two columns: what, and how much."""
        table = Table("", "", title=title, show_header=False, title_justify="left")
        table.columns[1].justify = "right"
        for name, value in (("QPS", self.qps), ("rows/s", self.rows_per_s)):
            table.add_row(name, f"{value:,.1f}")
        table.add_row("requests", f"{self.requests:,}")
        for code, count in sorted(self.errors.items()):
            table.add_row(f"errors: {code}", f"[red]{count:,}[/red]")
        for name, latency in self.latency_ms.items():
            table.add_row(f"{name.replace('_', '.').replace('p', 'P')} latency", show_ms(latency))
        return table


def show_ms(value: float | None) -> str:
    """Milliseconds to three significant digits; a dash where there is nothing to say."""
    if value is None:
        return "-"
    digits = 3 if value < 1 else 2 if value < 100 else 0
    return f"{value:,.{digits}f} ms"

"""Results as files, and what they mean to a program that runs a load test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from poise.bench.report import SCHEMA
from poise.bench.verdict import Exit

Json = dict[str, Any]

KINDS = ("point", "runs", "sweep", "search", "scenario", "compare")
NEEDED = ("kind", "machine")
NEEDED_BY_A_POINT = ("target", "load", "qps", "requests", "errors", "latency_ms", "intervals", "verdict", "slo")


def write(file: Path, result: Json) -> None:
    """Raises OSError for a file that cannot be written."""
    file.write_text(json.dumps(result, indent=2, allow_nan=False) + "\n")


def check_writable(file: Path) -> None:
    """Raises OSError for a file that could not be written, as it is better known before a measurement than after it."""
    existed = file.exists()
    with file.open("a"):
        pass
    if not existed:
        file.unlink()


def read(file: Path) -> Json:
    """Raises ValueError for a file that holds no result of this schema, with what is wrong."""
    try:
        result = json.loads(file.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{file}: expected the JSON that `poise bench --json` writes: {error}") from None
    if not isinstance(result, dict) or result.get("schema") != SCHEMA:
        found = result.get("schema") if isinstance(result, dict) else type(result).__name__
        raise ValueError(f"{file}: expected a result of schema {SCHEMA}, got {found}; measure again with this version")
    missing = [name for name in NEEDED if name not in result]
    if not missing and result["kind"] == "point":
        missing = [name for name in NEEDED_BY_A_POINT if name not in result]
    if missing or result["kind"] not in KINDS:
        what = f"{', '.join(missing)} missing" if missing else f"unknown kind {result['kind']!r}"
        raise ValueError(f"{file}: {what}: it is no result of `poise bench`, or was changed")
    return result


def read_point(file: Path) -> Json:
    """A result of one point. Raises ValueError for another one."""
    result = read(file)
    if result["kind"] != "point":
        raise ValueError(f"{file}: expected the result of one point, got a {result['kind']}")
    return result


def exit_code(result: Json) -> Exit:
    """The exit status that a result asks for."""
    kind = result["kind"]
    if kind == "point":
        return of_point(result)
    if kind == "search" or "max_rate" in result.get("scenario", {}):
        found = result[kind]
        if found["max_rate"] is None:
            return Exit.SLO if found["missed"] else Exit.INVALID
        return Exit.OK if found["confirmed"] else Exit.INVALID
    if kind == "scenario":
        return Exit.OK if result["scenario"]["enough"] else Exit.INVALID
    if kind == "compare":
        return Exit.INVALID if result["compare"]["pairs"] == 0 else Exit.OK
    return worst(result["points"])


def of_point(result: Json) -> Exit:
    """An invalid measurement says nothing about its SLO; a saturated one misses it."""
    status = result["verdict"]["status"]
    if status == "SATURATED":
        return Exit.SLO if result["slo"] else Exit.INVALID
    if status == "INVALID":
        return Exit.INVALID
    if any(slo["met"] is False for slo in result["slo"]):
        return Exit.SLO
    return Exit.UNSTABLE if status == "UNSTABLE" else Exit.OK


def worst(points: list[Json]) -> Exit:
    """Of a sweep: whether all of its points can be believed and met their SLOs. That it ends saturated is no fault."""
    codes = [of_point(point) for point in points if point["slo"] or point["verdict"]["status"] != "SATURATED"]
    return max(codes, default=Exit.OK)

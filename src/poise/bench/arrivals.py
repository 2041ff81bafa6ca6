"""Arrivals: when requests of an open loop are due, made beforehand and the same for the same seed.

Two choices that do not depend on each other: gaps (`poise.bench.gaps`) say how regular arrivals are, a shape
(`poise.bench.shapes`) how their rate changes. Gaps with a mean of 1 are mapped through the inverse of the cumulative
rate.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from poise.bench import gaps, shapes
from poise.records import suggest

SHAPES: dict[str, Callable[..., shapes.Shape]] = {
    "ramp": shapes.ramp,
    "step": shapes.step,
    "spike": shapes.spike,
    "burst": shapes.burst,
    "diurnal": shapes.diurnal,
}
PROCESSES = ("poisson", "constant", "gamma")
KINDS = (*PROCESSES, *SHAPES, "trace")

LIMITS = {
    "at": (0.0, 1.0),
    "width": (0.0, 1.0),
    "depth": (0.0, 1.0),
    "to": (0.0, 1e3),
    "start": (0.0, 1e3),
    "end": (0.0, 1e3),
    "factor": (0.0, 1e3),
    "on": (1e-3, 1e4),
    "off": (1e-3, 1e4),
    "period": (1e-2, 1e6),
    "cv": (1e-2, 1e2),
}
"""What each number may be."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A way in which requests arrive."""

    text: str
    spacing: gaps.Gaps
    shape: Callable[[float], shapes.Shape] = shapes.flat
    """From the duration of the measurement."""
    steady: bool = True
    """Whether the rate is the same all the time."""
    trace_s: NDArray[np.float64] | None = None
    """(N,) times of a trace, ascending from 0; then `spacing` and `shape` do not matter."""

    def times(self, rate: float, duration_s: float, seed: int) -> NDArray[np.int64]:
        """When requests are due: (N,) nanoseconds from the start, ascending, with a mean rate of `rate` per second.

        A trace is played faster or slower to have that rate, and again from its start when it is too short.
        """
        if self.trace_s is not None:
            seconds = replay(self.trace_s, rate, duration_s)
        else:
            total = rate * duration_s
            units = gaps.unit_arrivals(self.spacing, total, np.random.default_rng(seed))
            seconds = self.shape(duration_s).place(units / total)
        return np.minimum(seconds * 1e9, duration_s * 1e9 - 1).astype(np.int64)

    def rate_at_start(self, rate: float) -> float:
        """What to warm up with: the rate at the beginning of a measurement with that mean."""
        return rate if self.steady or self.trace_s is not None else rate * self.shape(1.0).start()


def replay(trace_s: NDArray[np.float64], rate: float, duration_s: float) -> NDArray[np.float64]:
    """The times of a trace at another rate: (N,) seconds in [0, duration_s)."""
    length = trace_s[-1] * len(trace_s) / (len(trace_s) - 1)  # one mean gap behind the last
    scale = len(trace_s) / rate / length
    rounds = np.arange(int(duration_s / (length * scale)) + 1) * length
    seconds: NDArray[np.float64] = (rounds[:, None] + trace_s[None, :]).ravel() * scale
    return seconds[: np.searchsorted(seconds, duration_s)]


def parse_arrival(text: str) -> Arrival:
    """From `poisson`, `gamma:cv=2`, `burst:factor=5,on=0.1,off=0.9`, `step:to=3,process=constant`, `trace:FILE`.

    Raises ValueError for anything else, with the nearest thing that there is.
    """
    kind, _, rest = text.partition(":")
    if kind not in KINDS:
        raise ValueError(f"there is no arrival {kind!r}; {suggest(kind, KINDS)}")
    if kind == "trace":
        return Arrival(text, gaps.poisson, steady=False, trace_s=read_trace(Path(rest)))
    options = dict(split(kind, part) for part in rest.split(",") if part)
    process = kind if kind in PROCESSES else options.pop("process", "poisson")
    spacing = parse_gaps(kind, process, options)
    if kind in PROCESSES:
        refuse_others(kind, options, ())
        return Arrival(text, spacing)
    names = list(inspect.signature(SHAPES[kind]).parameters)[1:]
    refuse_others(kind, options, names)
    numbers = {name: number(kind, name, value) for name, value in options.items()}
    return Arrival(text, spacing, lambda duration: SHAPES[kind](duration, **numbers), steady=False)


def parse_gaps(kind: str, process: str, options: dict[str, str]) -> gaps.Gaps:
    """Takes what belongs to the gaps out of the options."""
    if process not in PROCESSES:
        raise ValueError(f"{kind}: there is no process {process!r}; {suggest(process, PROCESSES)}")
    if process == "gamma":
        return gaps.gamma(number(kind, "cv", options.pop("cv", "2")))
    return gaps.constant if process == "constant" else gaps.poisson


def split(kind: str, part: str) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if not equals:
        raise ValueError(f"{kind}: expected NAME=VALUE, got {part!r}")
    return name.strip(), value.strip()


def number(kind: str, name: str, text: str) -> float:
    low, high = LIMITS[name]
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise ValueError(f"{kind}: expected {name} from {low:g} to {high:g}, got {text!r}")
    return value


def refuse_others(kind: str, options: dict[str, str], known: list[str] | tuple[str, ...]) -> None:
    for name in options:
        if name not in known:
            known_ones = suggest(name, known) if known else "it takes none"
            raise ValueError(f"{kind}: there is no option {name!r}; {known_ones}")


def read_trace(file: Path) -> NDArray[np.float64]:
    """(N,) seconds from 0: one number a line, in any order; lines that begin with # are left out.

    Raises ValueError for a file that holds no trace.
    """
    try:
        lines = [line.split("#")[0].strip() for line in file.read_text().splitlines()]
        times = np.sort(np.array([float(line.split(",")[0]) for line in lines if line]))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"trace {file}: expected a text file with a time in seconds in each line: {error}") from None
    if len(times) < 2 or not np.isfinite(times).all() or times[0] == times[-1]:
        raise ValueError(f"trace {file}: expected at least two different times, got {len(times)} lines")
    return np.asarray(times - times[0])

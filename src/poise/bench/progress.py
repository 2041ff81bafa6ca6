"""Live progress: one line a second, which a terminal shows in place and a log file keeps."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from poise.bench.tick import Tick
from poise.bench.words import load_words, milliseconds


def line(tick: Tick) -> str:
    """One second of load in words."""
    total = f" of {tick.total_s:.0f}" if tick.total_s is not None else ""
    errors = f", {tick.errors:,} errors" if tick.errors else ""
    return (
        f"{tick.phase} {tick.elapsed_s:.0f}{total} s: {tick.rate:,.0f}/s, P50 {milliseconds(tick.p50_ms)}, "
        f"P99 {milliseconds(tick.p99_ms)}, {tick.in_flight:,} under way{errors}"
    )


def point_line(result: dict[str, Any]) -> str:
    """A measured point in words."""
    latency = result["latency_ms"]
    return (
        f"{load_words(result['load'])}: {result['qps']:,.0f}/s answered, P50 {milliseconds(latency['p50'])}, "
        f"P99 {milliseconds(latency['p99'])}, {result['verdict']['status']}"
    )


class Progress:
    """Shows ticks on a console until it is closed; use it in a `with` block."""

    def __init__(self, console: Console, label: str = "") -> None:
        self._console = console
        self._label = f"{label}: " if label else ""
        self._live = Live(console=console, transient=True, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._live:
            self._live.stop()

    def point(self, result: dict[str, Any]) -> None:
        """One line for a point that is measured, to be kept."""
        self._console.print(Text(self._label + point_line(result)), soft_wrap=True)

    def show(self, tick: Tick) -> None:
        """On a terminal in place of the last line, else with the time of day."""
        text = Text(self._label + line(tick), no_wrap=True, overflow="ellipsis")
        if self._live:
            self._live.update(text, refresh=True)
        else:
            self._console.print(Text(f"{datetime.now().astimezone():%H:%M:%S} ") + text, soft_wrap=True)

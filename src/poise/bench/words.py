"""Figures as people read them."""

from __future__ import annotations

from typing import Any


def milliseconds(value: float | None) -> str:
    """To three significant digits; a dash where there is nothing to say."""
    if value is None:
        return "-"
    digits = 3 if value < 1 else 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f} ms"


def span(low_high: tuple[float, float] | list[float] | None) -> str:
    """An interval of milliseconds, in brackets."""
    return "" if low_high is None else f"[{milliseconds(low_high[0])[:-3]} - {milliseconds(low_high[1])[:-3]}]"


def rate(value: float | None) -> str:
    """Per second."""
    return "-" if value is None else f"{value:,.1f}/s" if value < 1_000 else f"{value:,.0f}/s"


def load_words(load: dict[str, Any]) -> str:
    """The offered load of a result."""
    if load["mode"] == "closed":
        return f"{load['concurrency']} at once"
    return f"{load['rate']:,.6g} requests/s ({load['arrival']})"


def percentile_name(name: str) -> str:
    """P99.9 for p99_9."""
    return name.replace("_", ".").replace("p", "P") if name.startswith("p") else name


def lag_words(lag: dict[str, Any]) -> str:
    """Whose lag it was."""
    return f"generator {milliseconds(lag['generator_p99'])}, for a connection {milliseconds(lag['wait_p99'])}"

"""Time, handed to whoever needs it, so that tests can move it by hand (`poise.testing.ManualClock`)."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds that never go back."""

    def now(self) -> float:
        """Seconds since an arbitrary moment; differences mean something, the value alone does not."""

    def sleep(self, seconds: float) -> None:
        """Come back no earlier than this many seconds from now."""


class SystemClock:
    """The machine's monotonic clock."""

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

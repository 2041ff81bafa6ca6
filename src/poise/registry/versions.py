"""What a registry remembers of each version."""

from __future__ import annotations

from dataclasses import dataclass

from poise.backoff import Backoff
from poise.config import ModelConfig
from poise.registry.policy import State
from poise.registry.source import Tree

FIRST_RETRY_S = 1.0
CHANGED = "its files have changed since it was loaded; what was loaded goes on. Give new files a new version number"


@dataclass
class Version:
    """One version's state machine: START → LOADING → AVAILABLE → UNLOADING → END, and again."""

    number: int
    location: str
    state: State = State.START
    handle: int = -1
    code: int = 0
    message: str = ""
    failures: int = 0
    given_up: bool = False
    retry_at: float = 0.0
    tree: Tree | None = None
    """Its files when it was loaded."""
    changed: bool = False

    @property
    def holds(self) -> bool:
        """Whether it has a handle in the data plane."""
        return self.state in {State.LOADING, State.AVAILABLE, State.UNLOADING}

    @property
    def is_failing(self) -> bool:
        """Whether its last load failed."""
        return self.failures > 0

    @property
    def shown(self) -> State:
        """As clients see it: between its first tries a version is still loading, as in TensorFlow Serving."""
        return State.LOADING if self.state is State.END and self.code and not self.given_up else self.state

    @property
    def remark(self) -> str:
        """What clients are told beside the state."""
        if self.state is State.AVAILABLE and self.changed:
            return self.message or CHANGED
        return self.message

    def loading(self, handle: int) -> None:
        self.state, self.handle = State.LOADING, handle

    def available(self) -> None:
        self.state, self.code, self.message, self.failures, self.given_up = State.AVAILABLE, 0, "", 0, False

    def unloading(self) -> None:
        self.state, self.code, self.message = State.UNLOADING, 0, ""

    def ended(self) -> None:
        self.state, self.handle, self.code, self.message, self.failures = State.END, -1, 0, "", 0
        self.given_up = False

    def begin_anew(self) -> None:
        """Its files are others than those that failed: the tries begin again."""
        self.failures, self.given_up = 0, False

    def failed(self, why: str, code: int, now: float, config: ModelConfig) -> None:
        self.state, self.handle, self.code, self.message = State.END, -1, code, why
        self.failures += 1
        self.given_up = self.failures >= config.load_attempts
        retries = Backoff(min(FIRST_RETRY_S, config.load_retry_max_s), config.load_retry_max_s)
        self.retry_at = now + retries.wait_s(self.failures)

"""How what is served may change while the server runs: the files that say so, and who reads them again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from poise.config import ModelConfig
from poise.errors import PoiseError, one_line
from poise.registry.calls import Formats, ServerConfigs, not_available
from poise.registry.registry import Batching, Registry, configured_batching
from poise.registry.source import Source, holds_model

logger = logging.getLogger(__name__)


def directory_source(model: ModelConfig) -> Source:
    """The versions below a model's path."""
    return Source(model.path, holds_model(model.backend))


@dataclass(frozen=True, kw_only=True)
class Control:
    """What a server is told about changes, besides its configuration."""

    source: Callable[[ModelConfig], Source] = directory_source
    """Where the versions of a model come from."""
    batching: Batching = configured_batching
    """How a version forms batches, for those that bring settings of their own."""
    formats: Formats = field(default_factory=ServerConfigs)
    """The words in which clients speak of models."""
    reread: Callable[[], Sequence[ModelConfig]] | None = None
    """Reads the files again that say what is served; raises PoiseError or OSError when they cannot be used."""
    reread_every_s: float = 0.0
    """How often that is done without being asked for; 0 for never."""
    new_labels_may_wait: bool = False
    """Whether a new label may name a version that nobody has seen yet."""


class Requirement:
    """That every model there is at the start comes to serve."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._names = [model.name for model in registry.configs]

    def failure(self) -> str | None:
        """What keeps some of them from it, "" once all serve, None while that is open."""
        configured = {model.name for model in self._registry.configs}
        verdicts = [self._registry.verdict(name) for name in self._names if name in configured]
        if None in verdicts:
            return None
        failures = [verdict for verdict in verdicts if verdict]
        return not_available(failures, "servable(s)") if failures else ""


class Rereader:
    """Reads the files that say what is served again: when told to, and at its interval.

    `request` may be called by any thread, and by a signal handler; the rest belongs to the registry's thread.
    """

    def __init__(self, registry: Registry, control: Control, now: float) -> None:
        self._registry = registry
        self._control = control
        self._requested = threading.Event()
        self._last_error = ""
        self._every_s = control.reread_every_s if control.reread else 0.0
        self._next = now + self._every_s if self._every_s else None

    def request(self) -> None:
        self._requested.set()

    def next_due(self) -> float | None:
        return self._next

    def tick(self, now: float) -> None:
        """Read and apply, if it is time to. Files that cannot be used change nothing."""
        is_due = self._next is not None and now >= self._next
        if is_due:
            self._next = now + self._every_s
        if self._requested.is_set():
            self._requested.clear()
            self._last_error = ""
        elif not is_due:
            return
        if self._control.reread is None:
            logger.warning("there is no file to read again: what is served was given on the command line")
            return
        try:
            models = tuple(self._control.reread())
            if models == self._registry.configs:
                self._last_error = ""
                return
            self._registry.apply(models, now, new_labels_may_wait=self._control.new_labels_may_wait)
        except Exception as error:  # noqa: BLE001  (whatever is wrong with a file, the server goes on)
            self._note(error)
        else:
            self._last_error = ""
            logger.info("configuration %d: %s", self._registry.generation, ", ".join(one.name for one in models))

    def _note(self, error: Exception) -> None:
        """Log what is wrong, once for as long as it stays the same, or is not asked for again."""
        text = str(error) if isinstance(error, PoiseError | OSError) else one_line(error)
        if text != self._last_error:
            logger.error("the new configuration is not used, and what is served stays: %s", text)
        self._last_error = text

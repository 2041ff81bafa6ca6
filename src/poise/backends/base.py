"""What a backend is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from poise.types import Array, Signature


@dataclass(frozen=True)
class ModelSource:
    """One version of a model to load."""

    name: str
    version: int
    path: str
    """A file, a directory, or `file.py:Class`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the user set for the backend."""
    threads: int = 1
    """Cores that one batch may use."""


class LoadedModel(Protocol):
    """A version that is ready to run, used by one thread at a time.

    One whose `takes_made_up_inputs` is False is not warmed up with zeros.
    """

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """What can be asked; the same for as long as the model lives."""

    def run(self, signature: str, inputs: dict[str, Array], outputs: Sequence[str]) -> Mapping[str, Any]:
        """Answer one batch; every output asked for is in the result, and others may be.

        Inputs have the dtypes of the signature (strings: object arrays of bytes) and, when it is batched, one dim 0.
        They are valid until this returns. Strings may come back as bytes or str. Any exception fails the batch; an
        `errors.RequestError` chooses what the client is told.
        """

    def close(self) -> None:
        """Let go of everything."""


class Backend(Protocol):
    """A module with this function is a backend."""

    def load(self, source: ModelSource) -> LoadedModel:
        """Load a version. Raises errors.ModelLoadError with a message that says how to mend it."""

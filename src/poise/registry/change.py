"""What a new configuration means for a model that is served already. Pure functions."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from enum import Enum

from poise.config import ModelConfig
from poise.errors import ConfigError

LIVE = frozenset(
    {
        "versions",
        "labels",
        "load_policy",
        "poll_interval_s",
        "load_attempts",
        "load_retry_max_s",
        "load_timeout_s",
        "restart_delay_s",
        "restart_delay_max_s",
        "stop_timeout_s",
        "warmup",
        "warmup_iterations",
        "warmup_limit_s",
    }
)
"""Settings that apply to what is loaded already; any other makes it load anew."""


class Change(Enum):
    """What has to be done about a model."""

    NONE = "none"
    LIVE = "live"
    """Its settings apply at once, and nothing is loaded again."""
    ANEW = "anew"
    """Its versions load anew beside the old ones, which go when a new one serves."""


@dataclass(frozen=True)
class Newcomer:
    """What a leaver must know about the model that takes its place."""

    wanted: frozenset[int]
    available: frozenset[int]
    beside: bool
    """Whether both may be loaded at once."""


def change_of(before: ModelConfig, after: ModelConfig) -> Change:
    """How far two configurations of one model differ."""
    differing = {field.name for field in fields(after) if getattr(before, field.name) != getattr(after, field.name)}
    if not differing:
        return Change.NONE
    return Change.LIVE if differing <= LIVE else Change.ANEW


def kept_versions(serving: Collection[int], newcomer: Newcomer | None) -> frozenset[int]:
    """Which versions of a leaver serve on: all while the newcomer serves none, then those it has yet to replace."""
    if newcomer is None:
        return frozenset()
    if not newcomer.wanted:  # its path is empty, or cannot be read: better the old than none
        return frozenset(serving)
    if not newcomer.beside:
        return frozenset()
    if not newcomer.available:
        return frozenset(serving)
    return frozenset(serving) & (newcomer.wanted - newcomer.available)


def changes(before: Mapping[str, ModelConfig], after: Iterable[ModelConfig]) -> dict[str, Change | None]:
    """By name, what becomes of every model that is to be served; None for a new one. Raises ConfigError."""
    wanted = list(after)
    name, count = max(Counter(model.name for model in wanted).items(), key=lambda item: item[1], default=("", 0))
    if count > 1:
        raise ConfigError(f"Illegal to list model {name} multiple times in config list")
    return {model.name: change_of(before[model.name], model) if model.name in before else None for model in wanted}

"""Which models there are: those that are configured, those on their way out, and what was served in the past.

A model whose configuration changed so that it must load anew is two for a while, a newcomer and a leaver of one name.
The leaver serves until the newcomer does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from poise.config import ModelConfig
from poise.registry.change import Change, Newcomer, changes, kept_versions
from poise.registry.labels import check_labels, settled_labels
from poise.registry.model import Model
from poise.registry.policy import State

#: Models no longer configured whose last states can still be asked for.
MOST_PAST = 100

Status = dict[str, Any]


def merged_statuses(newest_first: Iterable[Sequence[Status]]) -> list[Status]:
    """One list for the models of one name. Of two states of a version the one that serves counts, else the newer."""
    found: dict[int, Status] = {}
    for statuses in newest_first:
        for status in statuses:
            known = found.get(status["version"])
            if known is None or (status["state"] == State.AVAILABLE and known["state"] != State.AVAILABLE):
                found[status["version"]] = status
    return [found[number] for number in sorted(found, reverse=True)]


class Roster:
    """Owner of the models; whoever holds it brings their versions to life and ends them."""

    def __init__(self, make: Callable[[ModelConfig], Model]) -> None:
        self._make = make
        self._current: dict[str, Model] = {}
        self._leaving: list[Model] = []
        self._past: dict[str, list[Status]] = {}
        self._labels: dict[str, dict[str, int]] = {}
        self._counted_on: set[str] = set()

    def __iter__(self) -> Iterator[Model]:
        return iter([*self._current.values(), *self._leaving])

    @property
    def configs(self) -> tuple[ModelConfig, ...]:
        """What is configured now."""
        return tuple(model.config for model in self._current.values())

    def current(self, name: str) -> Model | None:
        return self._current.get(name)

    def serves(self, name: str) -> bool:
        return any(model.serves for model in self._named(name))

    def is_leaving(self, name: str) -> bool:
        return any(model.name == name for model in self._leaving)

    def missing(self) -> list[str]:
        """Names of configured models that have no version that serves, and are counted on."""
        return [name for name in self._current if name in self._counted_on and not self.serves(name)]

    def count_on(self, names: Iterable[str]) -> None:
        """From now on these models are missed when they do not serve.

        One that comes later is not, until it has served once: to add a model must not take a server out of service.
        """
        self._counted_on.update(names)

    def may_load(self, model: Model) -> bool:
        """Whether a newcomer need not wait for its predecessor to be gone."""
        if model.config.load_policy != "resource" or model in self._leaving:
            return True
        return not any(other.holds for other in self._leaving if other.name == model.name)

    def check(self, configs: Sequence[ModelConfig], *, new_labels_may_wait: bool) -> Mapping[str, Change | None]:
        """What would become of each model. Raises ConfigError or LabelError where that cannot be."""
        found = changes({name: model.config for name, model in self._current.items()}, configs)
        for config in configs:
            if config.labels:
                told, coming = self._labels.get(config.name, {}), self._prospects(config, found[config.name])
                check_labels(config.name, config.labels, told, coming, new_may_wait=new_labels_may_wait)
        return found

    def _prospects(self, config: ModelConfig, change: Change | None) -> frozenset[int]:
        """Versions of which something can be expected under a new configuration."""
        current = self._current.get(config.name)
        if current and change is not Change.ANEW:
            return current.prospects(config.versions)
        return self._make(config).prospects(config.versions) | (current.available if current else frozenset())

    def apply(self, configs: Sequence[ModelConfig], found: Mapping[str, Change | None]) -> None:
        """Serve these and no others, as `check` has found out."""
        for name in [name for name in self._current if name not in found]:
            self._leaving.append(self._current.pop(name))
            self._counted_on.discard(name)
        for config in configs:
            match found[config.name]:
                case Change.LIVE:
                    self._current[config.name].reconfigure(config)
                case Change.ANEW:
                    self._leaving.append(self._current[config.name])
                    self._current[config.name] = self._make(config)
                case None:
                    self._past.pop(config.name, None)
                    self._current[config.name] = self._make(config)
        self._current = {config.name: self._current[config.name] for config in configs}

    def leavers(self) -> list[tuple[Model, frozenset[int]]]:
        """Leavers of which less is needed than before, and the versions that still are."""
        needed = [(model, self._needed(model)) for model in self._leaving]
        return [(model, versions) for model, versions in needed if versions != model.kept]

    def _needed(self, leaver: Model) -> frozenset[int]:
        if (model := self._current.get(leaver.name)) is None:
            return kept_versions(leaver.available, None)
        beside = model.config.load_policy != "resource"
        return kept_versions(leaver.available, Newcomer(model.wanted, model.available, beside))

    def sweep(self) -> list[str]:
        """Let go of leavers that hold nothing any more; their names."""
        gone = [model for model in self._leaving if not model.holds]
        for model in gone:
            self._leaving.remove(model)
            if model.name not in self._current:
                self._past[model.name] = model.statuses()
        return [model.name for model in gone]

    def forget(self) -> list[str]:
        """Let go of what was served longest ago; the names."""
        forgotten = list(self._past)[:-MOST_PAST]
        for name in forgotten:
            del self._past[name]
            self._labels.pop(name, None)
        return forgotten

    def statuses(self, name: str) -> list[Status]:
        """What status calls shall answer."""
        return merged_statuses([*(model.statuses() for model in self._named(name)), self._past.get(name, [])])

    def settle_labels(self, name: str) -> dict[str, int] | None:
        """What the labels of a model stand for, when that has changed since it was last asked."""
        model, told = self._current.get(name), self._labels.get(name, {})
        available: Collection[int] = {number for one in self._named(name) for number in one.available}
        settled = settled_labels(model.config.labels, told, available) if model else {}
        if settled == told:
            return None
        self._labels[name] = settled
        return settled

    def _named(self, name: str) -> list[Model]:
        """Newest first."""
        current = self._current.get(name)
        leaving = [model for model in reversed(self._leaving) if model.name == name]
        return leaving if current is None else [current, *leaving]

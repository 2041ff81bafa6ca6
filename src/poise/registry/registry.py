"""Which versions of each model are loaded, published and on their way out. What to do is decided in `policy`.

One thread owns a registry: it calls `tick` when `next_due` says so, and `version_*` when workers have news. Models
share nothing but that thread: whatever is wrong with one leaves the others alone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from poise.config import BatchSettings, ModelConfig
from poise.registry.model import Model
from poise.registry.policy import POLICIES, Action, Load, State, Unload
from poise.registry.roster import Roster, Status
from poise.registry.source import Source
from poise.registry.versions import Version

logger = logging.getLogger(__name__)

INVALID_ARGUMENT = 3
INTERNAL = 13


class Core(Protocol):
    """What a registry needs of `poise._core.Server`."""

    def add_version(self, model: str, version: int, batching_json: str) -> int: ...
    def describe(self, handle: int, signatures_json: str) -> None: ...
    def publish(self, handle: int) -> None: ...
    def retire(self, handle: int) -> None: ...
    def set_status(self, model: str, statuses_json: str) -> None: ...
    def set_labels(self, model: str, labels_json: str) -> None: ...


class Workers(Protocol):
    """What a registry needs of the supervisor."""

    def start(self, handle: int, config: ModelConfig, version: int, location: str, now: float) -> None: ...
    def retire(self, handle: int, now: float) -> None: ...
    def abandon(self, handle: int, now: float) -> None: ...


Batching = Callable[[ModelConfig, str], BatchSettings]
"""How the version of a model that stands at a location forms batches."""


def configured_batching(config: ModelConfig, _location: str) -> BatchSettings:
    """The same for every version."""
    return config.batching


class Registry:
    """Owner of the versions of every model."""

    def __init__(
        self,
        core: Core,
        workers: Workers,
        models: Iterable[ModelConfig],
        source: Callable[[ModelConfig], Source],
        batching: Batching = configured_batching,
    ) -> None:
        self._core = core
        self._workers = workers
        self._batching = batching
        self._roster = Roster(lambda config: Model(config, source(config)))
        self._loaded: dict[int, tuple[Model, Version]] = {}
        self._told: dict[str, list[Status]] = {}
        self._closing = False
        self.generation = 0
        self.apply(list(models), 0.0, new_labels_may_wait=True)
        self._roster.count_on(model.name for model in self.configs)

    @property
    def ready(self) -> bool:
        """Whether no model is missing."""
        return not self._roster.missing()

    @property
    def idle(self) -> bool:
        """Whether no version holds anything."""
        return not self._loaded

    def missing(self) -> list[str]:
        """Models without a version that serves, of those there were at the start and those that have served before."""
        return self._roster.missing()

    @property
    def configs(self) -> tuple[ModelConfig, ...]:
        """The models that are configured now."""
        return self._roster.configs

    def verdict(self, name: str) -> str | None:
        """What has become of a configured model: "" when it serves, why it does not, or None while that is open."""
        model = self._roster.current(name)
        return "it is not configured" if model is None else model.verdict()

    def is_settling(self, name: str) -> bool:
        """Whether a configured model has something before it still: a look at the disk, a version that loads."""
        model = self._roster.current(name)
        return model is not None and model.is_settling

    def is_leaving(self, name: str) -> bool:
        """Whether something of a model that was unloaded, or loads anew, is still held."""
        return self._roster.is_leaving(name)

    def statuses(self, name: str) -> list[Status]:
        """The states of a model's versions, newest first, as `Core.set_status` takes them."""
        return self._roster.statuses(name)

    def apply(self, models: Sequence[ModelConfig], now: float, *, new_labels_may_wait: bool = False) -> None:
        """Serve these models and no others. What has to be loaded or unloaded for that is begun, not waited for.

        Raises ConfigError or LabelError, having changed nothing.
        """
        found = self._roster.check(models, new_labels_may_wait=new_labels_may_wait)
        self.generation += 1
        self._roster.apply(models, found)
        self._let_go(now)
        for model in list(self._roster):
            self._tell(model)

    def look_soon(self, name: str) -> None:
        """Look at a model's disk at the next tick, and try again then what has failed."""
        if model := self._roster.current(name):
            model.look_soon()

    def next_due(self) -> float | None:
        """When `tick` has something to do."""
        return (
            None
            if self._closing
            else min((due for model in self._roster if (due := model.due()) is not None), default=None)
        )

    def tick(self, now: float) -> None:
        """Look at what is on disk where it is time to, and act on it."""
        if self._closing:
            return
        for model in list(self._roster):
            due = model.due()
            if due is not None and now >= due:
                model.look(now)
                self._advance(model, now)

    def version_ready(self, handle: int, signatures_json: str, now: float) -> None:
        """The first worker of a version is ready: describe it, publish it, and let the one before go."""
        model, version = self._loaded.get(handle, (None, None))
        if model is None or version is None or version.state is not State.LOADING:
            return
        try:
            self._core.describe(handle, signatures_json)
            self._core.publish(handle)
        except Exception as error:  # noqa: BLE001  (whatever it is, the other versions go on)
            self._fail(model, version, f"it cannot be published: {error}", INVALID_ARGUMENT, now)
        else:
            version.available()
            self._roster.count_on([model.name])
            self._tell_labels(model.name)  # before an older version goes, so that a label is never without one
            logger.info("%s version %d is available", model.name, version.number)
        self._advance(model, now)

    def version_failed(self, handle: int, why: str, now: float) -> None:
        """A version could not be loaded."""
        if loaded := self._loaded.get(handle):
            self._fail(*loaded, why, INTERNAL, now)
            self._advance(loaded[0], now)

    def version_ended(self, handle: int, now: float) -> None:
        """All workers of a version that was retired, or abandoned, are gone."""
        if loaded := self._loaded.pop(handle, None):
            model, version = loaded
            version.ended()
            logger.info("%s version %d has ended", model.name, version.number)
            self._advance(model, now)

    def version_troubled(self, handle: int, trouble: str) -> None:
        """A version that serves has lost workers; an empty text says that all are back."""
        if loaded := self._loaded.get(handle):
            model, version = loaded
            version.message = trouble
            self._tell(model)

    def retire_all(self, now: float) -> None:
        """Unload everything, and load nothing any more."""
        self._closing = True
        for model, version in list(self._loaded.values()):
            if version.state is not State.UNLOADING:
                self._unload(model, version, now)
                self._tell(model)

    def _advance(self, model: Model, now: float) -> None:
        """Do what the policy says until it says nothing."""
        if not self._closing:
            model.refresh(now)
            policy = POLICIES[model.config.load_policy]
            while self._roster.may_load(model) and (action := policy(model.views())):
                self._act(model, action, now)
        self._tell(model)
        self._let_go(now)

    def _let_go(self, now: float) -> None:
        """Unload models that are configured no more, or whose successor serves."""
        for model, kept in self._roster.leavers():
            model.leave(kept, now)
            self._advance(model, now)
        for name in self._roster.sweep():
            if successor := self._roster.current(name):  # it may have waited for the one that has gone
                self._advance(successor, now)
        for name in self._roster.forget():
            self._told.pop(name, None)
            self._core.set_status(name, "[]")
            self._core.set_labels(name, "{}")

    def _act(self, model: Model, action: Action, now: float) -> None:
        match action:
            case Load(number):
                self._load(model, model.versions[number], now)
            case Unload(number):
                self._unload(model, model.versions[number], now)

    def _load(self, model: Model, version: Version, now: float) -> None:
        version.tree, version.changed = model.source.tree(version.number), False
        logger.info("%s version %d is loading from %s", model.name, version.number, version.location)
        try:
            batching = self._batching(model.config, version.location)
            handle = self._core.add_version(model.name, version.number, batching.to_json())
        except Exception as error:  # noqa: BLE001  (as above)
            version.failed(str(error), INVALID_ARGUMENT, now, model.config)
            return
        version.loading(handle)
        self._loaded[handle] = (model, version)
        self._tell(model)
        self._workers.start(handle, model.config, version.number, version.location, now)

    def _unload(self, model: Model, version: Version, now: float) -> None:
        """Retire a version that serves, cut short the loading of one that does not."""
        was, handle = version.state, version.handle
        version.unloading()
        self._tell(model)  # before it is true: who believes it and asks for another version is right either way
        self._core.retire(handle)
        if was is State.LOADING:
            self._workers.abandon(handle, now)
        else:
            self._workers.retire(handle, now)

    def _fail(self, model: Model, version: Version, why: str, code: int, now: float) -> None:
        handle = version.handle
        del self._loaded[handle]
        if version.state is State.UNLOADING:  # it failed while its loading was being cut short
            version.ended()
            return
        self._workers.abandon(handle, now)
        self._core.retire(handle)
        version.failed(why, code, now, model.config)
        logger.error(
            "%s version %d failed to load: %s; next try in %g s",
            model.name,
            version.number,
            why,
            version.retry_at - now,
        )

    def _tell(self, model: Model) -> None:
        """Report the versions' states when they have changed."""
        statuses = self._roster.statuses(model.name)
        if statuses != self._told.get(model.name, []):
            self._told[model.name] = statuses
            self._core.set_status(model.name, json.dumps(statuses))
        self._tell_labels(model.name)

    def _tell_labels(self, name: str) -> None:
        if (labels := self._roster.settle_labels(name)) is not None:
            self._core.set_labels(name, json.dumps(labels))

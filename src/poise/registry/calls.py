"""What clients ask about the server itself, over gRPC or HTTP: its configuration, and single models.

The data plane hands such calls over and waits; each is answered here, at once or when its models have settled. A call
whose client has stopped waiting is answered all the same: the data plane drops the answer.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from poise.config import ModelConfig
from poise.errors import CODES, ConfigError, PoiseError
from poise.formats.model_config import ModelDefaults, models_from_json, models_to_json
from poise.records import show
from poise.registry.policy import State
from poise.registry.registry import Registry
from poise.registry.roster import Status

logger = logging.getLogger(__name__)

SAID = ("path", "backend", "versions", "labels")
"""The settings of a model that a client's configuration speaks of."""
MOST_PENDING = 64
"""As many as the data plane lets wait."""


class Core(Protocol):
    """What is needed of `poise._core.Server`."""

    def reply(self, call: int, code: str, text: str) -> None: ...


class Formats(Protocol):
    """Models in the words of TensorFlow Serving's ModelServerConfig, as JSON, and back."""

    def read(self, config: dict[str, Any]) -> Sequence[ModelConfig]: ...
    def write(self, models: Sequence[ModelConfig]) -> dict[str, Any]: ...


class CallError(PoiseError):
    """A call that cannot be done; `status` is the gRPC code that its client gets."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


Outcome = tuple[str, str]
"""What a call is answered with: "OK" and JSON, or the name of a gRPC code and a message."""


@dataclass(frozen=True)
class Pending:
    """A call that waits for models to settle."""

    call: int
    outcome: Callable[[], Outcome | None]
    """None while it is open."""


class Calls:
    """Answers calls from what the registry can do. Belongs to the registry's thread."""

    def __init__(self, core: Core, registry: Registry, formats: Formats, *, new_labels_may_wait: bool = False) -> None:
        self._core = core
        self._registry = registry
        self._formats = formats
        self._new_labels_may_wait = new_labels_may_wait
        self._pending: list[Pending] = []
        self._known: dict[str, Callable[[int, str, Any, float], None]] = {
            "get_config": self._get_config,
            "reload_config": self._reload_config,
            "load_model": self._load_model,
            "unload_model": self._unload_model,
            "reload_model": self._reload_model,
        }

    def handle(self, call: int, text: str, now: float) -> None:
        """Do what is asked; answer now, or from `settle`."""
        asked = json.loads(text)
        try:
            self._known[asked["name"]](call, asked["model"] or "", asked["body"], now)
        except CallError as error:
            self._core.reply(call, error.status, str(error))
        except PoiseError as error:
            self._core.reply(call, error.code, str(error))
        except Exception as error:
            logger.exception("call %s failed", asked["name"])
            self._core.reply(call, "INTERNAL", f"{asked['name']} failed: {type(error).__name__}; the log has more")

    def settle(self) -> None:
        """Answer the calls whose models have come to something."""
        waiting, self._pending = self._pending, []
        for pending in waiting:
            if (outcome := pending.outcome()) is None:
                self._pending.append(pending)
            else:
                self._core.reply(pending.call, *outcome)

    def _wait(self, call: int, outcome: Callable[[], Outcome | None]) -> None:
        self._pending = [*self._pending, Pending(call, outcome)][-MOST_PENDING:]

    def _get_config(self, call: int, _model: str, _body: Any, _now: float) -> None:
        config = self._formats.write([replace(model, path=absolute(model.path)) for model in self._registry.configs])
        answer = {"generation": self._registry.generation, "config": config}
        self._core.reply(call, "OK", json.dumps(answer))

    def _reload_config(self, call: int, _model: str, body: Any, now: float) -> None:
        body = _table(body, "a body")
        config, expected = _table(body.get("config"), "config"), body.get("generation")
        if expected is not None and expected != self._registry.generation:
            raise CallError(
                "ABORTED",
                f"the configuration has changed: its generation is {self._registry.generation}, not {expected};"
                " get it again, and apply the change to what it is now",
            )
        if not config:  # TensorFlow Serving takes a configuration that says nothing as such
            self._core.reply(call, "OK", json.dumps(self._listed(())))
            return
        before = {model.name for model in self._registry.configs}
        models = self._read(config)
        self._apply(models, now)
        names = [model.name for model in models]
        for name in names:
            self._registry.look_soon(name)
        new = [name for name in names if name not in before]
        self._wait(call, lambda: self._available(new, lambda: self._listed(names)))

    def _load_model(self, call: int, model: str, body: Any, now: float) -> None:
        if not body:
            self._reload_model(call, model, None, now)
            return
        known = [config for config in self._registry.configs if config.name == model]
        fields = self._formats.write(known)["model_config_list"]["config"][0] if known else {}
        given = {**fields, **_table(body, "a body"), "name": model}
        if known and "base_path" not in body:
            given["base_path"] = absolute(known[0].path)
        [config] = self._read({"model_config_list": {"config": [given]}})
        self._apply([*self._others(model), config], now)
        self._settle_model(call, model)

    def _unload_model(self, call: int, model: str, _body: Any, now: float) -> None:
        self._check_configured(model)
        self._apply(self._others(model), now)
        self._wait(call, lambda: None if self._registry.is_leaving(model) else ("OK", "{}"))

    def _reload_model(self, call: int, model: str, _body: Any, _now: float) -> None:
        self._check_configured(model)
        self._settle_model(call, model)

    def _settle_model(self, call: int, model: str) -> None:
        """Answer once there is nothing before a model that a look at the disk would set off."""
        self._registry.look_soon(model)

        def outcome() -> Outcome | None:
            settling = self._registry.is_settling(model)
            return None if settling else self._available([model], lambda: self._versions(model))

        self._wait(call, outcome)

    def _available(self, names: Sequence[str], answer: Callable[[], Any]) -> Outcome | None:
        """The answer once all of these models serve, or what has kept some of them from it."""
        verdicts = [self._registry.verdict(name) for name in names]
        if None in verdicts:
            return None
        failures = [verdict for verdict in verdicts if verdict]
        return ("UNKNOWN", not_available(failures)) if failures else ("OK", json.dumps(answer()))

    def _read(self, config: dict[str, Any]) -> list[ModelConfig]:
        """The models that a client lists. What its words cannot say stays as it is for models that are there."""
        known = {model.name: model for model in self._registry.configs}
        return [merged(known[one.name], one) if one.name in known else one for one in self._formats.read(config)]

    def _apply(self, models: Sequence[ModelConfig], now: float) -> None:
        self._registry.apply(models, now, new_labels_may_wait=self._new_labels_may_wait)

    def _others(self, model: str) -> list[ModelConfig]:
        return [config for config in self._registry.configs if config.name != model]

    def _check_configured(self, model: str) -> None:
        if model not in {config.name for config in self._registry.configs}:
            raise CallError("NOT_FOUND", f"model {model} is not configured; load it with a base_path")

    def _listed(self, names: Collection[str]) -> dict[str, Any]:
        return {
            "generation": self._registry.generation,
            "models": {name: self._result(name) for name in sorted(names)},
        }

    def _result(self, name: str) -> dict[str, str]:
        verdict = self._registry.verdict(name)
        if verdict is None:
            return {"code": "UNAVAILABLE", "message": "it does not serve yet"}
        return {"code": "UNKNOWN" if verdict else "OK", "message": verdict}

    def _versions(self, model: str) -> dict[str, Any]:
        return {"model_version_status": [as_status_api(status) for status in self._registry.statuses(model)]}


def absolute(path: str) -> str:
    """As clients must give it: they do not know where the server was started."""
    return str(Path(path).absolute())


def merged(known: ModelConfig, said: ModelConfig) -> ModelConfig:
    """A model that is configured, with what a client says of it. The same path in other words is no change.

    Raises ConfigError for another backend: TensorFlow Serving's clients rely on that. Files may name another one.
    """
    if known.backend != said.backend:
        raise ConfigError(
            f"Illegal to change a model's platform. For model {known.name}: its backend is {known.backend} and would"
            f" be {said.backend}; give the new one another name, or unload the model first"
        )
    changes = {name: getattr(said, name) for name in SAID}
    if said.path == absolute(known.path):
        changes["path"] = known.path
    return replace(known, **changes)


def _table(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CallError("INVALID_ARGUMENT", f"expected {what} that is a JSON object; got {show(value)}")
    return value


def as_status_api(status: Status) -> dict[str, Any]:
    """One version's state in the form of TensorFlow Serving's status call."""
    code = CODES[status["code"] - 1] if status["code"] else "OK"
    return {
        "version": str(status["version"]),
        "state": State(status["state"]).name,
        "status": {"error_code": code, "error_message": status["message"]},
    }


def not_available(failures: Sequence[str], what: str = "model(s)") -> str:
    """TensorFlow Serving's words for models that were asked for and do not serve."""
    return f"{len(failures)} {what} did not become available: {{{''.join(f'{failure}}}, ' for failure in failures)}}}"


@dataclass(frozen=True)
class ServerConfigs:
    """TensorFlow Serving's own words, with what is the same for every model."""

    defaults: ModelDefaults = field(default_factory=ModelDefaults)

    def read(self, config: dict[str, Any]) -> Sequence[ModelConfig]:
        return models_from_json(config, self.defaults)

    def write(self, models: Sequence[ModelConfig]) -> dict[str, Any]:
        return models_to_json(models)

"""What a running server serves, and changes to it, over its HTTP port."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from poise.client.calls import rest


@dataclass(frozen=True, slots=True)
class Admin:
    """A server's HTTP address, `http://HOST:PORT`, and how long a call may take. Every call raises CallError."""

    target: str
    timeout_s: float

    def models(self) -> list[dict[str, Any]]:
        """Models with `name`, `model_version_status` (newest first, as in the status call) and `version_labels`."""
        found: list[dict[str, Any]] = self._ask("GET", "/v1/models")["models"]
        return found

    def load(self, model: str, config: dict[str, Any]) -> dict[str, Any]:
        """Load a model, or change it, and wait until it serves. `config` has the fields of TensorFlow Serving's."""
        return self._ask("POST", _path(model, "load"), config)

    def unload(self, model: str) -> None:
        """Unload a model; requests under way are answered."""
        self._ask("POST", _path(model, "unload"))

    def reload(self, model: str) -> dict[str, Any]:
        """Look for new versions, try again what has failed, and wait for what comes of it."""
        return self._ask("POST", _path(model, "reload"))

    def config(self) -> dict[str, Any]:
        """`generation`, and `config` in the form of TensorFlow Serving's ModelServerConfig."""
        return self._ask("GET", "/v1/config")

    def configured(self) -> list[str]:
        """Names of the models that are configured."""
        listed = self.config()["config"].get("model_config_list", {}).get("config", [])
        return [model["name"] for model in listed]

    def apply(self, config: bytes) -> dict[str, Any]:
        """Replace the configuration by one in JSON or as text of protobuf, and wait for the models that are new."""
        return self._send("POST", "/v1/config", config)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._send(method, path, json.dumps(body).encode() if body else b"")

    def _send(self, method: str, path: str, body: bytes) -> dict[str, Any]:
        answer: dict[str, Any] = rest(self.target, method, path, body, self.timeout_s)
        return answer


def _path(model: str, verb: str) -> str:
    return f"/v1/models/{quote(model, safe='')}:{verb}"

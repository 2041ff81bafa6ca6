"""TensorFlow Serving's monitoring and SSL files, as fields of ServerSettings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from poise.errors import ConfigError
from poise.formats import text_proto

MONITORING_PATH = "/monitoring/prometheus/metrics"


def read_monitoring(path: Path) -> dict[str, Any]:
    """A MonitoringConfig: where Prometheus finds the metrics, or that it does not. Raises ConfigError."""
    prometheus = text_proto.read(path, "MonitoringConfig").get("prometheus_config", {})
    if not prometheus.get("enable", False):
        return {"monitoring_path": None}
    where: str = prometheus.get("path") or MONITORING_PATH
    if not where.startswith("/"):
        raise ConfigError(f"{path}: prometheus_config path: expected a path that starts with /; got {where!r}")
    return {"monitoring_path": where}


def read_ssl(path: Path) -> dict[str, Any]:
    """An SSLConfig: key, certificate and, to ask clients for theirs, the CA that has to have signed it, all in PEM.

    Raises ConfigError that names the file.
    """
    raw = text_proto.read(path, "SSLConfig")
    for name in ("server_key", "server_cert"):
        if "-----BEGIN " not in raw.get(name, ""):
            raise ConfigError(
                f"{path}: {name}: expected the contents of a PEM file (-----BEGIN …); {_got(raw.get(name))}"
            )
    authority = raw.get("custom_ca") or None
    asked = raw.get("client_verify", False)
    if asked and authority is None:
        raise ConfigError(f"{path}: client_verify needs custom_ca, the certificate that clients' are signed with")
    return {
        "tls_key": raw["server_key"],
        "tls_cert": raw["server_cert"],
        "tls_client_ca": authority if asked else None,
    }


def _got(text: str | None) -> str:
    return f"got {len(text)} characters without one" if text else "it is missing"

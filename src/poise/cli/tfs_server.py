"""The part of TensorFlow Serving's flags and files that says where and how the server listens."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from poise.cli.tfs_flags import Line, file_of
from poise.config import MIB, ServerSettings
from poise.errors import ConfigError
from poise.formats import server_files

CHANNEL = {
    "grpc.max_concurrent_streams": "max_concurrent_streams",
    "grpc.max_receive_message_length": "max_message_bytes",
}
"""Arguments of a gRPC channel that mean something here, as the settings that they are."""


def server_settings(line: Line, notes: list[str]) -> ServerSettings:
    """Where the server listens, and what it bounds. Raises ConfigError; adds to the notes what has no effect."""
    timeout_ms = line["rest_api_timeout_in_ms"]
    limits = {"max_message_bytes": line["max_message_bytes"], **_channel(line["grpc_channel_arguments"], notes)}
    settings = {
        **_addresses(line),
        "grpc_socket": line["grpc_socket_path"] or None,
        "default_timeout_s": 0.0,
        "rest_timeout_s": max(0, timeout_ms) / 1000,
        "cors": line["rest_api_enable_cors_support"],
        "tensor_content": line["enable_serialization_as_tensor_content"],
        "admin": line["enable_admin"],
        "reflection": line["enable_reflection"],
        "tfs_metrics": True,
        **limits,
        "max_body_bytes_held": max(1024 * MIB, limits["max_message_bytes"]),
        **_tls(line),
        **_monitoring(line, notes),
    }
    return ServerSettings(**settings)


def _addresses(line: Line) -> dict[str, str | None]:
    grpc, http = (_port(line, name) for name in ("port", "rest_api_port"))
    if not grpc and not line["grpc_socket_path"]:
        raise ConfigError("At least one of server_options.grpc_port or server_options.grpc_socket_path must be set.")
    if grpc and grpc == http:
        raise ConfigError(f"--port and --rest_api_port are both {grpc}; expected two different ones")
    host = line["bind_address"] or any_address()
    return {
        "grpc": f"{_bracketed(line['grpc_bind_address'] or host)}:{grpc}" if grpc else None,
        "http": f"{_bracketed(host)}:{http}" if http else None,
    }


def _port(line: Line, name: str) -> int:
    port: int = line[name]
    if not 0 <= port <= 65535:
        raise ConfigError(f"--{name}: expected a port from 0 to 65535; got {port}")
    return port


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def any_address() -> str:
    """All addresses of this machine: of IPv6 and IPv4 at once where there is IPv6."""
    return "::" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104  (as TensorFlow Serving does)


def _channel(text: str, notes: list[str]) -> dict[str, int]:
    found = {}
    for pair in filter(None, text.split(",")):
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise ConfigError(f"--grpc_channel_arguments: expected k=v,k=v; got {pair!r}")
        if key not in CHANNEL:
            notes.append(f"--grpc_channel_arguments: {key} has no effect")
        elif not value.isdecimal():
            raise ConfigError(f"--grpc_channel_arguments: {key}: expected a whole number; got {value!r}")
        else:
            found[CHANNEL[key]] = int(value)
    return found


def _tls(line: Line) -> Mapping[str, Any]:
    if (file := file_of(line, "ssl_config_file")) is None:
        return {}
    return {**server_files.read_ssl(file), "tls_http": line["rest_api_ssl"] and line["rest_api_port"] != 0}


def _monitoring(line: Line, notes: list[str]) -> Mapping[str, Any]:
    if (file := file_of(line, "monitoring_config_file")) is None:
        return {}
    if not line["rest_api_port"]:
        notes.append("--monitoring_config_file has no effect: metrics are on the HTTP port, and --rest_api_port is 0")
    return server_files.read_monitoring(file)

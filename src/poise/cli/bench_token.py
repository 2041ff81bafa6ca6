"""Workers of `poise bench` and the token that guards them."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

from poise.bench.cluster.worker import Worker


def read_token(file: Path | None) -> str:
    """The token in a file, none without one. Raises ValueError for a file that holds none."""
    if file is None:
        return ""
    token = file.read_text().strip()
    if len(token) < 16 or not token.isascii() or not token.isprintable():
        raise ValueError(f"{file}: expected a token of at least 16 printable characters in one line")
    return token


def make_worker(listen: str, token: str) -> Worker:
    """Raises ValueError for an address that is none, or that is open to others without a token."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"--listen: expected HOST:PORT, got {listen!r}")
    if not token and not is_loopback(host):
        raise ValueError(f"--listen {listen} can be reached from elsewhere: give --token-file, or listen on 127.0.0.1")
    return Worker((host, int(port)), token)


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

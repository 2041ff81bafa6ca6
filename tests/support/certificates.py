"""Certificates for tests, made by openssl."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Identity:
    """A certificate and its key."""

    cert: Path
    key: Path

    @property
    def pem(self) -> dict[str, str]:
        return {"cert": self.cert.read_text(), "key": self.key.read_text()}


def authority(folder: Path, name: str) -> Identity:
    return _make(folder, name, "-addext", "basicConstraints=critical,CA:TRUE")


def issued(folder: Path, name: str, by: Identity) -> Identity:
    """For 127.0.0.1 and for clients."""
    more = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"]
    return _make(folder, name, *more, "-CA", str(by.cert), "-CAkey", str(by.key))


def _make(folder: Path, name: str, *more: str) -> Identity:
    made = Identity(folder / f"{name}.crt", folder / f"{name}.key")
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    paths = ["-subj", f"/CN={name}", "-out", str(made.cert), "-keyout", str(made.key)]
    subprocess.run([*command, *paths, *more], check=True, capture_output=True)
    return made

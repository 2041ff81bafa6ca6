"""`poise tfserving` as it is started in the place of tensorflow_model_server, and models for it that load at once."""

from __future__ import annotations

import socket
from pathlib import Path

from support.serving import ServerProcess

HALVES = """
import numpy as np
import poise


class Halves(poise.Model):
    inputs = {{"x": ("float", [-1])}}
    outputs = {{"y": ("float", [-1])}}

    def predict(self, inputs):
        return {{"y": (inputs["x"] * 0.5 + {plus}).astype(np.float32)}}
"""


class TfServing(ServerProcess):
    """With both ports open, on the loopback alone."""

    COMMAND = ("tfserving", "--bind_address=127.0.0.1")

    def __init__(self, *flags: str, ready: bool = True, ready_s: float = 60.0) -> None:
        ports = [f"--{name}={port}" for name, port in zip(("port", "rest_api_port"), free_ports(), strict=True)]
        super().__init__(*ports, *flags, ready=ready, ready_s=ready_s)


def free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def halves(folder: Path, name: str, plus: float, version: int = 1) -> Path:
    """A version of y = x / 2 + plus in Python; the model's base path."""
    directory = folder / name / str(version)
    directory.mkdir(parents=True)
    (directory / "model.py").write_text(HALVES.format(plus=plus))
    return directory.parent


def listed(*models: tuple[str, Path], platform: str = "python", more: str = "") -> str:
    """The text of a models.config."""
    entries = (
        f'  config {{ name: "{name}" base_path: "{path}" model_platform: "{platform}" {more} }}\n'
        for name, path in models
    )
    return f"model_config_list: {{\n{''.join(entries)}}}\n"

"""One model in three formats: it hears which notes are played. And notes to be heard.

It comes in the wheel of a public package, fetched once with the hash that requirements/pitch.txt locks.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from poise.types import Array

CHECKOUT = Path(__file__).parents[2]
CACHE = CHECKOUT / ".cache" / "pitch"
INSIDE = "basic_pitch/saved_models/icassp_2022/"
RATE_HZ = 22_050
SAMPLES = 43_844
"""Of one row: a little under two seconds."""
LOWEST_KEY = 21
"""Of a piano, by its MIDI number: the first of 88 columns of the output `note`."""


def fetch(cache: Path = CACHE) -> Path:
    """A folder with `nmp/` (a SavedModel), `nmp.onnx` and `nmp.tflite`. Raises CalledProcessError."""
    if not (cache / INSIDE / "nmp.onnx").exists():
        options = ["--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:", "--dest", str(cache)]
        requirements = CHECKOUT / "requirements" / "pitch.txt"
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", *options]
        subprocess.run([*command, "-r", str(requirements)], check=True)
        [wheel] = cache.glob("basic_pitch-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            wanted = [name for name in archive.namelist() if name.startswith(INSIDE)]
            archive.extractall(cache, sorted(wanted, key=lambda name: name.endswith(".onnx")))
    return cache / INSIDE


def play(keys: Sequence[int], seed: int = 1) -> Array:
    """One row of sound: the keys together, each with its harmonics, fading, over a little noise."""
    time_s = np.arange(SAMPLES) / RATE_HZ
    sound = np.random.default_rng(seed).normal(0.0, 0.001, SAMPLES)
    for key in keys:
        frequency_hz = 440.0 * 2.0 ** ((key - 69) / 12)
        for harmonic in range(1, 7):
            sound += 0.2 / harmonic**1.5 * np.sin(2 * np.pi * harmonic * frequency_hz * time_s)
    return (sound * np.exp(-time_s)).astype(np.float32)[:, np.newaxis]

"""How requests look on the wire: one file for each protocol."""

from poise.bench.targets.base import Target, TargetOptions
from poise.bench.targets.resolve import PROTOCOLS, resolve

__all__ = ["PROTOCOLS", "Target", "TargetOptions", "resolve"]

"""How a rate changes over a measurement, relative to its mean."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

POINTS = 4_096
"""Smooth shapes are taken as so many straight pieces."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A rate in straight pieces: (K,) times in seconds from 0, ascending, and (K,) relative rates, none negative.

    Two equal times are a step.
    """

    times: NDArray[np.float64]
    rates: NDArray[np.float64]

    def place(self, share: NDArray[np.float64]) -> NDArray[np.float64]:
        """(N,) shares of all arrivals, 0 to 1, to (N,) times: the inverse of the cumulative rate."""
        steps = np.diff(self.times)
        areas = np.concatenate(([0.0], np.cumsum(steps * (self.rates[1:] + self.rates[:-1]) / 2)))
        wanted = share * areas[-1]
        piece = np.clip(np.searchsorted(areas, wanted, side="right") - 1, 0, len(steps) - 1)
        rest, width = wanted - areas[piece], steps[piece]
        low, high = self.rates[piece], self.rates[piece + 1]
        # Within a piece the rate is low + slope·t, so that the area up to t is low·t + slope·t²/2.
        slope = np.divide(high - low, width, out=np.zeros_like(width), where=width > 0)
        root = np.sqrt(np.maximum(low**2 + 2 * slope * rest, 0))
        within = np.divide(2 * rest, low + root, out=np.zeros_like(rest), where=low + root > 0)
        return np.asarray(self.times[piece] + within)

    def mean(self) -> float:
        """Of the relative rates over the whole time."""
        area = float(np.sum(np.diff(self.times) * (self.rates[1:] + self.rates[:-1]) / 2))
        return area / float(self.times[-1] - self.times[0])

    def start(self) -> float:
        """The relative rate at the beginning, of a mean of 1; at least a hundredth."""
        return max(float(self.rates[0]) / self.mean(), 0.01)


def flat(duration: float) -> Shape:
    """The same all the time."""
    return Shape(np.array([0.0, duration]), np.ones(2))


def ramp(duration: float, start: float = 0.1, end: float = 1.0) -> Shape:
    """From one rate to another in a straight line."""
    return Shape(np.array([0.0, duration]), np.array([start, end]))


def step(duration: float, at: float = 0.5, to: float = 2.0) -> Shape:
    """At a share of the time to so many times the rate, for good."""
    when = at * duration
    return Shape(np.array([0.0, when, when, duration]), np.array([1.0, 1.0, to, to]))


def spike(duration: float, at: float = 0.5, width: float = 0.1, to: float = 5.0) -> Shape:
    """At a share of the time, for a share of it, to so many times the rate."""
    begin, end = at * duration, min(at + width, 1.0) * duration
    return Shape(np.array([0.0, begin, begin, end, end, duration]), np.array([1.0, 1.0, to, to, 1.0, 1.0]))


def burst(duration: float, factor: float = 5.0, on: float = 0.1, off: float = 0.9) -> Shape:
    """Again and again `on` seconds at so many times the rate of the `off` seconds before."""
    starts = np.arange(math.ceil(duration / (on + off))) * (on + off)
    times = np.stack([starts, starts + off, starts + off, starts + off + on], axis=1).ravel()
    rates = np.tile([1.0, 1.0, factor, factor], len(starts))
    return cut(times, rates, duration)


def diurnal(duration: float, period: float = 60.0, depth: float = 0.8) -> Shape:
    """Day and night: a sine of that period, which takes away so much of the mean at night; begins at the mean."""
    times = np.linspace(0.0, duration, POINTS)
    return Shape(times, 1 + depth * np.sin(2 * np.pi * times / period))


def cut(times: NDArray[np.float64], rates: NDArray[np.float64], duration: float) -> Shape:
    """The part up to `duration`."""
    end = float(np.interp(duration, times, rates))
    kept = times < duration
    return Shape(np.append(times[kept], duration), np.append(rates[kept], end))

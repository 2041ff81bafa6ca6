"""Whole numbers drawn from a distribution: lengths of sequences, keys of tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from poise.records import suggest

MAX_LENGTH = 1_000_000
MAX_VOCABULARY = 20_000_000
"""A Zipf distribution keeps 8 bytes for each value."""
GOLDEN = 0.6180339887498949

FORMS = {
    "fixed": "fixed:N",
    "uniform": "uniform:LOW:HIGH",
    "zipf": "zipf:MAX or zipf:MAX:EXPONENT",
    "lognormal": "lognormal:MEDIAN:SIGMA:MAX",
}


class Lengths(Protocol):
    """A distribution of lengths, each at least 1."""

    def draw(self, random: np.random.Generator) -> int: ...


@dataclass(frozen=True, slots=True)
class Uniform:
    """Each length from `low` to `high` as often as any other; one and the same where both are equal."""

    low: int
    high: int

    def draw(self, random: np.random.Generator) -> int:
        return int(random.integers(self.low, self.high, endpoint=True))


@dataclass(frozen=True, slots=True)
class LogNormal:
    """exp(N(ln median, sigma²)), rounded and kept from 1 to `most`: many short ones, few very long."""

    median: float
    sigma: float
    most: int

    def draw(self, random: np.random.Generator) -> int:
        drawn = random.lognormal(np.log(self.median), self.sigma)
        return int(min(max(round(drawn), 1), self.most))


@dataclass(frozen=True)
class Zipf:
    """Ranks 1 to `size`, rank k in proportion to 1/k^exponent; all alike for exponent 0."""

    size: int
    exponent: float = 1.0

    @cached_property
    def _cumulative(self) -> NDArray[np.float64]:
        weights = np.arange(1, self.size + 1, dtype=np.float64) ** -self.exponent
        cumulative: NDArray[np.float64] = np.cumsum(weights) / weights.sum()
        return cumulative

    def ranks(self, count: int, random: np.random.Generator) -> NDArray[np.int64]:
        """(count,) from 1 to `size`, by inversion of the cumulative distribution."""
        found = np.searchsorted(self._cumulative, random.random(count), side="right")
        return np.minimum(found, self.size - 1).astype(np.int64) + 1

    def draw(self, random: np.random.Generator) -> int:
        return int(self.ranks(1, random)[0])


@dataclass(frozen=True)
class Keys:
    """Keys 0 to `vocabulary` - 1 of which few are asked for often. Often used keys lie scattered, as hashed ones do."""

    vocabulary: int
    exponent: float

    @cached_property
    def _ranks(self) -> Zipf:
        return Zipf(self.vocabulary, self.exponent)

    @cached_property
    def _stride(self) -> int:
        """Coprime to the vocabulary, so that rank × stride mod vocabulary meets every key once."""
        stride = max(1, int(self.vocabulary * GOLDEN))
        while np.gcd(stride, self.vocabulary) != 1:
            stride += 1
        return stride

    def draw(self, count: int, random: np.random.Generator) -> NDArray[np.int64]:
        """(count,)."""
        return (self._ranks.ranks(count, random) * self._stride) % self.vocabulary


def parse_lengths(text: str) -> Lengths:
    """From `uniform:1:128` and the like. Raises ValueError, saying what is expected."""
    word, _, rest = text.strip().partition(":")
    if word.isdecimal() and not rest:
        word, rest = "fixed", word
    if word not in FORMS:
        raise ValueError(f"length distribution {word!r} is not known; {suggest(word, FORMS)}")
    try:
        return _lengths(word, [float(number) for number in rest.split(":")])
    except ValueError:
        raise ValueError(
            f"expected {FORMS[word]} with lengths from 1 to {MAX_LENGTH}, e.g. uniform:1:128; got {text!r}"
        ) from None


def parse_keys(text: str) -> Keys:
    """From `VOCABULARY` or `VOCABULARY:EXPONENT`. Raises ValueError, saying what is expected."""
    size, _, exponent = text.partition(":")
    try:
        vocabulary, power = int(size), float(exponent or 1.0)
    except ValueError:
        vocabulary, power = 0, 0.0
    if not 1 <= vocabulary <= MAX_VOCABULARY or not 0 <= power <= 10:
        raise ValueError(
            f"expected VOCABULARY or VOCABULARY:EXPONENT, e.g. 100000:1.1, with at most {MAX_VOCABULARY} keys"
            f" and an exponent from 0 to 10; got {text!r}"
        )
    return Keys(vocabulary, power)


def _lengths(word: str, numbers: list[float]) -> Lengths:
    if word == "fixed":
        (length,) = numbers
        return Uniform(_length(length), _length(length))
    if word == "uniform":
        low, high = map(_length, numbers)
        if low > high:
            raise ValueError
        return Uniform(low, high)
    if word == "zipf":
        most, exponent = numbers if len(numbers) == 2 else (*numbers, 1.0)
        if not 0 <= exponent <= 10:
            raise ValueError
        return Zipf(_length(most), exponent)
    median, sigma, most = numbers
    if not (1 <= median <= most and 0 <= sigma <= 10):
        raise ValueError
    return LogNormal(median, sigma, _length(most))


def _length(number: float) -> int:
    if number != int(number) or not 1 <= number <= MAX_LENGTH:
        raise ValueError
    return int(number)

"""A reader of Prometheus' text format 0.0.4, strict enough to find what Prometheus would refuse."""

from __future__ import annotations

import re
from dataclasses import dataclass

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')
KINDS = {"counter", "gauge", "histogram"}


@dataclass
class Sample:
    name: str
    labels: dict[str, str]
    value: float


def parse(text: str) -> list[Sample]:
    """Every sample; an AssertionError names a line that has no place in the format."""
    assert text.endswith("\n")
    kinds: dict[str, str] = {}
    samples = []
    for line in text.splitlines():
        if line.startswith("#"):
            _announcement(line, kinds)
            continue
        found = SAMPLE.match(line)
        assert found, line
        name, labels, value = found[1], _labels(found[2] or "", line), float(found[3])
        assert _family(name, kinds), f"not announced: {line}"
        samples.append(Sample(name, labels, value))
    _check_histograms(samples, kinds)
    return samples


def _announcement(line: str, kinds: dict[str, str]) -> None:
    mark, word, name, rest = line.split(" ", 3)
    assert (mark, word) in {("#", "HELP"), ("#", "TYPE")}, line
    assert re.fullmatch(NAME, name), line
    if word == "TYPE":
        assert rest in KINDS, line
        assert name not in kinds, f"announced twice: {line}"
        kinds[name] = rest


def _labels(text: str, line: str) -> dict[str, str]:
    labels, at = {}, 0
    while at < len(text):
        found = LABEL.match(text, at)
        assert found, line
        assert found[1] not in labels, line
        labels[found[1]] = found[2]
        at = found.end()
    return labels


def _family(name: str, kinds: dict[str, str]) -> str | None:
    if kinds.get(name) in {"counter", "gauge"}:
        return name
    stem = re.sub(r"_(bucket|sum|count)$", "", name)
    return stem if kinds.get(stem) == "histogram" else None


def _check_histograms(samples: list[Sample], kinds: dict[str, str]) -> None:
    series: dict[tuple[str, tuple[tuple[str, str], ...]], list[Sample]] = {}
    for sample in samples:
        family = _family(sample.name, kinds)
        if family and kinds[family] == "histogram":
            key = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
            series.setdefault((family, key), []).append(sample)
    for (family, _), parts in series.items():
        buckets = [part for part in parts if part.name == f"{family}_bucket"]
        bounds, counts = [float(part.labels["le"]) for part in buckets], [part.value for part in buckets]
        assert bounds == sorted(set(bounds)) and bounds[-1] == float("inf"), family
        assert counts == sorted(counts), family
        [count] = [part.value for part in parts if part.name == f"{family}_count"]
        assert count == counts[-1], family
        assert sum(part.name == f"{family}_sum" for part in parts) == 1, family

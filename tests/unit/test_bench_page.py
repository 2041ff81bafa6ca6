import re
from html.parser import HTMLParser

import numpy as np
import pytest

from poise.bench import modes, report
from poise.bench.html.page import page
from poise.bench.html.scale import Scale, even_ticks, log_ticks, nines
from poise.bench.load import ClosedLoop, OpenLoop
from poise.bench.measurement import GeneratorUse, Measurement, Slo, WarmUp
from poise.bench.traffic import Traffic, WireRequest
from poise.bench.words import milliseconds, rate
from support.fake_engine import S, make_samples

VOID = {"meta", "br", "path", "rect", "circle"}


class Page(HTMLParser):
    """Reads a page, checks that its elements nest, and keeps what stands under each key."""

    def __init__(self, text):
        super().__init__()
        self.open, self.keyed, self.tags, self.attributes = [], {}, [], []
        self.feed(text)
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append(tag)
        self.attributes.append(attributes)
        if tag not in VOID or (tag == "path" and not self.get_starttag_text().endswith("/>")):
            self.open.append((tag, attributes.get("data-key")))

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append(dict(attrs))

    def handle_endtag(self, tag):
        if tag in {"rect", "circle"}:
            return
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for _, key in self.open:
            if key:
                self.keyed[key] = self.keyed.get(key, "") + data


def measurement(load, url="grpc://h:1", slos=(), seed=0):
    random = np.random.default_rng(seed)
    count = 20_000
    scheduled = np.sort(random.uniform(0, 10 * S, count)).astype(np.int64)
    latency = random.lognormal(2, 0.5, count)
    columns = {
        "queue_us": np.full(count, 1_000, np.uint32),
        "batch_us": np.full(count, 100, np.uint32),
        "execute_us": np.full(count, 2_000, np.uint32),
        "batch_rows": random.integers(1, 9, count).astype(np.uint32),
    }
    outcome = (random.random(count) < 0.0005).astype(np.uint16)
    samples = make_samples(
        scheduled, scheduled + (latency * 1e6).astype(np.int64), outcome, ("OK", "<UNAVAILABLE>"), **columns
    )
    traffic = Traffic(url, (WireRequest("/a/B", b"x"),), model="<b>&m")
    use = GeneratorUse(1, 4, 0.2, 0.5)
    return Measurement(load, traffic, samples, 0, 10 * S, 10, WarmUp(2.0, 100, True, 5.0), use, slos)


def find(result, key):
    value = result
    for name in key.split("."):
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value


WRITTEN = {
    r".*(qps|per_s|max_rate)": rate,
    r".*_ms.*": lambda value: "n/a" if value is None else milliseconds(value),
    r".*cpu_share": "{:.0%}".format,
    r".*ratio": "{:.3f}".format,
    r"warmup_s": "{:.1f} s".format,
    r"serialise_us": "{:,.1f} µs".format,
    r"requests|errors.*": "{:,}".format,
}
"""How the page writes the figure under a key."""


def written(key, value):
    key = key.removeprefix("points.0.")
    return next((write(value) for pattern, write in WRITTEN.items() if re.fullmatch(pattern, key)), value)


def point(load, **more):
    return report.point(measurement(load, **more))


def results():
    points = [point(OpenLoop(rate), seed=int(rate), slos=(Slo(99, 50),)) for rate in (100.0, 200.0, 400.0)]
    yield "point", points[0]
    yield "closed", point(ClosedLoop(8))
    yield "sweep", {**report.head("sweep"), "points": points, "sweep": {}}
    search = {
        "slo": ["p99=50ms"],
        "max_rate": 200.0,
        "lowest_failed_rate": 400.0,
        "confirmed": True,
        "stopped": "",
        "goodput_qps": 1.0,
    }
    yield "search", {**report.head("search"), "points": points, "search": search}
    offline = {
        "name": "offline",
        "label": "unofficial",
        "queries": 5,
        "least_queries": 1,
        "rows_per_s": 1234.5,
        "enough": True,
    }
    yield "scenario", {**report.head("scenario"), "points": points[:1], "scenario": offline}
    yield "compare", modes.saved(points[0], points[1])


RESULTS = list(results())


@pytest.mark.parametrize(("name", "result"), RESULTS, ids=lambda value: value if isinstance(value, str) else "")
def test_the_figures_of_the_page_are_those_of_the_result(name, result):
    shown = Page(page(result)).keyed
    assert len(shown) >= (15 if name in {"point", "closed"} else 5)
    for key, text in shown.items():
        assert text.split(" (about")[0] == written(key, find(result, key)), key


@pytest.mark.parametrize(("name", "result"), RESULTS, ids=lambda value: value if isinstance(value, str) else "")
def test_the_page_needs_nothing_else_and_says_what_its_pictures_show(name, result):
    text = page(result)
    read = Page(text)
    assert "script" not in read.tags
    assert not re.search(r"(?:src|href)=|url\(|@import", text)
    pictures = [each for each in read.attributes if each.get("role") == "img"]
    assert len(pictures) >= (1 if name == "compare" else 2)
    assert all(each["aria-label"] for each in pictures)


def test_what_comes_from_outside_is_escaped():
    text = page(point(OpenLoop(100.0), url='grpc://"><script>:1'))
    assert "<b>&m" not in text
    assert "<script>" not in text
    assert "&lt;UNAVAILABLE&gt;" in text


def test_too_few_requests_for_a_percentile_are_told():
    result = point(OpenLoop(100.0))
    result["latency_ms"]["p99_9"] = None
    assert "needs 5,001 requests" in page(result)


def test_scales_and_ticks():
    assert even_ticks(0, 97, 5) == [0, 20, 40, 60, 80]
    assert even_ticks(0, 0, 5) == [0]
    assert log_ticks(0.5, 30) == [0.5, 1, 2, 5, 10, 20]
    assert log_ticks(0.5, 30_000) == [1, 10, 100, 1_000, 10_000]
    assert Scale(1, 100, 0, 200, log=True).place(10) == 100
    assert Scale(0, 10, 100, 0).place(99) == 0
    assert nines(0.999) == pytest.approx(3)

import json

import pytest

from poise.bench.results import exit_code, read, read_point, write
from poise.bench.verdict import Exit

POINT = {
    "schema": 1, "kind": "point", "machine": {}, "target": {}, "load": {}, "qps": 1, "requests": 1, "errors": {},
    "latency_ms": {}, "intervals": {}, "verdict": {"status": "VALID", "reasons": []}, "slo": [],
}  # fmt: skip


def point(status="VALID", met=()):
    return POINT | {"verdict": {"status": status, "reasons": []}, "slo": [{"met": each} for each in met]}


def search(**found):
    return {"kind": "search", "search": {"max_rate": None, "confirmed": False, "missed": False, "stopped": ""} | found}


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (point(), Exit.OK),
        (point(met=[True, None]), Exit.OK),
        (point(met=[True, False]), Exit.SLO),
        (point("INVALID", met=[False]), Exit.INVALID),
        (point("SATURATED"), Exit.INVALID),
        (point("SATURATED", met=[False]), Exit.SLO),
        (point("UNSTABLE"), Exit.UNSTABLE),
        (point("UNSTABLE", met=[False]), Exit.SLO),
        ({"kind": "sweep", "points": [point(), point("SATURATED")]}, Exit.OK),
        ({"kind": "sweep", "points": [point("INVALID"), point()]}, Exit.INVALID),
        ({"kind": "runs", "points": [point("UNSTABLE"), point()]}, Exit.UNSTABLE),
        (search(max_rate=5.0, confirmed=True), Exit.OK),
        (search(max_rate=5.0, stopped="the generator was late"), Exit.INVALID),
        (search(missed=True), Exit.SLO),
        (search(stopped="too few requests"), Exit.INVALID),
        ({"kind": "scenario", "scenario": {"enough": True}}, Exit.OK),
        ({"kind": "scenario", "scenario": {"enough": False}}, Exit.INVALID),
        ({"kind": "compare", "compare": {"pairs": 0}}, Exit.INVALID),
        ({"kind": "compare", "compare": {"pairs": None}}, Exit.OK),
    ],
)
def test_exit_codes(result, code):
    assert exit_code(result) is code


def test_a_result_comes_back_as_it_was_written(tmp_path):
    write(tmp_path / "r.json", POINT)
    assert read_point(tmp_path / "r.json") == POINT


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the JSON"),
        ("[1]", "schema 1, got list"),
        (json.dumps({"schema": 2}), "schema 1, got 2"),
        (json.dumps({"schema": 1, "kind": "point"}), "machine missing"),
        (json.dumps({"schema": 1, "kind": "point", "machine": {}}), "target, load"),
        (json.dumps({"schema": 1, "kind": "tale", "machine": {}}), "unknown kind 'tale'"),
    ],
)
def test_what_is_no_result_is_refused_with_its_name(tmp_path, text, message):
    file = tmp_path / "r.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=rf"r\.json.*{message}"):
        read(file)


def test_a_sweep_is_no_point(tmp_path):
    write(tmp_path / "r.json", {"schema": 1, "kind": "sweep", "machine": {}, "points": []})
    with pytest.raises(ValueError, match="got a sweep"):
        read_point(tmp_path / "r.json")

"""Versions that come and go under load, and those that are no good."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.clients import call, grpc
from support.serving import Stand, model, serving, until
from support.traffic import Traffic
from support.versions import publish


def adds(base: Path, **settings):
    return model("adds", "", path=str(base), **{"poll_interval_s": 0.1, "load_attempts": 1, **settings})


def status(stand: Stand):
    found = call(stand.http, "GET", "/v1/models/adds").json["model_version_status"]
    return {int(one["version"]): (one["state"], one["status"]["error_message"]) for one in found}


def ask(stand: Stand, version=None):
    return grpc(stand.grpc, "adds", version, x=np.array([0, 10], np.float32))["y"].tolist()


def ask_rest(stand: Stand):
    answer = call(stand.http, "POST", "/v1/models/adds:predict", '{"instances": [0, 10]}')
    assert answer.status == 200, answer.body
    return answer.json["predictions"]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    publish(tmp_path / "adds", 1)
    return tmp_path / "adds"


@pytest.mark.parametrize("ask_once", [ask, ask_rest], ids=["grpc", "rest"])
def test_no_request_fails_while_versions_change(base: Path, isolation, ask_once):
    with serving(adds(base, isolation=isolation)) as stand:
        with Traffic(lambda: ask_once(stand), threads=4) as traffic:
            for number in (2, 3, 4):
                publish(base, number)
                until(lambda number=number: ask(stand)[0] == number, f"version {number} serves", 20.0)
            until(lambda: set(status(stand)) >= {4}, "a status")
        assert traffic.errors == []
        assert all(answer[1] == answer[0] + 10 for answer in traffic.answers)
        assert [answer[0] for answer in traffic.answers if answer[0] not in {1, 2, 3, 4}] == []
        assert {1, 4} <= {answer[0] for answer in traffic.answers}
        until(lambda: stand.state["workers"] == 1, "the old versions' workers gone")
        stand.settle()


def test_the_new_version_answers_as_soon_as_the_old_does_not(base: Path):
    """Answers of one client never go back in time."""
    with serving(adds(base, workers=2)) as stand:
        with Traffic(lambda: ask(stand)[0], threads=1) as traffic:
            publish(base, 2)
            until(lambda: ask(stand)[0] == 2, "version 2 serves", 20.0)
        assert traffic.answers == sorted(traffic.answers)
        assert traffic.errors == []


BAD = {
    "raises": "raise ValueError('the weights are corrupt')",
    "ends its process": "import os; os._exit(7)",
    "never gets ready": "import time; time.sleep(60)",
}
WHY = {"raises": "the weights are corrupt", "ends its process": "exit status 7", "never gets ready": "load_timeout_s"}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_version_leaves_the_old_one_serving_and_says_why(base: Path, kind):
    limit_s = 3.0 if kind == "never gets ready" else 30.0
    with serving(adds(base, isolation="process", load_timeout_s=limit_s)) as stand:
        with Traffic(lambda: ask(stand)[0]) as traffic:
            publish(base, 2, load=BAD[kind])
            until(lambda: status(stand).get(2, ("",))[0] == "END", f"the end of version 2 in {status(stand)}", 20.0)
        assert traffic.errors == []
        assert set(traffic.answers) == {1}
        assert WHY[kind] in status(stand)[2][1]
        assert status(stand)[1] == ("AVAILABLE", "")
        assert call(stand.http, "GET", "/readyz").status == 200
        publish(base, 3)
        until(lambda: ask(stand) == [3, 13], "a good version after the bad", 20.0)
        stand.settle()


def test_a_version_that_is_taken_away_is_retired(base: Path):
    publish(base, 2)
    with serving(adds(base)) as stand:
        assert ask(stand)[0] == 2
        (base / "2").rename(base / "2.gone")
        until(lambda: ask(stand)[0] == 1, "version 1 serves", 20.0)
        stand.settle()

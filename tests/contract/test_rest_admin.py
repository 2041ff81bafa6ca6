"""Calls of REST clients about the server itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.clients import call
from support.serving import Stand, model, serving
from support.versions import publish

BODY = '{"instances": [1.0]}'


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Stand]:
    """A server that may be changed."""
    for name in ("one", "two"):
        publish(tmp_path / name, 1)
    with serving(model("one", "Half", path=str(tmp_path / "one"))) as stand:
        yield stand


def config(*names: str, folder: Path) -> str:
    entries = [f'config {{ name: "{name}" base_path: "{folder / name}" }}' for name in names]
    return f"model_config_list {{ {' '.join(entries)} }}"


class TestConfig:
    def test_is_read_and_has_a_tag(self, own: Stand):
        answer = call(own.http, "GET", "/v1/config")
        [entry] = answer.json["config"]["model_config_list"]["config"]
        assert entry["name"] == "one"
        assert answer.headers["etag"] == f'"{answer.json["generation"]}"'

    def test_is_replaced_by_text_and_put_back_by_what_was_read(self, own: Stand, tmp_path):
        before = call(own.http, "GET", "/v1/config")
        answer = call(own.http, "POST", "/v1/config", config("one", "two", folder=tmp_path))
        assert answer.status == 200, answer.body
        assert set(answer.json["models"]) == {"one", "two"}
        assert call(own.http, "POST", "/v1/models/two:predict", BODY).status == 200
        stale = call(own.http, "POST", "/v1/config", before.body, If_Match=before.headers["etag"])
        assert (stale.status, stale.json["code"]) == (412, "ABORTED")
        fresh = call(own.http, "GET", "/v1/config").headers["etag"]
        answer = call(own.http, "POST", "/v1/config", before.body.replace(b"generation", b"x"), If_Match=fresh)
        assert answer.status == 200, answer.body
        assert [entry["name"] for entry in call(own.http, "GET", "/v1/models").json["models"]][:1] == ["one"]

    CASES = {
        "nothing": ("", {}, "expected a configuration"),
        "no JSON": ("{", {}, "JSON Parse error"),
        "no text": ("model_config_list {", {}, "tensorflow.serving.ModelServerConfig"),
        "text by its type": ("{}", {"Content_Type": "text/plain"}, "tensorflow.serving.ModelServerConfig"),
        "no tag": ("{}", {"If_Match": "x"}, "If-Match: expected the ETag"),
    }

    @pytest.mark.parametrize(("body", "headers", "text"), CASES.values(), ids=CASES)
    def test_that_makes_no_sense_is_refused(self, own: Stand, body, headers, text):
        answer = call(own.http, "POST", "/v1/config", body, **headers)
        assert answer.status == 400
        assert text in answer.json["error"]


class TestModels:
    def test_are_loaded_reloaded_and_unloaded(self, own: Stand, tmp_path):
        loaded = call(own.http, "POST", "/v1/models/two:load", f'{{"base_path": "{tmp_path / "two"}"}}')
        assert loaded.status == 200, loaded.body
        assert loaded.json["model_version_status"][0]["state"] == "AVAILABLE"
        publish(tmp_path / "two", 2)
        assert call(own.http, "POST", "/v1/models/two:reload").status == 200
        assert call(own.http, "POST", "/v1/models/two:unload").json == {}
        assert call(own.http, "POST", "/v1/models/two:predict", BODY).status == 404

    def test_are_loaded_from_text(self, own: Stand, tmp_path):
        loaded = call(own.http, "POST", "/v1/models/two:load", f'base_path: "{tmp_path / "two"}"')
        assert loaded.status == 200, loaded.body

    @pytest.mark.parametrize("order", ["unload", "reload"])
    def test_that_are_not_there_are_not_found(self, own: Stand, order):
        answer = call(own.http, "POST", f"/v1/models/nobody:{order}")
        assert (answer.status, answer.json["code"]) == (404, "NOT_FOUND")


def test_orders_are_refused_where_clients_may_not_give_them():
    with serving(model("one", "Echo"), admin=False) as stand:
        calls = [("GET", "/v1/config"), ("POST", "/v1/config"), ("POST", "/v1/models/one:unload")]
        answers = [call(stand.http, verb, path, "{}" if verb == "POST" else None) for verb, path in calls]
    assert [answer.status for answer in answers] == [403, 403, 403]

"""Paths, verbs and headers of the HTTP port."""

from __future__ import annotations

import http.client
from urllib.parse import quote

import pytest

from support.clients import address, call
from support.models import HOLD
from support.serving import Stand, model, serving

BODY = '{"instances": [1.0, 2.0]}'
ODD_NAME = "model name!#$%&'()*+,/:;=?@[]"


class TestPredict:
    @pytest.mark.parametrize("path", ["/v1/models/adds/versions/1:predict", "/V1/Models/adds/VERSIONS/1:predict"])
    def test_of_a_version(self, stand: Stand, path):
        assert call(stand.http, "POST", path, BODY).json == {"predictions": [2.0, 3.0]}

    def test_answers_are_json_and_say_who_gave_them(self, stand: Stand):
        answer = call(stand.http, "POST", "/v1/models/adds/versions/1:predict", BODY)
        assert answer.status == 200
        assert {name: value for name, value in answer.headers.items() if name not in {"content-length", "date"}} == {
            "content-type": "application/json",
            "poise-model": "adds",
            "poise-version": "1",
            "poise-signature": "serving_default",
        }

    def test_of_the_latest_says_which_that_was(self, stand: Stand):
        assert call(stand.http, "POST", "/v1/models/adds:predict", BODY).headers["poise-version"] == "2"

    def test_query_strings_do_no_harm(self, stand: Stand):
        answer = call(stand.http, "POST", "/v1/models/adds/versions/1:predict?key=1&x", BODY)
        assert answer.json == {"predictions": [2.0, 3.0]}

    def test_of_a_label(self, stand: Stand):
        stand.server.core.set_labels("adds", '{"old/one": 1}')
        answer = call(stand.http, "POST", "/v1/models/adds/labels/old%2Fone:predict", BODY)
        assert (answer.json, answer.headers["poise-version"]) == ({"predictions": [2.0, 3.0]}, "1")
        [status] = call(stand.http, "GET", "/v1/models/adds/labels/old%2Fone").json["model_version_status"]
        assert status["version"] == "1"
        metadata = call(stand.http, "GET", "/v1/models/adds/labels/old%2Fone/metadata").json
        assert metadata["model_spec"]["version"] == "1"
        stand.server.core.set_labels("adds", "{}")

    def test_the_content_type_of_a_request_is_ignored(self, stand: Stand):
        answer = call(stand.http, "POST", "/v1/models/adds:predict", BODY, Content_Type="text/plain")
        assert answer.status == 200

    def test_names_may_be_percent_encoded(self):
        with serving(model(ODD_NAME, "Echo")) as stand:
            answer = call(stand.http, "POST", f"/v1/models/{quote(ODD_NAME, safe='')}:predict", BODY)
        assert answer.json == {"predictions": [1.0, 2.0]}

    def test_a_connection_serves_one_request_after_the_other(self, stand: Stand):
        connection = http.client.HTTPConnection(*address(stand.http), timeout=10)
        for _ in range(3):
            connection.request("POST", "/v1/models/adds:predict", BODY)
            assert connection.getresponse().read()
        connection.close()


MALFORMED = [
    ("GET", "/v1/foo"),
    ("GET", "/v1/models/adds/"),
    ("POST", "/v1/models/adds/versions/1:load"),
    ("POST", "/v1/models/adds/labels/x:reload"),
    ("GET", "/v1/models/adds:predict"),
    ("POST", "/v1/models"),
    ("POST", "/v1/models/adds"),
    ("POST", "/v1/models/adds:PREDICT"),
    ("POST", "/v1/models/adds/version/50:predict"),
    ("POST", "/v1/models/adds/versions/HELLO:predict"),
    ("POST", "/v1/models/adds/label/x:predict"),
    ("POST", "/v1/models/adds/versions/1/labels/x:predict"),
    ("PUT", "/v1/models/adds:predict"),
    ("DELETE", "/v1/models/adds"),
]


class TestMalformed:
    @pytest.mark.parametrize(("verb", "path"), MALFORMED, ids=" ".join)
    def test_paths_are_named_with_their_verb(self, stand: Stand, verb, path):
        answer = call(stand.http, verb, path, BODY if verb == "POST" else None)
        assert (answer.status, answer.json["error"]) == (400, f"Malformed request: {verb} {path}")

    def test_no_name(self, stand: Stand):
        answer = call(stand.http, "GET", "/v1/models/")
        assert (answer.status, answer.json["error"]) == (400, "Missing model name in request.")

    def test_a_version_beyond_64_bits(self, stand: Stand):
        answer = call(stand.http, "POST", "/v1/models/adds/versions/18446744073709551615:predict", BODY)
        assert answer.status == 400
        assert answer.json["error"].startswith("Failed to convert version: 18446744073709551615")

    def test_an_unknown_label_is_told_before_a_bad_body(self, stand: Stand):
        answer = call(stand.http, "POST", "/v1/models/adds/labels/x:predict", '{"instances": ["x"]}')
        assert (answer.status, answer.json["error"]) == (400, "Unrecognized servable version label: x")

    @pytest.mark.parametrize("path", ["/", "/v2/health", "/v1", "/favicon.ico"])
    def test_what_is_nowhere(self, stand: Stand, path):
        answer = call(stand.http, "GET", path)
        assert (answer.status, answer.json["reason"]) == (404, "not_found")


class TestList:
    def test_has_every_model_with_its_versions_and_labels(self, stand: Stand):
        stand.server.core.set_labels("adds", '{"stable": 1}')
        models = {model["name"]: model for model in call(stand.http, "GET", "/v1/models").json["models"]}
        assert list(models) == sorted(models)
        entry = {"state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
        assert models["adds"] == {
            "name": "adds",
            "model_version_status": [{"version": "2", **entry}, {"version": "1", **entry}],
            "version_labels": {"stable": "1"},
        }
        assert models["broken"]["model_version_status"][0]["state"] == "END"
        stand.server.core.set_labels("adds", "{}")


class TestForms:
    def test_many_lines(self, stand: Stand):
        answer = call(
            stand.http, "POST", "/v1/models/rows_of_two:predict?pretty=true", '{"instances": [[1, 2], [3, 4]]}'
        )
        lines = ["{", '    "predictions": [', "        [1.0, 2.0],", "        [3.0, 4.0]", "    ]", "}", ""]
        assert answer.body.decode().split("\n") == lines
        assert answer.headers["content-length"] == str(len(answer.body))

    def test_errors_of_many_lines(self, stand: Stand):
        answer = call(stand.http, "GET", "/v1/foo?pretty")
        assert answer.body.startswith(b'{\n    "error": "Malformed request: GET /v1/foo",\n')

    @pytest.mark.parametrize(("path", "accept"), [("?nan=null", "*/*"), ("", "application/json;nan=null")])
    def test_strict_numbers(self, stand: Stand, path, accept):
        body = '{"instances": [NaN, 1, Infinity]}'
        answer = call(stand.http, "POST", f"/v1/models/echo_float:predict{path}", body, Accept=accept)
        assert answer.body == b'{"predictions":[null,1.0,null]}'

    def test_bytes_as_base64(self, stand: Stand):
        body = '{"instances": [{"b64": "/wA"}]}'
        refused = call(stand.http, "POST", "/v1/models/echo_string:predict", body)
        assert refused.status == 400
        assert "'_bytes'" in refused.json["error"] and "?b64=true" in refused.json["error"]
        answer = call(stand.http, "POST", "/v1/models/echo_string:predict?b64=true", body)
        assert answer.json == {"predictions": [{"b64": "/wA="}]}

    def test_of_no_known_value_are_refused(self, stand: Stand):
        answer = call(stand.http, "GET", "/v1/models?pretty=yse")
        assert (answer.status, answer.json["reason"]) == (400, "bad_input")


class TestTimeLimits:
    def test_may_be_over_at_once(self, stand: Stand):
        answer = call(stand.http, "POST", "/v1/models/half:predict", BODY, Poise_Timeout_Ms="0")
        assert (answer.status, answer.json["reason"]) == (504, "deadline")

    def test_must_be_numbers(self, stand: Stand):
        answer = call(stand.http, "POST", "/v1/models/half:predict", BODY, Poise_Timeout_Ms="soon")
        assert (answer.status, answer.json["reason"]) == (400, "bad_input")

    def test_of_the_server_are_for_rest_alone(self, tmp_path):
        held = model("half", "Half", {"folder": str(tmp_path)})
        with serving(held, rest_timeout_s=0.2) as stand:
            answer = call(stand.http, "POST", "/v1/models/half:predict", f'{{"instances": [{HOLD}]}}')
            (tmp_path / "open").touch()
            assert answer.status == 504
            slow = call(stand.http, "POST", "/v1/models/half:predict", BODY, Poise_Timeout_Ms="9000")
            assert slow.status == 200


class TestOtherOrigins:
    CORS = {
        "access-control-allow-origin": "*",
        "access-control-allow-methods": "POST, GET",
        "access-control-allow-headers": "Content-Type",
    }

    def test_are_let_in_by_a_setting(self):
        with serving(model("echo", "Echo"), cors=True) as stand:
            answers = [
                call(stand.http, "POST", "/v1/models/echo:predict", BODY),
                call(stand.http, "GET", "/v1/foo"),
                call(stand.http, "OPTIONS", "/v1/models/echo:predict", Origin="https://example.org"),
            ]
        assert [answer.status for answer in answers] == [200, 400, 200]
        for answer in answers:
            assert self.CORS.items() <= answer.headers.items()

    def test_are_not_let_in_without_it(self, stand: Stand):
        answer = call(stand.http, "OPTIONS", "/v1/models/half:predict", Origin="http://example.org")
        assert (answer.status, answer.body) == (200, b"")
        assert not [name for name in answer.headers if name.startswith("access-control")]

    def test_must_be_told(self, stand: Stand):
        answer = call(stand.http, "OPTIONS", "/v1/models/half:predict")
        assert (answer.status, answer.json["reason"]) == (400, "bad_input")


class TestStatus:
    def test_of_a_model_may_be_asked_by_head(self, stand: Stand):
        answer = call(stand.http, "HEAD", "/v1/models/adds")
        assert (answer.status, answer.body) == (200, b"")
        assert int(answer.headers["content-length"]) > 0

    def test_of_a_model(self, stand: Stand):
        answer = call(stand.http, "GET", "/v1/models/adds")
        entry = {"state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
        assert answer.json == {"model_version_status": [{"version": "2", **entry}, {"version": "1", **entry}]}

    def test_of_a_version(self, stand: Stand):
        [found] = call(stand.http, "GET", "/v1/models/adds/versions/1").json["model_version_status"]
        assert found["version"] == "1"

    def test_of_one_that_does_not_load(self, stand: Stand):
        [found] = call(stand.http, "GET", "/v1/models/broken").json["model_version_status"]
        assert found["state"] == "END"
        assert found["status"]["error_code"] != "OK"
        assert "the weights are corrupt" in found["status"]["error_message"]

    @pytest.mark.parametrize("path", ["nobody", "adds/versions/7", "nobody/metadata"])
    def test_of_what_nobody_knows(self, stand: Stand, path):
        assert call(stand.http, "GET", f"/v1/models/{path}").status == 404


def test_metadata(stand: Stand):
    answer = call(stand.http, "GET", "/v1/models/rows_of_two/metadata").json
    assert answer["model_spec"] == {"name": "rows_of_two", "signature_name": "", "version": "1"}
    signature = answer["metadata"]["signature_def"]["signature_def"]["serving_default"]
    dims = [{"size": "-1", "name": ""}, {"size": "2", "name": ""}]
    x = {"dtype": "DT_FLOAT", "tensor_shape": {"dim": dims, "unknown_rank": False}, "name": "x:0"}
    method = "tensorflow/serving/predict"
    assert signature == {"inputs": {"x": x}, "outputs": {"x": x}, "method_name": method, "defaults": {}}


class TestOperations:
    def test_alive(self, stand: Stand):
        assert call(stand.http, "GET", "/healthz").status == 200

    def test_not_ready_while_a_model_does_not_serve(self, stand: Stand):
        assert call(stand.http, "GET", "/readyz").status == 503

    def test_ready_when_every_model_serves(self):
        with serving(model("echo", "Echo")) as ready:
            assert call(ready.http, "GET", "/readyz").status == 200

    def test_metrics(self, stand: Stand):
        answer = call(stand.http, "GET", "/metrics")
        assert answer.status == 200
        assert b"# TYPE poise_requests counter" in answer.body
        assert answer.body.endswith(b"# EOF\n")

    @pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
    def test_are_only_read(self, stand: Stand, path):
        answer = call(stand.http, "POST", path, "")
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
        assert "expected GET or HEAD but got POST" in answer.json["error"]
        head = call(stand.http, "HEAD", path)
        assert (head.body, head.status in {200, 503}) == (b"", True)

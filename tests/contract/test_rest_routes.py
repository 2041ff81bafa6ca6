"""Paths, verbs and headers of the HTTP port."""

from __future__ import annotations

import http.client
from urllib.parse import quote

import pytest

from support.clients import address, call
from support.serving import Stand, model, serving

BODY = '{"instances": [1.0, 2.0]}'
ODD_NAME = "modelname!#$%&'()*+,;=?@[]"


class TestPredict:
    @pytest.mark.parametrize("path", ["/v1/models/adds/versions/1:predict", "/V1/Models/adds/VERSIONS/1:predict"])
    def test_of_a_version(self, stand: Stand, path):
        assert call(stand.http, "POST", path, BODY).json == {"predictions": [2.0, 3.0]}

    def test_answers_are_json_and_say_so(self, stand: Stand):
        answer = call(stand.http, "POST", "/v1/models/adds:predict", BODY)
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")

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

    def test_no_list_of_models(self, stand: Stand):
        answer = call(stand.http, "GET", "/v1/models")
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
        assert call(stand.http, "GET", path).status == 404


class TestStatus:
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
        head = call(stand.http, "HEAD", path)
        assert (head.body, head.status in {200, 503}) == (b"", True)

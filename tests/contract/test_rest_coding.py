"""Compressed bodies over REST."""

from __future__ import annotations

import gzip
import json
import zlib

import pytest

from support.clients import call
from support.serving import Stand

PREDICT = "/v1/models/echo_float:predict"
BODY = b'{"instances": [1.5, 2.5]}'
ANSWER = {"predictions": [1.5, 2.5]}
LONG = json.dumps({"instances": [[index * 0.5 for index in range(20000)]]})


def sent(stand: Stand, body, coding):
    return call(stand.http, "POST", PREDICT, body, Content_Encoding=coding)


class TestRequests:
    CODINGS = {
        "gzip": gzip.compress(BODY),
        "x-gzip": gzip.compress(BODY),
        "deflate": zlib.compress(BODY),
        "identity": BODY,
    }

    @pytest.mark.parametrize(("coding", "body"), CODINGS.items(), ids=CODINGS)
    def test_may_be_compressed(self, stand: Stand, coding, body):
        assert sent(stand, body, coding).json == ANSWER

    def test_may_be_a_bare_deflate_stream(self, stand: Stand):
        stream = zlib.compressobj(wbits=-15)
        assert sent(stand, stream.compress(BODY) + stream.flush(), "deflate").json == ANSWER

    BROKEN = {
        "not gzip": (BODY, "gzip", "the request is not valid gzip"),
        "cut gzip": (gzip.compress(BODY)[:-4], "gzip", "the request is not valid gzip"),
        "not deflate": (b"\xff\xff" + BODY, "deflate", "the request is not valid deflate"),
        "cut deflate": (zlib.compress(BODY)[:-4], "deflate", "the request is not valid deflate"),
    }

    @pytest.mark.parametrize(("body", "coding", "text"), BROKEN.values(), ids=BROKEN)
    def test_that_are_broken_are_told_so(self, stand: Stand, body, coding, text):
        answer = sent(stand, body, coding)
        assert answer.status == 400
        assert text in answer.json["error"]

    @pytest.mark.parametrize("coding", ["gzip", "deflate"])
    def test_that_swell_beyond_the_limit_are_too_large(self, stand: Stand, coding):
        bomb = {"gzip": gzip.compress, "deflate": zlib.compress}[coding](bytes(4 << 20))
        answer = sent(stand, bomb, coding)
        assert (answer.status, answer.json["reason"]) == (413, "too_large")
        assert "max_message_bytes is 1048576" in answer.json["error"]

    @pytest.mark.parametrize("coding", ["my_gzip", "br", "gzip, gzip"])
    def test_of_no_known_coding_are_refused_with_those_that_are(self, stand: Stand, coding):
        answer = sent(stand, BODY, coding)
        assert (answer.status, answer.json["reason"]) == (415, "unsupported_coding")
        assert answer.headers["accept-encoding"] == "gzip, deflate"


class TestAnswers:
    def test_that_are_long_are_compressed_for_clients_that_take_it(self, stand: Stand):
        answer = call(stand.http, "POST", PREDICT, LONG, Accept_Encoding="gzip, deflate")
        assert (answer.headers["content-encoding"], answer.headers["vary"]) == ("gzip", "Accept-Encoding")
        assert json.loads(gzip.decompress(answer.body))["predictions"][0][19999] == 9999.5
        assert answer.headers["content-length"] == str(len(answer.body))

    @pytest.mark.parametrize(
        ("body", "accepted"), [(BODY, "gzip"), (LONG, "identity"), (LONG, "gzip;q=0"), (LONG, "gzip;q=0.5, identity")]
    )
    def test_else_are_not(self, stand: Stand, body, accepted):
        answer = call(stand.http, "POST", PREDICT, body, Accept_Encoding=accepted)
        assert "content-encoding" not in answer.headers
        assert answer.json["predictions"]

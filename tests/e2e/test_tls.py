"""TLS and Unix sockets, with the real client of TensorFlow Serving and Python's own HTTP client."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl

import numpy as np
import pytest

from poise.config import ServerSettings
from poise.errors import ConfigError
from support.certificates import Identity, authority, issued
from support.clients import Refused
from support.serving import model, serving, until
from support.tfclient import TfClient

X = {"x": np.array([2], np.float32)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def ca(folder) -> Identity:
    return authority(folder, "ca")


@pytest.fixture(scope="module")
def identity(folder, ca) -> Identity:
    return issued(folder, "server", ca)


def settings(identity: Identity, **more):
    return {"tls_cert": identity.pem["cert"], "tls_key": identity.pem["key"], **more}


def test_grpc_over_tls(tf: TfClient, ca, identity):
    with serving(model("half", "Half"), **settings(identity)) as stand:
        tf.call("secure", stand.grpc, ca=ca.pem["cert"])
        assert tf.predict(stand.grpc, "half", X)["y"].tolist() == [3]
        with contextlib.closing(http.client.HTTPConnection(stand.http)) as plain:  # as in TensorFlow Serving
            plain.request("GET", "/readyz")
            assert plain.getresponse().status == 200


def test_clients_must_have_a_certificate_where_that_is_asked(tf: TfClient, folder, ca, identity):
    own, stranger = authority(folder, "clients"), issued(folder, "stranger", ca)
    client = issued(folder, "client", own)
    with serving(model("half", "Half"), **settings(identity, tls_client_ca=own.pem["cert"])) as stand:
        tf.call("secure", stand.grpc, ca=ca.pem["cert"], **client.pem)
        assert tf.predict(stand.grpc, "half", X)["y"].tolist() == [3]
        for presented in ({}, stranger.pem):
            tf.call("secure", stand.grpc, ca=ca.pem["cert"], **presented)
            with pytest.raises(Refused) as caught:
                tf.predict(stand.grpc, "half", X)
            assert caught.value.code == "UNAVAILABLE"


def test_grpc_over_a_unix_socket(tf: TfClient, tmp_path):
    path = tmp_path / "poise.sock"
    with serving(model("half", "Half"), grpc_socket=str(path)) as stand:
        assert tf.predict(f"unix:{path}", "half", X)["y"].tolist() == [3]
        assert tf.predict(stand.grpc, "half", X)["y"].tolist() == [3]
    assert not path.exists()


def serial(address: str, context: ssl.SSLContext) -> str:
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPSConnection(host, int(port), context=context)
    connection.connect()
    found = connection.sock.getpeercert()["serialNumber"]
    connection.close()
    return found


def test_rest_over_tls_and_certificates_that_are_renewed(folder, ca, caplog):
    identity = issued(folder, "renewed", ca)
    files = {"tls_cert": str(identity.cert), "tls_key": str(identity.key), "tls_http": True}
    context = ssl.create_default_context(cafile=str(ca.cert))
    with serving(model("half", "Half"), **files) as stand:
        host, _, port = stand.http.rpartition(":")
        connection = http.client.HTTPSConnection(host, int(port), context=context)
        body = json.dumps({"instances": [2]})
        connection.request("POST", "/v1/models/half:predict", body)
        assert json.load(connection.getresponse())["predictions"][0]["y"] == 3

        before = serial(stand.http, context)
        issued(folder, "next", ca).cert.replace(identity.cert)  # and the key not yet
        until(lambda: serial(stand.http, context) and "certificates from before go on" in caplog.text, "half a pair")
        assert serial(stand.http, context) == before, "half of a pair changes nothing"
        (folder / "next.key").replace(identity.key)
        until(lambda: serial(stand.http, context) != before, "the new certificate")
        connection.request("POST", "/v1/models/half:predict", body)
        assert json.load(connection.getresponse())["predictions"][0]["y"] == 3, "the open connection goes on"
        connection.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tls_cert": "/none.pem"}, "tls_cert: /none.pem cannot be read"),
        ({"tls_cert": "-----BEGIN NONSENSE-----"}, "tls_cert: expected certificates in PEM"),
        ({"tls_key": "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----"}, "tls_key: expected a private key"),
        ({"tls_client_ca": "a\nb"}, "tls_client_ca: expected PEM"),
    ],
    ids=["missing", "nonsense", "key", "ca"],
)
def test_what_cannot_be_used_is_named(identity, change, message):
    with pytest.raises(OSError, match=message), serving(model("half", "Half"), **{**settings(identity), **change}):
        pass


def test_a_key_of_another_certificate_is_refused(ca, identity):
    pair = {"tls_cert": identity.pem["cert"], "tls_key": ca.pem["key"]}
    with pytest.raises(OSError, match="tls_cert and tls_key cannot be used together"), serving(**pair):
        pass


@pytest.mark.parametrize("given", [{"tls_cert": "c"}, {"tls_key": "k"}, {"tls_http": True}, {"tls_client_ca": "a"}])
def test_half_of_it_is_refused(given):
    with pytest.raises(ConfigError, match="tls_cert and tls_key"):
        ServerSettings(**given)

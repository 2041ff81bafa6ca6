"""Configuration files of TensorFlow Serving and heads of SavedModels, as Python gets to see them."""

import json

import pytest

from poise import _core

CONFIG = "tensorflow.serving.ModelServerConfig"


def test_a_text_becomes_json():
    text = "model_config_list { config { name: 'm', base_path: '/m' version_labels { key: 'a' value: 3 } } }"
    found = json.loads(_core.text_proto_to_json(CONFIG, text))
    assert found == {"model_config_list": {"config": [{"name": "m", "base_path": "/m", "version_labels": {"a": 3}}]}}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        pytest.param(
            "model_config_list {\n config { nme: 'm' } }", ("line 2, column 11", "did you mean name?"), id="field"
        ),
        pytest.param("model_config_list", ("line 1, column 18", "':' or a message value"), id="end"),
        pytest.param("model_config_list {" * 10_000, ("deep",), id="depth"),
    ],
)
def test_a_text_that_is_wrong_is_refused_with_its_place(text, parts):
    with pytest.raises(ValueError, match="Error parsing text-format") as caught:
        _core.text_proto_to_json(CONFIG, text)
    assert all(part in str(caught.value) for part in parts)


def test_a_serialized_message_becomes_json():
    found = json.loads(_core.proto_to_json("tensorflow.serving.SSLConfig", b"\x0a\x01k\x20\x01"))
    assert found == {"server_key": "k", "client_verify": True}


@pytest.mark.parametrize("message", ["tensorflow.serving.Nothing", ""], ids=["unknown", "empty"])
def test_a_message_that_is_not_known_is_named(message):
    with pytest.raises(ValueError, match=f"no message {message} is known"):
        _core.proto_to_json(message, b"")

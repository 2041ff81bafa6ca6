import json

import pytest
from click.testing import CliRunner

from poise import cli
from poise.client import CallError, admin

STATUS = {"version": "2", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
BROKEN = {"version": "3", "state": "END", "status": {"error_code": "INTERNAL", "error_message": "bad graph"}}
MODEL = {"name": "m", "model_version_status": [BROKEN, STATUS], "version_labels": {"stable": "2"}}
CONFIG = {"model_config_list": {"config": [{"name": "m"}, {"name": "n"}]}}
ANSWERS = {
    ("GET", "/v1/models"): {"models": [MODEL]},
    ("POST", "/v1/models/m:load"): {"model_version_status": [STATUS]},
    ("POST", "/v1/models/m:reload"): {"model_version_status": [BROKEN, STATUS]},
    ("POST", "/v1/models/m:unload"): {},
    ("GET", "/v1/config"): {"generation": 4, "config": CONFIG},
    ("POST", "/v1/config"): {"generation": 5, "models": {}},
}


@pytest.fixture(autouse=True)
def server(monkeypatch):
    """A server that answers from a table; what it was asked."""
    asked = []

    def rest(target, method, path, body, _timeout_s):
        asked.append((target, method, path, body))
        if (method, path) not in ANSWERS:
            raise CallError("the server answered HTTP 404: model n is not configured")
        return ANSWERS[method, path]

    monkeypatch.setattr(admin, "rest", rest)
    return asked


def invoke(*args):
    return CliRunner().invoke(cli.main, args)


def test_models_are_listed(server):
    lines = [line.split() for line in invoke("models").output.splitlines()]
    assert lines[1:] == [["m", "3", "END", "bad", "graph"], ["m", "2", "AVAILABLE", "stable"]]
    assert json.loads(invoke("models", "--json").output) == [MODEL]
    assert server[0][:3] == ("http://127.0.0.1:8501", "GET", "/v1/models")


def test_a_model_is_loaded_from_a_path_or_again(server, tmp_path):
    assert invoke("load", "m", "--path", str(tmp_path), "--platform", "tensorflow").output == "m version 2: AVAILABLE\n"
    assert json.loads(server[-1][3]) == {"base_path": str(tmp_path), "model_platform": "tensorflow"}
    assert invoke("load", "m").exit_code == 0
    assert server[-1][3] == b""


def test_a_model_is_looked_at_again_and_unloaded():
    assert invoke("reload", "m").output.splitlines() == ["m version 3: END", "m version 2: AVAILABLE"]
    assert invoke("unload", "m").output == "m is unloaded\n"


def test_all_models_are_looked_at_again_whatever_becomes_of_some():
    result = invoke("reload")
    assert result.exit_code == 1
    assert "m version 2: AVAILABLE" in result.output
    assert "n: the server answered HTTP 404" in result.output


def test_the_configuration_is_shown_and_replaced(server, tmp_path):
    assert json.loads(invoke("config").output) == CONFIG
    file = tmp_path / "models.config"
    file.write_text("model_config_list {}")
    assert json.loads(invoke("config", str(file)).output)["generation"] == 5
    assert server[-1][3] == b"model_config_list {}"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["unload", "n"], "model n is not configured"),
        (["models", "--target", "grpc://127.0.0.1:8500"], "expected http://HOST:PORT"),
        (["config", "missing.config"], "does not exist"),
    ],
)
def test_what_goes_wrong_is_told_and_exits_with_one(args, words):
    result = invoke(*args)
    assert result.exit_code == 1
    assert words in result.output

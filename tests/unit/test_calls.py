"""Calls about the server itself, answered from a registry that is moved by hand."""

import json
from pathlib import Path

import pytest

from poise.config import ModelConfig
from poise.errors import ConfigError
from poise.registry.calls import Calls, not_available
from support.registry import Stage


class FakeFormats:
    def read(self, config):
        models = config["model_config_list"]["config"]
        if any("base_path" not in model for model in models):
            raise ConfigError("base_path is missing")
        return [
            ModelConfig(name=one["name"], path=one["base_path"], labels=one.get("version_labels", {}), load_attempts=1)
            for one in models
        ]

    def write(self, models):
        return {"model_config_list": {"config": [{"name": one.name, "base_path": one.path} for one in models]}}


class Desk(Stage):
    """Asks, and keeps the answers."""

    def __init__(self, *found, **settings):
        super().__init__(*found, **settings)
        self.answers = {}
        self.calls = Calls(self, self.registry, FakeFormats())
        self.asked = 0

    def reply(self, call, code, text):
        assert call not in self.answers
        self.answers[call] = (code, json.loads(text) if code == "OK" else text)

    def ask(self, name, model=None, body=None):
        self.asked += 1
        text = json.dumps({"name": name, "model": model, "body": body})
        self.calls.handle(self.asked, text, self.now)
        self.calls.settle()
        return self

    def reload(self, *models, generation=None, **more):
        config = {"model_config_list": {"config": [{"name": one, "base_path": one, **more} for one in models]}}
        return self.ask("reload_config", body={"config": config, "generation": generation})

    @property
    def answer(self):
        self.calls.settle()
        return self.answers.get(self.asked)


class TestReload:
    def test_waits_for_new_models_to_serve(self):
        desk = Desk(1).look().ready(1).reload("m", "n")
        desk.sources["n"].found = {5}
        assert desk.look().answer is None
        desk.ready(2)
        outcome = {"code": "OK", "message": ""}
        assert desk.answer == ("OK", {"generation": 2, "models": {"m": outcome, "n": outcome}})

    def test_does_not_wait_for_those_that_were_there(self):
        code, answer = Desk(1).look().reload("m").answer
        assert code == "OK"
        assert answer["models"] == {"m": {"code": "UNAVAILABLE", "message": "it does not serve yet"}}

    def test_tells_of_those_that_were_there_what_keeps_them(self):
        _, answer = Desk(1, load_attempts=1).look().failed(1, "bad graph").reload("m").answer
        assert answer["models"]["m"] == {"code": "UNKNOWN", "message": "{name: m version: 1} due to error: bad graph"}

    def test_says_what_has_not_become_available_and_keeps_what_has(self):
        desk = Desk(1).look().ready(1).reload("m", "n")
        desk.sources["n"].found = {5}
        desk.look().failed(2, "bad graph")
        text = "1 model(s) did not become available: {{name: n version: 5} due to error: bad graph}, }"
        assert desk.answer == ("UNKNOWN", text)
        assert [model.name for model in desk.registry.configs] == ["m", "n"]

    def test_looks_at_the_disk_at_once_and_tries_again_what_failed(self):
        desk = Desk(1, poll_interval_s=1000.0, load_attempts=1).look().failed(1).reload("m")
        desk.look(after=0.0)
        assert desk.loads() == [1, 1]

    def test_is_not_held_up_by_another_that_hangs(self):
        desk = Desk(1).look().ready(1).reload("m", "n")
        first = desk.asked
        assert desk.reload("m").answer[0] == "OK"
        assert desk.answers[first][0] == "UNKNOWN"  # what it waits for is not wanted any more

    def test_leaves_settings_that_it_has_no_words_for(self):
        desk = Desk(1, workers=3).look().ready(1).reload("m", version_labels={"stable": 1})
        assert desk.registry.configs[0].workers == 3
        assert desk.core.labels["m"] == {"stable": 1}

    def test_of_an_older_generation_is_refused(self):
        desk = Desk(1).reload("m", generation=7)
        assert desk.answer[0] == "ABORTED"
        assert "its generation is 1, not 7" in desk.answer[1]
        assert desk.reload("m", generation=1).answer[0] == "OK"

    def test_that_says_nothing_changes_nothing(self):
        desk = Desk(1).look().ready(1).ask("reload_config", body={"config": {}, "generation": None})
        assert desk.answer == ("OK", {"generation": 1, "models": {}})
        assert desk.registry.ready

    def test_with_another_platform_is_refused(self):
        desk = Desk(1, backend="python").look().ready(1).reload("m")
        assert desk.answer[0] == "INVALID_ARGUMENT"
        assert desk.answer[1].startswith("Illegal to change a model's platform. For model m: its backend is python")

    def test_with_a_label_for_nothing_is_refused(self):
        desk = Desk(1).look().ready(1).reload("m", version_labels={"stable": 9})
        assert desk.answer[0] == "FAILED_PRECONDITION"

    def test_that_cannot_be_read_is_refused(self):
        body = {"config": {"model_config_list": {"config": [{"name": "m"}]}}, "generation": None}
        assert Desk(1).ask("reload_config", body=body).answer == ("INVALID_ARGUMENT", "base_path is missing")


class TestSingleModels:
    def test_one_is_loaded_beside_the_others(self):
        desk = Desk(1).look().ready(1).ask("load_model", "n", {"base_path": "n"})
        desk.sources["n"].found = {5}
        desk.look().ready(2)
        assert [one["version"] for one in desk.answer[1]["model_version_status"]] == ["5"]
        assert {model.name for model in desk.registry.configs} == {"m", "n"}

    def test_one_is_unloaded(self):
        desk = Desk(1).look().ready(1).ask("unload_model", "m")
        assert desk.registry.configs == ()
        assert desk.answer is None
        assert desk.ended(1).answer == ("OK", {})

    def test_one_is_changed_by_what_is_said_of_it(self):
        desk = Desk(1, 2, workers=2).look().ready(1).ask("load_model", "m", {"version_labels": {"stable": 2}})
        assert desk.look().answer[0] == "OK"
        [config] = desk.registry.configs
        assert (config.path, config.workers, config.labels) == ("m", 2, {"stable": 2})
        assert desk.loads() == [2]

    def test_one_that_failed_is_tried_again(self):
        desk = Desk(1, load_attempts=1, poll_interval_s=1000.0).look().failed(1).ask("reload_model", "m")
        assert desk.answer is None
        desk.look(after=0.0).ready(2)
        fine = {"error_code": "OK", "error_message": ""}
        assert desk.answer[1]["model_version_status"] == [{"version": "1", "state": "AVAILABLE", "status": fine}]

    @pytest.mark.parametrize("name", ["unload_model", "reload_model", "load_model"])
    def test_one_that_nobody_knows_is_not_found(self, name):
        assert Desk(1).ask(name, "other").answer[0] == "NOT_FOUND"


def test_the_configuration_can_be_got():
    code, answer = Desk(1).ask("get_config").answer
    assert (code, answer["generation"]) == ("OK", 1)
    [model] = answer["config"]["model_config_list"]["config"]
    assert model == {"name": "m", "base_path": str(Path("m").absolute())}  # which means the same to every client


def test_what_was_got_can_be_given_back():
    desk = Desk(1).look().ready(1).ask("get_config")
    body = {"config": desk.answer[1]["config"], "generation": 1}
    assert desk.ask("reload_config", body=body).answer[0] == "OK"
    desk.look()
    assert desk.loads() == [1]
    assert desk.registry.configs[0].path == "m"


@pytest.mark.parametrize(
    ("name", "body"),
    [("reload_config", []), ("reload_config", {"config": 7}), ("reload_config", {}), ("load_model", ["x"])],
    ids=str,
)
def test_a_call_of_nonsense_is_refused(name, body):
    code, text = Desk(1).ask(name, "m", body).answer
    assert code == "INVALID_ARGUMENT"
    assert "JSON object" in text


def test_failures_are_listed():
    assert not_available(["a", "b"]) == "2 model(s) did not become available: {a}, b}, }"

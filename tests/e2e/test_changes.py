"""Models that come, go and change while a server runs, as its operators and clients see it."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from poise.client import CallError
from poise.client.admin import Admin
from support.clients import Refused, call, grpc
from support.serving import ServerProcess, Stand, model, serving, until
from support.traffic import Traffic
from support.versions import publish


def adds(base: Path, **settings):
    return model("adds", "", path=str(base), **{"poll_interval_s": 0.1, "load_attempts": 1, **settings})


def ask(stand: Stand, name: str = "adds", version: int | None = None) -> float:
    """What the version adds."""
    return float(grpc(stand.grpc, name, version, x=np.zeros(1, np.float32))["y"][0])


def by_label(stand: Stand, label: str) -> tuple[int, object]:
    answer = call(stand.http, "POST", f"/v1/models/adds/labels/{label}:predict", '{"instances": [0]}')
    return answer.status, answer.json.get("predictions", answer.json.get("error"))


def entry(name: str, path: Path, **more: object) -> dict[str, object]:
    return {"name": name, "base_path": str(path), "model_platform": "auto", **more}


def apply(stand: Stand, *models: dict[str, object]) -> dict[str, object]:
    config = {"model_config_list": {"config": list(models)}}
    return Admin(f"http://{stand.http}", 30.0).apply(json.dumps(config).encode())


@pytest.fixture
def base(tmp_path: Path) -> Path:
    publish(tmp_path / "adds", 1)
    return tmp_path / "adds"


@pytest.fixture
def stand(base: Path) -> Iterator[Stand]:
    with serving(adds(base)) as made:
        yield made


@pytest.fixture
def admin(stand: Stand) -> Admin:
    return Admin(f"http://{stand.http}", 30.0)


class TestSingleModels:
    def test_one_is_loaded_and_unloaded_beside_another(self, stand: Stand, admin: Admin, tmp_path: Path):
        publish(tmp_path / "more", 7)
        with Traffic(lambda: ask(stand)) as traffic:
            [status] = admin.load("more", {"base_path": str(tmp_path / "more")})["model_version_status"]
            assert (status["version"], status["state"]) == ("7", "AVAILABLE")
            assert ask(stand, "more") == 7
            admin.unload("more")
            with pytest.raises(Refused, match="Servable not found for request: Latest"):
                ask(stand, "more")
        assert (traffic.errors, set(traffic.answers)) == ([], {1.0})
        assert [one["name"] for one in admin.models() if one["model_version_status"][0]["state"] == "END"] == ["more"]
        assert admin.configured() == ["adds"]
        until(lambda: stand.state["workers"] == 1, "no worker of the unloaded model")

    def test_one_that_cannot_be_loaded_says_why_and_is_tried_again_when_told(
        self, stand: Stand, admin: Admin, tmp_path: Path
    ):
        missing = tmp_path / "missing"
        with pytest.raises(CallError, match=r"1 model\(s\) did not become available: \{\{name: late\} due to error: "):
            admin.load("late", {"base_path": str(missing)})
        [status] = call(stand.http, "GET", "/v1/models/late").json["model_version_status"]
        assert (status["state"], status["status"]["error_code"]) == ("START", "NOT_FOUND")
        assert status["status"]["error_message"] == f"cannot read {missing}: No such file or directory"
        assert call(stand.http, "GET", "/readyz").status == 200, "a model that was added has never served"
        publish(missing, 3)
        admin.reload("late")
        until(lambda: ask(stand, "late") == 3, "the model that came late")

    def test_one_that_nobody_knows_is_not_found(self, admin: Admin):
        with pytest.raises(CallError, match="HTTP 404: model other is not configured"):
            admin.reload("other")


class TestWholeConfigurations:
    def test_what_was_got_can_be_given_back_and_loads_nothing(self, stand: Stand, admin: Admin):
        before = admin.config()
        admin.apply(json.dumps(before["config"]).encode())
        assert admin.config()["config"] == before["config"]
        assert ask(stand) == 1
        assert stand.state["workers"] == 1

    def test_another_path_takes_over_without_a_gap(self, stand: Stand, tmp_path: Path):
        publish(tmp_path / "new", 1)
        (tmp_path / "new" / "1" / "model.py").write_text((tmp_path / "adds/1/model.py").read_text().replace("1)", "5)"))
        with Traffic(lambda: ask(stand), threads=4) as traffic:
            apply(stand, entry("adds", tmp_path / "new"))
            until(lambda: ask(stand) == 5, "the new path serves", 20.0)
        assert (traffic.errors, set(traffic.answers)) == ([], {1.0, 5.0})
        until(lambda: stand.state["workers"] == 1, "the old version's worker gone")
        stand.settle()

    def test_one_bad_entry_changes_nothing(self, stand: Stand, admin: Admin, tmp_path: Path):
        before = admin.config()
        with pytest.raises(CallError, match="absolute path or URI"):
            apply(stand, entry("other", tmp_path / "adds"), entry("bad", Path("relative")))
        assert admin.config() == before
        assert ask(stand) == 1

    def test_of_two_who_change_it_at_once_the_second_is_told(self, stand: Stand, base: Path):
        body = json.dumps({"model_config_list": {"config": [entry("adds", base)]}})
        etag = call(stand.http, "GET", "/v1/config").headers["etag"]
        assert call(stand.http, "POST", "/v1/config", body, If_Match=etag).status == 200
        late = call(stand.http, "POST", "/v1/config", body, If_Match=etag)
        assert (late.status, late.json["code"]) == (412, "ABORTED")


class TestLabels:
    def test_move_with_a_version_that_comes_in_the_same_change(self, stand: Stand, base: Path):
        both = {"specific": {"versions": [1, 2]}}
        apply(stand, entry("adds", base, version_labels={"stable": 1}, model_version_policy=both))
        assert by_label(stand, "stable") == (200, [1.0])
        with Traffic(lambda: by_label(stand, "stable")) as traffic:
            apply(stand, entry("adds", base, version_labels={"stable": 2}, model_version_policy=both))
            publish(base, 2)
            until(lambda: by_label(stand, "stable") == (200, [2.0]), "the label has moved", 20.0)
        assert {str(answer) for answer in traffic.answers} == {"(200, [1.0])", "(200, [2.0])"}

    def test_for_nothing_are_refused(self, stand: Stand, base: Path):
        text = "Request to assign label to version 9 of model adds, which is not currently available for inference"
        with pytest.raises(CallError, match=text):
            apply(stand, entry("adds", base, version_labels={"stable": 9}))
        assert by_label(stand, "stable") == (400, "Unrecognized servable version label: stable")


def config_file(file: Path, models: dict[str, Path], **more: object) -> str:
    lines = [f"{key} = {json.dumps(value)}" for key, value in more.items()]
    for name, path in models.items():
        lines += [f"[models.{name}]", f"path = {json.dumps(str(path))}", 'isolation = "thread"', "load_attempts = 1"]
    file.write_text("\n".join(lines))
    return str(file)


def test_a_hangup_reads_the_file_again(base: Path, tmp_path: Path):
    publish(tmp_path / "more", 7)
    file = tmp_path / "poise.toml"
    with ServerProcess("--allow-debug-build", "--config", config_file(file, {"adds": base})) as process:
        file.write_text("[models.adds]\npth = 7")
        process.signal(signal.SIGHUP)
        until(lambda: "what is served stays" in process.log, "a word about the bad file")
        config_file(file, {"adds": base, "more": tmp_path / "more"})
        process.signal(signal.SIGHUP)
        until(lambda: "more version 7 is available" in process.log, "the new model", 20.0)
        assert "did you mean path?" in process.log
        process.signal(signal.SIGTERM)
        assert process.wait() == 0


def test_a_server_that_needs_all_of_its_models_ends_without_one(base: Path, tmp_path: Path):
    models = {"adds": base, "gone": tmp_path / "gone"}
    file = config_file(tmp_path / "poise.toml", models, require_all_models=True)
    with ServerProcess("--allow-debug-build", "--config", file, ready=False) as process:
        assert process.wait(30.0) == 1
        until(lambda: "Failed to start server" in process.log, "the reason in the log")
        text = "Error: UNKNOWN: 1 servable(s) did not become available: {{name: gone} due to error: cannot read"
        assert text in process.log

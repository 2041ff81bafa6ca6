import subprocess
import sys
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

import poise
from poise import cli
from poise import server as server_module
from poise.cli import main
from poise.cli.serve import default_name, parse_model, read_config, reread
from poise.cli.summary import describe_model
from poise.config import BatchSettings, Config, ModelConfig
from poise.errors import ConfigError


@pytest.fixture
def model(tmp_path):
    file = tmp_path / "Ranker.onnx"
    file.touch()
    return file


@pytest.fixture
def served(monkeypatch):
    """Runs nothing: remembers the configuration that would have been served."""
    found = SimpleNamespace(config=None, status=0, error=None, profile="release")

    class FakeServer:
        def __init__(self, config, control):
            found.config, found.control = config, control

        def run(self):
            if found.error:
                raise found.error
            return found.status

    core = SimpleNamespace(build_profile="release")
    monkeypatch.setattr(poise, "_core", core, raising=False)
    monkeypatch.setitem(sys.modules, "poise._core", core)
    monkeypatch.setattr(server_module, "PoiseServer", FakeServer)
    found.core = core
    return found


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


class TestMain:
    def test_help_names_every_command_without_importing_one(self):
        code = (
            "import sys; from poise.cli import main; main(['--help'], standalone_mode=False);"
            "assert not [name for name in sys.modules if name.startswith('poise.cli.')]"
        )
        shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert all(name in shown for name in cli.COMMANDS)

    def test_a_mistyped_command_is_answered_with_the_nearest(self):
        result = invoke("sevre")
        assert result.exit_code == 2
        assert "Did you mean 'serve'?" in result.output

    def test_an_unknown_command_is_refused(self):
        assert "No such command" in invoke("frobnicate").output

    def test_python_m_poise_is_poise(self):
        shown = subprocess.run([sys.executable, "-m", "poise", "--help"], capture_output=True, text=True, check=True)
        assert shown.stdout.startswith("Usage: poise ")


@pytest.mark.parametrize(
    ("text", "name", "path"),
    [
        ("m={dir}/Ranker.onnx", "m", "{dir}/Ranker.onnx"),
        ("{dir}/Ranker.onnx", "ranker", "{dir}/Ranker.onnx"),
        ("{dir}/file.py:MyRanker", "myranker", "{dir}/file.py:MyRanker"),
        ("m={dir}/file.py:MyRanker", "m", "{dir}/file.py:MyRanker"),
        ("{dir}/file.py", "file", "{dir}/file.py"),
        ("{dir}/run=3/resnet", "resnet", "{dir}/run=3/resnet"),
        ("m={dir}/run=3/resnet", "m", "{dir}/run=3/resnet"),
        ("{dir}/resnet.v2", "resnet.v2", "{dir}/resnet.v2"),
    ],
)
def test_models_named_on_the_line(tmp_path, text, name, path):
    (tmp_path / "Ranker.onnx").touch()
    (tmp_path / "file.py").touch()
    (tmp_path / "run=3" / "resnet").mkdir(parents=True)
    (tmp_path / "resnet.v2").mkdir()
    assert parse_model(text.format(dir=tmp_path)) == (name, path.format(dir=tmp_path))


def test_a_directory_that_is_only_dots_lends_its_real_name(tmp_path, monkeypatch):
    (tmp_path / "resnet").mkdir()
    monkeypatch.chdir(tmp_path / "resnet")
    assert default_name(".") == "resnet"


def test_home_is_expanded_behind_a_name(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "m.onnx").touch()
    assert parse_model("m=~/m.onnx") == ("m", f"{tmp_path}/m.onnx")


@pytest.mark.parametrize(
    ("text", "message"),
    [("m=/nowhere/m.onnx", "there is nothing at /nowhere/m.onnx"), ("m=", "the path is missing")],
)
def test_a_model_that_is_not_there_is_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_model(text)


class TestServe:
    def test_options_apply_to_every_model_named(self, model, served):
        line = ["--backend", "onnxruntime", "--workers", 2, "--isolation", "thread", "--load-timeout-s", 9]
        line += ["--max-batch-size", 32, "--batch-timeout-micros", 500, "--allowed-batch-sizes", "8,32"]
        result = invoke("serve", f"a={model}", f"b={model}", *line)
        assert (result.exit_code, result.output) == (0, "")
        batching = BatchSettings(max_batch_size=32, batch_timeout_micros=500, allowed_batch_sizes=(8, 32))
        rest = {"backend": "onnxruntime", "workers": 2, "isolation": "thread", "load_timeout_s": 9.0}
        expected = [ModelConfig(name=name, path=str(model), batching=batching, **rest) for name in "ab"]
        assert list(served.config.models) == expected

    def test_the_line_overrides_the_file(self, model, served, tmp_path):
        file = tmp_path / "poise.toml"
        file.write_text(
            f'drain_timeout_s = 5\n[server]\ngrpc = "127.0.0.1:1"\nhttp = ""\n[models.m]\npath = "{model}"\nworkers = 3'
        )
        result = invoke("serve", "--config", file, "--grpc", "127.0.0.1:2", "--log-level", "warning")
        assert result.exit_code == 0
        config = served.config
        assert (config.server.grpc, config.server.http, config.log_level) == ("127.0.0.1:2", None, "WARNING")
        assert (config.drain_timeout_s, config.models[0].workers) == (5.0, 3)

    def test_the_exit_status_is_the_servers(self, model, served):
        served.status = 3
        assert invoke("serve", model).exit_code == 3

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ([], "no model given"),
            (["m=/nowhere"], "model m: there is nothing at /nowhere"),
            (["{model}", "--backend", "onnx"], "unknown backend 'onnx'"),
            (["{model}", "--allowed-batch-sizes", "1;8"], "expected whole numbers with commas"),
            (["{model}", "--max-batch-size", "0"], "max_batch_size must be positive"),
            (["{model}", "--grpc", "8500"], "HOST:PORT"),
            (["--workers", "2"], "--workers: applies to models named on the line"),
            (["--config", "/nowhere.toml"], "/nowhere.toml"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_mistakes_are_refused_with_a_remedy(self, model, served, line, message):
        result = invoke("serve", *[part.format(model=model) for part in line])
        assert result.exit_code == 2
        assert message in result.output
        assert served.config is None

    def test_a_debug_build_is_refused_unless_insisted_on(self, model, served):
        served.core.build_profile = "debug"
        result = invoke("serve", model)
        assert (result.exit_code, served.config) == (2, None)
        assert "make build" in result.output
        assert invoke("serve", model, "--allow-debug-build").exit_code == 0

    @pytest.mark.usefixtures("served")
    def test_a_missing_build_says_how_to_make_it(self, model, monkeypatch):
        monkeypatch.delattr(poise, "_core")
        monkeypatch.setitem(sys.modules, "poise._core", None)
        assert "make build" in invoke("serve", model).output

    def test_a_port_that_is_taken_is_named_with_its_option(self, model, served):
        served.error = OSError("cannot listen on 127.0.0.1:81: Address already in use (os error 98)")
        result = invoke("serve", model, "--http", "127.0.0.1:81")
        assert result.exit_code == 1
        assert "cannot listen on 127.0.0.1:81: Address already in use" in result.output
        assert "--http HOST:PORT" in result.output

    def test_any_other_error_of_the_system_is_shown(self, model, served):
        served.error = OSError(24, "Too many open files")
        assert "cannot serve: [Errno 24] Too many open files" in invoke("serve", model).output

    def test_its_help_shows_how(self):
        result = invoke("serve", "--help")
        assert "poise serve model.onnx" in result.output
        assert "curl localhost:8501" in result.output

    @pytest.mark.parametrize("command", ["--help", *cli.COMMANDS])
    def test_examples_stand_on_lines_of_their_own(self, command):
        shown = invoke(*dict.fromkeys([command, "--help"])).output
        assert "\\b" not in shown
        assert any(line.startswith("    poise ") for line in shown.splitlines())


def test_a_model_declared_in_the_file_keeps_its_settings_when_named_on_the_line(model, tmp_path):
    file = tmp_path / "poise.toml"
    file.write_text('[models.m]\npath = "elsewhere"\nworkers = 3')
    [config] = read_config([f"m={model}"], file, {}).models
    assert (config.path, config.workers) == (str(model), 3)


class TestSummary:
    def test_says_what_is_served_and_with_what(self, tmp_path):
        (tmp_path / "7").mkdir()
        (tmp_path / "7" / "model.onnx").touch()
        model = ModelConfig(name="m", path=str(tmp_path), workers=2, batching=BatchSettings(batch_timeout_micros=200))
        assert describe_model(model, cpus=8) == (
            f"m: version 7, backend onnxruntime, batches up to 64 rows waiting up to 200 µs,"
            f" 2 worker processes with 4 cores each, from {tmp_path}"
        )

    def test_knows_the_backend_of_a_class(self, tmp_path):
        (tmp_path / "m.py").touch()
        assert "backend python" in describe_model(ModelConfig(name="m", path=f"{tmp_path}/m.py:Ranker"), cpus=1)

    @pytest.mark.parametrize(
        ("settings", "parts"),
        [
            ({"isolation": "thread"}, ["1 worker thread with 1 core each", "not waiting"]),
            ({"backend": "python"}, ["backend python"]),
            ({"batching": BatchSettings(allowed_batch_sizes=(8, 64))}, ["up to 64 rows (of 8, 64)"]),
            ({"batching": BatchSettings(enable_batching=False)}, [", not batched, "]),
            ({}, ["no version yet", "backend by its files"]),
        ],
    )
    def test_says_what_differs(self, tmp_path, settings, parts):
        described = describe_model(ModelConfig(name="m", path=str(tmp_path), **settings), cpus=1)
        assert all(part in described for part in parts)


def test_commands_are_commands():
    context = click.Context(main)
    assert isinstance(main, cli.LazyGroup)
    assert main.get_command(context, "serve").name == "serve"


def test_a_file_that_is_read_again_changes_models_only(caplog):
    models = (ModelConfig(name="m", path="m"),)
    assert reread(Config(), Config(models=models)) == models
    assert "they apply when the server starts again" not in caplog.text
    assert reread(Config(), Config(models=models, drain_timeout_s=1.0)) == models
    assert "they apply when the server starts again" in caplog.text

import dataclasses
import inspect
import json
import re
from pathlib import Path

import pytest

from poise import config
from poise.config import BatchSettings, Config, ModelConfig, ServerSettings
from poise.errors import ConfigError

RUST = Path(__file__).parents[2] / "rust" / "src" / "config.rs"
RECORDS = [ServerSettings, BatchSettings, ModelConfig, Config]


def fields(cls):
    return [field.name for field in dataclasses.fields(cls)]


@pytest.mark.parametrize("cls", [ServerSettings, BatchSettings], ids=lambda cls: cls.__name__)
def test_settings_have_the_fields_of_their_rust_twin(cls):
    body = re.search(rf"pub struct {cls.__name__} \{{(.*?)\n\}}", RUST.read_text(), re.DOTALL).group(1)
    assert re.findall(r"pub (\w+):", body) == fields(cls)
    assert list(json.loads(cls().to_json())) == fields(cls)


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
def test_every_field_says_what_it_is_for(cls):
    source = inspect.getsource(cls)
    undocumented = [name for name in fields(cls) if not re.search(rf'^    {name}: .*\n    """', source, re.MULTILINE)]
    assert undocumented == []


def test_without_a_file_all_is_default():
    assert config.load(None) == Config()


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "poise.toml"
        path.write_text(text)
        return path

    return write


FULL = """
drain_timeout_s = 5
log_level = "DEBUG"
[server]
grpc = "127.0.0.1:0"
http = ""
[models.ranker]
path = "ranker"
versions = [3, 5]
[models.ranker.batching]
max_batch_size = 8
allowed_batch_sizes = [2, 8]
[models.ranker.options]
providers = ["CPUExecutionProvider"]
[models.other]
path = "/abs/model.py:Other"
versions = "all"
isolation = "thread"
"""


def test_a_file_is_read_into_records(write):
    path = write(FULL)
    read = config.load(path)
    assert read.drain_timeout_s == 5.0
    assert (read.server.grpc, read.server.http) == ("127.0.0.1:0", None)
    ranker, other = read.models
    assert ranker.path == str(path.parent / "ranker")
    assert ranker.versions == (3, 5)
    assert ranker.batching == BatchSettings(max_batch_size=8, allowed_batch_sizes=(2, 8))
    assert ranker.options == {"providers": ["CPUExecutionProvider"]}
    assert (other.name, other.path, other.versions, other.isolation) == (
        "other",
        "/abs/model.py:Other",
        "all",
        "thread",
    )


def test_overrides_win_and_nones_are_not_given(write):
    overrides = {
        "server": {"grpc": "[::]:9000", "http": None},
        "models": {"ranker": {"workers": 2, "batching": {"max_enqueued_batches": 3}}, "new": {"path": "new.onnx"}},
    }
    read = config.load(write(FULL), overrides)
    assert (read.server.grpc, read.server.http) == ("[::]:9000", None)
    assert [model.name for model in read.models] == ["ranker", "other", "new"]
    assert (read.models[0].workers, read.models[0].batching.max_enqueued_batches) == (2, 3)
    assert read.models[0].batching.max_batch_size == 8
    assert read.models[2].path == "new.onnx"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[server", "not TOML: Expected ']'"),
        ("[server]\ngrcp = 'x:1'", "[server] grcp: unknown key; did you mean grpc?"),
        ("[servers]", "servers: unknown key; did you mean server?"),
        (
            "zzz = 1",
            (
                "zzz: unknown key;"
                " expected one of drain_delay_s, drain_timeout_s, log_level, models, require_all_models, server"
            ),
        ),
        ("server = 3", "server: expected a table, got 3 (a whole number)"),
        ("[server]\ngrpc = 3", "[server] grpc: expected text, got 3 (a whole number)"),
        ("[server]\nio_threads = true", "[server] io_threads: expected a whole number, got True (true or false)"),
        ("[server]\nio_threads = 1.5", "[server] io_threads: expected a whole number, got 1.5 (a number)"),
        ("[server]\nmetrics = 1", "[server] metrics: expected true or false, got 1 (a whole number)"),
        ("[server]\ngrpc = ''\nhttp = ''", "[server]: grpc and http are both off"),
        ("[server]\ngrpc = '8500'", "[server]: grpc must be HOST:PORT with a port of at most 65535; was '8500'"),
        ("[server]\nmax_body_bytes_held = 1", "[server]: max_body_bytes_held must hold at least one message"),
        ("[models.m]", "[models.m]: path is missing; expected text"),
        ("[models]\nm = 'x'", "[models] m: expected a table, got 'x' (text)"),
        ("[models.m]\npath = 'p'\nname = 'n'", "[models.m] name: unknown key"),
        ("[models.m]\npath = 'p'\nbatching = 4", "[models.m] batching: expected a table, got 4 (a whole number)"),
        (
            "[models.m]\npath = 'p'\nisolation = 'fork'",
            "[models.m] isolation: expected 'process' or 'thread', got 'fork'",
        ),
        (
            "[models.m]\npath = 'p'\nversions = 'newest'",
            "[models.m] versions: expected a whole number or 'all' or a list (each a whole number), got 'newest'",
        ),
        ("[models.m]\npath = 'p'\nversions = []", "[models.m]: versions must name at least one version"),
        ("[models.' ']\npath = 'p'", "[models. ]: name must be of printable characters, and not empty; was ' '"),
        (
            "[models.m]\npath = 'p'\n[models.m.batching]\nmax_batch_sise = 3",
            "[models.m.batching] max_batch_sise: unknown key; did you mean max_batch_size?",
        ),
    ],
)
def test_a_mistake_names_file_key_expectation_and_remedy(write, text, message):
    path = write(text)
    with pytest.raises(ConfigError) as caught:
        config.load(path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_a_mistake_on_the_command_line_says_so(write):
    with pytest.raises(ConfigError, match=r"^command line: \[server\] grcp: unknown key"):
        config.load(write(FULL), {"server": {"grcp": "x:1"}})


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file"):
        config.load(tmp_path / "none.toml")


TIMES = [(cls, name) for cls in RECORDS for name in fields(cls) if name.endswith("_s")]


@pytest.mark.parametrize("value", [1e300, float("inf"), float("nan"), 604_801.0], ids=str)
@pytest.mark.parametrize(("cls", "name"), TIMES, ids=lambda value: value if isinstance(value, str) else value.__name__)
def test_a_time_is_at_most_a_week(cls, name, value):
    required = {"name": "m", "path": "p"} if cls is ModelConfig else {}
    with pytest.raises(
        ConfigError, match=rf"^{name} must be a number of at most 604800 \(a week\); was {value}$".replace("+", r"\+")
    ):
        cls(**required, **{name: value})


def test_a_week_is_a_time():
    assert BatchSettings(max_run_s=604_800).max_run_s == 604_800


@pytest.mark.parametrize("path", ["metrics", "/", "/v1/metrics", "/a b", "/a?b"])
def test_metrics_have_a_path_of_their_own(path):
    with pytest.raises(ConfigError, match=r"^monitoring_path must be a path like"):
        ServerSettings(monitoring_path=path)
    assert ServerSettings(monitoring_path="").monitoring_path is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_batch_size": 0}, "max_batch_size must be positive; was 0"),
        ({"batch_timeout_micros": -1}, "batch_timeout_micros must be non-negative; was -1"),
        ({"max_enqueued_batches": 0}, "max_enqueued_batches must be positive; was 0"),
        ({"max_run_s": 0}, "max_run_s must be positive; was 0"),
        (
            {"batch_timeout_micros": 10**19},
            "batch_timeout_micros must be a number of at most 604800000000 (a week); was 10000000000000000000",
        ),
        ({"allowed_batch_sizes": (4, 2)}, "allowed_batch_sizes must be positive and ascending; was [4, 2]"),
        ({"allowed_batch_sizes": (0, 64)}, "allowed_batch_sizes must be positive and ascending; was [0, 64]"),
        (
            {"max_batch_size": 4, "allowed_batch_sizes": (2, 8)},
            "Last entry in allowed_batch_sizes must match max_batch_size; last entry was 8; expected 4",
        ),
        (
            {"max_execution_batch_size": 4, "allowed_batch_sizes": (2, 8)},
            "Last entry in allowed_batch_sizes must match max_execution_batch_size; last entry was 8; expected 4",
        ),
        ({"max_execution_batch_size": 65}, "max_execution_batch_size must be at most max_batch_size (64); was 65"),
        (
            {"max_execution_batch_size": 4, "enable_large_batch_splitting": False},
            "max_execution_batch_size needs enable_large_batch_splitting",
        ),
    ],
    ids=str,
)
def test_batching_that_cannot_work_is_refused(settings, message):
    with pytest.raises(ConfigError) as caught:
        BatchSettings(**settings)
    assert str(caught.value) == message


def test_a_model_given_twice_is_refused():
    model = ModelConfig(name="m", path="p")
    with pytest.raises(ConfigError, match="model m is given twice"):
        Config(models=(model, model))


@pytest.mark.parametrize("labels", [{"": 1}, {"a": -1}, {"a": "1"}, {"a": True}], ids=str)
def test_labels_name_versions(labels):
    with pytest.raises(ConfigError, match="labels must give each name the number of a version"):
        ModelConfig(name="m", path="p", labels=labels)

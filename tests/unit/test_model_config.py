import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.config import BatchSettings, ModelConfig
from poise.errors import ConfigError
from poise.formats.model_config import ModelDefaults, is_list, models_from_json, models_to_json


def listed(*models):
    return {"model_config_list": {"config": list(models)}}


def entry(**fields):
    return {"name": "m", "base_path": "/models/m", "model_platform": "tensorflow", **fields}


def read(*models, **defaults):
    return models_from_json(listed(*models), ModelDefaults(**defaults))


class TestModels:
    def test_what_a_plain_file_lists(self):
        assert read(entry(), entry(name="other", base_path="/models/other")) == (
            ModelConfig(name="m", path="/models/m"),
            ModelConfig(name="other", path="/models/other"),
        )

    @pytest.mark.parametrize("config", [{}, {"model_config_list": {}}, {"model_config_list": {"config": []}}], ids=str)
    def test_nothing_listed_is_no_model(self, config):
        assert models_from_json(config) == ()
        assert is_list(config) == bool(config)

    @pytest.mark.parametrize(
        ("fields", "backend"),
        [
            ({}, "auto"),
            ({"model_platform": "auto"}, "auto"),
            ({"model_platform": ""}, "auto"),
            ({"model_platform": "", "model_type": "TENSORFLOW"}, "auto"),
            ({"model_type": "MODEL_TYPE_UNSPECIFIED"}, "auto"),
            ({"model_platform": "onnxruntime"}, "onnxruntime"),
            ({"model_platform": "openvino"}, "openvino"),
            ({"model_platform": "python", "base_path": "/m/model.py:Class"}, "python"),
        ],
        ids=str,
    )
    def test_platforms(self, fields, backend):
        assert read(entry(**fields))[0].backend == backend

    @pytest.mark.parametrize(
        ("policy", "versions"),
        [
            ({}, 1),
            ({"latest": {}}, 1),
            ({"latest": {"num_versions": 0}}, 1),
            ({"latest": {"num_versions": 3}}, 3),
            ({"all": {}}, "all"),
            ({"specific": {"versions": [42]}}, (42,)),
            ({"specific": {"versions": [42, "43", 42]}}, (42, 43)),
        ],
        ids=str,
    )
    def test_version_policies(self, policy, versions):
        assert read(entry(model_version_policy=policy))[0].versions == versions

    def test_labels_may_share_a_version(self):
        [model] = read(entry(version_labels={"stable": 1, "canary": "2", "blue": 1}))
        assert model.labels == {"stable": 1, "canary": 2, "blue": 1}

    def test_a_file_uri_is_a_path(self):
        assert read(entry(base_path="file:///models/m"))[0].path == "/models/m"

    def test_defaults_are_given_to_every_model_and_options_to_those_of_tensorflow(self):
        batching = BatchSettings(max_batch_size=4)
        first, second = read(
            entry(),
            entry(name="other", model_platform="python"),
            batching=batching,
            options={"xla": True},
            settings={"poll_interval_s": 7.0},
        )
        assert first.batching == second.batching == batching
        assert first.poll_interval_s == second.poll_interval_s == 7.0
        assert (first.options, second.options) == ({"xla": True}, {})

    def test_logging_is_accepted_with_a_line(self, caplog):
        with caplog.at_level(logging.WARNING):
            read(entry(logging_config={"sampling_config": {"sampling_rate": 0.1}}))
        assert "model m: logging_config is accepted" in caplog.text


@pytest.mark.parametrize(
    ("models", "text"),
    [
        ([entry(base_path="models/m")], "Expected model m to have an absolute path or URI; got base_path()=models/m"),
        ([entry(base_path="")], "Expected model m to have an absolute path or URI; got base_path()="),
        ([entry(base_path="s3://bucket/m")], "base_path s3://bucket/m: expected a path of this machine"),
        ([entry(), entry()], "Illegal to list model m multiple times in config list"),
        ([entry(model_type="TENSORFLOW")], "Illegal setting both "),
        (
            [entry(model_platform="tensorflo")],
            "Model m requests unsupported platform tensorflo; did you mean tensorflow",
        ),
        ([entry(model_platform="", model_type="OTHER")], "Model m requests unsupported platform other"),
        ([entry(name="")], "a model without a name: name must be"),
        ([entry(name="a\nb")], "name must be of printable characters, and not empty; was 'a\\nb'"),
        ([entry(name=7)], "a model without a name: name: expected text, got 7"),
        ([entry(base_pth="/x")], "model m: base_pth: unknown field; did you mean base_path?"),
        ([entry(model_version_policy={"newest": {}})], "unknown field"),
        ([entry(model_version_policy={"all": {}, "latest": {}})], "expected one of latest, all, specific"),
        ([entry(model_version_policy={"latest": {"num_versions": -1}})], "expected a whole number from 0; got -1"),
        ([entry(model_version_policy={"latest": 3})], "expected a table, got 3"),
        ([entry(model_version_policy={"all": {"x": 1}})], "nothing is expected here"),
        ([entry(model_version_policy={"specific": {}})], "expected a list of at least one version"),
        ([entry(model_version_policy={"specific": {"versions": "12"}})], "expected a list of at least one version"),
        ([entry(model_version_policy={"specific": {"versions": [True]}})], "expected a whole number from 0"),
        ([entry(version_labels={"a": "one"})], "version_labels a: expected a whole number from 0; got 'one' (text)"),
        ([entry(version_labels={"a": 2**63})], "expected a whole number from 0"),
        ([entry(version_labels=[1])], "model m: version_labels: expected a table"),
        (["m"], "config: expected a list (each a table)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused_and_how(models, text):
    with pytest.raises(ConfigError) as caught:
        read(*models)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"custom_model_config": {}}, "Only ModelConfigList is currently supported"),
        ({"model_config": {}}, "ModelServerConfig: model_config: unknown field; did you mean model_config_list?"),
        ({"model_config_list": {"confg": []}}, "confg: unknown field"),
        ({"model_config_list": []}, "expected a table"),
    ],
    ids=str,
)
def test_a_configuration_that_is_no_list_is_refused(config, text):
    with pytest.raises(ConfigError) as caught:
        models_from_json(config)
    assert text in str(caught.value)


def test_models_and_back():
    config = listed(
        entry(model_version_policy={"latest": {"num_versions": 2}}),
        entry(name="b", model_version_policy={"all": {}}, model_platform="onnxruntime"),
        entry(name="c", model_version_policy={"specific": {"versions": [1, 2]}}, version_labels={"stable": 1}),
    )
    assert models_to_json(models_from_json(config)) == config


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
fields = st.sampled_from(
    ["name", "base_path", "model_type", "model_platform", "logging_config", "model_version_policy", "version_labels"]
)


@given(st.dictionaries(fields, values), st.sampled_from(["latest", "all", "specific"]), values)
def test_anything_is_either_read_or_refused(changes, policy, body):
    try:
        models = read(entry(**{"model_version_policy": {policy: body}, **changes}))
    except ConfigError:
        return
    assert models_from_json(models_to_json(models)) == models

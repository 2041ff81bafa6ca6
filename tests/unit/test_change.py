import pytest

from poise.config import BatchSettings, ModelConfig
from poise.errors import ConfigError
from poise.registry.change import Change, Newcomer, changes, kept_versions

M = {"name": "m", "path": "/m"}


@pytest.mark.parametrize(
    ("settings", "change"),
    [
        ({}, Change.NONE),
        ({"versions": "all"}, Change.LIVE),
        ({"labels": {"stable": 1}, "poll_interval_s": 7.0}, Change.LIVE),
        ({"load_policy": "resource"}, Change.LIVE),
        ({"path": "/elsewhere"}, Change.ANEW),
        ({"workers": 2}, Change.ANEW),
        ({"backend": "python"}, Change.ANEW),
        ({"labels": {"stable": 1}, "options": {"xla": True}}, Change.ANEW),
        ({"batching": BatchSettings(max_batch_size=8)}, Change.ANEW),
    ],
)
def test_only_what_workers_were_started_with_loads_anew(settings, change):
    before = ModelConfig(**M)
    assert changes({"m": before}, [ModelConfig(**{**M, **settings})]) == {"m": change}


def test_new_models_are_told_apart():
    assert changes({"m": ModelConfig(**M)}, [ModelConfig(name="n", path="/n")]) == {"n": None}


def test_a_model_listed_twice_is_refused():
    with pytest.raises(ConfigError, match="Illegal to list model m multiple times in config list"):
        changes({"m": ModelConfig(**M)}, [ModelConfig(**M), ModelConfig(**M)])


@pytest.mark.parametrize(
    ("wanted", "available", "beside", "kept"),
    [
        pytest.param(set(), set(), True, {1, 2}, id="nothing is known of the newcomer"),
        pytest.param(set(), set(), False, {1, 2}, id="nothing is known, and not both fit"),
        pytest.param({2, 3}, set(), True, {1, 2}, id="it loads"),
        pytest.param({2, 3}, set(), False, set(), id="it waits for room"),
        pytest.param({2, 3}, {3}, True, {2}, id="it serves, but not yet what the leaver has"),
        pytest.param({2, 3}, {2, 3}, True, set(), id="it serves all"),
    ],
)
def test_a_leaver_keeps(wanted, available, beside, kept):
    assert kept_versions({1, 2}, Newcomer(frozenset(wanted), frozenset(available), beside)) == kept


def test_a_leaver_without_a_newcomer_keeps_nothing():
    assert kept_versions({1, 2}, None) == set()

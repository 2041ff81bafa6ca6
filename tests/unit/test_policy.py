import pytest

from poise.registry.policy import (
    Aspired,
    Load,
    State,
    Unload,
    VersionView,
    aspired_versions,
    availability_preserving,
    is_retry_due,
    resource_preserving,
)

START, LOADING, AVAILABLE, UNLOADING, END = State
STATES = {"new": START, "loading": LOADING, "ready": AVAILABLE, "unloading": UNLOADING, "ended": END, "error": END}


def views(text):
    """`1 ready a, 2 new n`: number, state, aspired or not."""
    rows = [row.split() for row in text.split(", ")]
    return [VersionView(int(number), STATES[state], aspired == "a") for number, state, aspired in rows]


@pytest.mark.parametrize(
    ("vector", "action"),
    [
        ("1 unloading n, 2 error n, 3 ready a, 4 new a, 5 new a", Load(5)),
        ("1 unloading n, 2 error n, 3 ready n, 4 ready a, 5 new a", Unload(3)),
        ("1 ended n, 2 ready n, 3 error n", Unload(2)),
        ("1 ready a, 2 error a, 3 loading a, 4 unloading n, 5 ended n", None),
        ("1 ready n, 2 loading a", None),
        ("1 ready n, 2 error a", None),
        ("1 ready n, 2 loading a, 3 ready a", Unload(1)),
        ("1 ready n, 2 error a, 3 ready a", Unload(1)),
        ("2 ready n, 1 ready n, 3 error a, 4 loading a", Unload(1)),
        ("0 loading n, 1 ready a", Unload(0)),
        ("1 ready a, 2 loading n", Unload(2)),
        ("1 unloading a, 2 ended a", None),
        ("1 new n", None),
    ],
)
def test_availability_preserving_keeps_something_serving(vector, action):
    assert availability_preserving(views(vector)) == action


@pytest.mark.parametrize(
    ("vector", "action"),
    [
        ("1 unloading n, 2 ready a, 3 ready n, 4 new a, 5 ready n", Unload(3)),
        ("1 ready a, 2 loading a, 3 new a, 4 ended n, 5 new a", Load(5)),
        ("1 ready a, 2 error a, 3 loading a, 4 unloading n, 5 ended n", None),
        ("1 unloading n, 2 new a", None),
        ("1 error n, 2 new a", Load(2)),
        ("1 error n, 2 unloading n, 3 new a", None),
        ("1 error n, 2 ended n, 3 new a", Load(3)),
        ("1 loading n, 2 new a", Unload(1)),
    ],
)
def test_resource_preserving_unloads_first(vector, action):
    assert resource_preserving(views(vector)) == action


def test_no_versions_need_no_action():
    assert availability_preserving([]) is None
    assert resource_preserving([]) is None


@pytest.mark.parametrize(
    ("policy", "complete", "failing", "expected"),
    [
        pytest.param(1, {1, 2, 3}, (), Aspired(frozenset({3})), id="latest"),
        pytest.param(2, {1, 2, 3}, (), Aspired(frozenset({2, 3})), id="latest two"),
        pytest.param(9, {1, 2, 3}, (), Aspired(frozenset({1, 2, 3})), id="more than there are"),
        pytest.param(1, {1, 2}, (), Aspired(frozenset({2}), frozenset({3})), id="newest is still copied"),
        pytest.param(1, set(), (), Aspired(frozenset(), frozenset({1, 2, 3})), id="all are still copied"),
        pytest.param(1, {1, 2, 3}, {3}, Aspired(frozenset({2, 3})), id="newest fails: the one before stands in"),
        pytest.param(1, {1, 2, 3}, {2, 3}, Aspired(frozenset({2, 3})), id="only one stands in"),
        pytest.param("all", {1, 3}, (), Aspired(frozenset({1, 3}), frozenset({2})), id="all"),
        pytest.param((1, 2, 7), {1, 2, 3}, (), Aspired(frozenset({1, 2})), id="some by number"),
    ],
)
def test_aspired_versions(policy, complete, failing, expected):
    assert aspired_versions(policy, [1, 2, 3], complete.__contains__, lambda version: version in failing) == expected


def test_aspired_versions_ask_about_no_more_than_they_need():
    asked = []
    aspired_versions(1, range(1000), lambda version: not asked.append(version), lambda _: False)
    assert asked == [999]


@pytest.mark.parametrize(
    ("now", "changed", "due"),
    [(9.9, False, False), (10.0, False, True), (0.0, True, True)],
    ids=["wait", "time", "mended"],
)
def test_a_failed_version_is_retried_in_time_or_when_mended(now, changed, due):
    assert is_retry_due(10.0, now, files_changed=changed) is due

import pytest

from poise.registry.labels import LabelError, check_labels, settled_labels


@pytest.mark.parametrize(
    ("wanted", "told", "available", "settled"),
    [
        ({"stable": 1, "canary": 2}, {}, {1, 2}, {"stable": 1, "canary": 2}),
        ({"stable": 1, "canary": 2}, {}, {1}, {"stable": 1, "canary": 2}),  # a new one has stood nowhere
        ({"stable": 2}, {"stable": 1}, {1}, {"stable": 1}),  # stays where it was
        ({"stable": 2}, {"stable": 1}, {1, 2}, {"stable": 2}),  # and moves
        ({"stable": 2}, {"stable": 2}, set(), {"stable": 2}),  # its version is gone for a while
        ({"stable": 3}, {"stable": 2}, set(), {"stable": 2}),
        ({}, {"stable": 1}, {1}, {}),
        ({"a": 1, "b": 1}, {}, {1}, {"a": 1, "b": 1}),
    ],
)
def test_labels_move_only_to_versions_that_serve(wanted, told, available, settled):
    assert settled_labels(wanted, told, available) == settled


@pytest.mark.parametrize(
    ("wanted", "told", "coming", "new_may_wait", "fine"),
    [
        ({"a": 1}, {}, {1}, False, True),
        ({"a": 9}, {}, {1}, False, False),
        ({"a": 9}, {}, {1}, True, True),
        ({"a": 9}, {"a": 1}, {1}, True, False),  # a label in use must not be left without a version
        ({"a": 9}, {"a": 9}, {1}, False, True),  # as it was
    ],
)
def test_labels_without_prospect_are_refused(wanted, told, coming, new_may_wait, fine):
    if fine:
        check_labels("m", wanted, told, coming, new_may_wait=new_may_wait)
        return
    text = "Request to assign label to version 9 of model m, which is not currently available for inference"
    with pytest.raises(LabelError, match=text):
        check_labels("m", wanted, told, coming, new_may_wait=new_may_wait)

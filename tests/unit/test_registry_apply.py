"""A registry whose models change while it serves."""

import pytest

from poise.config import ModelConfig
from poise.errors import ConfigError
from poise.registry.labels import LabelError
from poise.registry.roster import MOST_PAST, merged_statuses
from support.registry import AVAILABLE, END, LOADING, START, UNLOADING, FakeSource, Stage


class Changing(Stage):
    def apply(self, *models, **options):
        self.registry.apply(models, self.now, **options)
        return self

    def labels(self, model="m"):
        return self.core.labels.get(model, {})


def config(name="m", path=None, **settings):
    return ModelConfig(name=name, path=path or name, **settings)


class TestModelsThatComeAndGo:
    def test_a_new_one_is_loaded_and_the_others_are_left_alone(self):
        stage = Changing(1).look().ready(1).apply(config(), config("n"))
        stage.sources["n"].found = {7}
        stage.look()
        assert stage.states() == {1: AVAILABLE}
        assert stage.states("n") == {7: LOADING}

    def test_a_new_one_takes_no_server_out_of_service(self):
        stage = Changing(1).look().ready(1).apply(config(), config("n"))
        stage.sources["n"].found = {7}
        assert stage.look().registry.ready
        stage.ready(2)
        stage.sources["n"].found = set()
        stage.look()
        assert stage.registry.missing() == ["n"]  # it has served: now it is missed

    def test_one_that_is_not_listed_is_unloaded_and_remembered(self):
        stage = Changing(1).look().ready(1).apply()
        assert stage.states() == {1: UNLOADING}
        assert stage.registry.ready
        stage.ended(1)
        assert stage.states() == {1: END}
        assert stage.registry.idle
        assert stage.registry.next_due() is None

    def test_one_that_loads_is_cut_short(self):
        stage = Changing(1).look().apply()
        assert stage.workers.abandoned == [1]
        stage.ended(1)
        assert stage.states() == {1: END}

    def test_one_that_comes_back_loads_again(self):
        stage = Changing(1).look().ready(1).apply().apply(config()).look()
        assert stage.states() == {1: LOADING}
        stage.ended(1).ready(2)
        assert stage.states() == {1: AVAILABLE}

    def test_only_so_many_of_the_past_are_remembered(self):
        stage = Changing(1)
        for index in range(MOST_PAST + 5):
            name = f"m{index}"
            stage.apply(config(name, path="m")).look().ready(index + 1).apply().ended(index + 1)
        known = [name for name, statuses in stage.core.statuses.items() if statuses]
        assert len(known) == MOST_PAST
        assert "m0" not in known

    def test_a_bad_list_changes_nothing(self):
        stage = Changing(1).look().ready(1)
        with pytest.raises(ConfigError, match="multiple times"):
            stage.apply(config("n"), config("n"))
        assert stage.states() == {1: AVAILABLE}
        assert [model.name for model in stage.registry.configs] == ["m"]
        assert stage.registry.generation == 1

    def test_each_change_has_a_number(self):
        stage = Changing(1).apply(config()).apply(config("n"))
        assert stage.registry.generation == 3


class TestModelsThatChange:
    def test_live_settings_apply_without_loading(self):
        stage = Changing(1, 2).look().ready(1).apply(config(versions=2)).look()
        assert stage.loads() == [2, 1]
        assert stage.states() == {2: AVAILABLE, 1: LOADING}

    def test_another_path_loads_beside_the_old_one(self):
        stage = Changing(1).look().ready(1).apply(config(path="new"))
        stage.sources["new"].found = {1, 2}
        stage.look()
        assert stage.states() == {2: LOADING, 1: AVAILABLE}
        assert stage.registry.ready
        stage.ready(2)
        assert stage.core.calls[-2:] == [("publish", 2), ("retire", 1)]
        assert stage.states() == {2: AVAILABLE, 1: UNLOADING}

    def test_the_same_version_anew_replaces_the_old_one(self):
        stage = Changing(1).look().ready(1).apply(config(workers=2)).look()
        assert stage.states() == {1: AVAILABLE}
        assert stage.loads() == [1, 1]
        stage.ready(2)
        assert stage.core.calls[-2:] == [("publish", 2), ("retire", 1)]
        stage.ended(1)
        assert stage.states() == {1: AVAILABLE}

    def test_one_that_fails_leaves_the_old_one_serving(self):
        stage = Changing(1).look().ready(1).apply(config(path="new", load_attempts=1))
        stage.sources["new"].found = {2}
        stage.look().failed(2, "bad graph")
        assert stage.states() == {2: END, 1: AVAILABLE}
        assert stage.registry.ready

    def test_with_resources_preserved_the_old_one_goes_first(self):
        stage = Changing(1, load_policy="resource").look().ready(1)
        stage.apply(config(workers=2, load_policy="resource")).look()
        assert (stage.states(), stage.loads()) == ({1: START}, [1])
        assert ("retire", 1) in stage.core.calls
        stage.ended(1)
        assert stage.loads() == [1, 1]

    def test_each_version_serves_on_until_it_is_loaded_anew(self):
        stage = Changing(1, 2, versions=2).look().ready(1).ready(2)
        stage.apply(config(versions=2, workers=2)).look().ready(3)
        assert stage.states() == {2: AVAILABLE, 1: AVAILABLE}
        assert [call for call in stage.core.calls if call[0] == "retire"] == [("retire", 1)]
        stage.ready(4)
        assert stage.core.calls[-2:] == [("publish", 4), ("retire", 2)]

    def test_the_old_one_takes_up_nothing_new(self):
        stage = Changing(1).look().ready(1).apply(config(path="new"))
        stage.look(1, 2)
        assert stage.loads() == [1]
        assert stage.states()[1] == AVAILABLE

    @pytest.mark.parametrize("load_policy", ["availability", "resource"])
    def test_a_path_with_nothing_to_load_leaves_the_old_one_serving(self, load_policy):
        stage = Changing(1).look().ready(1).apply(config(path="new", load_policy=load_policy))
        stage.sources["new"].problem = "cannot read new"
        stage.look()
        assert stage.states() == {1: AVAILABLE, 0: START}
        assert stage.status(0)["message"] == "cannot read new"

    def test_a_change_in_the_middle_of_a_change_ends_with_the_last(self):
        stage = Changing(1).look().ready(1).apply(config(workers=2)).look().apply(config(workers=3)).look()
        assert stage.workers.abandoned == [2]
        stage.ended(2).ready(3)
        assert ("retire", 1) in stage.core.calls
        assert stage.states() == {1: AVAILABLE}


class TestLabels:
    def test_at_a_start_may_name_versions_that_are_not_there_yet(self):
        stage = Changing(labels={"stable": 1, "canary": 2})
        assert stage.labels() == {"canary": 2, "stable": 1}

    def test_stay_when_their_version_goes(self):
        stage = Changing(1, labels={"stable": 1}).look().ready(1).look(2).ready(2).ended(1)
        assert stage.states() == {2: AVAILABLE, 1: END}
        assert stage.labels() == {"stable": 1}

    def test_move_when_the_new_version_serves_and_before_the_old_one_goes(self):
        stage = Changing(1, labels={"stable": 1}).look().ready(1).look(1, 2)
        stage.apply(config(labels={"stable": 2}))
        assert stage.labels() == {"stable": 1}
        stage.ready(2)
        assert stage.labels() == {"stable": 2}
        assert stage.core.calls[-1] == ("retire", 1)

    def test_to_a_version_without_prospect_are_refused(self):
        stage = Changing(1).look().ready(1)
        with pytest.raises(LabelError, match="version 9 of model m"):
            stage.apply(config(labels={"stable": 9}))
        stage.apply(config(labels={"stable": 9}), new_labels_may_wait=True)
        assert stage.labels() == {"stable": 9}

    def test_to_versions_that_the_policy_leaves_out_are_refused(self):
        stage = Changing(1, 2).look().ready(1)
        with pytest.raises(LabelError, match="version 1 of model m"):
            stage.apply(config(labels={"old": 1}))
        stage.apply(config(labels={"old": 1}, versions=2))

    def test_of_a_new_model_are_judged_by_what_is_on_disk(self):
        stage = Changing(1)
        stage.sources["n"] = FakeSource()
        with pytest.raises(LabelError, match="version 3 of model n"):
            stage.apply(config(), config("n", labels={"stable": 3}))
        assert [model.name for model in stage.registry.configs] == ["m"]
        stage.sources["n"].found = {3}
        stage.apply(config(), config("n", labels={"stable": 3}))
        assert stage.labels("n") == {"stable": 3}

    def test_may_name_a_version_that_was_copied_a_moment_ago(self):
        stage = Changing(1, poll_interval_s=100.0).look().ready(1)
        stage.source.found = {1, 2}
        stage.apply(config(labels={"stable": 2}))

    def test_go_with_their_model(self):
        stage = Changing(1, labels={"stable": 1}).look().ready(1).apply()
        assert stage.labels() == {}


class TestVerdicts:
    def test_are_open_until_something_has_come_of_it(self):
        stage = Changing(1, load_attempts=1)
        assert stage.registry.verdict("m") is None
        stage.look()
        assert stage.registry.verdict("m") is None
        stage.failed(1, "bad graph")
        assert stage.registry.verdict("m") == "{name: m version: 1} due to error: bad graph"

    def test_are_open_again_when_the_files_were_mended(self):
        stage = Changing(1, load_attempts=1).look().failed(1, "bad graph")
        stage.source.sizes[1] = 5
        stage.look()
        assert (stage.loads(), stage.registry.verdict("m")) == ([1, 1], None)
        stage.ready(2)
        assert stage.registry.verdict("m") == ""

    def test_of_a_path_without_versions(self):
        stage = Changing().look()
        assert stage.registry.verdict("m") == "{name: m} due to error: m holds no version yet"
        stage.source.problem = "cannot read m: No such file or directory"
        stage.look()
        assert "No such file" in stage.registry.verdict("m")

    def test_of_one_that_serves(self):
        stage = Changing(1).look().ready(1)
        assert stage.registry.verdict("m") == ""

    def test_a_look_soon_tries_at_once_what_has_failed(self):
        stage = Changing(1, poll_interval_s=1000.0, load_attempts=1).look().failed(1)
        stage.registry.look_soon("m")
        assert stage.registry.is_settling("m")
        stage.look(after=0.0)
        assert stage.loads() == [1, 1]
        stage.ready(2)
        assert not stage.registry.is_settling("m")


def test_of_two_states_of_a_version_the_one_that_serves_counts():
    new, old = {"version": 1, "state": LOADING}, {"version": 1, "state": AVAILABLE}
    other = {"version": 3, "state": END}
    assert merged_statuses([[new], [old, other]]) == [other, old]
    assert merged_statuses([[new], [{"version": 1, "state": UNLOADING}]]) == [new]

import pytest

from poise.config import BatchSettings
from poise.errors import ConfigError
from poise.registry.model import COMPARE_EVERY_S, HISTORY
from support.registry import AVAILABLE, END, LOADING, SIGNATURES, START, UNLOADING, Stage


class TestOneVersion:
    def test_is_loaded_described_published_and_only_then_available(self):
        stage = Stage(1).look()
        assert stage.workers.started == [(1, "m", 1, "m/1")]
        assert stage.states() == {1: LOADING}
        assert not stage.registry.ready
        stage.ready(1)
        assert stage.core.calls == [("add", "m", 1), ("describe", 1, SIGNATURES), ("publish", 1)]
        assert stage.states() == {1: AVAILABLE}
        assert stage.registry.ready

    def test_waits_until_its_files_are_complete_and_says_so(self):
        stage = Stage(1)
        stage.source.incomplete = {1}
        stage.look()
        assert stage.states() == {1: START}
        assert "still changing" in stage.status(1)["message"]
        stage.source.incomplete = set()
        stage.look()
        assert stage.states() == {1: LOADING}

    def test_is_unloaded_when_its_directory_goes(self):
        stage = Stage(1).look().ready(1)
        stage.source.found = set()
        stage.look()
        assert stage.states() == {1: UNLOADING}
        assert stage.core.calls[-1] == ("retire", 1)
        assert (stage.workers.retired, stage.workers.abandoned) == ([1], [])
        stage.ended(1)
        assert stage.states() == {1: END}
        assert stage.status(1)["code"] == 0
        assert stage.registry.idle

    def test_stays_when_the_path_cannot_be_read(self):
        stage = Stage(1).look().ready(1)
        stage.source.problem = "cannot read m: Stale file handle"
        stage.look()
        assert stage.states() == {1: AVAILABLE}

    def test_comes_back_when_its_directory_does(self):
        stage = Stage(1).look().ready(1)
        stage.source.found = set()
        stage.look()
        stage.look(1)
        assert stage.loads() == [1]  # the old one has not gone yet
        stage.ended(1)
        assert stage.loads() == [1, 1]

    def test_that_goes_while_it_loads_is_cut_short(self):
        stage = Stage(1).look()
        stage.source.found = set()
        stage.look()
        assert (stage.states(), stage.workers.abandoned) == ({1: UNLOADING}, [1])
        stage.ready(1)
        assert stage.states() == {1: UNLOADING}
        stage.ended(1)
        assert stage.states() == {1: END}

    def test_that_fails_while_its_loading_is_cut_short_has_just_ended(self):
        stage = Stage(1).look()
        stage.source.found = set()
        stage.look().failed(1)
        assert (stage.states(), stage.status(1)["code"]) == ({1: END}, 0)

    def test_trouble_with_its_workers_is_told_while_it_serves(self):
        stage = Stage(1).look().ready(1)
        stage.registry.version_troubled(1, "m/1/0: worker lost: hung; restart 1")
        assert stage.status(1) == {
            "version": 1,
            "state": AVAILABLE,
            "code": 0,
            "message": "m/1/0: worker lost: hung; restart 1",
        }
        stage.registry.version_troubled(1, "")
        assert stage.status(1)["message"] == ""


class TestNewVersion:
    def test_is_published_before_the_old_one_goes(self):
        stage = Stage(1).look().ready(1).look(1, 2)
        assert stage.states() == {2: LOADING, 1: AVAILABLE}
        stage.ready(2)
        assert stage.core.calls[-2:] == [("publish", 2), ("retire", 1)]
        assert stage.states() == {2: AVAILABLE, 1: UNLOADING}
        stage.ended(1)
        assert stage.states() == {2: AVAILABLE, 1: END}
        assert [one["version"] for one in stage.core.statuses["m"]] == [2, 1]

    def test_serves_from_first_to_last_moment(self):
        stage = Stage(1).look().ready(1).look(1, 2).ready(2).ended(1)
        first = next(index for index, states in enumerate(stage.core.history) if AVAILABLE in states.values())
        assert all(AVAILABLE in states.values() for states in stage.core.history[first:])

    def test_that_is_half_copied_leaves_the_old_one_alone(self):
        stage = Stage(1).look().ready(1)
        stage.source.incomplete = {2}
        stage.look(1, 2)
        assert stage.states() == {2: START, 1: AVAILABLE}
        assert stage.loads() == [1]

    def test_that_is_bad_leaves_the_old_one_serving_and_says_why(self):
        stage = Stage(1, load_attempts=1).look().ready(1).look(1, 2).failed(2, "bad graph")
        assert stage.states() == {2: END, 1: AVAILABLE}
        assert stage.status(2) == {"version": 2, "state": END, "code": 13, "message": "bad graph"}
        assert ("retire", 2) in stage.core.calls
        assert ("retire", 1) not in stage.core.calls

    def test_whose_signatures_cannot_be_served_is_bad(self):
        stage = Stage(1, load_attempts=1).look().ready(1).look(1, 2)
        stage.core.bad_signatures = "input x has rank 0"
        stage.ready(2)
        assert stage.states() == {2: END, 1: AVAILABLE}
        assert stage.status(2)["code"] == 3
        assert "input x has rank 0" in stage.status(2)["message"]
        assert stage.workers.abandoned == [2]
        stage.ended(2)
        assert stage.states() == {2: END, 1: AVAILABLE}

    def test_whose_batching_cannot_be_served_is_bad_and_retried_in_time(self):
        stage = Stage(1, load_attempts=1)
        stage.core.bad_batching = "allowed_batch_sizes"
        stage.look()
        assert stage.status(1)["message"] == "allowed_batch_sizes"
        stage.core.bad_batching = ""
        stage.look(after=0.5)
        assert stage.loads() == []
        stage.look(after=0.5)
        assert stage.loads() == [1]

    def test_at_a_start_the_one_before_stands_in_for_a_bad_one_until_that_is_mended(self):
        stage = Stage(1, 2, load_attempts=1).look().failed(1)
        assert stage.loads() == [2, 1]
        stage.ready(2)
        assert stage.states() == {2: END, 1: AVAILABLE}
        stage.look()
        assert stage.loads() == [2, 1, 2]
        stage.ready(3)
        assert stage.states() == {2: AVAILABLE, 1: UNLOADING}

    def test_with_resources_preserved_waits_until_the_old_one_has_gone(self):
        stage = Stage(1, load_policy="resource").look().ready(1).look(1, 2)
        assert (stage.states(), stage.loads()) == ({1: UNLOADING, 2: START}, [1])
        stage.ended(1)
        assert stage.loads() == [1, 2]


class TestBatchingOfVersions:
    def test_is_asked_for_with_the_place_of_each(self):
        places = []

        def batching(config, location):
            places.append((config.name, location))
            return BatchSettings(max_batch_size=7)

        stage = Stage(1, 2, versions=2, batching=batching).look()
        assert places == [("m", "m/2"), ("m", "m/1")]
        assert stage.core.batch_sizes == [7, 7]

    def test_that_cannot_be_read_is_an_error_of_that_version(self):
        def batching(_config, location):
            raise ConfigError(f"{location}/batching_params.pbtxt: line 1: expected a number")

        stage = Stage(1, batching=batching, load_attempts=1).look()
        assert stage.states() == {1: END}
        assert stage.status(1)["message"] == "m/1/batching_params.pbtxt: line 1: expected a number"


class TestRetries:
    def test_come_after_waits_that_double(self):
        stage = Stage(1, poll_interval_s=0.0).look()
        for handle, wait_s in enumerate([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0], start=1):
            stage.failed(handle)
            assert stage.registry.next_due() == stage.now + wait_s
            stage.look(after=wait_s - 0.1)
            assert len(stage.loads()) == handle
            stage.look(after=0.1)
            assert len(stage.loads()) == handle + 1

    def test_are_reported_as_loading_until_the_attempts_are_used_up(self):
        stage = Stage(1, load_attempts=2).look().failed(1, "first")
        assert stage.status(1) == {"version": 1, "state": LOADING, "code": 13, "message": "first"}
        stage.look().failed(2, "second")
        assert stage.status(1)["state"] == END
        stage.look(after=2.0)
        assert stage.status(1) == {"version": 1, "state": LOADING, "code": 13, "message": "second"}

    def test_come_at_once_when_somebody_has_mended_the_files(self):
        stage = Stage(1, poll_interval_s=10.0).look()
        for handle in range(1, 7):
            stage.failed(handle).look(after=60.0)
        stage.failed(7)
        stage.source.sizes[1] = 5
        stage.look(after=10.0)
        assert len(stage.loads()) == 8

    def test_do_not_come_once_the_version_is_gone(self):
        stage = Stage(1).look().failed(1)
        stage.source.found = set()
        stage.look(after=60.0).look(after=60.0)
        assert stage.loads() == [1]

    def test_success_clears_the_error(self):
        stage = Stage(1).look().failed(1, "first").look().ready(2)
        assert stage.status(1) == {"version": 1, "state": AVAILABLE, "code": 0, "message": ""}


class TestWhatIsRemembered:
    def test_ended_versions_are_kept_up_to_a_bound(self):
        stage = Stage(1).look().ready(1)
        for version in range(2, 20):
            stage.look(version).ready(version).ended(version - 1)
        assert len(stage.states()) == HISTORY + 1
        assert max(stage.states()) == 19

    def test_nothing_is_told_twice(self):
        stage = Stage(1).look().ready(1)
        told = len(stage.core.history)
        stage.look().look()
        assert len(stage.core.history) == told

    def test_files_that_change_under_a_version_are_reported_once(self, caplog):
        stage = Stage(1).look().ready(1)
        stage.source.sizes[1] = 5
        for _ in range(int(3 * COMPARE_EVERY_S)):
            stage.look()
        assert caplog.text.count("its files have changed") == 1
        assert "its files have changed" in stage.status(1)["message"]
        assert stage.states() == {1: AVAILABLE}

    def test_what_is_odd_about_a_path_is_logged_once(self, caplog):
        stage = Stage(1, versions=(1, 5)).look().look()
        assert caplog.text.count("there is no version 5") == 1
        stage.source.problem = "cannot read m"
        stage.look().look()
        assert caplog.text.count("cannot read m") == 1


class TestManyModels:
    def test_are_independent(self):
        stage = Stage(1, names=("m", "n"), load_attempts=1)
        stage.sources["n"].problem = "cannot read n"
        stage.look().ready(1)
        assert stage.states("m") == {1: AVAILABLE}
        assert stage.registry.missing() == ["n"]
        assert not stage.registry.ready
        stage.sources["n"].problem = ""
        stage.sources["n"].found = {4}
        stage.look()
        stage.registry.version_ready(2, SIGNATURES, stage.now)
        assert stage.registry.ready

    def test_several_versions_may_serve_at_once(self):
        stage = Stage(1, 2, 3, versions="all").look()
        assert sorted(stage.loads()) == [1, 2, 3]


class TestLooks:
    @pytest.mark.parametrize(("interval", "due"), [(5.0, 6.0), (0.0, None)])
    def test_come_at_the_interval_or_once(self, interval, due):
        stage = Stage(1, poll_interval_s=interval)
        assert stage.registry.next_due() == 0.0
        stage.look().ready(1)
        assert stage.registry.next_due() == due

    def test_go_on_while_files_settle_even_when_only_one_was_asked_for(self):
        stage = Stage(1, poll_interval_s=0.0)
        stage.source.incomplete = {1}
        stage.look()
        assert stage.registry.next_due() == 2.0


def test_retiring_all_unloads_everything_and_loads_nothing_more():
    stage = Stage(1, 2, versions=2).look().ready(1)
    stage.registry.retire_all(stage.now)
    assert stage.states() == {1: UNLOADING, 2: UNLOADING}
    assert stage.registry.next_due() is None
    stage.ended(1)
    stage.failed(2)
    stage.look(1, 2, 3)
    assert stage.registry.idle
    assert stage.states() == {1: END, 2: END}


class TestModelsWithoutVersions:
    """Whoever asks for their status is told why, not that they do not exist."""

    def test_a_path_that_cannot_be_read_is_told(self):
        stage = Stage()
        stage.source.problem = "cannot read m: Permission denied"
        stage.source.code = "PERMISSION_DENIED"
        stage.look()
        assert stage.core.statuses["m"] == [
            {"version": 0, "state": START, "code": 7, "message": "cannot read m: Permission denied"}
        ]

    def test_an_empty_path_is_told_until_a_version_comes(self):
        stage = Stage().look()
        assert stage.status(0)["message"] == "m holds no version yet"
        stage.look(3)
        assert stage.states() == {3: LOADING}

    def test_versions_asked_for_by_number_are_told(self):
        stage = Stage(1, versions=(7, 8)).look()
        assert stage.states() == {8: START, 7: START}
        assert stage.status(7)["message"] == "m holds none of the versions asked for yet"

    def test_what_is_served_is_not_mixed_with_a_passing_problem(self):
        stage = Stage(1).look().ready(1)
        stage.source.problem = "cannot read m: Stale file handle"
        assert stage.look().states() == {1: AVAILABLE}

    def test_a_model_that_was_unloaded_lacks_nothing(self):
        stage = Stage().look()
        stage.registry.apply([], stage.now)
        assert stage.core.statuses["m"] == []

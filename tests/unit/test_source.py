import pytest

from poise.registry.source import (
    LONG_QUIET_S,
    SETTLE_S,
    Sight,
    Source,
    Stamp,
    Tree,
    choose_versions,
    holds_model,
    is_complete,
    is_unchanged,
    list_versions,
    parse_version,
    read_tree,
    settle,
    split_location,
)

TREE = Tree((("model.onnx", 10, 1),), changed_at=1000.0)
GROWN = Tree((("model.onnx", 20, 2),), changed_at=1001.0)
EMPTY = Tree((), changed_at=0.0)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("1", 1),
        ("0", 0),
        ("00000123", 123),
        ("20170111173521", 20170111173521),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("-1", None),
        ("2.denied", None),
        ("3.tmp", None),
        (".4", None),
        ("v5", None),
        ("²", None),
        ("", None),
    ],
)
def test_directory_names_as_versions(name, version):
    assert parse_version(name) == version


def test_of_two_names_for_one_version_the_last_wins_with_a_warning():
    chosen, warnings = choose_versions(["0001", "001", "2", "tmp"])
    assert chosen == {1: "001", 2: "2"}
    assert warnings == ("'0001' and '001' both name version 1; '001' is used",)


@pytest.mark.parametrize(
    ("location", "path", "name"),
    [
        ("a/m.onnx", "a/m.onnx", ""),
        ("a/m.py:Ranker", "a/m.py", "Ranker"),
        ("a:b/m.onnx", "a:b/m.onnx", ""),
        ("a/m.py", "a/m.py", ""),
    ],
)
def test_locations(location, path, name):
    found, cls = split_location(location)
    assert (str(found), cls) == (path, name)


class TestCompleteness:
    def test_a_tree_keeps_its_age_while_it_stays_the_same(self):
        first = settle(None, TREE, now=5.0)
        assert settle(first, TREE, now=6.0) is first
        assert settle(first, GROWN, now=6.0) == Sight(GROWN, 6.0)

    @pytest.mark.parametrize(
        ("sight", "now", "wall_now", "complete"),
        [
            pytest.param(Sight(TREE, 5.0), 5.0, 1000.0, False, id="first sight of something new"),
            pytest.param(Sight(TREE, 5.0), 5.0 + SETTLE_S, 1001.0, True, id="the same for long enough"),
            pytest.param(Sight(TREE, 5.0), 5.0, 1000.0 + LONG_QUIET_S, True, id="untouched for long"),
            pytest.param(Sight(EMPTY, 5.0), 99.0, 1e9, False, id="an empty directory is not a copy"),
        ],
    )
    def test_complete_when_quiet(self, sight, now, wall_now, complete):
        assert is_complete(sight, now, wall_now, SETTLE_S) is complete


def make(path, text="x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def no_model(_):
    return False


class TestListing:
    def test_numeric_directories_are_versions(self, tmp_path):
        for name in ("1", "00000123", "tmp", "2.partial"):
            make(tmp_path / name / "model.onnx")
        make(tmp_path / "7")
        assert list_versions(str(tmp_path), no_model).versions == {1: f"{tmp_path}/1", 123: f"{tmp_path}/00000123"}

    def test_a_file_is_version_1(self, tmp_path):
        file = make(tmp_path / "m.onnx")
        assert list_versions(str(file), no_model).versions == {1: str(file)}

    def test_a_class_in_a_file_is_version_1(self, tmp_path):
        make(tmp_path / "m.py")
        assert list_versions(f"{tmp_path}/m.py:Ranker", no_model).versions == {1: f"{tmp_path}/m.py:Ranker"}

    def test_a_directory_that_holds_a_model_is_version_1(self, tmp_path):
        assert list_versions(str(tmp_path), lambda _: True).versions == {1: str(tmp_path)}

    def test_an_empty_directory_has_no_versions(self, tmp_path):
        listing = list_versions(str(tmp_path), no_model)
        assert (listing.versions, listing.problem) == ({}, "")

    def test_a_missing_path_is_a_problem_not_an_empty_directory(self, tmp_path):
        listing = list_versions(str(tmp_path / "gone"), no_model)
        assert (listing.problem, listing.code) == (
            f"cannot read {tmp_path}/gone: No such file or directory",
            "NOT_FOUND",
        )

    @pytest.mark.parametrize(
        ("backend", "file", "holds"),
        [
            ("auto", "model.onnx", True),
            ("auto", "model.py", True),
            ("auto", "saved_model.pb", True),
            ("auto", "README.md", False),
            ("onnxruntime", "weights", True),
        ],
    )
    def test_what_makes_a_directory_a_model(self, tmp_path, backend, file, holds):
        assert holds_model(backend)(tmp_path) is False
        make(tmp_path / file)
        assert holds_model(backend)(tmp_path) is holds


class TestTree:
    def test_names_and_sizes_of_files_at_every_depth(self, tmp_path):
        make(tmp_path / "a" / "b", "123")
        make(tmp_path / "c", "1")
        assert [entry[:2] for entry in read_tree(tmp_path).entries] == [("a/b", 3), ("c", 1)]

    def test_compiled_python_and_dangling_links_do_no_harm(self, tmp_path):
        make(tmp_path / "model.py")
        before = read_tree(tmp_path)
        make(tmp_path / "__pycache__" / "model.pyc")
        assert read_tree(tmp_path) == before
        (tmp_path / "link").symlink_to("nowhere")
        assert len(read_tree(tmp_path).entries) == 2

    def test_a_tree_that_is_gone_is_empty(self, tmp_path):
        assert read_tree(tmp_path / "gone").entries == ()


class TestSource:
    def test_a_version_is_complete_once_its_files_hold_still(self, tmp_path):
        source = Source(str(tmp_path), no_model, wall_clock=lambda: (tmp_path / "1").stat().st_ctime)
        file = make(tmp_path / "1" / "model.onnx", "half")
        assert list(source.look().versions) == [1]
        assert not source.complete(1, now=0.0)
        file.write_text("all of it")
        assert not source.complete(1, now=1.0)
        assert source.complete(1, now=2.0)
        assert source.tree(1) == read_tree(tmp_path / "1")

    def test_a_model_that_was_named_itself_is_meant_as_it_is(self, tmp_path):
        file = make(tmp_path / "m.onnx")
        source = Source(str(file), no_model, wall_clock=lambda: 0.0)
        source.look()
        assert source.complete(1, now=0.0)

    def test_what_is_gone_is_forgotten_and_what_cannot_be_read_is_not(self, tmp_path):
        base = tmp_path / "base"
        make(base / "1" / "m.onnx")
        source = Source(str(base), no_model)
        source.look()
        source.complete(1, now=0.0)
        base.rename(tmp_path / "away")
        assert source.look().problem
        assert source.tree(1) is not None
        base.mkdir()
        assert source.look().versions == {}
        assert source.tree(1) is None


@pytest.mark.parametrize(
    ("before", "now", "wall_now", "expected"),
    [
        pytest.param(Stamp(1, 90 * 10**9), Stamp(1, 90 * 10**9), 101.0, True, id="quiet before it was listed"),
        pytest.param(None, Stamp(1, 90 * 10**9), 101.0, False, id="never listed"),
        pytest.param(Stamp(1, 90 * 10**9), Stamp(1, 101 * 10**9), 101.0, False, id="an entry came or went"),
        pytest.param(Stamp(1, 90 * 10**9), Stamp(2, 90 * 10**9), 101.0, False, id="another directory took its place"),
        pytest.param(Stamp(1, 99 * 10**9), Stamp(1, 99 * 10**9), 101.0, False, id="changed just before it was listed"),
        pytest.param(Stamp(1, 90 * 10**9), Stamp(1, 90 * 10**9), 111.0, False, id="listed too long ago"),
        pytest.param(Stamp(1, 90 * 10**9), Stamp(1, 90 * 10**9), 99.0, False, id="the clock went back"),
        pytest.param(None, None, 101.0, False, id="no directory"),
    ],
)
def test_a_quiet_directory_is_not_listed_again(before, now, wall_now, expected):
    assert is_unchanged(before, now, listed_at=100.0, wall_now=wall_now) is expected

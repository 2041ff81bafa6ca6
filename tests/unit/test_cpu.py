import pytest

from poise import cpu
from poise.cpu import CpuFiles


@pytest.mark.parametrize(
    ("cpu_max", "v1", "allowed", "cores"),
    [
        pytest.param([], (None, None), 8, 8, id="no cgroup"),
        pytest.param(["max 100000\n"], (None, None), 8, 8, id="no quota"),
        pytest.param(["200000 100000\n"], (None, None), 8, 2, id="quota of two"),
        pytest.param(["150000 100000\n"], (None, None), 8, 2, id="part of a core rounds up"),
        pytest.param(["50000 100000\n"], (None, None), 8, 1, id="half a core"),
        pytest.param(["400000 100000\n"], (None, None), 3, 3, id="affinity is less"),
        pytest.param(["max 100000\n", "200000 100000\n"], (None, None), 8, 2, id="quota of a group above"),
        pytest.param([], ("300000\n", "100000\n"), 8, 3, id="v1 quota"),
        pytest.param([], ("-1\n", "100000\n"), 8, 8, id="v1 without quota"),
        pytest.param(["nonsense\n", ""], ("x", "0"), 8, 8, id="nonsense limits nothing"),
    ],
)
def test_the_budget_is_the_smallest_limit(cpu_max, v1, allowed, cores):
    assert cpu.budget(CpuFiles(tuple(cpu_max), *v1), allowed) == cores


def test_the_groups_above_are_read_too(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "cpu.max").write_text("100000 100000\n")
    (tmp_path / "a" / "b" / "cpu.max").write_text("max 100000\n")
    own = tmp_path / "cgroup"
    own.write_text("12:memory:/x\n0::/a/b\n")
    assert cpu.read_files(tmp_path, own).cpu_max == ("max 100000\n", "100000 100000\n")


def test_files_that_are_missing_limit_nothing(tmp_path):
    assert cpu.read_files(tmp_path, tmp_path / "none") == CpuFiles((), None, None)


def test_this_process_has_a_budget():
    assert cpu.cpu_budget() >= 1

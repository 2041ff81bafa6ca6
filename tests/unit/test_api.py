import subprocess
import sys

import pytest

import poise


def test_the_public_api_is_small_sorted_and_there():
    assert poise.__all__ == sorted(poise.__all__)
    assert len(poise.__all__) <= 20
    assert all(getattr(poise, name) is not None for name in poise.__all__)
    assert set(poise.__all__) <= set(dir(poise))


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'poise' has no attribute 'Modle'"):
        _ = poise.Modle


@pytest.mark.parametrize(
    ("module", "absent"),
    [("poise", "numpy"), ("poise.config", "numpy"), ("poise.workers.child", "onnxruntime")],
)
def test_importing_stays_light(module, absent):
    code = f"import sys, {module}; sys.exit({absent!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

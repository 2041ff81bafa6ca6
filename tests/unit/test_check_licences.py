from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ALLOWED = {"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"}


@pytest.fixture(scope="module")
def licences() -> ModuleType:
    path = Path(__file__).parents[2] / "tools" / "check_licences.py"
    spec = importlib.util.spec_from_file_location("check_licences", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("expression", "met"),
    [
        ("MIT", True),
        ("GPL-3.0", False),
        ("", False),
        ("GPL-3.0 OR MIT", True),
        ("MIT/GPL-3.0", True),
        ("MIT AND GPL-3.0", False),
        ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", True),
        ("(MIT OR GPL-3.0) AND Unicode-3.0", True),
        ("(GPL-2.0 OR GPL-3.0) AND Unicode-3.0", False),
        ("(MIT OR (GPL-2.0 AND GPL-3.0)) AND (Unicode-3.0)", True),
    ],
)
def test_a_licence_expression_is_met_from_the_allowed_ones(licences: ModuleType, expression: str, met: bool) -> None:
    assert licences.satisfied(expression, ALLOWED) is met

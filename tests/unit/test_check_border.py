from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def border(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """tools/check_border.py, looking at an empty crate."""
    path = Path(__file__).parents[2] / "tools" / "check_border.py"
    spec = importlib.util.spec_from_file_location("check_border", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "SOURCES", tmp_path / "rust" / "src")
    return module


@pytest.mark.parametrize(
    ("file", "source", "complaint"),
    [
        pytest.param("batching/queue.rs", "use crate::tensor::Tensor;", None, id="downwards"),
        pytest.param("tensor.rs", "use crate::error::Error;", None, id="among plain values"),
        pytest.param("batching/queue.rs", "use crate::batching::policy::Policy;", None, id="within a module"),
        pytest.param("batching/queue.rs", "// use crate::server::Server;", None, id="in a comment"),
        pytest.param("python/mod.rs", "use pyo3::prelude::*; use crate::server::Server;", None, id="python at the top"),
        pytest.param("batching/queue.rs", "use crate::server::Server;", "imports `server`", id="upwards"),
        pytest.param("workers/channel.rs", "use crate::frontends::tfs;", "imports `frontends`", id="sideways"),
        pytest.param("tensor.rs", "use crate::{error::{Error, Kind}, batching::Row};", "imports `batching`", id="tree"),
        pytest.param(
            "tensor.rs", "use crate::{\n    error::Error,\n    server,\n};", "imports `server`", id="long tree"
        ),
        pytest.param("tensor.rs", "fn f() { crate::server::g() }", "imports `server`", id="in an expression"),
        pytest.param("tensor.rs", "use pyo3::Bound;", "names pyo3", id="interpreter outside its folder"),
        pytest.param("novelty.rs", "", "has no layer", id="a module nobody placed"),
    ],
)
def test_an_import_against_the_layers_is_found(
    border: ModuleType, file: str, source: str, complaint: str | None
) -> None:
    path = border.SOURCES / file
    path.parent.mkdir(parents=True)
    path.write_text(source)
    breaches = list(border.breaches_of(path))
    if complaint is None:
        assert breaches == []
    else:
        assert len(breaches) == 1
        assert complaint in breaches[0]


def test_names_below_the_first_segment_are_no_imports(border: ModuleType) -> None:
    assert border.imports_of("use crate::{tensor::{server, DType}, error::workers};") == {"tensor", "error"}

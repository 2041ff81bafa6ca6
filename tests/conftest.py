from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.savedmodels import make
from support.tfclient import PYTHON, TfClient


@pytest.fixture(scope="session")
def tf() -> Iterator[TfClient]:
    """The real client of TensorFlow Serving, with an environment of its own (`make .venv-tf/.locked`)."""
    if "POISE_TF_PYTHON" not in os.environ and not PYTHON.exists():
        pytest.skip(f"no {PYTHON}: make .venv-tf/.locked")
    client = TfClient()
    yield client
    client.close()


@pytest.fixture(scope="session")
def savedmodels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models of support/savedmodels.py, each as FOLDER/NAME/VERSION."""
    return make(tmp_path_factory.mktemp("savedmodels"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the models of a test write down what they ran."""
    return tmp_path

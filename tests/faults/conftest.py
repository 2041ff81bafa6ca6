from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.clients import Crowd


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    with Crowd() as made:
        yield made


@pytest.fixture(params=["process", "thread"])
def isolation(request: pytest.FixtureRequest) -> str:
    return str(request.param)

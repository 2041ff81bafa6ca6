from __future__ import annotations

from collections.abc import Iterator

import pytest

from poise.types import DTYPES
from support.frontends import Frontend, Grpc, Rest
from support.serving import Stand, model, serving
from support.tfclient import TfClient
from support.versions import publish


@pytest.fixture(scope="session")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """One server for all that only asks: an echo of each dtype, and models with something to get wrong."""
    base = tmp_path_factory.mktemp("versions") / "adds"
    for number in (1, 2):
        publish(base, number)
    models = [
        *(model(f"echo_{dtype}", "Echo", {"dtype": dtype}) for dtype in DTYPES),
        model("half", "Half"),
        model("rows_of_two", "Echo", {"shape": [-1, 2]}),
        model("pair", "Pair"),
        model("alone", "Alone"),
        model("counter", "Counter"),
        model("classifies", "Parts"),
        model("regresses", "Parts", {"regresses": True}),
        model("one_at_most", "Half", max_batch_size=3, enable_large_batch_splitting=False),
        model("adds", "Half", path=str(base), versions="all"),
        model("broken", "Unloadable", load_attempts=1),
    ]
    with serving(*models, ready=False, max_message_bytes=1 << 20) as running:
        names = {config.name for config in models} - {"broken"}
        running.wait_for_models(names)
        yield running


@pytest.fixture(params=["grpc", "rest rows", "rest columns"])
def frontend(request: pytest.FixtureRequest, stand: Stand, tf: TfClient) -> Frontend:
    if request.param == "grpc":
        return Grpc(tf, stand)
    return Rest(stand, rows=request.param == "rest rows")


@pytest.fixture
def grpc(stand: Stand, tf: TfClient) -> Grpc:
    return Grpc(tf, stand)

"""The real client of TensorFlow Serving changes what a server serves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.clients import Refused
from support.serving import MODELS, ServerProcess, until
from support.tfclient import TfClient, tensors


@pytest.mark.timeout(240)  # a worker imports TensorFlow
def test_a_new_list_serves_when_the_call_returns_and_what_it_leaves_out_goes(tf: TfClient, savedmodels: Path):
    x = {"x": np.array([[2.0]], np.float32)}
    path = str(savedmodels / "half_plus_two")
    with ServerProcess(f"half={MODELS}:Half") as server:
        tf.call("reload", server.grpc, models=[["half_plus_two", path]], timeout=120.0)
        assert tf.predict(server.grpc, "half_plus_two", x)["y"].tolist() == [[3.0]]
        gone = {"model": "half", "inputs": tensors({"x": np.array([2.0], np.float32)})}
        until(lambda: tf.ask("predict", server.grpc, **gone).get("code") == "NOT_FOUND", "the old model gone")
        with pytest.raises(Refused):
            tf.call("reload", server.grpc, models=[["relative", "half_plus_two"]])

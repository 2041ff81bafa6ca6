"""Triton's side of the comparison: one call of ONNX Runtime per batch that Triton forms. Loaded by Triton alone."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

sys.path += os.environ["PYTHONPATH"].split(":")  # the stub that loads this file looks at no environment variable

import numpy as np
import onnxruntime as ort
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """The class that Triton's Python backend looks for."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the network with one thread, as behind every other server."""
        config = json.loads(args["model_config"])
        settings = ort.SessionOptions()
        settings.intra_op_num_threads = 1
        settings.inter_op_num_threads = 1
        file = config["parameters"]["file"]["string_value"]
        self._session = ort.InferenceSession(file, settings, providers=["CPUExecutionProvider"])
        self._input = config["input"][0]["name"]
        self._output = config["output"][0]["name"]

    def execute(self, requests: list[Any]) -> list[Any]:
        """Join the requests' rows, run the network once, part the answers."""
        rows = [pb_utils.get_input_tensor_by_name(request, self._input).as_numpy() for request in requests]
        joined = np.concatenate(rows) if len(rows) > 1 else rows[0]
        (outputs,) = self._session.run([self._output], {self._input: joined})
        answers, start = [], 0
        for part in rows:
            tensor = pb_utils.Tensor(self._output, outputs[start : start + len(part)])
            answers.append(pb_utils.InferenceResponse([tensor]))
            start += len(part)
        return answers

"""What a request and an answer look like on the wire, for each protocol that a server in the comparison speaks."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Protocol

import numpy as np
from models import Rows, ServedModel

sys.path.insert(0, str(Path(__file__).parent / "generated"))
import oip_infer_pb2 as oip
import tfs_predict_pb2 as tfs

TFS_DTYPES = {"float32": 1, "int32": 3}
OIP_DTYPES = {"float32": "FP32", "int32": "INT32"}


class Wire(Protocol):
    """One prediction protocol in its gRPC and its REST form."""

    grpc_method: str

    def grpc_request(self, model: ServedModel, rows: Rows) -> bytes:
        """The message that asks for a prediction of `rows`."""

    def grpc_answer(self, model: ServedModel, message: bytes) -> Rows:
        """The prediction in an answer's message."""

    def rest_path(self, model: ServedModel) -> str:
        """Where to POST."""

    def rest_request(self, model: ServedModel, rows: Rows) -> bytes:
        """The JSON body that asks for a prediction of `rows`."""

    def rest_answer(self, body: bytes) -> Rows:
        """The prediction in an answer's body."""


class TensorFlowServing:
    """PredictionService.Predict with tensor_content, as NumPy clients send it, and row-format JSON."""

    grpc_method = "/tensorflow.serving.PredictionService/Predict"

    def grpc_request(self, model: ServedModel, rows: Rows) -> bytes:
        request = tfs.PredictRequest(model_spec=tfs.ModelSpec(name=model.name))
        tensor = request.inputs[model.input]
        tensor.dtype = TFS_DTYPES[model.dtype]
        tensor.tensor_shape.dim.extend(tfs.TensorShape.Dim(size=size) for size in rows.shape)
        tensor.tensor_content = rows.tobytes()
        return request.SerializeToString()

    def grpc_answer(self, model: ServedModel, message: bytes) -> Rows:
        tensor = tfs.PredictResponse.FromString(message).outputs[model.output]
        shape = [dim.size for dim in tensor.tensor_shape.dim]
        flat = np.frombuffer(tensor.tensor_content, np.float32) if tensor.tensor_content else tensor.float_val
        return np.asarray(flat, np.float32).reshape(shape)

    def rest_path(self, model: ServedModel) -> str:
        return f"/v1/models/{model.name}:predict"

    def rest_request(self, model: ServedModel, rows: Rows) -> bytes:  # noqa: ARG002  as in every Wire
        return json.dumps({"instances": rows.tolist()}).encode()

    def rest_answer(self, body: bytes) -> Rows:
        return np.asarray(json.loads(body)["predictions"], np.float32)


class OpenInference:
    """GRPCInferenceService.ModelInfer with raw contents, as Triton's own clients send it, and /v2 JSON."""

    grpc_method = "/inference.GRPCInferenceService/ModelInfer"

    def grpc_request(self, model: ServedModel, rows: Rows) -> bytes:
        tensor = oip.Tensor(name=model.input, datatype=OIP_DTYPES[model.dtype], shape=rows.shape)
        request = oip.InferRequest(model_name=model.name, inputs=[tensor], raw_input_contents=[rows.tobytes()])
        return request.SerializeToString()

    def grpc_answer(self, model: ServedModel, message: bytes) -> Rows:  # noqa: ARG002  as in every Wire
        answer = oip.InferResponse.FromString(message)
        return np.frombuffer(answer.raw_output_contents[0], np.float32).reshape(answer.outputs[0].shape)

    def rest_path(self, model: ServedModel) -> str:
        return f"/v2/models/{model.name}/infer"

    def rest_request(self, model: ServedModel, rows: Rows) -> bytes:
        tensor = {"name": model.input, "shape": rows.shape, "datatype": OIP_DTYPES[model.dtype]}
        return json.dumps({"inputs": [{**tensor, "data": rows.ravel().tolist()}]}).encode()

    def rest_answer(self, body: bytes) -> Rows:
        (output,) = json.loads(body)["outputs"]
        return np.asarray(output["data"], np.float32).reshape(output["shape"])


def framed(message: bytes) -> bytes:
    """A message as gRPC frames it: not compressed, length first."""
    return struct.pack(">BI", 0, len(message)) + message

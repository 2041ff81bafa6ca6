"""The real client of TensorFlow Serving, run in an environment of its own.

Reads a request as JSON a line from standard input, answers with JSON a line on what was standard output.
"""

import base64
import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)


class Client:
    def __init__(self):
        self.channels = {}
        self.calls = {}

    def channel(self, address):
        if address not in self.channels:
            self.channels[address] = grpc.insecure_channel(address)
        return self.channels[address]

    def start(self, ask):
        stub = prediction_service_pb2_grpc.PredictionServiceStub(self.channel(ask["address"]))
        return stub.Predict.future(predict_request(ask), timeout=ask.get("timeout", 20.0))

    def handle(self, ask):
        return outcome(lambda: getattr(self, "do_" + ask["do"])(ask))

    def do_predict(self, ask):
        return shown(self.start(ask).result())

    def do_many(self, ask):
        calls = [self.start({**ask, **one}) for one in ask["calls"]]
        return [outcome(lambda call=call: shown(call.result())) for call in calls]

    def do_start(self, ask):
        self.calls[ask["id"]] = self.start(ask)
        return {}

    def do_secure(self, ask):
        """Calls to this address go over TLS from now on."""
        key, certificate = (ask[name].encode() if ask.get(name) else None for name in ("key", "cert"))
        credentials = grpc.ssl_channel_credentials(ask["ca"].encode(), key, certificate)
        self.channels[ask["address"]] = grpc.secure_channel(ask["address"], credentials)
        return {}

    def do_cancel(self, ask):
        return {"cancelled": self.calls[ask["id"]].cancel()}

    def do_result(self, ask):
        return shown(self.calls.pop(ask["id"]).result())

    def do_raw(self, ask):
        call = self.channel(ask["address"]).unary_unary(
            ask["method"], request_serializer=None, response_deserializer=None
        )
        compression = grpc.Compression.Gzip if ask.get("gzip") else None
        return {"body": encode(call(base64.b64decode(ask["body"]), timeout=20.0, compression=compression))}

    def do_classify(self, ask):
        request = classification_pb2.ClassificationRequest()
        answer = self.infer("Classify", request, ask, request.model_spec)
        return {"rows": classes(answer.result), "spec": spec(answer.model_spec)}

    def do_regress(self, ask):
        request = regression_pb2.RegressionRequest()
        answer = self.infer("Regress", request, ask, request.model_spec)
        return {"rows": values(answer.result), "spec": spec(answer.model_spec)}

    def do_multi(self, ask):
        """Each task is [method, signature]; the answer has classes or values for each."""
        request = inference_pb2.MultiInferenceRequest()
        for method, signature in ask["tasks"]:
            task = request.tasks.add(method_name=f"tensorflow/serving/{method}")
            fill_spec(task.model_spec, {**ask, "signature": signature})
        answer = self.infer("MultiInference", request, ask)
        shown = {"classification_result": classes, "regression_result": values}
        kinds = [(one, one.WhichOneof("result")) for one in answer.results]
        return {"results": [shown[kind](getattr(one, kind)) for one, kind in kinds]}

    def infer(self, call, request, ask, target=None):
        """Examples are a list of float features by name; `context` is one that they share."""
        if target is not None:
            fill_spec(target, ask)
        filled = request.input.example_list
        if "context" in ask:
            filled = request.input.example_list_with_context
            filled.context.CopyFrom(example(ask["context"]))
        filled.examples.extend(map(example, ask["examples"]))
        stub = prediction_service_pb2_grpc.PredictionServiceStub(self.channel(ask["address"]))
        return getattr(stub, call)(request, timeout=20.0)

    def do_metadata(self, ask):
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=ask["fields"])
        fill_spec(request.model_spec, ask)
        stub = prediction_service_pb2_grpc.PredictionServiceStub(self.channel(ask["address"]))
        answer = stub.GetModelMetadata(request, timeout=20.0)
        found = get_model_metadata_pb2.SignatureDefMap()
        answer.metadata["signature_def"].Unpack(found)
        signatures = {
            name: {
                "method_name": one.method_name,
                "inputs": {key: described(info) for key, info in one.inputs.items()},
                "outputs": {key: described(info) for key, info in one.outputs.items()},
            }
            for name, one in found.signature_def.items()
        }
        return {"spec": spec(answer.model_spec), "signatures": signatures}

    def do_reload(self, ask):
        """The models are name and base path; none at all is a request without a config."""
        request = model_management_pb2.ReloadConfigRequest()
        if "models" in ask:
            request.config.model_config_list.SetInParent()
            for name, path in ask["models"]:
                request.config.model_config_list.config.add(name=name, base_path=path, model_platform="tensorflow")
        stub = model_service_pb2_grpc.ModelServiceStub(self.channel(ask["address"]))
        answer = stub.HandleReloadConfigRequest(request, timeout=ask.get("timeout", 20.0))
        return {"error_code": answer.status.error_code, "error_message": answer.status.error_message}

    def do_status(self, ask):
        request = get_model_status_pb2.GetModelStatusRequest()
        if not ask.get("no_spec"):
            fill_spec(request.model_spec, ask)
        stub = model_service_pb2_grpc.ModelServiceStub(self.channel(ask["address"]))
        answer = stub.GetModelStatus(request, timeout=20.0)
        name = get_model_status_pb2.ModelVersionStatus.State.Name
        return {
            "versions": [
                [one.version, name(one.state), one.status.error_code, one.status.error_message]
                for one in answer.model_version_status
            ]
        }


def example(features):
    made = tf.train.Example()
    for name, numbers in features.items():
        made.features.feature[name].float_list.value.extend(numbers)
    return made


def classes(result):
    return [[[one.label, one.score] for one in row.classes] for row in result.classifications]


def values(result):
    return [one.value for one in result.regressions]


def predict_request(ask):
    request = predict_pb2.PredictRequest(output_filter=ask.get("filter", []))
    if not ask.get("no_spec"):
        fill_spec(request.model_spec, ask)
    for name, tensor in ask.get("inputs", {}).items():
        request.inputs[name].CopyFrom(proto(tensor))
    return request


def fill_spec(target, ask):
    target.SetInParent()
    target.name = ask["model"]
    target.signature_name = ask.get("signature", "")
    if ask.get("version") is not None:
        target.version.value = ask["version"]
    if ask.get("label") is not None:
        target.version_label = ask["label"]


def proto(tensor):
    """A TensorProto: as TensorFlow makes it of an array, or with the very fields that are asked for."""
    dtype = tf.dtypes.as_dtype(tensor["dtype"])
    if "fields" in tensor:
        made = tf.make_tensor_proto(0.0)
        made.Clear()
        made.dtype = dtype.as_datatype_enum
        for size in tensor["shape"]:
            made.tensor_shape.dim.add(size=size)
        for field, values in tensor["fields"].items():
            if field == "tensor_content":
                made.tensor_content = base64.b64decode(values)
            else:
                getattr(made, field).extend(values)
        return made
    if "strings" in tensor:
        array = np.array([base64.b64decode(item) for item in tensor["strings"]], dtype=object)
    else:
        array = np.frombuffer(base64.b64decode(tensor["bytes"]), dtype.as_numpy_dtype)
    return tf.make_tensor_proto(array.reshape(tensor["shape"]), dtype=dtype, shape=tensor["shape"])


def shown(answer):
    return {"outputs": {name: as_tensor(one) for name, one in answer.outputs.items()}, "spec": spec(answer.model_spec)}


def as_tensor(made):
    array = tf.make_ndarray(made)
    dtype = tf.dtypes.as_dtype(made.dtype).name
    tensor = {"dtype": dtype, "shape": list(array.shape), "fields": [field.name for field, _ in made.ListFields()]}
    if dtype == "string":
        return {**tensor, "strings": [encode(item) for item in array.ravel().tolist()]}
    return {**tensor, "bytes": encode(array.tobytes())}


def described(info):
    dims = [dim.size for dim in info.tensor_shape.dim]
    shape = None if info.tensor_shape.unknown_rank else dims
    return [tf.dtypes.as_dtype(info.dtype).name, shape, info.name]


def spec(found):
    version = found.version.value if found.HasField("version") else None
    return {"name": found.name, "signature": found.signature_name, "version": version}


def outcome(work):
    try:
        return work()
    except grpc.RpcError as error:
        return {"code": error.code().name, "text": error.details()}
    except grpc.FutureCancelledError:
        return {"code": "CANCELLED", "text": ""}


def encode(data):
    return base64.b64encode(data).decode()


def main():
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        client = Client()
        for line in sys.stdin:
            print(json.dumps(client.handle(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()

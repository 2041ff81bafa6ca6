"""Load on a TensorFlow Serving model: one channel, one request after another, for a fixed time.

    python tfs_load.py localhost:8500 half_plus_two 10

Needs tensorflow and tensorflow-serving-api, and nothing else: any server that speaks this API may answer.
"""

import statistics
import sys
import time

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


def main() -> None:
    server, model, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    stub = prediction_service_pb2_grpc.PredictionServiceStub(grpc.insecure_channel(server))
    req = predict_pb2.PredictRequest()
    req.model_spec.name = model
    req.model_spec.signature_name = "serving_default"
    req.inputs["x"].CopyFrom(tf.make_tensor_proto([1.0, 2.0, 5.0], dtype=tf.float32))
    stub.Predict(req, timeout=60.0)  # whatever is done once is done now

    latencies = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        stub.Predict(req, timeout=5.0)
        latencies.append((time.perf_counter() - start) * 1000)

    latencies.sort()
    print(f"QPS:  {len(latencies) / seconds:.1f}")
    print(f"mean: {statistics.fmean(latencies):.3f} ms")
    print(f"P95:  {latencies[int(len(latencies) * 0.95)]:.3f} ms")


if __name__ == "__main__":
    main()

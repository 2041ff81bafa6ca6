"""Calls to a server, Poise's or any with TensorFlow Serving's API, over gRPC or REST."""

from poise.client.calls import CallError, ModelAddress, Prediction, Served, fetch_signatures, pick_signature, predict

__all__ = ["CallError", "ModelAddress", "Prediction", "Served", "fetch_signatures", "pick_signature", "predict"]

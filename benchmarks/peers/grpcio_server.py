"""A grpcio asyncio server with a hand-written batcher: what a team writes for itself in an afternoon.

Run as a program it is the server; `start` runs it as a program.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import grpc
import numpy as np
import onnxruntime as ort
from models import Rows, ServedModel, options
from processes import LOOPBACK, free_port, listening, running
from wire import TensorFlowServing, tfs

from peers import Batching, Running

DTYPES = {1: np.dtype(np.float32), 3: np.dtype(np.int32)}
Waiting = tuple[Rows, "asyncio.Future[Rows]"]


class Batcher:
    """Runs whatever is queued, up to a maximum, as soon as the model is free."""

    def __init__(self, session: Any, model: dict[str, str], max_rows: int, delay: float) -> None:
        self._session, self._model, self._max_rows, self._delay = session, model, max_rows, delay
        self._queue: asyncio.Queue[Waiting] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1)

    async def predict(self, rows: Rows) -> Rows:
        """The outputs for the rows of one request (one row each)."""
        future: asyncio.Future[Rows] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait((rows, future))
        return await future

    async def run(self) -> None:
        """Form batches and run them, for ever."""
        while True:
            batch = [await self._queue.get()]
            if self._delay:
                await asyncio.sleep(self._delay)
            while len(batch) < self._max_rows and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            await self._execute(batch)

    async def _execute(self, batch: list[Waiting]) -> None:
        inputs = np.concatenate([rows for rows, _ in batch])
        loop = asyncio.get_running_loop()
        try:
            outputs = await loop.run_in_executor(self._thread, self._call, inputs)
        except Exception as error:  # noqa: BLE001  every caller of the batch hears of it
            for _, future in batch:
                future.set_exception(error)
            return
        for row, (_, future) in enumerate(batch):
            if not future.cancelled():
                future.set_result(outputs[row : row + 1])

    def _call(self, inputs: Rows) -> Rows:
        (output,) = self._session.run([self._model["output"]], {self._model["input"]: inputs})
        return output


def _handler(batcher: Batcher, model: dict[str, str]) -> grpc.GenericRpcHandler:
    async def predict(request: tfs.PredictRequest, _context: grpc.aio.ServicerContext) -> tfs.PredictResponse:
        tensor = request.inputs[model["input"]]
        shape = [dim.size for dim in tensor.tensor_shape.dim]
        rows = np.frombuffer(tensor.tensor_content, DTYPES[tensor.dtype]).reshape(shape)
        outputs = await batcher.predict(rows)
        answer = tfs.PredictResponse(model_spec=request.model_spec)
        result = answer.outputs[model["output"]]
        result.dtype = 1
        result.tensor_shape.dim.extend(tfs.TensorShape.Dim(size=size) for size in outputs.shape)
        result.float_val.extend(outputs.ravel().tolist())
        return answer

    method = grpc.unary_unary_rpc_method_handler(
        predict, tfs.PredictRequest.FromString, tfs.PredictResponse.SerializeToString
    )
    service = TensorFlowServing.grpc_method.split("/")[1]
    return grpc.method_handlers_generic_handler(service, {"Predict": method})


async def _serve(port: int, model: dict[str, str], batching: Batching) -> None:
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = 1
    session = ort.InferenceSession(model["file"], settings, providers=["CPUExecutionProvider"])
    batcher = Batcher(session, model, batching.max_rows, batching.delay_micros / 1e6)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_handler(batcher, model),))
    server.add_insecure_port(f"{LOOPBACK}:{port}")
    await server.start()
    await batcher.run()


@contextmanager
def start(model: ServedModel, batching: Batching, work: Path) -> Iterator[Running]:
    """Run this file as a server of `model`."""
    port = free_port()
    command = [sys.executable, __file__, str(port), options(model)]
    command += ["--max-rows", str(batching.max_rows), "--delay-micros", str(batching.delay_micros)]
    with running(command, work / "grpcio" / "out.log", lambda: listening(port)) as pid:
        yield Running("grpcio", pid, TensorFlowServing(), port, None)


def main() -> None:
    """The server's own command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("model", type=json.loads)
    parser.add_argument("--max-rows", type=int, default=64)
    parser.add_argument("--delay-micros", type=int, default=0)
    asked = parser.parse_args()
    asyncio.run(_serve(asked.port, asked.model, Batching(asked.max_rows, asked.delay_micros)))


if __name__ == "__main__":
    main()

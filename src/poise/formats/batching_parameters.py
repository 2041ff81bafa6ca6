"""`batching_parameters.txt`: TensorFlow Serving's BatchingParameters into BatchSettings, with its own defaults."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from poise import records
from poise.config import BatchSettings, ModelConfig
from poise.errors import ConfigError
from poise.formats import text_proto

logger = logging.getLogger(__name__)

MESSAGE = "BatchingParameters"
PER_MODEL_FILE = "batching_params.pbtxt"
"""In the directory of a version, for `--enable_per_model_batching_parameters`."""
UNSET: dict[str, Any] = {"max_batch_size": 1000, "max_enqueued_batches": 10, "enable_large_batch_splitting": False}
"""What TensorFlow Serving's scheduler takes for fields that are unset, where it is not what Poise would take."""
WRAPPER = "dynamic_batching"
"""Around the fields in some files; not a field of TensorFlow Serving's."""


@dataclass(frozen=True)
class BatchingParameters:
    """What such a file says."""

    settings: BatchSettings
    num_batch_threads: int | None = None


def read(path: Path) -> BatchingParameters:
    """Raises ConfigError that names the file."""
    return from_json(text_proto.read(path, MESSAGE), str(path))


def from_json(raw: Mapping[str, Any], where: str) -> BatchingParameters:
    """The message as JSON, in the wrapper or without it. Raises ConfigError, with TensorFlow Serving's texts."""
    if WRAPPER in raw:
        if len(raw) > 1:
            raise ConfigError(f"{where}: expected all fields within {WRAPPER}, or none; got both")
        return from_json(raw[WRAPPER], where)
    fields = dict(raw)
    threads = fields.pop("num_batch_threads", None)
    if threads is not None and threads < 1:
        raise ConfigError(f"{where}: num_batch_threads must be positive; was {threads}")
    fields.pop("thread_pool_name", None)  # the name of threads that there are not
    return BatchingParameters(_settings(fields, where), threads)


def _settings(fields: dict[str, Any], where: str) -> BatchSettings:
    splits = fields.get("enable_large_batch_splitting", False)
    if not splits:
        if fields.pop("max_execution_batch_size", None) is not None:
            logger.info("%s: max_execution_batch_size has no effect without enable_large_batch_splitting", where)
        if fields.get("max_enqueued_batches") == 0:
            fields["max_enqueued_batches"] = 1
    return records.read(BatchSettings, [records.Source({**UNSET, **fields}, where)])


def for_version(model: ModelConfig, location: str) -> BatchSettings:
    """Batching of one version, by the file in its directory; without one it is not batched, as in TensorFlow Serving.

    Raises ConfigError for a file that cannot be used: the version then does not load.
    """
    file = Path(location, PER_MODEL_FILE)
    if not file.is_file():
        return replace(model.batching, enable_batching=False)
    return replace(read(file).settings, max_run_s=model.batching.max_run_s)

"""What is about to be served, in a line per model."""

from __future__ import annotations

from pathlib import Path

from poise.backends import select
from poise.config import BatchSettings, ModelConfig
from poise.errors import ModelLoadError
from poise.registry.policy import aspired_versions
from poise.registry.source import Listing, holds_model, list_versions
from poise.workers.restart import threads_per_worker


def describe_model(model: ModelConfig, cpus: int, batching_file: str | None = None) -> str:
    """Name, version, backend, batching and threads, as far as they are known before anything is loaded.

    With `batching_file`, a file of that name in a version says how that version is batched.
    """
    listing = list_versions(model.path, holds_model(model.backend))
    parts = [
        _versions(model, listing),
        f"backend {_backend(model, listing)}",
        _batching(model.batching) if batching_file is None else f"batched by {batching_file} of each version",
        _workers(model, cpus),
        f"from {model.path}",
    ]
    return f"{model.name}: {', '.join(parts)}"


def _versions(model: ModelConfig, listing: Listing) -> str:
    wanted = sorted(aspired_versions(model.versions, listing.versions, lambda _: True, lambda _: False).versions)
    if not wanted:
        return "no version yet"
    return f"version{'s' if len(wanted) > 1 else ''} {', '.join(map(str, wanted))}"


def _backend(model: ModelConfig, listing: Listing) -> str:
    if model.backend != select.AUTO:
        return model.backend
    if not listing.versions:
        return "by its files"
    location = listing.versions[max(listing.versions)]
    there = Path(location)
    try:
        return select.choose(location, sorted(entry.name for entry in there.iterdir()) if there.is_dir() else None)[0]
    except ModelLoadError:
        return "unknown"


def _batching(batching: BatchSettings) -> str:
    if not batching.enable_batching:
        return "not batched"
    sizes = f" (of {', '.join(map(str, batching.allowed_batch_sizes))})" if batching.allowed_batch_sizes else ""
    wait = f"waiting up to {batching.batch_timeout_micros} µs" if batching.batch_timeout_micros else "not waiting"
    return f"batches up to {batching.execution_size} rows{sizes} {wait}"


def _workers(model: ModelConfig, cpus: int) -> str:
    count, threads = model.workers, threads_per_worker(cpus, model.workers)
    kind = {"process": "processes", "thread": "threads"}[model.isolation] if count > 1 else model.isolation
    return f"{count} worker {kind} with {threads} core{'s' if threads > 1 else ''} each"

"""A worker: loads one version of a model, then runs the loop until its version is retired.

As a process it is started as `python -m poise.workers.child --fd N`, where descriptor N is the channel that
`Server.attach_worker` gave, and reads a WorkerSpec as JSON from its standard input. It ends by itself: with status 0
once its version is retired, its server gone or its model refused by `fail_load`; with another one when the model ends
it or something breaks.

A process that loads beside versions that serve does so at low priority (`priority`).
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from poise.backends import select
from poise.backends.base import LoadedModel, ModelSource
from poise.errors import PoiseError, WorkerClosed, one_line
from poise.types import signatures_to_json
from poise.workers import loop, warmup
from poise.workers.priority import lowered

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logging.getLogger(__name__)

T = TypeVar("T")

LOG_FORMAT = "%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, kw_only=True)
class WorkerSpec:
    """What a worker is to load."""

    model: str
    version: int
    path: str
    backend: str = select.AUTO
    options: Mapping[str, Any] = field(default_factory=dict)
    threads: int = 1
    """Cores that one batch may use: the CPU budget divided by the workers of the model."""
    log_level: str = "INFO"
    warmup: warmup.Plan = field(default_factory=warmup.Plan)
    low_priority_s: float = 0.0
    """A process loads at low priority for this long at most; 0 for not at all."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> WorkerSpec:
        raw = json.loads(text)
        plan = raw["warmup"]
        return cls(**raw | {"warmup": warmup.Plan(**plan | {"allowed": tuple(plan["allowed"])})})


class Worker(loop.Worker, Protocol):
    """What a child uses of `poise._core.Worker`."""

    def ready(self, signatures_json: str) -> None: ...
    def fail_load(self, message: str) -> None: ...
    def close(self) -> None: ...


def serve(worker: Worker, spec: WorkerSpec, loaded: Callable[[], None] | None = None) -> None:
    """Load, warm up, say so, run batches until the end, close. The same for a process and a thread.

    `loaded` is called between loading and the first batch.
    """
    with contextlib.closing(worker), contextlib.suppress(WorkerClosed):
        source = ModelSource(spec.model, spec.version, spec.path, spec.options, spec.threads)
        model = _or_tell(worker, spec, lambda: select.load(source, spec.backend))
        if model is None:
            return
        with _closing(model, spec):
            warmed = _or_tell(worker, spec, lambda: warmup.warm_up(model, spec.path, spec.warmup))
            if warmed is None:
                return
            _log_warmed(spec, warmed)
            if loaded is not None:
                loaded()
            worker.ready(signatures_to_json(model.signatures))
            loop.run(worker, model, spec.model, logger)


def _log_warmed(spec: WorkerSpec, warmed: warmup.Warmed) -> None:
    if warmed.records or warmed.batches:
        text = "model %s version %d: warmed up in %.2f s: %d recorded requests, %d batches of other sizes"
        logger.info(text, spec.model, spec.version, warmed.elapsed_s, warmed.records, warmed.batches)


def run_thread(fd: int, spec: WorkerSpec) -> None:
    """The body of a thread of the server that is a worker; takes over the descriptor.

    What ends a process (SystemExit, say) ends the thread; the server learns of it from the channel, as ever.
    """
    serve(_connect(fd, exit_with_server=False), spec)


def main(argv: list[str] | None = None) -> int:
    """The body of a worker process."""
    parser = argparse.ArgumentParser(prog="poise.workers.child", description="A worker of poise; started by it.")
    parser.add_argument("--fd", type=int, required=True, help="descriptor of the channel to the server")
    arguments = parser.parse_args(argv)
    _follow_parent()
    spec = WorkerSpec.from_json(sys.stdin.read())
    logging.basicConfig(level=spec.log_level, format=LOG_FORMAT, stream=sys.stderr)
    _set_title(f"poise:{spec.model}")
    with lowered(spec.low_priority_s) as raise_again:

        def loaded() -> None:
            raise_again()
            _freeze()

        serve(_connect(arguments.fd, exit_with_server=True), spec, loaded)
    return 0


def _connect(fd: int, exit_with_server: bool) -> Worker:
    from poise._core import Worker as CoreWorker  # noqa: PLC0415  (what is tested without it must not need it)

    return CoreWorker(fd, exit_with_server)


def _or_tell(worker: Worker, spec: WorkerSpec, step: Callable[[], T]) -> T | None:
    """What the step gives, or None once the server has been told why there is no model to serve."""
    try:
        return step()
    except PoiseError as error:  # its message is for people; what lies behind it has been logged
        worker.fail_load(str(error))
        return None
    except BaseException as error:
        logger.exception("model %s version %d does not load", spec.model, spec.version)
        worker.fail_load(one_line(error))
        if isinstance(error, Exception):
            return None
        raise


@contextlib.contextmanager
def _closing(model: LoadedModel, spec: WorkerSpec) -> Iterator[None]:
    try:
        yield
    finally:
        try:
            model.close()
        except Exception:
            logger.exception("model %s version %d: close failed", spec.model, spec.version)


def _follow_parent() -> None:
    """Leave Ctrl-C to the server, which drains first; die with the thread that started this process.

    The kernel sees to the latter, whatever this process is busy or stuck with. A worker that is idle would notice
    anyway: its channel ends.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _freeze() -> None:
    """What was made so far lives as long as this process: the collector need not walk over it during batches."""
    gc.collect()
    gc.freeze()


def _set_title(title: str) -> None:
    """The name that ps and top show; the kernel keeps fifteen bytes of it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(title)


if __name__ == "__main__":
    sys.exit(main())

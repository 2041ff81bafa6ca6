"""One measured point: warm up, measure, cool down.

The engine sends and takes samples; here is decided when the measurement begins and ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from poise.bench import host, triton
from poise.bench.background import onlooker
from poise.bench.engine import Engine, Taken, Wiring
from poise.bench.host import HostTimes
from poise.bench.load import Load, OpenLoop
from poise.bench.measurement import GeneratorUse, Measurement, Slo, WarmUp
from poise.bench.offer import Offer, make_offer
from poise.bench.samples import Samples, join
from poise.bench.saturation import is_saturated
from poise.bench.series import middle
from poise.bench.stages import Stages
from poise.bench.tick import Tick
from poise.bench.traffic import Traffic
from poise.bench.warmup import LEAST_S, Decision, Window, decide

S = 1_000_000_000
MAX_SAMPLES = 20_000_000
"""So many requests end a measurement whatever its time: each takes some 50 bytes, and more while they are judged."""
LOOK_S = 0.1
"""How often, at the end, it is seen whether all has ended."""


@dataclass(frozen=True, slots=True)
class Method:
    """How a point is measured. A duration, a number of requests, or both end the measurement, whichever is first."""

    duration_s: float | None = 30.0
    requests: int | None = None
    warmup_s: float | None = None
    """None: until latencies have settled."""
    wiring: Wiring = field(default_factory=Wiring)
    slos: tuple[Slo, ...] = ()


OnTick = Callable[[Tick], None]


def measure(traffic: Traffic, load: Load, method: Method, on_tick: OnTick = lambda _tick: None) -> Measurement:
    """Offer the load and measure.

    Raises ValueError for what makes no sense, ConnectionError when the server cannot be reached at the start. What
    fails later is counted.
    """
    offer = make_offer(load, traffic, method.duration_s)
    look = triton.looker(traffic)
    with onlooker() as thread, Engine(traffic, load, method.wiring) as engine:
        return thread.submit(Session(engine, offer, method, on_tick, look).run, traffic, load).result()


@dataclass
class Session:
    """The state of one point while it is measured."""

    engine: Engine
    offer: Offer
    method: Method
    on_tick: OnTick
    look: Callable[[], triton.Statistics | None] = lambda: None
    parts: list[Samples] = field(default_factory=list)
    start_ns: int | None = None
    """When the measurement begins, once that is known."""
    counted: int = 0
    """Measured requests that have ended."""
    load_until: int = 0
    """When the load that was handed to the engine ends."""
    pieces: int = 0
    """Pieces of load that do not count, so far: each is another one."""

    def run(self, traffic: Traffic, load: Load) -> Measurement:
        """From the first request to the last."""
        started_at = datetime.now(UTC).isoformat(timespec="seconds")
        start_ns, stable = self.warm_up()
        before, looked = self.usage(), self.look()
        end_ns, saturated = self.observe(start_ns, load)
        after, looked_after = self.usage(), self.look()
        self.cool_down(end_ns)
        samples, end_ns = limit(join(self.parts), start_ns, end_ns, self.method.requests)
        return Measurement(
            load=load,
            traffic=traffic,
            samples=samples,
            start_ns=start_ns,
            end_ns=end_ns,
            timeout_s=self.method.wiring.timeout_s,
            warmup=warmed(samples, start_ns, stable=stable),
            generator=after.since(before),
            slos=self.method.slos,
            server_stages=told(looked, looked_after, samples.between(start_ns, end_ns)),
            saturated=saturated,
            started_at=started_at,
        )

    def warm_up(self) -> tuple[int, bool]:
        """Load until the server is warm: when the measurement begins, and whether latencies have settled."""
        begin = self.load_until = self.engine.now_ns()
        fixed_s = self.method.warmup_s
        if fixed_s is None and not self.offer.steady:
            fixed_s = LEAST_S
        if fixed_s is not None:
            start_ns = begin + int(fixed_s * S)
            self.extend(start_ns)
            self.feed_measured(start_ns)
            self.watch("warm-up", begin, start_ns)
            return start_ns, True
        windows: list[Window] = []
        while (decision := decide(windows)) is Decision.GO_ON:
            until_ns = begin + (len(windows) + 1) * S
            self.extend(until_ns + S)  # a second ahead, so that there is no gap
            tick = self.tick("warm-up", begin, until_ns, None)
            windows.append(Window(round(tick.rate), tick.p50_ms))
        start_ns = self.load_until
        self.feed_measured(start_ns)
        self.watch("warm-up", begin, start_ns)
        return start_ns, decision is Decision.STABLE

    def observe(self, start_ns: int, load: Load) -> tuple[int, bool]:
        """The measurement itself: when it ends, and whether it was cut short because its queue grew without end."""
        duration_s, in_flight = self.method.duration_s, list[float]()
        end_ns = start_ns + int(duration_s * S) if duration_s is not None else None
        while end_ns is None or self.engine.now_ns() < end_ns:
            next_ns = start_ns + (len(in_flight) + 1) * S
            self.extend(next_ns + S)
            tick = self.tick("measuring", start_ns, min(next_ns, end_ns or next_ns), duration_s)
            in_flight.append(tick.in_flight)
            if isinstance(load, OpenLoop) and is_saturated(in_flight, load.rate):
                return self.engine.now_ns(), True
            if self.counted >= min(self.method.requests or MAX_SAMPLES, MAX_SAMPLES):
                return self.engine.now_ns(), False
        return end_ns, False

    def cool_down(self, end_ns: int) -> None:
        """Load goes on until every measured request has ended, so that none meets an emptier server than the others."""
        last_ns = end_ns + int((self.method.wiring.timeout_s + 1) * S)
        told_ns = now = self.engine.now_ns()
        while now < last_ns and self.take(LOOK_S).settled_ns < end_ns:
            now = self.engine.now_ns()
            self.extend(now + S)
            if now - told_ns >= S:
                told_ns = now
                self.tick("cool-down", end_ns, now + int(LOOK_S * S), None)

    def extend(self, until_ns: int) -> None:
        """Load that does not count, from the end of what there is up to a time."""
        while self.load_until < until_ns:
            end_ns = min(self.load_until + S, until_ns)
            piece = self.offer.piece(self.pieces, self.load_until, end_ns)
            if piece is not None:
                self.engine.feed(*piece)
            self.pieces, self.load_until = self.pieces + 1, end_ns

    def feed_measured(self, start_ns: int) -> None:
        """The whole measurement."""
        self.start_ns = start_ns
        piece = self.offer.measured(start_ns)
        if piece is not None and self.method.duration_s is not None:
            self.engine.feed(*piece)
            self.load_until = start_ns + int(self.method.duration_s * S)

    def watch(self, phase: str, begin_ns: int, end_ns: int) -> None:
        """Nothing but ticks until `end_ns`."""
        while (now := self.engine.now_ns()) < end_ns:
            self.tick(phase, begin_ns, min(now + S, end_ns), (end_ns - begin_ns) / S)

    def tick(self, phase: str, begin_ns: int, until_ns: int, total_s: float | None) -> Tick:
        """Take what comes until a time, and tell of it."""
        now = self.engine.now_ns()
        taken = self.take((until_ns - now) / S)
        p50_ms, p99_ms = middle(taken.samples)
        tick = Tick(
            phase=phase,
            elapsed_s=(until_ns - begin_ns) / S,
            total_s=total_s,
            rate=float(np.count_nonzero(taken.samples.answered)) / max((until_ns - now) / S, 1e-3),
            p50_ms=p50_ms,
            p99_ms=p99_ms,
            errors=sum(taken.samples.errors().values()),
            in_flight=taken.in_flight,
        )
        self.on_tick(tick)
        return tick

    def take(self, limit_s: float) -> Taken:
        taken = self.engine.take(max(limit_s, 0.0))
        self.parts.append(taken.samples)
        if self.start_ns is not None:
            self.counted += int(np.count_nonzero(taken.samples.scheduled >= self.start_ns))
        return taken

    def usage(self) -> Usage:
        taken = self.take(0.0)
        return Usage(self.engine.now_ns(), taken.cpu_ns, taken.connections, host.read())


@dataclass(frozen=True, slots=True)
class Usage:
    """What the generator and its machine had used at one moment."""

    now_ns: int
    cpu_ns: tuple[int, ...]
    connections: int
    host: HostTimes

    def since(self, before: Usage) -> GeneratorUse:
        wall_ns = max(self.now_ns - before.now_ns, 1)
        shares = [(now - then) / wall_ns for now, then in zip(self.cpu_ns, before.cpu_ns, strict=True)]
        return GeneratorUse(len(shares), self.connections, max(shares), self.host.busy_share_since(before.host))


def limit(samples: Samples, start_ns: int, end_ns: int, requests: int | None) -> tuple[Samples, int]:
    """Not more measured requests than asked for: the first ones by the time at which they were due."""
    measured = samples.between(start_ns, end_ns)
    if requests is None or len(measured) <= requests:
        return samples, end_ns
    last = int(measured.scheduled[requests - 1])
    early = samples.select(samples.scheduled < start_ns)
    return join([early, measured.select(slice(requests))]), last + 1


def told(before: triton.Statistics | None, after: triton.Statistics | None, measured: Samples) -> Stages | None:
    """What the server's own sums say of the window."""
    if before is None or after is None or not measured.answered.any():
        return None
    latency_ms = float(measured.latency_ms()[measured.answered].mean())
    return triton.stages_between(before, after, latency_ms, int(np.count_nonzero(measured.answered)))


def warmed(samples: Samples, start_ns: int, *, stable: bool) -> WarmUp:
    """What came before the measurement."""
    early = samples.select(samples.scheduled < start_ns)
    first = early.select(np.argsort(early.scheduled)[:1])
    seconds = (start_ns - int(first.scheduled[0])) / S if len(first) else 0.0
    return WarmUp(seconds, len(early), stable, float(first.latency_ms()[0]) if len(first) else None)

"""A load generator under a clock moved by hand, in front of a server whose latency is a function of time."""

import heapq

import numpy as np

from poise.bench.engine import Taken
from poise.bench.samples import COLUMNS, UNKNOWN, Samples

S = 1_000_000_000


def make_samples(scheduled, done, outcome=None, labels=("OK",), **columns):
    """Samples from times in nanoseconds; what is not given is plain."""
    count = len(scheduled)
    plain = {
        "scheduled": np.asarray(scheduled, np.int64),
        "issued": np.asarray(scheduled, np.int64),
        "sent": np.asarray(scheduled, np.int64),
        "done": np.asarray(done, np.int64),
        "outcome": np.zeros(count, np.uint16) if outcome is None else np.asarray(outcome, np.uint16),
        "choice": np.zeros(count, np.uint32),
    }
    rest = {name: np.full(count, UNKNOWN) for name in COLUMNS if name not in plain}
    return Samples(**(plain | rest | {name: np.asarray(value) for name, value in columns.items()}), labels=labels)


class FakeEngine:
    """`latency_s(second)` is how long a request takes that is due at that time; `clients` makes a closed loop."""

    def __init__(self, latency_s, clients=None):
        self.latency_s = latency_s
        self.clients = clients
        self.now = 0
        self.due = []
        self.under_way = []  # (done, scheduled)

    def now_ns(self):
        return self.now

    def feed(self, times_ns, choices):
        assert len(choices) == len(times_ns) or self.clients
        if self.clients and not self.under_way:
            self.due = [self.now] * self.clients
        assert not len(times_ns) or not self.due or times_ns[0] >= self.due[-1], "pieces of load overlap"
        self.due += [int(time) for time in times_ns]

    def take(self, limit_s):
        self.now += int(limit_s * S)
        ended = []
        while True:
            while self.due and self.due[0] <= self.now:
                at = self.due.pop(0)
                heapq.heappush(self.under_way, (at + int(self.latency_s(at / S) * S), at))
            if not self.under_way or self.under_way[0][0] > self.now:
                break
            done, at = heapq.heappop(self.under_way)
            ended.append((at, done))
            if self.clients:
                self.due.append(done)
        settled = min([at for _, at in self.under_way] + self.due[:1], default=self.now)
        samples = make_samples([at for at, _ in ended], [done for _, done in ended])
        return Taken(samples, settled, False, len(self.under_way), 1, (self.now // 10,))

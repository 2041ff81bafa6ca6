"""A load test as one writes it in five minutes: one thread, one request after the other, a fixed pace.

    python examples/naive_loop.py localhost:8501 ranker '{"instances": [[5.0, 1.0, 0.2]]}' 100 10

Its figures are true of the requests that it sent, and say little about a service with users: while the server stops, it
stops as well, so that a long pause is one slow request; and what it cannot send in time it leaves out. See
docs/guides/load-testing.md for both, beside `poise bench` at the same load.
"""

from __future__ import annotations

import http.client
import statistics
import sys
import time


def main() -> None:
    """Send, wait for the answer, wait for the next turn."""
    server, model, body, rate, seconds = *sys.argv[1:4], float(sys.argv[4]), float(sys.argv[5])
    connection = http.client.HTTPConnection(server, timeout=60)
    latencies_ms = []
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        connection.request("POST", f"/v1/models/{model}:predict", body)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise SystemExit(f"the server answered {answer.status}")
        took = time.perf_counter() - start
        latencies_ms.append(took * 1e3)
        time.sleep(max(0.0, 1 / rate - took))
    ordered = sorted(latencies_ms)
    print(f"requests/s: {len(ordered) / seconds:.1f}")
    print(f"mean: {statistics.fmean(ordered):.1f} ms")
    for percent in (50, 95, 99):
        print(f"P{percent}: {ordered[int(len(ordered) * percent / 100)]:.1f} ms")
    print(f"max: {ordered[-1]:.1f} ms")


if __name__ == "__main__":
    main()

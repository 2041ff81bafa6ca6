"""The parts of the benchmark that decide what a number means. `python -m unittest discover benchmarks/tests`."""

# ruff: noqa: PT009, PT027  (unittest: the environment of the benchmark has no pytest)

from __future__ import annotations

import os
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from drivers import Plan, Sample, parse_h2load, parse_wrk
from processes import cpu_seconds
from report import Report, verdict_table
from rounds import Measured
from targets import Results, at_least, at_most, ratios, verdicts

H2LOAD = """
finished in 1.00s, 3.00 req/s, 2.75MB/s
requests: 4 total, 5 started, 4 done, 3 succeeded, 1 failed, 0 errored, 0 timeout
status codes: 3 2xx, 0 3xx, 0 4xx, 1 5xx
traffic: 5.49MB (5760048) total, 3.16MB (3316210) headers (space savings 49.52%), 260B (260) data
"""
LOG = b"1796078556747980\t200\t100\n1796078556748001\t200\t300\n1796078556748001\t200\t200\n1796078556748001\t500\t9\n"
WRK = 'Running\n\n{"requests": 50, "micros": 2000000, "failed": 2, "mean": 5, "at": [1, 2, 3, 4, 5, 6]}\n'


def cell(peer: str, plan: str, rate: float, number: int = 0, p50: float = 100.0, error: str | None = None) -> Measured:
    sample = Sample(rate, 10, 0, p50, p50, p50, p50, 3 * p50, 4 * p50, 5 * p50)
    return Measured("grpc", plan, peer, number, sample, 1.0, 0.0, error)


class Parsing(unittest.TestCase):
    def test_a_plan_reads_as_it_is_written(self) -> None:
        for text in ("64", "4x32"):
            self.assertEqual(str(Plan.parse(text)), text)

    def test_h2load_percentiles_are_those_of_good_answers(self) -> None:
        sample = parse_h2load(H2LOAD, LOG)
        self.assertEqual((sample.rate, sample.requests, sample.failed), (3.0, 4, 1))
        self.assertEqual((sample.p50, sample.max, sample.answer_bytes), (200.0, 300.0, 65.0))

    def test_h2load_without_answers_is_an_error(self) -> None:
        with self.assertRaises(RuntimeError):
            parse_h2load(H2LOAD, b"1\t-1\t5\n")

    def test_wrk(self) -> None:
        sample = parse_wrk(WRK)
        self.assertEqual((sample.rate, sample.failed, sample.p99, sample.max), (25.0, 2, 4, 6))


class Figures(unittest.TestCase):
    def test_a_ratio_needs_both_of_its_round(self) -> None:
        self.assertEqual(ratios({0: 6.0, 1: 9.0}, {1: 3.0, 2: 1.0}), [3.0])

    def test_the_median_decides(self) -> None:
        self.assertTrue(at_least("", 3, [1, 3, 9]).passed)
        self.assertFalse(at_most("", 3, [1, 4, 9]).passed)
        self.assertIsNone(at_least("", 3, []).passed)

    def test_the_better_triton_of_each_round_counts(self) -> None:
        cells = [cell("poise", "64", 60.0, number) for number in (0, 1)]
        cells += [cell("triton-0", "64", 10.0, 0), cell("triton-0", "64", 30.0, 1), cell("triton-500", "64", 20.0, 0)]
        first = verdicts(Results(cells), 10.0)[0]
        self.assertEqual((first.rounds, first.passed), ([3.0, 2.0], False))

    def test_one_at_a_time_is_counted_without_the_model(self) -> None:
        cells = [cell("poise", "1", 1.0, p50=250.0), cell("nginx", "1", 1.0), cell("triton-0", "1", 1.0, p50=850.0)]
        found = {verdict.claim: verdict for verdict in verdicts(Results(cells), 50.0)}
        self.assertEqual(found["gRPC at 1: (P50 - model) ÷ nginx's P50"].rounds, [2.0])
        self.assertEqual(found["gRPC at 1: (P50 - model) ÷ Triton's (P50 - model)"].rounds, [0.25])

    def test_a_cell_with_wrong_answers_does_not_count(self) -> None:
        results = Results([cell("poise", "64", 1.0, error="wrong")])
        self.assertEqual(results.values("grpc", "64", "poise", "rate"), {})


class Reporting(unittest.TestCase):
    def test_what_lost_and_what_broke_is_told(self) -> None:
        cells = [cell("poise", "64", 10.0), cell("grpcio", "64", 20.0), cell("nginx", "64", 0.0, error="broke")]
        bare = {"single_row_micros": 1.0, "rows_per_second": {1: 5.0}}
        found = verdicts(Results(cells), 1.0)
        text = Report("today", {}, {"rounds": 1, "seconds": 1}, bare, {}, cells, found).markdown()
        self.assertIn("grpc at 64, rate: 10, grpcio 20", text)
        self.assertIn("round 0, nginx, grpc at 64: broke", text)
        self.assertIn("**MISS**", verdict_table(found))


class Processes(unittest.TestCase):
    def test_cpu_time_grows_with_work(self) -> None:
        before = cpu_seconds(os.getpid())
        limit = time.process_time() + 0.1
        while time.process_time() < limit:
            pass
        self.assertGreater(cpu_seconds(os.getpid()), before)


if __name__ == "__main__":
    unittest.main()

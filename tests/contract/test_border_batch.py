"""A batch in the hands of Python: ended once, answered with what fits, and safe to hold too long."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

from poise.errors import WorkerClosed
from support.border import ByHand, answer, by_hand
from support.clients import Refused
from support.serving import until


@pytest.fixture
def hand() -> Iterator[ByHand]:
    with by_hand() as made:
        yield made


class TestBatch:
    def test_is_ended_once(self, hand):
        asked = hand.ask(1)
        batch = hand.batch()
        batch.complete([answer(batch)])
        with pytest.raises(RuntimeError, match="has ended already"):
            batch.complete([answer(batch)])
        with pytest.raises(RuntimeError, match="has ended already"):
            batch.fail("INTERNAL", "")
        assert asked.result(10)["y"] == 1

    def test_dropped_fails_its_rows_and_is_counted(self, hand):
        asked = hand.ask(1)
        hand.batch()
        gc.collect()
        error = asked.exception(10)
        assert isinstance(error, Refused)
        assert error.code == "INTERNAL"
        assert hand.metric("dropped_batches_total") == 1
        until(lambda: not hand.held(), "nothing held")

    def test_is_aligned_and_says_what_it_holds(self, hand):
        asked = hand.ask(1, 2, 3)
        batch = hand.batch()
        [(_, _, shape, data)] = batch.inputs
        array = np.frombuffer(data, np.float32)
        assert (batch.rows, batch.signature, batch.outputs, shape) == (3, "serving_default", ("y",), (3,))
        assert array.tolist() == [1, 2, 3]
        assert array.ctypes.data % 64 == 0
        assert len(data) == 12
        batch.complete([answer(batch)])
        asked.result(10)

    UNSENDABLE = {
        "too few bytes": (("y", "float", (2,), b"1234"), "needs 8 bytes but it has 4"),
        "not contiguous": (("y", "float", (2,), np.zeros(4, np.float32)[::2]), "C-contiguous"),
        "an unknown output": (("z", "float", (1,), b"1234"), "output z is not in the signature"),
        "an unknown dtype": (("y", "quaternion", (1,), b"1234"), "unknown dtype quaternion"),
        "a shape beyond all memory": (("y", "float", (1 << 40, 1 << 40), b""), r".+"),
        "too few strings": (("y", "string", (2,), [b"one"]), "needs 2 strings but it has 1"),
    }

    @pytest.mark.parametrize(("output", "text"), UNSENDABLE.values(), ids=UNSENDABLE)
    def test_refuses_what_cannot_be_sent_and_lives(self, hand, output, text):
        asked = hand.ask(1)
        batch = hand.batch()
        with pytest.raises(ValueError, match=text):
            batch.complete([output])
        batch.complete([answer(batch)])
        assert asked.result(10)["y"] == 1

    WRONG = {
        "another dtype": ([("y", "double", (1,), bytes(8))], "expected float but the model returned double"),
        "strings": ([("y", "string", (1,), [b"one"])], "expected float but the model returned string"),
        "too many rows": ([("y", "float", (2,), bytes(8))], "0th dimension does not equal the sum"),
        "no rows": ([("y", "float", (0,), b"")], "0th dimension does not equal the sum"),
        "a scalar": ([("y", "float", (), bytes(4))], "Batched output tensor has 0 dimensions"),
        "nothing": ([], "the model did not return it"),
    }

    @pytest.mark.parametrize(("outputs", "text"), WRONG.values(), ids=WRONG)
    def test_with_outputs_that_are_not_its_own_fails(self, hand, outputs, text):
        asked = hand.ask(1)
        hand.batch().complete(outputs)
        error = asked.exception(10)
        assert isinstance(error, Refused)
        assert text in error.text
        until(lambda: not hand.held(), "nothing held")

    def test_may_be_answered_with_the_very_memory_it_came_in(self):
        with by_hand(max_batch_size=1000) as hand:
            asked = hand.ask(*range(1000))
            batch = hand.batch()
            batch.complete([answer(batch)])
            assert asked.result(10)["y"].tolist() == list(range(1000))


class TestLifetimes:
    def test_arrays_outlive_batch_worker_and_server(self):
        with by_hand() as hand:
            asked = hand.ask(1, 2, 3)
            batch = hand.batch()
            [(_, _, _, data)] = batch.inputs
            array = np.frombuffer(data, np.float32)
            batch.complete([answer(batch)])
            asked.result(10)
        del batch, data, hand
        gc.collect()
        assert array.tolist() == [1, 2, 3]

    def test_a_batch_may_be_ended_when_its_server_is_gone(self):
        with by_hand() as hand:
            asked = hand.ask(1)
            batch = hand.batch()
        with pytest.raises(WorkerClosed):
            batch.complete([answer(batch)])
        assert asked.exception(10) is not None

    def test_a_worker_learns_that_its_server_is_gone(self, hand):
        hand.core.close()
        with pytest.raises(WorkerClosed):
            hand.worker.next_batch(5.0)

    def test_a_retired_version_closes_its_workers(self, hand):
        hand.core.retire(hand.handle)
        with pytest.raises(WorkerClosed):
            hand.worker.next_batch(5.0)
        hand.worker.close()
        assert ("retired", hand.handle, "") in hand.events("retired")

    def test_closing_twice_does_no_harm(self, hand):
        hand.core.close()
        hand.core.close()
        with pytest.raises(OSError, match="closed"):
            hand.core.start()

    def test_two_servers_of_one_process_do_not_meddle(self, hand):
        with by_hand() as other:
            asked, theirs = hand.ask(1), other.ask(2)
            batch = other.batch()
            batch.complete([answer(batch)])
            assert theirs.result(10)["y"] == 2
        batch = hand.batch()
        batch.complete([answer(batch)])
        assert asked.result(10)["y"] == 1

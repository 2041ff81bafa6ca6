"""The border between Python and the data plane: each way to drift apart, or to misuse it, has its test."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from poise import _core, errors
from poise.config import BatchSettings, ServerSettings
from poise.errors import CODES
from poise.types import DTYPES, Signature, TensorSpec, numpy_dtype, signatures_to_json
from support.border import ByHand, answer, by_hand, signature
from support.clients import Refused, call

SEVEN = bytes.fromhex("08 03 12 04 12 02 08 01 3a 01 07")
"""A TensorProto: int32, one row, 7."""


@pytest.fixture
def hand() -> Iterator[ByHand]:
    with by_hand() as made:
        yield made


class TestSettings:
    SETTINGS = {"server": ServerSettings(), "batching": BatchSettings()}
    FIELDS = [
        (kind, field.name)
        for kind, record in SETTINGS.items()
        for field in dataclasses.fields(record)
        if "None" not in str(field.type)  # absent is as good as null
    ]

    def give(self, kind, record):
        if kind == "server":
            return _core.Server(json.dumps(record))
        return _core.Server(ServerSettings().to_json()).add_version("m", 1, json.dumps(record))

    @pytest.mark.parametrize("kind", SETTINGS)
    def test_all_fields_are_taken(self, kind):
        assert self.give(kind, dataclasses.asdict(self.SETTINGS[kind]))

    @pytest.mark.parametrize(("kind", "name"), FIELDS, ids=".".join)
    def test_a_missing_field_is_refused(self, kind, name):
        record = dataclasses.asdict(self.SETTINGS[kind])
        del record[name]
        with pytest.raises(ValueError, match=f"missing field `{name}`"):
            self.give(kind, record)

    @pytest.mark.parametrize("kind", SETTINGS)
    def test_an_unknown_field_is_refused(self, kind):
        with pytest.raises(ValueError, match="unknown field `colour`"):
            self.give(kind, {**dataclasses.asdict(self.SETTINGS[kind]), "colour": "red"})

    @pytest.mark.parametrize("name", ["max_message_bytes", "max_concurrent_streams", "client_timeout_s"])
    def test_a_field_of_another_type_is_refused(self, name):
        with pytest.raises(ValueError, match="invalid type"):
            self.give("server", {**dataclasses.asdict(ServerSettings()), name: "many"})


class TestSignatures:
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_every_dtype_of_ours_is_known(self, dtype):
        with by_hand(signature(dtype)) as hand:
            array = np.array([b"one"], object) if dtype == "string" else np.ones(1, numpy_dtype(dtype))
            asked = hand.ask(*array, dtype=array.dtype)
            batch = hand.batch()
            [(name, found, shape, _)] = batch.inputs
            assert (name, found, shape) == ("x", dtype, (1,))
            batch.complete([answer(batch)])
            assert asked.result(10)["y"] == array

    def test_an_input_that_is_left_out_takes_its_default(self):
        specs = TensorSpec("k", "int32", (-1,), default=SEVEN), TensorSpec("x", "float", (-1,))
        text = signatures_to_json([Signature(specs, (TensorSpec("y", "float", (-1,)),))])
        with by_hand(text) as hand:
            asked = hand.ask(1, 2)
            batch = hand.batch()
            inputs = {name: np.frombuffer(data, numpy_dtype(dtype)).tolist() for (name, dtype, _, data) in batch.inputs}
            assert inputs == {"k": [7, 7], "x": [1, 2]}
            batch.complete([("y", "float", (2,), np.ones(2, np.float32))])
            assert asked.result(10)["y"].tolist() == [1, 1]

    @pytest.mark.parametrize("default", [SEVEN, b"\xff", b"\x08\x01"], ids=["dtype", "no protobuf", "shape"])
    def test_a_default_that_does_not_fit_is_refused(self, hand, default):
        spec = TensorSpec("x", "float", (-1, 2), default=default)
        text = signatures_to_json([Signature((spec,), (TensorSpec("y", "float", (-1,)),))])
        with pytest.raises(ValueError, match="the default of tensor x: "):
            hand.core.describe(hand.handle, text)

    def test_an_unknown_dtype_is_refused(self, hand):
        with pytest.raises(ValueError, match="quaternion"):
            hand.core.describe(hand.handle, signature().replace('"float"', '"quaternion"'))

    @pytest.mark.parametrize("text", ["", "{}", '[{"name": "serving_default"}]'], ids=["empty", "object", "fields"])
    def test_nonsense_is_refused(self, hand, text):
        with pytest.raises(ValueError, match=r".+"):
            hand.core.describe(hand.handle, text)


class TestErrorCodes:
    @pytest.mark.parametrize("code", CODES)
    def test_clients_see_the_code_that_a_batch_failed_with(self, hand, code):
        asked = hand.ask(1)
        hand.batch().fail(code, "so it goes")
        error = asked.exception(10)
        assert isinstance(error, Refused)
        assert (error.code, error.text) == (code, "so it goes")

    def test_an_unknown_code_is_refused_and_the_batch_lives(self, hand):
        asked = hand.ask(1)
        batch = hand.batch()
        with pytest.raises(ValueError, match="unknown code BAD"):
            batch.fail("BAD", "so it goes")
        batch.complete([answer(batch)])
        assert asked.result(10)["y"] == 1

    def test_every_error_of_ours_has_a_code_that_the_data_plane_knows(self):
        found = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.PoiseError)]
        assert len(found) > 8
        assert {one.code for one in found} <= set(CODES)


class TestOrder:
    def test_of_a_worker(self):
        hand = ByHand()
        with pytest.raises(RuntimeError, match="ready"):
            hand.worker.next_batch(0.0)
        hand.publish()
        with pytest.raises(RuntimeError, match="ready before"):
            hand.worker.ready(hand.signatures)
        hand.close()

    def test_of_a_version(self, hand):
        handle = hand.core.add_version("n", 1, BatchSettings().to_json())
        with pytest.raises(ValueError, match="described before it is published"):
            hand.core.publish(handle)

    @pytest.mark.parametrize("call", ["publish", "retire", "attach_worker"])
    def test_of_handles_that_nobody_gave(self, hand, call):
        with pytest.raises(ValueError, match="no version with handle 99"):
            getattr(hand.core, call)(99)

    def test_of_a_descriptor_that_is_none(self):
        with pytest.raises(ValueError, match="descriptor"):
            _core.Worker(-1)


def forked(act):
    """What a child of ours, made by fork, finds when it acts: the text of its RuntimeError."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            act()
        except RuntimeError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        text = told.read().decode()
    os.waitpid(child, 0)
    return text


@pytest.mark.parametrize("call", ["metrics", "debug_state", "close", "next_batch"])
def test_handles_refuse_after_a_fork(hand, call):
    acts = {"next_batch": lambda: hand.worker.next_batch(0.0)}
    assert "made before a fork" in forked(acts.get(call) or getattr(hand.core, call))
    assert hand.core.metrics()


class TestInterpreter:
    """Whoever waits or copies in the data plane leaves the interpreter to others."""

    def ticks_during(self, work):
        thread = threading.Thread(target=work)
        thread.start()
        ticks = 0
        while thread.is_alive():
            time.sleep(0.001)
            ticks += 1
        thread.join()
        return ticks

    def test_is_free_while_a_worker_waits(self, hand):
        assert self.ticks_during(lambda: hand.worker.next_batch(0.3)) > 20

    def test_is_free_while_a_server_waits_for_events(self, hand):
        assert self.ticks_during(lambda: hand.core.events(0.3)) > 20

    def test_is_free_while_outputs_are_copied(self):
        big = np.zeros(1 << 26, np.float32)  # 256 MiB
        with by_hand() as hand:
            asked = hand.ask(1, timeout_s=0.5)
            batch = hand.batch()
            assert self.ticks_during(lambda: batch.complete([("y", "float", big.shape, big)])) > 3
            assert asked.exception(10) is not None


class TestCalls:
    """Calls about the server itself, which Python answers."""

    @pytest.mark.parametrize(
        ("label", "status", "error"),
        [
            ("stable", 200, None),
            ("next", 404, "Servable not found for request: Specific(m, 2)"),
            ("old", 400, "Unrecognized servable version label: old"),
        ],
    )
    def test_labels_stand_for_versions(self, hand, label, status, error):
        hand.core.set_labels("m", json.dumps({"stable": 1, "next": 2}))
        answer = call(hand.http, "GET", f"/v1/models/m/labels/{label}/metadata")
        assert (answer.status, answer.json.get("error")) == (status, error)

    @pytest.mark.parametrize("labels", ["[]", '{"a": "1"}', '{"a": 99999999999999999999}', "{"])
    def test_labels_must_name_numbers(self, hand, labels):
        with pytest.raises(ValueError, match="labels"):
            hand.core.set_labels("m", labels)

    def test_replies_to_nobody_are_ignored_and_must_have_a_code(self, hand):
        hand.core.reply(1, "OK", "{}")
        hand.core.reply(1, "NOT_FOUND", "no")
        with pytest.raises(ValueError, match="FINE is not the name of a gRPC status code"):
            hand.core.reply(1, "FINE", "{}")

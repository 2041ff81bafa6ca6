"""Bodies of the REST predict call: what is taken, what is answered to the letter, what is refused in which words."""

from __future__ import annotations

import base64
import json

import pytest

from support.clients import Refused, call, rest
from support.serving import Stand

PREDICT = "/v1/models/{}:predict"
DEEP = "[" * 100_000 + "]" * 100_000


def refused(stand: Stand, model, body):
    with pytest.raises(Refused) as found:
        rest(stand.http, model, body)
    return found.value.code, found.value.text


class TestRows:
    def test_one_input_may_be_a_plain_list(self, stand: Stand):
        assert rest(stand.http, "echo_int32", '{"instances": [[1,2],[3,4],[5,6]]}') == {
            "predictions": [[1, 2], [3, 4], [5, 6]]
        }

    def test_one_input_may_be_named(self, stand: Stand):
        b64 = [{"b64": base64.b64encode(text).decode()} for text in (b"hello", b"world")]
        answer = rest(stand.http, "echo_string", {"instances": [{"x": [[b64[0]], [b64[1]]]}]})
        assert answer == {"predictions": [[["hello"], ["world"]]]}

    def test_several_inputs_and_outputs_are_objects(self, stand: Stand):
        rows = [{"a": [1, 2], "b": "one"}, {"a": [3, 4], "b": {"b64": "dHdv"}}]
        assert rest(stand.http, "pair", {"instances": rows})["predictions"] == [
            {"sum": 3.0, "text": "one", "raw_bytes": {"b64": "b25l"}},
            {"sum": 7.0, "text": "two", "raw_bytes": {"b64": "dHdv"}},
        ]

    def test_unknown_keys_of_any_depth_are_ignored(self, stand: Stand):
        body = f'{{"other": {DEEP}, "instances": [1.5], "signature_name": "serving_default"}}'
        assert rest(stand.http, "echo_float", body) == {"predictions": [1.5]}


class TestColumns:
    @pytest.mark.parametrize("body", ['{"inputs": {"x": [[[1,2]]]}}', '{"inputs": [[[1,2]]]}'], ids=["named", "bare"])
    def test_one_input(self, stand: Stand, body):
        assert rest(stand.http, "echo_int32", body) == {"outputs": [[[1, 2]]]}

    def test_a_scalar(self, stand: Stand):
        assert rest(stand.http, "alone", '{"inputs": 4}') == {"outputs": 8.0}

    def test_bytes_alone_are_a_value_and_not_a_name(self, stand: Stand):
        assert rest(stand.http, "echo_string", '{"inputs": {"b64": "aGVsbG8="}}') == {"outputs": "hello"}

    def test_several_inputs_and_outputs_are_one_object(self, stand: Stand):
        body = {"inputs": {"a": [[1, 2], [3, 4]], "b": ["one", "two"], "more": 5}}
        assert rest(stand.http, "pair", body)["outputs"] == {
            "sum": [3.0, 7.0],
            "text": ["one", "two"],
            "raw_bytes": [{"b64": "b25l"}, {"b64": "dHdv"}],
        }


class TestNumbers:
    CASES = {
        "short": ("float", "9000000,999999,0.5,.0003e0,0.00003", None),
        "written as TensorFlow Serving does": (
            "float",
            "9000000, 999999, 0.5, 0.0003, 0.00003, 555557.5, 16777216, -0.0",
            "9e+06,999999.0,0.5,0.0003,3e-05,555557.5,16777216.0,-0.0",
        ),
        "special": ("float", "NaN, Infinity, -Infinity, -NaN, Inf", "NaN,Infinity,-Infinity,NaN,Infinity"),
        "float overflow": ("float", "1.797e308, -1.797e308, 2.2e-308", "Infinity,-Infinity,0.0"),
        "double": ("double", "0.1, 1e308, 5e-324", "0.1,1e+308,4.94066e-324"),
        "int64": ("int64", "9223372036854775807, -9223372036854775808", "9223372036854775807,-9223372036854775808"),
        "uint64": ("uint64", "18446744073709551615", "18446744073709551615"),
        "bool": ("bool", "true, false", "true,false"),
    }

    @pytest.mark.parametrize(("dtype", "sent", "expected"), CASES.values(), ids=CASES)
    def test_are_written(self, stand: Stand, dtype, sent, expected):
        answer = call(stand.http, "POST", PREDICT.format(f"echo_{dtype}"), f'{{"instances": [{sent}]}}')
        if expected is None:  # not JSON: a number does not begin with a dot
            assert answer.status == 400
        else:
            assert "".join(answer.body.decode().split()) == f'{{"predictions":[{expected}]}}'

    WRONG = {
        "text for float": ("float", '"x"', 'JSON Value: "x" Type: String is not of expected type: float'),
        "a fraction for int32": ("int32", "1.0", "is not of expected type: int32"),
        "too large for int32": ("int32", "2147483648", "is not of expected type: int32"),
        "negative for uint64": ("uint64", "-1", "is not of expected type: uint64"),
        "a number for bool": ("bool", "1", "JSON Value: 1 Type: Number is not of expected type: bool"),
        "a number for string": ("string", "5", "JSON Value: 5 Type: Number is not of expected type: string"),
        "null": ("float", "null", "JSON Value: null Type: Null is not of expected type: float"),
        "bad base64": ("string", '{"b64": "*"}', "Unable to base64 decode"),
        "an object": ("string", '{"b65": "aGVsbG8="}', ""),
    }

    @pytest.mark.parametrize(("dtype", "sent", "text"), WRONG.values(), ids=WRONG)
    def test_of_another_kind_are_refused(self, stand: Stand, dtype, sent, text):
        code, said = refused(stand, f"echo_{dtype}", f'{{"instances": [{sent}]}}')
        assert code == 400
        assert text in said


class TestRefusals:
    CASES = {
        "nothing": ("half", "", "JSON Parse error: The document is empty"),
        "not JSON": ("half", "instances = [1, 2]", "JSON Parse error: Invalid value"),
        "not JSON, unknown model": ("nobody", "{", "JSON Parse error"),
        "a list": ("half", "[1]", "Is not object"),
        "a number as signature": ("half", '{"signature_name": 5}', "'signature_name' key must be a string value."),
        "depth as signature": ("half", f'{{"signature_name": {DEEP}}}', "key must be a string value"),
        "unknown signature": (
            "half",
            '{"signature_name": "S", "instances": [1]}',
            'Serving signature name: "S" not found in signature def',
        ),
        "neither key": ("half", "{}", "Missing 'inputs' or 'instances' key"),
        "both keys": ("half", '{"inputs": 1, "instances": [1]}', "Not formatted correctly expecting only one of"),
        "no list": ("half", '{"instances": 5}', "Expecting 'instances' to be an list/array"),
        "an empty list": ("half", '{"instances": []}', "No values in 'instances' array"),
        "ragged": ("half", '{"instances": [[1,2],[3,4],[5,6,7]]}', "Expecting tensor size: 2 but got: 3"),
        "uneven depth": ("half", '{"instances": [[1,2],[[3,4]]]}', "Expecting shape"),
        "list after object": ("half", '{"instances": [{"x": 1}, 2]}', "Expecting object but got list at item 1"),
        "object after list": ("half", '{"instances": [1, {"x": 2}]}', "Expecting value/list but got object at item 1"),
        "unknown name": ("half", '{"instances": [{"z": 1}]}', "does not have named input: z"),
        "missing name": ("pair", '{"instances": [{"a": [1, 2]}]}', "keys must be equal to: a,b"),
        "plain list for two": ("pair", '{"instances": [[1, 2]]}', "expecting list of objects as multiple input"),
        "plain value for two": ("pair", '{"inputs": [[1, 2]]}', "expecting an object as multiple input tensors"),
        "missing column": ("pair", '{"inputs": {"a": [[1, 2]]}}', "Missing named input: b in 'inputs' object."),
        "a scalar answer in rows": ("alone", '{"instances": [4]}', ""),
    }

    @pytest.mark.parametrize(("model", "body", "text"), CASES.values(), ids=CASES)
    def test_say_what_is_wrong(self, stand: Stand, model, body, text):
        code, said = refused(stand, model, body)
        assert code == 400
        assert text in said

    def test_are_json_with_an_error(self, stand: Stand):
        answer = call(stand.http, "POST", PREDICT.format("half"), '{"signature_name": "\\"quoted\\"", "inputs": 1}')
        assert answer.headers["content-type"] == "application/json"
        assert json.loads(answer.body)["error"] == 'Serving signature name: ""quoted"" not found in signature def'

import numpy as np
import pytest

from poise import types
from poise.bench.payloads.distributions import Keys, Uniform
from poise.bench.payloads.random_inputs import ALL, RandomInputs, random_array, shape_of
from poise.types import Signature, TensorSpec

X = TensorSpec("x", "float", (-1, 3))


def signature(*inputs, batched=True):
    return Signature(inputs, (TensorSpec("y", "float", (-1,)),), batched=batched)


def source(*inputs, seed=0, **options):
    return RandomInputs(signature(*inputs), np.random.default_rng(seed), **options)


@pytest.mark.parametrize(
    ("shape", "batched", "given", "expected"),
    [
        ((-1, 3), True, None, (5, 3)),
        ((-1, -1, 3), True, None, (5, 1, 3)),
        ((-1, -1, 3), True, (7, 3), (5, 7, 3)),
        ((-1, -1, 3), True, (1, 7, 3), (5, 7, 3)),
        ((-1, 4), False, None, (1, 4)),
        ((-1, 4), False, (6, 4), (6, 4)),
        ((), False, None, ()),
        (None, True, None, (5,)),
        (None, True, (2,), (5, 2)),
        (None, False, (2,), (2,)),
    ],
)
def test_rows_come_first_and_open_dimensions_are_one_unless_given(shape, batched, given, expected):
    assert shape_of(TensorSpec("x", "float", shape), batched, 5, given) == expected


@pytest.mark.parametrize("given", [(4,), (3, 3, 3)])
def test_shapes_that_the_signature_forbids_are_refused(given):
    with pytest.raises(ValueError, match=r"input x has shape \[-1, 3\]"):
        shape_of(X, True, 1, given)


@pytest.mark.parametrize("option", ["shapes", "lengths", "keys"])
def test_options_for_no_input_are_refused_with_the_nearest(option):
    values = {"shapes": (1,), "lengths": Uniform(1, 2), "keys": Keys(5, 1.0)}
    with pytest.raises(ValueError, match=r"did you mean image"):
        source(TensorSpec("image", "float", (-1,)), **{option: {"imag": values[option]}})


@pytest.mark.parametrize("dtype", types.DTYPES)
def test_every_dtype_can_be_made_up(dtype):
    array = random_array(dtype, (2, 3), np.random.default_rng(0))
    assert array.shape == (2, 3)
    assert array.dtype == types.numpy_dtype(dtype)


def test_inputs_differ_and_are_the_same_for_the_same_seed():
    def drawn(seed):
        made = source(X, seed=seed)
        return [made.inputs(2)["x"].tolist() for _ in range(3)]

    assert drawn(7) == drawn(7)
    assert drawn(7) != drawn(8)
    first, second, _ = drawn(7)
    assert first != second


def test_a_length_without_a_name_is_common_to_all_inputs_of_a_request():
    tokens, mask = (TensorSpec(name, "int64", (-1, -1)) for name in ("tokens", "mask"))
    other = TensorSpec("other", "float", (-1, -1, 2))
    made = source(tokens, mask, other, lengths={ALL: Uniform(1, 50), "other": Uniform(7, 7)})
    drawn = [made.inputs(4) for _ in range(20)]
    assert all(one["tokens"].shape == one["mask"].shape for one in drawn)
    assert all(one["other"].shape == (4, 7, 2) for one in drawn)
    assert len({one["tokens"].shape[1] for one in drawn}) > 5


def test_a_shape_given_outweighs_a_length():
    made = source(TensorSpec("x", "int64", (-1, -1)), shapes={"x": (9,)}, lengths={ALL: Uniform(1, 5)})
    assert made.inputs(2)["x"].shape == (2, 9)


def test_keys_are_drawn_within_their_vocabulary_and_in_the_inputs_dtype():
    made = source(TensorSpec("user", "int32", (-1, 100)), keys={"user": Keys(1000, 1.2)})
    keys = made.inputs(20)["user"]
    assert (keys.shape, keys.dtype) == ((20, 100), np.int32)
    assert keys.min() >= 0 and keys.max() < 1000
    counts = np.sort(np.bincount(keys.ravel(), minlength=1000))[::-1]
    assert counts[0] > 10 * counts[99], "few keys are asked for often"


@pytest.mark.parametrize(("dtype", "keys"), [("float", 10), ("string", 10), ("int8", 1000)])
def test_keys_need_whole_numbers_that_hold_them(dtype, keys):
    with pytest.raises(ValueError, match="--keys x"):
        source(TensorSpec("x", dtype, (-1,)), keys={"x": Keys(keys, 1.0)}).inputs(1)

import numpy as np
import pytest

from poise.bench.payloads.distributions import Keys, LogNormal, Uniform, Zipf, parse_keys, parse_lengths


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12", Uniform(12, 12)),
        ("fixed:12", Uniform(12, 12)),
        ("uniform:1:128", Uniform(1, 128)),
        ("zipf:512", Zipf(512, 1.0)),
        ("zipf:512:1.3", Zipf(512, 1.3)),
        ("lognormal:40:0.8:512", LogNormal(40.0, 0.8, 512)),
    ],
)
def test_lengths_are_read(text, expected):
    assert parse_lengths(text) == expected


@pytest.mark.parametrize(
    ("text", "mend"),
    [
        ("unifrom:1:2", "did you mean uniform"),
        ("uniform:1", "expected uniform:LOW:HIGH"),
        ("uniform:5:1", "expected uniform:LOW:HIGH"),
        ("uniform:0:5", "lengths from 1"),
        ("fixed:1.5", "expected fixed:N"),
        ("fixed:10000000", "to 1000000"),
        ("zipf:5:-1", "expected zipf:MAX"),
        ("lognormal:40:0.8", "lognormal:MEDIAN:SIGMA:MAX"),
        ("lognormal:40:nan:50", "lognormal:MEDIAN:SIGMA:MAX"),
        ("", "expected one of"),
    ],
)
def test_lengths_that_make_no_sense_are_refused(text, mend):
    with pytest.raises(ValueError, match=mend):
        parse_lengths(text)


@pytest.mark.parametrize("text", ["", "x", "0", "5:x", "5:-1", "1:99", "99999999999"])
def test_keys_that_make_no_sense_are_refused(text):
    with pytest.raises(ValueError, match="VOCABULARY:EXPONENT"):
        parse_keys(text)


def test_zipf_falls_off_with_its_exponent():
    ranks = Zipf(1000, 1.0).ranks(200_000, np.random.default_rng(1))
    counts = np.bincount(ranks, minlength=1001)
    assert counts[0] == 0 and ranks.max() <= 1000
    harmonic = (1 / np.arange(1, 1001)).sum()
    for rank in (1, 2, 10):
        assert counts[rank] == pytest.approx(200_000 / rank / harmonic, rel=0.05)
    flat = np.bincount(Zipf(10, 0.0).ranks(100_000, np.random.default_rng(1)), minlength=11)[1:]
    assert flat.min() > 0.95 * flat.max()


def test_the_median_of_lognormal_lengths_is_what_was_asked_and_none_is_too_long():
    random = np.random.default_rng(1)
    drawn = [LogNormal(40, 0.8, 200).draw(random) for _ in range(4000)]
    assert 38 <= np.median(drawn) <= 42
    assert min(drawn) >= 1 and max(drawn) == 200


@pytest.mark.parametrize("vocabulary", [1, 2, 3, 10, 12, 1000])
def test_every_key_has_one_rank(vocabulary):
    keys = Keys(vocabulary, 0.0)
    assert {(rank * keys._stride) % vocabulary for rank in range(1, vocabulary + 1)} == set(range(vocabulary))


def test_keys_are_read():
    assert parse_keys("100000:1.1") == Keys(100_000, 1.1)
    assert parse_keys("7") == Keys(7, 1.0)

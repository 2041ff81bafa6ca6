import numpy as np
import pytest

from poise.bench.arrivals import parse_arrival

S = 1e9


def seconds(text, rate=1000.0, duration=100.0, seed=0):
    return parse_arrival(text).times(rate, duration, seed) / S


@pytest.mark.parametrize(
    ("text", "cv"), [("constant", 0.0), ("poisson", 1.0), ("gamma:cv=0.5", 0.5), ("gamma:cv=3", 3.0), ("gamma", 2.0)]
)
def test_gaps_have_the_mean_and_the_spread_that_is_asked_for(text, cv):
    times = seconds(text)
    gaps = np.diff(times)
    assert len(times) == pytest.approx(100_000, rel=0.03)
    assert gaps.mean() == pytest.approx(1e-3, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, abs=0.1)


@pytest.mark.parametrize(
    "text", ["poisson", "constant", "burst", "ramp", "step", "spike", "diurnal:process=gamma,cv=2", "burst:on=7,off=50"]
)
def test_every_arrival_is_ascending_within_its_time_and_seeded(text):
    times = seconds(text, rate=500, duration=20)
    assert (np.diff(times) >= 0).all()
    assert times[0] >= 0
    assert times[-1] < 20
    assert len(times) == pytest.approx(10_000, rel=0.1)
    assert np.array_equal(times, seconds(text, rate=500, duration=20))
    assert not np.array_equal(times, seconds(text, rate=500, duration=20, seed=1))


def share(times, low, high):
    return np.mean((times >= low) & (times < high))


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [
        ("ramp:start=0,end=1", (0, 50), 0.25),
        ("ramp:start=1,end=0", (0, 50), 0.75),
        ("step:at=0.5,to=3", (50, 100), 0.75),
        ("spike:at=0.4,width=0.1,to=9", (40, 50), 0.5),
        ("burst:factor=9,on=1,off=9", (9, 10), 0.05),
        ("diurnal:period=100,depth=1", (50, 100), 0.5 - 1 / np.pi),
    ],
)
def test_shapes_put_arrivals_where_they_say(text, part, expected):
    assert share(seconds(text + ",process=constant"), *part) == pytest.approx(expected, abs=0.01)


def test_the_rate_at_the_start_is_told():
    assert parse_arrival("poisson").rate_at_start(100) == 100
    assert parse_arrival("ramp:start=0.5,end=1.5").rate_at_start(100) == pytest.approx(50)
    assert parse_arrival("ramp:start=0,end=1").rate_at_start(100) == pytest.approx(1)
    assert [parse_arrival(text).steady for text in ("gamma", "constant", "burst")] == [True, True, False]


def test_a_trace_is_played_at_the_rate_and_again_when_it_is_short(tmp_path):
    file = tmp_path / "trace.txt"
    file.write_text("# seconds\n10\n10.1\n\n11\n11.9, more\n")
    times = seconds(f"trace:{file}", rate=4, duration=3)
    assert len(times) == pytest.approx(12, abs=1)
    assert times[1] / times[2] == pytest.approx(0.1, rel=0.01)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("poison", "did you mean poisson"),
        ("poisson:cv=2", "no option 'cv'"),
        ("gamma:cv=-1", "cv from 0.01"),
        ("gamma:cv", "NAME=VALUE"),
        ("burst:factr=2", "did you mean factor"),
        ("burst:process=x", "no process 'x'"),
        ("step:at=2", "at from 0 to 1"),
        ("trace:/nowhere", "text file with a time in seconds"),
    ],
)
def test_what_is_not_understood_is_refused_with_what_there_is(text, message):
    with pytest.raises(ValueError, match=message):
        parse_arrival(text)


@pytest.mark.parametrize("text", ["", "1\n", "1\n1\n", "1\nx\n", "1\nnan\n"])
def test_traces_that_are_none_are_refused(tmp_path, text):
    (tmp_path / "t").write_text(text)
    with pytest.raises(ValueError, match="trace"):
        parse_arrival(f"trace:{tmp_path / 't'}")

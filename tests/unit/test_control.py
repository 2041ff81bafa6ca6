import pytest

from poise.config import ModelConfig
from poise.errors import ConfigError
from poise.registry.control import Control, Rereader
from support.registry import Stage


class Files:
    """What stands in the files, or what is wrong with them."""

    def __init__(self, *names):
        self.names, self.error, self.reads = names, None, 0

    def __call__(self):
        self.reads += 1
        if self.error:
            raise self.error
        return [ModelConfig(name=name, path=name) for name in self.names]


def made(files, every_s=0.0):
    stage = Stage(1)
    return stage, Rereader(stage.registry, Control(reread=files, reread_every_s=every_s), now=0.0)


def names(stage):
    return [model.name for model in stage.registry.configs]


def test_files_are_read_again_when_asked_for():
    files = Files("m", "n")
    stage, rereader = made(files)
    rereader.tick(1.0)
    assert (files.reads, rereader.next_due()) == (0, None)
    rereader.request()
    rereader.tick(1.0)
    rereader.tick(1.0)
    assert (files.reads, names(stage)) == (1, ["m", "n"])


def test_files_are_read_again_at_the_interval():
    files = Files("m")
    stage, rereader = made(files, every_s=5.0)
    assert rereader.next_due() == 5.0
    rereader.tick(4.9)
    rereader.tick(5.0)
    assert (files.reads, rereader.next_due()) == (1, 10.0)
    assert stage.registry.generation == 1  # they say what they said


@pytest.mark.parametrize("error", [ConfigError("models.config: bad"), OSError("gone"), ValueError("odd")])
def test_files_that_cannot_be_used_change_nothing(error, caplog):
    files = Files("n")
    files.error = error
    stage, rereader = made(files)
    rereader.request()
    rereader.tick(1.0)
    assert names(stage) == ["m"]
    assert "what is served stays" in caplog.text
    files.error = None
    rereader.request()
    rereader.tick(2.0)
    assert names(stage) == ["n"]


def test_the_same_mistake_is_logged_once_at_the_interval_and_each_time_it_is_asked_for(caplog):
    files = Files("n")
    files.error = ConfigError("models.config: bad")
    _, rereader = made(files, every_s=1.0)
    for second in (1.0, 2.0, 3.0):
        rereader.tick(second)
    assert caplog.text.count("bad") == 1
    rereader.request()
    rereader.tick(3.5)
    assert caplog.text.count("bad") == 2


def test_models_stay_in_the_order_of_the_files():
    files = Files("n", "m")
    stage, rereader = made(files, every_s=1.0)
    rereader.tick(1.0)
    rereader.tick(2.0)
    assert (names(stage), stage.registry.generation) == (["n", "m"], 2)


def test_without_files_there_is_a_word_in_the_log(caplog):
    stage, rereader = made(None)
    rereader.request()
    rereader.tick(1.0)
    assert "no file to read again" in caplog.text
    assert names(stage) == ["m"]

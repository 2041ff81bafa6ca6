from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

CHECKOUT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def demo(*options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "poise.demo", "--duration", "1", *options]
    return subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def until(text: str, lines: IO[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if text in line:
            return


@pytest.mark.timeout(180)
def test_the_demo_names_files_measures_stays_up_and_leaves_nothing_behind() -> None:
    http = free_port()
    with demo("--grpc-port", str(free_port()), "--http-port", str(http)) as process:
        assert process.stdout
        shown = "".join(until("Ctrl-C ends it", process.stdout))
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()

    assert process.returncode == 0, shown + rest
    for file, label in (("Makefile", "makefile"), ("files.py", "python"), ("gradient.png", "png"), ("some.zip", "zip")):
        assert re.search(rf"{file} +{label} ", shown), shown
    for model in ("filetype", "ranker"):
        assert re.search(rf"^ {model} +[1-9][\d,]* +[1-9].*: +\d+%", shown, re.MULTILINE), shown
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", http)) != 0, "the server outlived the demo"


def test_the_demo_says_which_port_is_taken_and_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as owner:
        port = str(owner.getsockname()[1])
        output, _ = (process := demo("--grpc-port", str(free_port()), "--http-port", port)).communicate()
    assert process.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in output
    assert "--http-port" in output
    assert "Traceback" not in output

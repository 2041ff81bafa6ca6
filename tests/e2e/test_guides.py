"""What the README and the guides show is run, and what they print is compared.

The language of a block of code may be followed by

- `run`: it is run, all such blocks of a document in their order by one shell (Python: each by an interpreter). With
  `tensorflow` behind it, it needs the environment of TensorFlow Serving's client, and is left out where there is none;
- `file=NAME`: it is written to that file;
- `output`: what the block before it printed has these lines, in this order; `…` stands for anything.

Ports 8500 and 8501 of the documents are free ones of this machine here.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.tfclient import PYTHON as TF_PYTHON

CHECKOUT = Path(__file__).parents[2]
DOCUMENTS = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs" / "guides").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)[ ]+(\S[^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LIMIT_S = 180.0  # one imports TensorFlow twice
# Every server that a document starts is a child of the shell, and ends with it.
SHELL = """\
set -euo pipefail
finish() { for job in $(jobs -p); do kill "$job" 2>/dev/null || true; done; wait; }
trap finish EXIT
"""
POISE = """\
#!/bin/sh
if [ "$1" = serve ]; then
  shift
  exec {python} -m poise serve --grpc 127.0.0.1:{grpc} --http 127.0.0.1:{http} "$@"
elif [ "$1" = tfserving ]; then
  shift
  exec {python} -m poise tfserving --bind_address=127.0.0.1 "$@"
elif [ "$1" = bench ]; then
  # That a short measurement is not valid or not stable is the fault of a busy machine, not of the document.
  {python} -m poise "$@" || {{ status=$?; [ $status -ge 3 ] || exit $status; }}
  exit 0
fi
exec {python} -m poise "$@"
"""


@dataclass(frozen=True)
class Block:
    language: str
    marks: tuple[str, ...]
    text: str

    @property
    def file(self) -> str | None:
        return next((mark.removeprefix("file=") for mark in self.marks if mark.startswith("file=")), None)

    @property
    def left_out(self) -> bool:
        return "tensorflow" in self.marks and not TF_PYTHON.exists()


def blocks(document: Path) -> list[Block]:
    return [
        Block(language, tuple(marks.split()), text) for language, marks, text in BLOCK.findall(document.read_text())
    ]


def free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def script(document: list[Block], folder: Path) -> Iterator[str]:
    """The document as one script; a line before what each block prints tells where it begins."""
    yield SHELL
    for number, block in enumerate(document):
        if block.file:
            yield f"cat > {shlex.quote(block.file)} <<'END OF FILE'\n{block.text}END OF FILE\n"
        elif "run" in block.marks and not block.left_out:
            yield f"printf '\\n== {number}\\n'\n"
            yield block.text if block.language == "bash" else python(block, folder / f"block{number}.py")
    yield "printf '\\n== end\\n'\n"


def python(block: Block, file: Path) -> str:
    file.write_text(block.text)
    interpreter = TF_PYTHON if "tensorflow" in block.marks else Path(sys.executable)
    return f"{shlex.quote(str(interpreter))} {shlex.quote(str(file))}\n"


def run(document: list[Block], folder: Path) -> dict[int, str]:
    """Run it in a folder of its own; what each block printed."""
    grpc, http = free_ports()
    command = folder / "bin" / "poise"
    command.parent.mkdir()
    command.write_text(POISE.format(python=shlex.quote(sys.executable), grpc=grpc, http=http))
    command.chmod(0o755)
    (folder / "examples").symlink_to(CHECKOUT / "examples")
    moved = [Block(one.language, one.marks, moved_ports(one.text, grpc, http)) for one in document]
    environment = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}", "TF_CPP_MIN_LOG_LEVEL": "3"}
    shell = subprocess.Popen(
        ["bash", "-c", "".join(script(moved, folder))],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        shown, errors = shell.communicate(timeout=LIMIT_S)
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
    assert shell.returncode == 0, f"{shown}\n{errors}"
    parts = re.split(r"^== (\d+|end)\n", shown, flags=re.MULTILINE)
    return {int(number): text for number, text in zip(parts[1::2], parts[2::2], strict=True) if number != "end"}


def moved_ports(text: str, grpc: int, http: int) -> str:
    return text.replace("8500", str(grpc)).replace("8501", str(http))


def assert_shows(printed: str, expected: str) -> None:
    lines = [".*".join(map(re.escape, line.split("…"))) for line in expected.splitlines()]
    pattern = r"[\s\S]*".join(lines)
    assert re.search(pattern, printed), f"expected\n{expected}\nin\n{printed}"


@pytest.mark.timeout(LIMIT_S + 30)
@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_what_it_shows_is_true(path: Path, tmp_path: Path) -> None:
    document = blocks(path)
    assert {mark for block in document for mark in block.marks if "=" not in mark} <= {"run", "tensorflow", "output"}
    assert any("run" in block.marks for block in document)
    printed = run(document, tmp_path)
    last = None
    for number, block in enumerate(document):
        if "output" not in block.marks:
            last = number if "run" in block.marks else last
        elif last in printed:
            assert_shows(printed[last], block.text)


@pytest.mark.parametrize(
    "path", [*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")], ids=lambda path: path.name
)
def test_its_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text())
    missing = [link for link in links if "://" not in link and not (path.parent / link).exists()]
    assert missing == []

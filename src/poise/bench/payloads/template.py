"""Bodies with placeholders, such as `{"id": {{seq}}, "age": {{int:18:99}}}`."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

import numpy as np

from poise.records import suggest

PLACEHOLDER = re.compile(rb"\{\{\s*(\w+)((?::[^{}]*)?)\s*\}\}")
WORDS = ("seq", "uuid", "int", "float", "choice")
MEND = "send it as it is with --no-template"

Filler = Callable[[], str]


class Template:
    """Bytes with placeholders; each `render` fills them anew, the same for the same seed.

    `{{seq}}` counts from 0, `{{uuid}}` is a random UUID, `{{int:LOW:HIGH}}` a whole number with both ends possible,
    `{{float}}` or `{{float:LOW:HIGH}}` a number (0 to 1 by itself), `{{choice:a|b}}` one of several texts.
    Raises ValueError for a placeholder that is none of these.
    """

    def __init__(self, text: bytes, seed: int, fill: bool = True) -> None:
        self._random = np.random.default_rng(seed)
        self._count = 0
        self._parts: list[bytes | Filler] = []
        end = 0
        for match in PLACEHOLDER.finditer(text) if fill else ():
            self._parts += [text[end : match.start()], self._filler(match[1].decode(), match[2].decode()[1:])]
            end = match.end()
        self._parts.append(text[end:])

    @property
    def varies(self) -> bool:
        return len(self._parts) > 1

    def render(self) -> bytes:
        filled = b"".join(part if isinstance(part, bytes) else part().encode() for part in self._parts)
        self._count += 1
        return filled

    def _filler(self, word: str, argument: str) -> Filler:
        if word == "seq" and not argument:
            return lambda: str(self._count)
        if word == "uuid" and not argument:
            return lambda: str(uuid.UUID(bytes=self._random.bytes(16), version=4))
        if word == "int":
            return self._int(argument)
        if word == "float":
            return self._float(argument)
        if word == "choice" and argument:
            texts = argument.split("|")
            return lambda: texts[int(self._random.integers(len(texts)))]
        shown = f"{{{{{word}:{argument}}}}}" if argument else f"{{{{{word}}}}}"
        mend = "leave out what follows the colon" if word in {"seq", "uuid"} else suggest(word, WORDS)
        mend = "write {{choice:one|other}}" if word == "choice" else mend
        raise ValueError(f"placeholder {shown} is not known; {mend}, or {MEND}")

    def _int(self, argument: str) -> Filler:
        try:
            low, high = (int(part) for part in argument.split(":"))
            self._random.integers(low, high, endpoint=True)
        except (ValueError, OverflowError):
            raise ValueError(f"placeholder {{{{int:{argument}}}}}: write {{{{int:1:100}}}}, or {MEND}") from None
        return lambda: str(int(self._random.integers(low, high, endpoint=True)))

    def _float(self, argument: str) -> Filler:
        try:
            low, high = (float(part) for part in argument.split(":")) if argument else (0.0, 1.0)
            self._random.uniform(low, high)
        except (ValueError, OverflowError):
            raise ValueError(f"placeholder {{{{float:{argument}}}}}: write {{{{float:0:1}}}}, or {MEND}") from None
        return lambda: repr(float(self._random.uniform(low, high)))

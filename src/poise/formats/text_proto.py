"""Files of protobuf's text format, which is what TensorFlow Serving is configured with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from poise.errors import ConfigError

PACKAGE = "tensorflow.serving"


def read(path: Path, message: str) -> dict[str, Any]:
    """The message in the file, as JSON; `message` is a name of the package `tensorflow.serving`, or a full name.

    Raises ConfigError that names the file, the place in it and what was expected.
    """
    return parse_file(path, text_of(path), message)


def text_of(path: Path) -> str:
    """What is in the file. Raises ConfigError."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"Invalid protobuf file: '{path}': expected text in UTF-8; {error.reason}") from None


def parse_file(path: Path, text: str, message: str) -> dict[str, Any]:
    """The message that the text of this file is. Raises ConfigError as `read` does."""
    try:
        return parse(text, message)
    except ConfigError as error:
        raise ConfigError(f"Invalid protobuf file: '{path}': {error}") from None


def parse(text: str, message: str) -> dict[str, Any]:
    """The message that a text is. Raises ConfigError."""
    from poise import _core  # noqa: PLC0415  (only who reads such files needs the compiled module)

    try:
        found: dict[str, Any] = json.loads(_core.text_proto_to_json(_full(message), text))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return found


def _full(message: str) -> str:
    return message if "." in message else f"{PACKAGE}.{message}"

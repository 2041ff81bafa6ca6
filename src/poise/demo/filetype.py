"""File types: from the bytes of a file to the input of the demo model, and from its output to a name.

The model looks at the first and the last bytes of a file, white space stripped: `beg_size` and `end_size` tokens,
one per byte, with `padding_token` where the file is shorter. All these numbers come with the model, in its config.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.int32]


@dataclass(frozen=True)
class FileTypeModel:
    """What the model's own config says about its input and output."""

    beg_size: int
    """Tokens taken from the beginning of a file."""
    end_size: int
    """Tokens taken from its end."""
    block_size: int
    """Bytes read at either end; white space is stripped within them, so a file of blanks is never read whole."""
    padding_token: int
    """Stands for "no byte here"; no byte has this value."""
    min_file_size: int
    """With fewer bytes than this the model has nothing to go by."""
    labels: tuple[str, ...]
    """The name of each output column."""
    descriptions: dict[str, str]
    """A sentence for people, by label."""

    @classmethod
    def read(cls, config: Path, content_types: Path) -> FileTypeModel:
        """Read the two JSON files that the model's wheel carries."""
        raw = json.loads(config.read_text())
        if raw["mid_size"] or raw["use_inputs_at_offsets"]:
            raise ValueError(f"{config}: this model also wants bytes from the middle, which the demo does not take")
        kinds = json.loads(content_types.read_text())
        labels = tuple(raw["target_labels_space"])
        return cls(
            beg_size=raw["beg_size"],
            end_size=raw["end_size"],
            block_size=raw["block_size"],
            padding_token=raw["padding_token"],
            min_file_size=raw["min_file_size_for_dl"],
            labels=labels,
            descriptions={label: kinds.get(label, {}).get("description") or label for label in labels},
        )

    def tokens(self, path: Path) -> Tokens:
        """One row of input for the file at `path`; reads at most two blocks of it."""
        with path.open("rb") as file:
            head = file.read(self.block_size)
            size = path.stat().st_size
            file.seek(max(0, size - self.block_size))
            tail = file.read(self.block_size)
        return self.tokens_of(head, tail)

    def tokens_of(self, head: bytes, tail: bytes) -> Tokens:
        """The same from the first and the last block of a file (the whole file twice when it is short)."""
        row = np.full(self.beg_size + self.end_size, self.padding_token, dtype=np.int32)
        beg = head.lstrip()[: self.beg_size]
        end = tail.rstrip()[-self.end_size :]
        row[: len(beg)] = np.frombuffer(beg, dtype=np.uint8)
        row[len(row) - len(end) :] = np.frombuffer(end, dtype=np.uint8)
        return row

    def worth_asking(self, tokens: Tokens) -> bool:
        """Whether enough is left of the file, after stripping, for an answer to mean something."""
        return bool(tokens[self.min_file_size - 1] != self.padding_token)

    def best(self, scores: Sequence[float]) -> tuple[str, float]:
        """The most likely label of one row of output, and its score."""
        index = int(np.argmax(scores))
        return self.labels[index], float(scores[index])

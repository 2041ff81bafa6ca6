"""Which version each label of a model stands for. Pure functions.

A label moves only to a version that serves: until then it stays where it was. Whoever names a version and its label
in one configuration need not care which comes first. A label whose version goes stays.
"""

from collections.abc import Collection, Mapping

from poise.errors import PoiseError


class LabelError(PoiseError):
    """A label for a version that there is no prospect of."""

    code = "FAILED_PRECONDITION"


def settled_labels(wanted: Mapping[str, int], told: Mapping[str, int], available: Collection[int]) -> dict[str, int]:
    """What labels stand for now: where they are wanted if that version serves, else where they stood before.

    A new label has stood nowhere: who asks for it is told that its version is not there yet.
    """
    return {label: version if version in available else told.get(label, version) for label, version in wanted.items()}


def check_labels(
    model: str, wanted: Mapping[str, int], told: Mapping[str, int], coming: Collection[int], *, new_may_wait: bool
) -> None:
    """Refuse a label whose version neither serves nor is on its way.

    With `new_may_wait` only labels in use must be served without a gap; a new one may wait for a version that nobody
    has seen yet. Raises LabelError with TensorFlow Serving's text.
    """
    for label, version in wanted.items():
        if version in coming or told.get(label) == version or (new_may_wait and label not in told):
            continue
        raise LabelError(
            f"Request to assign label to version {version} of model {model},"
            f" which is not currently available for inference"
        )

"""Reads which examples `label-plan` sampled for rating, and with which probability."""

from __future__ import annotations

from pathlib import Path

from textassay.annotate.output import SAMPLING_PROBABILITY
from textassay.runtime.errors import DataError
from textassay.runtime.storage.journal import read_rows


def read_sampled(path: str | Path) -> dict[str, float]:
    """Return the sampling probability by id, in the order of the file.

    Args:
        path: JSON Lines with `id` and `sampling_probability`.

    Raises:
        DataError: A line lacks one of the two, or a probability is not above 0 and at most 1.
        StorageError: The file cannot be read.
    """
    probabilities: dict[str, float] = {}
    for number, row in enumerate(read_rows(path), start=1):
        name, probability = row.get("id"), row.get(SAMPLING_PROBABILITY)
        if not isinstance(name, str):
            raise DataError(f"{path}:{number}: a line needs an id")
        if (
            not isinstance(probability, int | float)
            or isinstance(probability, bool)
            or not 0 < probability <= 1
        ):
            raise DataError(
                f"{path}:{number}: field {SAMPLING_PROBABILITY!r} must be above 0 and at most 1, "
                f"not {probability!r}"
            )
        probabilities[name] = float(probability)
    if not probabilities:
        raise DataError(f"{path} lists no examples to rate")
    return probabilities

"""Turns rows of logits into log-probabilities of chosen tokens, one row at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from textassay.runtime.backends.llamacpp.weights import Ids
from textassay.runtime.errors import FatalModelError

LogitRow = NDArray[np.float32]


def log_total(row: LogitRow) -> float:
    """Return the natural log of the sum of exponentials of a row, the softmax normalizer.

    Exponentials are in single precision, their sum in double: within 1e-6 of double precision
    throughout, in a tenth of the time.

    Raises:
        FatalModelError: The row holds NaN or plus infinity: the weights are broken.
    """
    # Subtracted first: the exponential of a logit above 88 overflows single precision.
    top = float(row.max())
    if not np.isfinite(top):
        raise FatalModelError(
            "the model computes NaN or infinite logits: its weights or their quantization are"
            " broken (check_tensors=True checks the file for them at load)"
        )
    return top + float(np.log(np.exp(row - np.float32(top)).sum(dtype=np.float64)))


@dataclass
class Evaluation:
    """A token sequence, the positions that need log-probabilities, and later their values."""

    ids: Ids
    """What is evaluated: everything up to the last position that predicts something wanted."""
    first: int
    """Position of the first prediction wanted: what follows `ids[first]`."""
    targets: list[Ids]
    """Ids wanted at positions `first`, `first + 1`, ...; the last belongs to the last of `ids`."""
    logprobs: list[NDArray[np.float64]] = field(default_factory=list)
    """Log-probabilities, one array for each of `targets`."""

    def take(self, position: int, rows: NDArray[np.float32]) -> None:
        """Read what is wanted out of the logits of `position` and those after it."""
        for offset, row in enumerate(rows):
            place = position + offset - self.first
            if place >= 0:
                self.logprobs.append(row[self.targets[place]].astype(np.float64) - log_total(row))

"""A score on its way from the process that made it to the one that writes it."""

from __future__ import annotations

from typing import NamedTuple

from textassay.runtime.messages import Outcome, Score, ScoreError, UsageTotal
from textassay.runtime.storage.json_text import decode


class EncodedScore(NamedTuple):
    """A score as its line of `scores.jsonl`, with what is counted of it.

    A third of the work of pickling a `Score`, and none to write.
    """

    id: str
    aspect: str
    value: float | None
    outcome: Outcome
    error: ScoreError | None
    usage: UsageTotal
    row: bytes
    """The line, without the line break."""

    @property
    def score(self) -> Score:
        """The score."""
        return Score.model_validate(decode(self.row))

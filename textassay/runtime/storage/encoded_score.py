"""A score on its way from the process that made it to the one that writes it."""

from __future__ import annotations

from typing import NamedTuple

from textassay.runtime.messages import Outcome, Score, ScoreError, UsageTotal
from textassay.runtime.storage.run_files import score_row


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
    """What `score_row` returned."""

    @classmethod
    def of(cls, score: Score) -> EncodedScore:
        """Encode a score.

        Raises:
            TypeError: As `score_row`.
        """
        usage = UsageTotal()
        usage.add(score.usage)
        row = score_row(score)
        return cls(score.id, score.aspect, score.value, score.outcome, score.error, usage, row)

    @property
    def score(self) -> Score:
        """The score."""
        return Score.model_validate_json(self.row)

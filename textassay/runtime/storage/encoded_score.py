"""A score on its way from the process that made it to the one that writes it."""

from __future__ import annotations

from typing import NamedTuple

from textassay.runtime.messages import Outcome, Paid, Score, ScoreError
from textassay.runtime.storage.json_text import decode


class EncodedScore(NamedTuple):
    """A score as its line of `scores.jsonl`, with what is counted of it.

    A small part of the work of pickling a `Score`, and none to write. The fields of its usage are
    its own: pickling a further object for each score would double the work.
    """

    id: str
    aspect: str
    value: float | None
    outcome: Outcome
    error: ScoreError | None
    row: bytes
    """The line, without the line break."""
    calls: int
    cached_calls: int
    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    cached_prompt_tokens: int
    cache_write_tokens: int
    cost: float | None

    @property
    def usage(self) -> Paid:
        """What the score cost."""
        return self  # has the same fields, and an object for each score would take longer

    @property
    def score(self) -> Score:
        """The score."""
        return Score.model_validate(decode(self.row))

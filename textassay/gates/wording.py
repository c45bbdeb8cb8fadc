"""Names the texts behind a verdict: id, scores, the text's beginning and the judge's reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textassay.runtime.messages import Example, Score

SHOWN = 3
"""Texts that a message names."""
WIDTH = 160
"""Characters of a text or reason that a message shows."""


def worst(
    scores: Sequence[Score],
    examples: Mapping[str, Example],
    losses: Sequence[float],
    before: Sequence[float] | None = None,
) -> tuple[str, ...]:
    """Return lines about the texts with the largest losses.

    Args:
        scores: Scores with values.
        examples: What was judged, by id.
        losses: How bad each is, in the order of `scores`.
        before: Scores of the baseline, in the same order.
    """
    # stable: of equal losses the first in the data, so that the message does not change between
    # runs
    order = sorted(range(len(scores)), key=lambda at: -losses[at])[:SHOWN]
    lines = ["the lowest scores:" if before is None else "the largest losses:"]
    for at in order:
        score, example = scores[at], examples.get(scores[at].id)
        was = "" if before is None else f" (baseline {before[at]:g})"
        lines.append(f"  {score.id}: {score.value:g}{was}")
        if example is not None:
            lines.append(f"    text: {_short(example.output)}")
        if score.explanation:
            lines.append(f"    reason: {_short(score.explanation)}")
    return tuple(lines)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"

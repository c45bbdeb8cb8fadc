"""Prompts rendered once with placeholders for texts, so that a run does not rerender them.

A frame is made with marks in place of the texts, cut at the marks, and filled by joining: no text
is ever rendered. A prompt that changes a text (a filter, say) loses its mark and has no frame; it
is rendered with the texts themselves.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from textassay.prompts.rendering import Turn, render

# New in each process, so that no text can hold it.
_MARK = secrets.token_hex(16)
_CUT = re.compile(rf"{_MARK}-(\d+)-")


class PromptFrame(NamedTuple):
    """The messages of a prompt, cut at its texts."""

    turns: tuple[tuple[str, str, Callable[[Sequence[str]], Any] | None], ...]
    """Role, pattern with `%s` in place of each text, and what picks its texts; `None` if the turn
    has none and is no pattern."""

    def fill(self, texts: Sequence[str]) -> tuple[Turn, ...]:
        """Return the messages with these texts in their places."""
        return tuple(
            [
                Turn(role, content if pick is None else content % pick(texts))
                for role, content, pick in self.turns
            ]
        )


def frame(name: str, labels: Sequence[str], **values: Any) -> PromptFrame | None:
    """Return a prompt's frame for texts with these labels.

    `None` if the prompt does not take texts as they are.

    Args:
        name: A prompt, as `render` takes it.
        labels: Label of each text, in order, as `material` has them.
        values: What the prompt names besides `material`.

    Raises:
        PromptFault: The prompt does not render.
    """
    marks = [{"label": label, "text": f"{_MARK}-{at}-"} for at, label in enumerate(labels)]
    turns: list[tuple[str, str, Callable[[Sequence[str]], Any] | None]] = []
    referenced: set[int] = set()
    for turn in render(name, material=marks, **values):
        # Every second piece is the number of a text.
        pieces = _CUT.split(turn.content)
        numbers = [int(number) for number in pieces[1::2]]
        referenced.update(numbers)
        words = pieces[::2]
        # A mark that is left over was changed by the template (upper case, a slice), and its text
        # would be.
        if any(_MARK in piece for piece in words):
            return None
        pattern = "%s".join([piece.replace("%", "%%") for piece in words])
        turns.append((turn.role, pattern, itemgetter(*numbers)) if numbers else (*turn, None))
    return PromptFrame(tuple(turns)) if referenced == set(range(len(labels))) else None

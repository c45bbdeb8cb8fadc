"""Prompts rendered once with placeholders for texts, so that a run does not rerender them.

A frame is made with marks in place of the texts, cut at the marks, and filled by joining: no text
is ever rendered. A prompt that changes a text (a filter, say) loses its mark and has no frame; it
is rendered with the texts themselves.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

from textassay.prompts.rendering import Turn, render

# New in each process, so that no text can hold it.
_MARK = secrets.token_hex(16)
_CUT = re.compile(rf"{_MARK}-(\d+)-")


class PromptFrame(NamedTuple):
    """The messages of a prompt, cut at its texts."""

    turns: tuple[tuple[str, tuple[str, ...], tuple[tuple[int, int], ...]], ...]
    """Role, pieces of which every second one is a text's, and the place and number of each text."""

    def fill(self, texts: Sequence[str]) -> tuple[Turn, ...]:
        """Return the messages with these texts in their places."""
        filled = []
        for role, pieces, cuts in self.turns:
            content = list(pieces)
            for place, number in cuts:
                content[place] = texts[number]
            filled.append(Turn(role, "".join(content)))
        return tuple(filled)


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
    turns = []
    for turn in render(name, material=marks, **values):
        pieces = tuple(_CUT.split(turn.content))
        cuts = tuple((place, int(pieces[place])) for place in range(1, len(pieces), 2))
        turns.append((turn.role, pieces, cuts))
    referenced = {number for _, _, cuts in turns for _, number in cuts}
    # A mark that is left over was changed by the template (upper case, a slice), and its text would
    # be.
    whole = not any(_MARK in piece for _, pieces, _ in turns for piece in pieces)
    return PromptFrame(tuple(turns)) if whole and referenced == set(range(len(labels))) else None

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

    turns: tuple[tuple[str, tuple[str, ...], tuple[int, ...]], ...]
    """Role, words between the texts (one more than texts), and which text stands at each cut."""

    def fill(self, texts: Sequence[str]) -> tuple[Turn, ...]:
        """Return the messages with these texts in their places."""
        filled = []
        for role, words, places in self.turns:
            pieces = [words[0]]
            for place, after in zip(places, words[1:], strict=True):
                pieces += (texts[place], after)
            filled.append(Turn(role, "".join(pieces)))
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
        pieces = _CUT.split(turn.content)
        turns.append((turn.role, tuple(pieces[::2]), tuple(int(place) for place in pieces[1::2])))
    referenced = {place for _, _, places in turns for place in places}
    # A mark that is left over was changed by the template (upper case, a slice), and its text would
    # be.
    whole = not any(_MARK in piece for _, words, _ in turns for piece in words)
    return PromptFrame(tuple(turns)) if whole and referenced == set(range(len(labels))) else None

"""Hidden states of whole texts from an encoder with a limited input.

Windows are read apart and put together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from textassay.tools.engines.engine import Array, Encoding, Engine
from textassay.tools.sentences import SentenceSplitter
from textassay.tools.windows import pack_sentences


@dataclass(frozen=True, slots=True)
class Windowed:
    """A text as the inputs it was cut into."""

    encodings: tuple[Encoding, ...]

    def all_states(self, states: list[Array]) -> Array:
        """Return one row per token of the windows, special tokens included.

        Args:
            states: Arrays of shape `(tokens, width)`, one per window.
        """
        return np.concatenate(states)

    def token_states(self, states: list[Array]) -> Array:
        """Return one row per token of the text, special tokens left out.

        Args:
            states: Arrays of shape `(tokens, width)`, one per window.
        """
        kept = [s[np.array(e.special) == 0] for e, s in zip(self.encodings, states, strict=True)]
        return np.concatenate(kept)


def windowed(
    engine: Engine, text: str, splitter: SentenceSplitter, *, longest: int | None = None
) -> Windowed:
    """Cut a text into inputs that the model takes; one if it fits.

    Args:
        engine: The model.
        text: A text that is not blank.
        splitter: Finds sentences.
        longest: Most tokens of an input, special ones included, if the model is to be given fewer
            than it takes.
    """
    tokenizer = engine.tokenizer
    if engine.max_tokens is None and longest is None:
        return Windowed((tokenizer.encode(text),))
    room = min(n for n in (engine.max_tokens, longest) if n is not None) - tokenizer.special_tokens(
        pair=False
    )
    texts = (
        [text]
        if tokenizer.count(text) <= room
        else pack_sentences(splitter.split(text), tokenizer.count, max(1, room))
    )
    return Windowed(tuple(tokenizer.encode(part) for part in texts))

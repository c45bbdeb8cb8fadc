"""What can be read off the output alone: its length and how much it repeats itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from textassay.runtime.messages import Example
from textassay.tools.sentences import DEFAULT_SPLITTER, SentenceSplitter
from textassay.tools.tool import Abstention, Computed, Measurement
from textassay.tools.words import folded_words, ngrams, words

LengthUnit = Literal["words", "tokens", "characters", "sentences"]


class Length(Computed):
    """How long the output is."""

    kind: ClassVar[str] = "length"

    def __init__(
        self,
        name: str = "length",
        *,
        unit: LengthUnit = "words",
        splitter: SentenceSplitter = DEFAULT_SPLITTER,
    ) -> None:
        """Keep the settings.

        Args:
            name: Name of the tool.
            unit: `words` leaves punctuation out, `tokens` are separated by white space,
                `characters` counts every code point.
            splitter: Finds sentences, for the unit `sentences`.
        """
        self.name, self.unit, self.splitter = name, unit, splitter
        self.description = (
            f"Length of the output in {unit}, from 0 without bound. Says nothing of quality by"
            " itself; shows outputs that are far too short or too long."
        )

    def settings(self) -> Mapping[str, object]:
        """The unit."""
        return {
            "unit": self.unit,
            "splitter": self.splitter.signature if self.unit == "sentences" else None,
        }

    def compute(self, example: Example) -> Measurement | Abstention:
        """Count."""
        text = example.output
        if self.unit == "words":
            return Measurement(value=len(words(text)))
        if self.unit == "tokens":
            return Measurement(value=len(text.split()))
        if self.unit == "characters":
            return Measurement(value=len(text))
        return Measurement(value=len(self.splitter.split(text)))


class Repetition(Computed):
    """Share of the output's n-grams that stood in it before."""

    kind: ClassVar[str] = "repetition"

    def __init__(self, name: str = "repetition", *, n: int = 3) -> None:
        """Keep the settings.

        Args:
            name: Name of the tool.
            n: Words in an n-gram, at least 1.
        """
        self.name, self.n, self.scale, self.higher_is_better = name, n, (0.0, 1.0), False
        self.description = (
            f"Share of the output's {n}-word runs that repeat an earlier one, 0 (none) to 1; lower"
            " is better. High values show loops and copied sentences."
        )

    def settings(self) -> Mapping[str, object]:
        """The length of the n-grams."""
        return {"n": self.n}

    def compute(self, example: Example) -> Measurement | Abstention:
        """Return 1 - distinct / all."""
        # Case is no difference: a loop that begins a sentence is a loop.
        grams = list(ngrams(folded_words(example.output), self.n))
        if not grams:
            return too_short(self.name, self.n)
        return Measurement(value=1 - len(set(grams)) / len(grams))


def too_short(name: str, n: int) -> Abstention:
    """Return what a tool says of an output with fewer than `n` words."""
    return Abstention(
        type="OutputTooShort",
        message=f"{name} needs at least {n} word(s), and the output has fewer",
    )

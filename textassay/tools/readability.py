"""Flesch reading ease, for English.

Syllables are counted by rules of spelling, not by a dictionary (the dictionary-based packages
download theirs): nine words in ten come out right, which is enough for a mean over a text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from textassay.runtime.messages import Example
from textassay.tools.sentences import DEFAULT_SPLITTER, SentenceSplitter
from textassay.tools.tool import Abstention, Computed, Measurement

# tokenized text writes "do n't" and "he 's"; both are one word
_CLITIC = re.compile(r"\s+(?=(?:n['’]t|['’](?:s|m|re|ve|ll|d))\b)", re.IGNORECASE)
# rain   don't
_ENGLISH_WORD = re.compile(r"[a-z]+(?:['’][a-z]+)*", re.IGNORECASE)
_VOWELS = re.compile(r"[aeiouy]+")
# pairs of vowels that are two syllables: "di-al", "ritu-al", "cre-ate", but not "na-tion"
_HIATUS = re.compile(
    r"(?<!t)(?<!c)(?<!s)(?<!g)i[ao](?!u)|[^qg]u[ao]|(?<!p)eo(?!us)|(?<=[aeiou][rdn])ea$|creat|quie"
    r"|ying\b"
)
# endings without a syllable: "mak(e)", "lik(ed)", "mak(es)", but not "lit-tle", "wan-ted", "box-es"
_SILENT_END = re.compile(
    r"(?<![aeiouyl])e$|(?<=[aeiouy])le$|(?<![aeiouytd])ed$|(?<![aeiouysxzl])es$|(?<=[cgsxz]h)es$"
)


class Readability(Computed):
    """Flesch reading ease (Flesch, 1948)."""

    kind: ClassVar[str] = "readability"

    def __init__(
        self, name: str = "readability", *, splitter: SentenceSplitter = DEFAULT_SPLITTER
    ) -> None:
        """Keep the settings.

        Args:
            name: Name of the tool.
            splitter: Finds sentences.
        """
        self.name, self.splitter = name, splitter
        self.description = (
            "Flesch reading ease of the output, English only: about 0 (hard) to 100 (easy), beyond"
            " on short texts; from words per sentence and syllables per word."
        )

    def settings(self) -> Mapping[str, object]:
        """The formula and how syllables and sentences are found."""
        return {"formula": "flesch", "syllables": "rules", "splitter": self.splitter.signature}

    def compute(self, example: Example) -> Measurement | Abstention:
        """Count words, sentences and syllables."""
        text = _CLITIC.sub("", example.output)
        words = _ENGLISH_WORD.findall(text)
        letters = sum(character.isalpha() for character in text)
        # The formula was fitted to English; a share rather than any word, for names in other
        # scripts occur.
        if not words or sum(map(len, words)) < 0.8 * letters:
            return Abstention(
                type="UnsupportedLanguage",
                message=(
                    f"{self.name} knows English only, and most letters of the output are not a-z"
                ),
            )
        sentences = sum(1 for s in self.splitter.split(text) if _ENGLISH_WORD.search(s))
        per_sentence, per_word = len(words) / sentences, sum(map(syllables, words)) / len(words)
        return Measurement(
            value=flesch(per_sentence, per_word),
            explanation=f"{per_sentence:.3g} words a sentence, {per_word:.3g} syllables a word",
        )


def flesch(words_per_sentence: float, syllables_per_word: float) -> float:
    """Return the Flesch reading ease."""
    return 206.835 - 1.015 * words_per_sentence - 84.6 * syllables_per_word


def syllables(word: str) -> int:
    """Return the number of syllables of an English word, by its spelling; at least 1."""
    word = re.sub(r"['’](?:s|m|re|ve|ll|d)$", "", word.lower())
    extra = len(_HIATUS.findall(word)) + len(re.findall(r"(?<=[dsvcw])n['’]t$", word))
    stem = _SILENT_END.sub("", re.sub(r"n?['’].*$", "", word) or word)
    return max(1, len(_VOWELS.findall(stem)) + extra)

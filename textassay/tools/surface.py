"""What texts show without a model: length, repetition, readability, and words of the source.

Readability is the Flesch reading ease, for English. Syllables are counted by rules of spelling, not
by a dictionary (the dictionary-based packages download theirs): nine words in ten come out right,
which is enough for a mean over a text.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from textassay.runtime.messages import Example
from textassay.tools.text import DEFAULT_SPLITTER, SentenceSplitter, folded_words, ngrams, words
from textassay.tools.tool import Abstention, Computed, Measurement, premise

AtLeastOne = Annotated[int, Field(ge=1)]
LengthUnit = Literal["words", "tokens", "characters", "sentences"]
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


class Length(Computed):
    """How long the output is.

    Args:
        unit: `words` leaves punctuation out, `tokens` are separated by white space,
            `characters` counts every code point.
        splitter: Finds sentences, for the unit `sentences`.
    """

    kind: ClassVar[str] = "length"

    def __init__(
        self,
        name: str = "length",
        *,
        unit: LengthUnit = "words",
        splitter: SentenceSplitter = DEFAULT_SPLITTER,
    ) -> None:
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
    """Share of the output's n-grams that stood in it before.

    Args:
        n: Words in an n-gram.
    """

    kind: ClassVar[str] = "repetition"

    def __init__(self, name: str = "repetition", *, n: AtLeastOne = 3) -> None:
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


class Readability(Computed):
    """Flesch reading ease (Flesch, 1948).

    Args:
        splitter: Finds sentences.
    """

    kind: ClassVar[str] = "readability"

    def __init__(
        self, name: str = "readability", *, splitter: SentenceSplitter = DEFAULT_SPLITTER
    ) -> None:
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


class Novelty(Computed):
    """Share of the output's n-grams that are not in the source.

    Args:
        n: Words in an n-gram.
    """

    kind: ClassVar[str] = "novelty"

    def __init__(self, name: str = "novelty", *, n: AtLeastOne = 2) -> None:
        self.name, self.n, self.scale, self.needs = name, n, (0.0, 1.0), ("premise",)
        self.description = (
            f"Share of the output's {n}-word runs that do not occur in the source (fact and"
            " conversation in dialogue), 0 (all copied) to 1 (all new). New words may be good"
            " paraphrase or invention."
        )

    def settings(self) -> Mapping[str, object]:
        """The length of the n-grams."""
        return {"n": self.n}

    def compute(self, example: Example) -> Measurement | Abstention:
        """Count every occurrence in the output."""
        grams = list(ngrams(folded_words(example.output), self.n))
        if not grams:
            return too_short(self.name, self.n)
        known = set(ngrams(folded_words(premise(example) or ""), self.n))
        return Measurement(value=sum(gram not in known for gram in grams) / len(grams))


class Coverage(Computed):
    """Extractive fragment coverage (Grusky et al., 2018, section 4).

    Args:
        shortest: Fragments with fewer words are not counted; 1 is the paper's definition.
    """

    kind: ClassVar[str] = "coverage"

    def __init__(self, name: str = "coverage", *, shortest: AtLeastOne = 1) -> None:
        self.name, self.shortest, self.scale, self.needs = name, shortest, (0.0, 1.0), ("premise",)
        self.description = (
            "Share of the output's words that stand in fragments copied from the source (fact and"
            f" conversation in dialogue; fragments of {shortest} or more words), 0 (nothing copied)"
            " to 1 (all copied). Low values show outputs in other words than the source, or not"
            " about it."
        )

    def settings(self) -> Mapping[str, object]:
        """The shortest fragment."""
        return {"shortest": self.shortest}

    def compute(self, example: Example) -> Measurement | Abstention:
        """Find the fragments; their density (mean squared length) is given in the explanation."""
        output = folded_words(example.output)
        if not output:
            return too_short(self.name, 1)
        fragments = [
            f
            for f in extractive_fragments(folded_words(premise(example) or ""), output)
            if f >= self.shortest
        ]
        density = math.fsum(f * f for f in fragments) / len(output)
        return Measurement(
            value=sum(fragments) / len(output),
            explanation=(
                f"{len(fragments)} fragments, longest {max(fragments, default=0)} words, density"
                f" {density:.3g}"
            ),
        )


def extractive_fragments(source: Sequence[str], output: Sequence[str]) -> list[int]:
    """Return the lengths of the longest runs of `output` in `source`, greedily from the left."""
    # Only places that begin with the same word can start a run, so no others are compared.
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, word in enumerate(source):
        places[word].append(place)
    lengths, i = [], 0
    while i < len(output):
        longest = 0
        for j in places.get(output[i], ()):
            # a start that cannot beat the best so far is not followed
            if longest and (j + longest >= len(source) or i + longest >= len(output)):
                continue
            if longest and source[j + longest] != output[i + longest]:
                continue
            length = 0
            while (
                i + length < len(output)
                and j + length < len(source)
                and source[j + length] == output[i + length]
            ):
                length += 1
            longest = max(longest, length)
        if longest:
            lengths.append(longest)
        # Greedy: each word belongs to one fragment only, the longest that begins at its place.
        i += max(longest, 1)
    return lengths

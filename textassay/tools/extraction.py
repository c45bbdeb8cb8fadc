"""How much of the output was taken from the source: novel n-grams and extractive coverage."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import ClassVar

from textassay.runtime.messages import Example
from textassay.tools.surface import too_short
from textassay.tools.tool import Abstention, Computed, Measurement, premise
from textassay.tools.words import folded_words, ngrams


class Novelty(Computed):
    """Share of the output's n-grams that are not in the source."""

    kind: ClassVar[str] = "novelty"

    def __init__(self, name: str = "novelty", *, n: int = 2) -> None:
        """Keep the settings.

        Args:
            name: Name of the tool.
            n: Words in an n-gram, at least 1.
        """
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
    """Extractive fragment coverage (Grusky et al., 2018, section 4)."""

    kind: ClassVar[str] = "coverage"

    def __init__(self, name: str = "coverage", *, shortest: int = 1) -> None:
        """Keep the settings.

        Args:
            name: Name of the tool.
            shortest: Fragments with fewer words are not counted; 1 is the paper's definition.
        """
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
    """Return the lengths of the longest runs of `output` found in `source`, greedily from the left.

    Args:
        source: Words of the source.
        output: Words of the output.
    """
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

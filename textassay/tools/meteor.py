"""METEOR (Banerjee and Lavie, 2005) by NLTK.

Words, stems and synonyms that output and reference share.

Needs the extra `nltk`, and for synonyms WordNet, which NLTK fetches apart. Words are cut by NLTK's
Treebank rules and lower-cased; the weights are NLTK's (alpha .9, beta 3, gamma .5).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from threading import Lock
from typing import Any, ClassVar

from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example
from textassay.tools.engines.extras import check_installed, need
from textassay.tools.tool import Computed, Measurement, references

_LOADING = Lock()


class Meteor(Computed):
    """METEOR against the closest reference."""

    kind: ClassVar[str] = "meteor"
    extra: ClassVar[str | None] = "nltk"

    def __init__(self, name: str = "meteor", *, synonyms: bool = True) -> None:
        """Keep the settings.

        Args:
            name: Name of the tool.
            synonyms: Whether words match their synonyms in WordNet, as published; without, words
                and stems alone, which needs no data.
        """
        self.name, self.synonyms = name, synonyms
        self.scale, self.needs = (0.0, 1.0), ("references",)
        shared = "words, stems and synonyms" if synonyms else "words and stems"
        self.description = (
            f"METEOR: {shared} that the output shares with the closest reference, recall first and"
            " less the more scattered they are, 0 to 1; higher is closer. Blind to facts."
        )

    def settings(self) -> Mapping[str, object]:
        """Whether synonyms match, and the version of the library."""
        return {"synonyms": self.synonyms, "nltk": version("nltk")}

    async def prepare(self, *, load: bool = True) -> None:
        """Find out whether NLTK and its data are here; see `Preparable`."""
        check_installed(["nltk"], extra="nltk", what=self.name)
        if load:
            self._wordnet()

    def compute(self, example: Example) -> Measurement:
        """Score against every reference and keep the best."""
        meteor = need("nltk.translate.meteor_score", extra="nltk", what=self.name)
        # Treebank rules only: `word_tokenize` would want NLTK's Punkt data as well.
        tokenizer = need("nltk.tokenize", extra="nltk", what=self.name).NLTKWordTokenizer()
        words = tokenizer.tokenize(example.output)
        targets = [tokenizer.tokenize(text) for text in references(example)]
        score = meteor.meteor_score(targets, words, wordnet=self._wordnet())
        return Measurement(value=float(score))

    def _wordnet(self) -> Any:
        if not self.synonyms:
            return _NoSynonyms()
        wordnet = need("nltk.corpus", extra="nltk", what=self.name).wordnet
        try:
            with _LOADING:  # NLTK reads it on first use, and not from two threads at once
                wordnet.ensure_loaded()
        except (LookupError, OSError) as error:  # none of it, or a part
            raise ConfigurationError(
                f"{self.name} needs NLTK's data: python -m nltk.downloader wordnet; or leave"
                " synonyms out: meteor?synonyms=false"
            ) from error
        return wordnet


class _NoSynonyms:
    """Replacement for WordNet if synonyms do not count."""

    def synsets(self, word: str) -> list[Any]:
        """Return nothing."""
        return []

"""Overlap with references as the field's own libraries count it: ROUGE, BLEU, chrF, TER and METEOR.

The libraries do the counting (rouge-score, sacrebleu, NLTK) and are imported on first use; here
stand their settings, what several references mean, and when a number would be meaningless.

METEOR (Banerjee and Lavie, 2005) counts words, stems and synonyms that output and reference share.
It needs the extra `nltk`, and for synonyms WordNet, which NLTK fetches apart. Words are cut by
NLTK's Treebank rules and lower-cased; the weights are NLTK's (alpha .9, beta 3, gamma .5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from threading import Lock
from typing import Any, ClassVar, Literal

from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example
from textassay.tools.text import DEFAULT_SPLITTER
from textassay.tools.tool import (
    Abstention,
    Computed,
    Measurement,
    check_installed,
    need,
    references,
)

RougeVariant = Literal["rouge1", "rouge2", "rougeL", "rougeLsum"]
_ROUGE_WORDS = {
    "rouge1": "words",
    "rouge2": "word pairs",
    "rougeL": "the longest common subsequence of words",
    "rougeLsum": "longest common subsequences, sentence by sentence",
}
MAX_WORD_PAIRS = 25_000_000
"""Largest table of words by words that `rougeLsum` fills, in Python, within about ten seconds."""
_MEASURE_WORDS = {"f": "F1", "p": "precision", "r": "recall"}
BleuTokenizer = Literal["13a", "intl", "zh", "char", "none"]
_LOADING = Lock()


class Rouge(Computed):
    """ROUGE (Lin, 2004) against the references, by rouge-score.

    Args:
        variant: What is counted: words, pairs of words, or longest common subsequences.
        measure: F1, precision (share of the output found) or recall (share of the reference
            found).
        refs: `best` takes the reference with the highest F1, `first` looks at the first only.
        stemmer: Whether endings are cut off by Porter's rules (English).
    """

    kind: ClassVar[str] = "rouge"

    def __init__(
        self,
        name: str | None = None,
        *,
        variant: RougeVariant = "rougeL",
        measure: Literal["f", "p", "r"] = "f",
        refs: Literal["best", "first"] = "best",
        stemmer: bool = True,
    ) -> None:
        self.name, self.variant = name or variant, variant
        self.measure_, self.refs, self.stemmer = measure, refs, stemmer
        self.scale, self.needs = (0.0, 1.0), ("references",)
        which = "the closest reference" if refs == "best" else "the first reference"
        self.description = (
            f"ROUGE {_MEASURE_WORDS[measure]} of {_ROUGE_WORDS[variant]} shared by output and"
            f" {which}, 0 to 1; higher is closer. Reads a-z and 0-9 only. Blind to paraphrase and"
            " to facts."
        )

    def settings(self) -> Mapping[str, object]:
        """Variant, measure, treatment of references and version of the library."""
        return {
            "variant": self.variant,
            "measure": self.measure_,
            "refs": self.refs,
            "stem": self.stemmer,
            "rouge-score": version("rouge-score"),
        }

    def compute(self, example: Example) -> Measurement | Abstention:
        """Score against the best, or the first, reference."""
        tokenize, output = _tokenizer(self.stemmer).tokenize, example.output
        targets = references(example)[: 1 if self.refs == "first" else None]
        # rouge-score silently ignores all other characters, and would give 0 to any Chinese text.
        if not tokenize(output) or not any(tokenize(target) for target in targets):
            return Abstention(
                type="UnsupportedScript",
                message=(
                    f"{self.name} reads a-z and 0-9 only, and the output or every reference has"
                    " none"
                ),
            )
        if self.variant == "rougeL":
            # Not by the library: its table in Python takes minutes for long texts; the value is
            # the same.
            scores = [_rouge_l(tokenize(output), tokenize(target)) for target in targets]
            best = max(scores, key=lambda one: one.fmeasure)
        else:
            if self.variant == "rougeLsum":
                if too_long := self._too_long(tokenize, output, targets):
                    return too_long
                output, *others = map(_sentence_lines, (output, *targets))
                targets = tuple(others)
            scorer = _rouge_scorer(self.variant, self.stemmer)
            best = scorer.score_multi(targets, output)[self.variant]
        return Measurement(
            value={"f": best.fmeasure, "p": best.precision, "r": best.recall}[self.measure_]
        )

    def _too_long(
        self, tokenize: Callable[[str], Sequence[str]], output: str, targets: Sequence[str]
    ) -> Abstention | None:
        """Return why texts are not compared sentence by sentence, or `None` if they are."""
        words, longest = len(tokenize(output)), max(len(tokenize(target)) for target in targets)
        if words * longest <= MAX_WORD_PAIRS:
            return None
        return Abstention(
            type="TextTooLong",
            message=(
                f"{self.name} compares every word with every word: {words} x {longest} words would"
                f" take minutes (at most {MAX_WORD_PAIRS} pairs); rougeL and rouge1 have no such"
                " limit"
            ),
        )


def _sentence_lines(text: str) -> str:
    return "\n".join(DEFAULT_SPLITTER.split(text))


def longest_common_subsequence(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the longest common subsequence of two lists of words.

    Bit-parallel (Hyyro, 2004): a row of the table of prefix lengths is one integer, whose zeros
    mark where the length grows. 40,000 words with 40,000 take about 0.2 s, and the table of
    rouge-score half an hour.
    """
    places: dict[str, int] = {}
    for index, word in enumerate(one):
        places[word] = places.get(word, 0) | 1 << index
    everything = (1 << len(one)) - 1
    row = everything
    for word in other:
        matched = row & places.get(word, 0)
        # The addition carries each match to the next zero above it, for all prefixes at once.
        row = ((row + matched) | (row - matched)) & everything
    return len(one) - row.bit_count()


def _rouge_l(output: Sequence[str], target: Sequence[str]) -> Any:
    """Return ROUGE-L as rouge-score's own `Score`."""
    from rouge_score.scoring import Score, fmeasure

    common = longest_common_subsequence(output, target)
    precision, recall = common / max(len(output), 1), common / max(len(target), 1)
    return Score(precision=precision, recall=recall, fmeasure=fmeasure(precision, recall))


@lru_cache(maxsize=2)
def _tokenizer(stemmer: bool) -> Any:
    """Return rouge-score's tokenizer that remembers: references come back with every system."""
    from rouge_score.tokenizers import DefaultTokenizer

    tokenizer = DefaultTokenizer(stemmer)
    tokenizer.tokenize = lru_cache(maxsize=4096)(tokenizer.tokenize)
    return tokenizer


@lru_cache(maxsize=8)
def _rouge_scorer(variant: str, stemmer: bool) -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer([variant], tokenizer=_tokenizer(stemmer))


class SacreBleu(Computed):
    """A metric of sacrebleu, against all references or the closest; a subclass has its settings."""

    metric: ClassVar[str]
    """Name of the library's class."""

    def options(self) -> dict[str, object]:
        """Arguments of the library's class."""
        return {}

    def compute(self, example: Example) -> Measurement | Abstention:
        """Score against the references."""
        metric = _sacrebleu(self.metric, **self.options())
        return Measurement(
            value=metric.sentence_score(example.output, list(references(example))).score
        )


class Bleu(SacreBleu):
    """Sentence BLEU (Papineni et al., 2002) against all references, by sacrebleu.

    N-grams longer than the output are left out of the mean.

    Args:
        lowercase: Whether case is ignored.
        tokenize: `13a` for languages with spaces, `zh` for Chinese, `char` for others without;
            none of them downloads anything.
        smooth: What happens to n-grams that match nowhere.
        max_order: Longest n-gram.
    """

    kind: ClassVar[str] = "bleu"
    metric: ClassVar[str] = "BLEU"

    def __init__(
        self,
        name: str = "bleu",
        *,
        lowercase: bool = True,
        tokenize: BleuTokenizer = "13a",
        smooth: Literal["exp", "floor", "add-k", "none"] = "exp",
        max_order: int = 4,
    ) -> None:
        self.name, self.lowercase, self.tokenize, self.smooth = name, lowercase, tokenize, smooth
        self.max_order = max_order
        self.scale, self.needs = (0.0, 100.0), ("references",)
        self.description = (
            f"Sentence BLEU: precision of 1- to {max_order}-grams of the output against all"
            " references, with a penalty for short outputs, 0 to 100; higher is closer. Blind to"
            " paraphrase and to facts."
        )

    def settings(self) -> Mapping[str, object]:
        """The library's settings and version."""
        return {
            "case": "lc" if self.lowercase else "mixed",
            "tok": self.tokenize,
            "smooth": self.smooth,
            "order": self.max_order,
            "eff": True,
            "sacrebleu": version("sacrebleu"),
        }

    def options(self) -> dict[str, object]:
        """Arguments of the library's class."""
        return {
            "lowercase": self.lowercase,
            "tokenize": self.tokenize,
            "smooth_method": self.smooth,
            "max_ngram_order": self.max_order,
            # Without it a sentence of fewer than four words has a score of 0, whatever it says.
            "effective_order": True,
        }


class Chrf(SacreBleu):
    """Sentence chrF (Popovic, 2015), the best of all references, by sacrebleu.

    Args:
        lowercase: Whether case is ignored.
        char_order: Longest character n-gram.
        word_order: Longest word n-gram; 2 gives chrF++.
        beta: Weight of recall against precision.
    """

    kind: ClassVar[str] = "chrf"
    metric: ClassVar[str] = "CHRF"

    def __init__(
        self,
        name: str = "chrf",
        *,
        lowercase: bool = True,
        char_order: int = 6,
        word_order: int = 0,
        beta: int = 2,
    ) -> None:
        self.name, self.lowercase, self.char_order = name, lowercase, char_order
        self.word_order, self.beta = word_order, beta
        self.scale, self.needs = (0.0, 100.0), ("references",)
        self.description = (
            "chrF: F-score of character n-grams shared by output and closest reference, 0 to 100;"
            " higher is closer. Kinder to inflection and spelling than BLEU and ROUGE, in any"
            " script."
        )

    def settings(self) -> Mapping[str, object]:
        """The library's settings and version."""
        return {
            "case": "lc" if self.lowercase else "mixed",
            "nc": self.char_order,
            "nw": self.word_order,
            "beta": self.beta,
            "sacrebleu": version("sacrebleu"),
        }

    def options(self) -> dict[str, object]:
        """Arguments of the library's class."""
        names = ("lowercase", "char_order", "word_order", "beta")
        return {name: getattr(self, name) for name in names}


class Ter(SacreBleu):
    """Translation edit rate (Snover et al., 2006) against the closest reference, by sacrebleu.

    Args:
        lowercase: Whether case is ignored.
        normalized: Whether punctuation is split off first.
    """

    kind: ClassVar[str] = "ter"
    metric: ClassVar[str] = "TER"

    def __init__(
        self, name: str = "ter", *, lowercase: bool = True, normalized: bool = False
    ) -> None:
        self.name, self.lowercase, self.normalized = name, lowercase, normalized
        self.higher_is_better, self.needs = False, ("references",)
        self.description = (
            "TER: edits (including moved blocks) that turn the output into the closest reference,"
            " per 100 words of reference; 0 is equal, above 100 is possible, lower is better."
        )

    def settings(self) -> Mapping[str, object]:
        """The library's settings and version."""
        return {
            "case": "lc" if self.lowercase else "mixed",
            "norm": self.normalized,
            "sacrebleu": version("sacrebleu"),
        }

    def options(self) -> dict[str, object]:
        """Arguments of the library's class."""
        return {"case_sensitive": not self.lowercase, "normalized": self.normalized}


@lru_cache(maxsize=16)
def _sacrebleu(metric: str, **settings: object) -> Any:
    from sacrebleu import metrics

    return getattr(metrics, metric)(**settings)


class Meteor(Computed):
    """METEOR against the closest reference.

    Args:
        synonyms: Whether words match their synonyms in WordNet, as published; without, words
            and stems alone, which needs no data.
    """

    kind: ClassVar[str] = "meteor"
    extra: ClassVar[str | None] = "nltk"

    def __init__(self, name: str = "meteor", *, synonyms: bool = True) -> None:
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

"""Surface metrics, which need no model.

Overlap with references is counted by the usual libraries (ROUGE by rouge-score; BLEU, chrF and TER
by sacrebleu; METEOR by NLTK), which are imported on first use; these classes have their settings,
combine several references, and abstain where a number would be meaningless. Then length,
repetition, readability, and words of the source.

METEOR (Banerjee and Lavie, 2005) counts words, stems and synonyms that output and reference share.
It needs the extra `nltk`, and for synonyms WordNet, which NLTK downloads separately. Words are cut
by NLTK's Treebank rules and lower-cased; the weights are NLTK's (alpha .9, beta 3, gamma .5).

Readability is the Flesch reading ease, for English. Syllables are counted by rules of spelling
rather than a dictionary (packages with one download it): nine words in ten are counted right, which
is enough for a mean over a text.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Literal
from unicodedata import normalize

from pydantic import Field

from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example, Scale
from textassay.tools.text import DEFAULT_SPLITTER, SentenceSplitter, casefold_words, ngrams, words
from textassay.tools.tool import (
    IMPORTING,
    Abstention,
    Computed,
    Measurement,
    check_installed,
    import_module,
    need,
    premise,
    references,
)

RougeVariant = Literal["rouge1", "rouge2", "rougeL", "rougeLsum"]
MAX_WORD_PAIRS = 25_000_000
"""Largest table of words by words that `rougeLsum` fills, in Python, within about ten seconds."""


class Rouge(Computed):
    """ROUGE (Lin, 2004) against the references, by rouge-score.

    Args:
        variant: Units to count: words, pairs of words, or longest common subsequences.
        measure: F1, precision (share of the output found) or recall (share of the reference
            found).
        refs: `best` takes the reference with the highest F1, `first` looks at the first only.
        stemmer: Whether endings are cut off by Porter's rules (English).
    """

    kind: ClassVar[str] = "rouge"
    scale, needs = (0.0, 1.0), ("references",)

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
        which = "the closest reference" if refs == "best" else "the first reference"
        share = {"f": "F1", "p": "precision", "r": "recall"}[measure]
        counted = {
            "rouge1": "words",
            "rouge2": "word pairs",
            "rougeL": "the longest common subsequence of words",
            "rougeLsum": "longest common subsequences, sentence by sentence",
        }[variant]
        self.description = (
            f"ROUGE {share} of {counted} shared by output and"
            f" {which}, 0 to 1; higher is closer. Reads a-z and 0-9 only. Blind to paraphrase and"
            " to facts."
        )

    def settings(self) -> Mapping[str, object]:
        return {
            "variant": self.variant,
            "measure": self.measure_,
            "refs": self.refs,
            "stem": self.stemmer,
            "rouge-score": version("rouge-score"),
        }

    def compute(self, example: Example) -> Measurement | Abstention:
        """Score against the best, or the first, reference."""
        texts = example.output, *references(example)[: 1 if self.refs == "first" else None]
        texts = tuple(normalize("NFC", text) for text in texts)
        output, *targets = map(_tokenizer(self.stemmer).tokenize, texts)
        # rouge-score silently ignores all other characters: two Chinese texts would be empty, and
        # equal if they share a year
        readable = [
            (t, text) for t, text in zip(targets, texts[1:], strict=True) if t and _is_latin(text)
        ]
        if not output or not _is_latin(texts[0]) or not readable:
            return Abstention(
                type="UnsupportedScript",
                message=f"{self.name} reads a-z and 0-9 only, and the output or every reference has"
                " none, or too many other letters; chrf reads any script",
            )
        targets, texts = [t for t, _ in readable], (texts[0], *(text for _, text in readable))
        if self.variant == "rougeL":
            # not by the library, whose table in Python takes minutes for long texts; the value is
            # the same
            best = max((_rouge_l(output, r) for r in targets), key=lambda score: score.fmeasure)
        else:
            if self.variant == "rougeLsum":
                longest = max(map(len, targets))
                if len(output) * longest > MAX_WORD_PAIRS:
                    return Abstention(
                        type="TextTooLong",
                        message=f"{self.name} compares every word with every word: {len(output)} x"
                        f" {longest} words would take minutes (at most {MAX_WORD_PAIRS} pairs);"
                        " rougeL and rouge1 have no such limit",
                    )
                texts = tuple("\n".join(DEFAULT_SPLITTER.split(text)) for text in texts)
            scorer = _rouge_scorer(self.variant, self.stemmer)
            best = scorer.score_multi(texts[1:], texts[0])[self.variant]
        return Measurement(
            value={"f": best.fmeasure, "p": best.precision, "r": best.recall}[self.measure_]
        )


@lru_cache(maxsize=4096)
def _is_latin(text: str) -> bool:
    """Return whether rouge-score's tokenizer reads a text: two thirds of its words are Latin.

    A word without one of a-z, such as à, is not read, but rare; an address is one word. Unread
    words count as equal, so that a value is at most half again too high; of half-read texts, such
    as about products with Latin names, unrelated ones would be equal.
    """
    # letters of Thai, Khmer, Japanese, Chinese and the like, which put no blank between words
    alone = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    letter = rf"[^\W{alone}]"  # or a digit
    # from the beginning of a word, so that a long one (a hash) is not read from each of its letters
    address = rf"(?<!{letter})(?<!-)[A-Za-z](?:{letter}|-)*+(?:[.@:/]+[A-Za-z0-9][!-~]*)+"
    symbol = r"[\u0370-\u03ff](?![^\W\d_])"  # the angle θ
    # two letters of such a script are about a word
    words = re.findall(rf"{address}|[{alone}]{{1,2}}|(?!{symbol})[^\W\d_{alone}]+", text)
    latin = (any(c < "\u0250" or "\u1e00" <= c < "\u1f00" for c in word) for word in words)
    return 3 * sum(latin) >= 2 * len(words)


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
        # the addition carries each match to the next zero above it, for all prefixes at once
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
    """Return rouge-score's tokenizer with a cache, as references recur with every system."""
    tokenizer = import_module("rouge_score.tokenizers").DefaultTokenizer(stemmer)  # imports NLTK
    tokenizer.tokenize = lru_cache(maxsize=4096)(tokenizer.tokenize)
    return tokenizer


@lru_cache(maxsize=8)
def _rouge_scorer(variant: str, stemmer: bool) -> Any:
    scorers = import_module("rouge_score.rouge_scorer")
    return scorers.RougeScorer([variant], tokenizer=_tokenizer(stemmer))


class SacreBleu(Computed):
    """A metric of sacrebleu, against all references or the closest; a subclass has its settings."""

    metric: ClassVar[str]
    """Name of the library's class."""
    scale: Scale | None = (0.0, 100.0)
    needs = ("references",)
    lowercase: bool
    """Whether case is ignored."""
    options: Mapping[str, object]
    """Arguments of the library's class."""
    signed: Mapping[str, object]
    """The options in the signature, without case."""
    needs_spaces = False
    """Whether words are found by the spaces between them."""

    def settings(self) -> Mapping[str, object]:
        case = "lc" if self.lowercase else "mixed"
        return {"case": case, **self.signed, "sacrebleu": version("sacrebleu")}

    def compute(self, example: Example) -> Measurement | Abstention:
        if self.needs_spaces and is_unspaced(example.output):
            return _script_abstention(self.name, "use bleu?tokenize=char or chrf")
        metric = _sacrebleu(self.metric, **self.options)
        output, *targets = (normalize("NFC", t) for t in (example.output, *references(example)))
        return Measurement(value=metric.sentence_score(output, targets).score)


class Bleu(SacreBleu):
    """Sentence BLEU (Papineni et al., 2002) against all references, by sacrebleu.

    N-grams longer than the output are left out of the mean.

    Args:
        lowercase: Whether case is ignored.
        tokenize: `13a` for languages with spaces, `zh` for Chinese, `char` for others without;
            none of them downloads anything.
        smooth: Smoothing of n-grams without a match.
        max_order: Longest n-gram.
    """

    kind: ClassVar[str] = "bleu"
    metric: ClassVar[str] = "BLEU"

    def __init__(
        self,
        name: str = "bleu",
        *,
        lowercase: bool = True,
        tokenize: Literal["13a", "intl", "zh", "char", "none"] = "13a",
        smooth: Literal["exp", "floor", "add-k", "none"] = "exp",
        max_order: int = 4,
    ) -> None:
        self.name, self.lowercase = name, lowercase
        self.needs_spaces = tokenize not in ("zh", "char")
        self.options = {
            "lowercase": lowercase,
            "tokenize": tokenize,
            "smooth_method": smooth,
            "max_ngram_order": max_order,
            # without it every sentence of fewer than four words has a score of 0
            "effective_order": True,
        }
        self.signed = {"tok": tokenize, "smooth": smooth, "order": max_order, "eff": True}
        self.description = (
            f"Sentence BLEU: precision of 1- to {max_order}-grams of the output against all"
            " references, with a penalty for short outputs, 0 to 100; higher is closer. Blind to"
            " paraphrase and to facts."
        )


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
        self.name, self.lowercase = name, lowercase
        orders = {"char_order": char_order, "word_order": word_order}
        self.options = {"lowercase": lowercase, **orders, "beta": beta}
        self.signed = {"nc": char_order, "nw": word_order, "beta": beta}
        self.description = (
            "chrF: F-score of character n-grams shared by output and closest reference, 0 to 100;"
            " higher is closer. Kinder to inflection and spelling than BLEU and ROUGE, in any"
            " script."
        )


class Ter(SacreBleu):
    """Translation edit rate (Snover et al., 2006) against the closest reference, by sacrebleu.

    Args:
        lowercase: Whether case is ignored.
        normalized: Whether punctuation is split off first.
    """

    kind: ClassVar[str] = "ter"
    metric: ClassVar[str] = "TER"
    scale, higher_is_better = None, False
    needs_spaces = True

    def __init__(
        self, name: str = "ter", *, lowercase: bool = True, normalized: bool = False
    ) -> None:
        self.name, self.lowercase = name, lowercase
        self.options = {"case_sensitive": not lowercase, "normalized": normalized}
        self.signed = {"norm": normalized}
        self.description = (
            "TER: edits (including moved blocks) that turn the output into the closest reference,"
            " per 100 words of reference; 0 is equal, above 100 is possible, lower is better."
        )


def is_unspaced(text: str) -> bool:
    """Return whether most letters of a text belong to scripts that put no spaces between words."""
    han_kana = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    thai_lao_myanmar_khmer = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
    unspaced = len(re.findall(f"[{han_kana}{thai_lao_myanmar_khmer}]", text))
    return unspaced > 0 and 2 * unspaced > len(re.findall(r"[^\W\d_]", text))


def _script_abstention(name: str, instead: str) -> Abstention:
    why = f"{name} finds words by the spaces between them, which the output's script lacks"
    return Abstention(type="UnsupportedScript", message=f"{why}; {instead}")


@lru_cache(maxsize=16)
def _sacrebleu(metric: str, **settings: object) -> Any:
    from sacrebleu import metrics

    return getattr(metrics, metric)(**settings)


class Meteor(Computed):
    """METEOR against the closest reference.

    Args:
        synonyms: Whether words match their synonyms in WordNet, as published; words and stems
            alone need no data.
    """

    kind: ClassVar[str] = "meteor"
    extra: ClassVar[str | None] = "nltk"
    scale, needs = (0.0, 1.0), ("references",)

    def __init__(self, name: str = "meteor", *, synonyms: bool = True) -> None:
        self.name, self.synonyms = name, synonyms
        shared = "words, stems and synonyms" if synonyms else "words and stems"
        self.description = (
            f"METEOR: {shared} that the output shares with the closest reference, recall first and"
            " less the more scattered they are, 0 to 1; higher is closer. Blind to facts."
        )

    def settings(self) -> Mapping[str, object]:
        return {"synonyms": self.synonyms, "nltk": version("nltk")}

    async def prepare(self, *, load: bool = True) -> None:
        """Find out whether NLTK and its data are installed; see `Preparable`."""
        check_installed(["nltk"], extra="nltk", what=self.name)
        if load:
            self._wordnet()

    def compute(self, example: Example) -> Measurement | Abstention:
        """Score against every reference and keep the best."""
        if is_unspaced(example.output):
            return _script_abstention(self.name, "use chrf")
        meteor = need("nltk.translate.meteor_score", extra="nltk", what=self.name)
        # Treebank rules only: `word_tokenize` needs NLTK's Punkt data as well
        tokenizer = need("nltk.tokenize", extra="nltk", what=self.name).NLTKWordTokenizer()
        words, *targets = (
            tokenizer.tokenize(normalize("NFC", t)) for t in (example.output, *references(example))
        )
        score = meteor.meteor_score(targets, words, wordnet=self._wordnet())
        return Measurement(value=float(score))

    def _wordnet(self) -> Any:
        if not self.synonyms:
            return SimpleNamespace(synsets=lambda word: [])
        wordnet = need("nltk.corpus", extra="nltk", what=self.name).wordnet
        try:
            with IMPORTING:  # NLTK reads it on first use, and not from two threads at once
                wordnet.ensure_loaded()
        except (LookupError, OSError) as error:  # the data are missing or incomplete
            raise ConfigurationError(
                f"{self.name} needs NLTK's data: python -m nltk.downloader wordnet; or leave"
                " synonyms out: meteor?synonyms=false"
            ) from error
        return wordnet


AtLeastOne = Annotated[int, Field(ge=1)]
LengthUnit = Literal["words", "tokens", "characters", "sentences"]
# rain   don't
_ENGLISH_WORD = re.compile(r"[a-z]+(?:['’][a-z]+)*", re.IGNORECASE)
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
    """Length of the output.

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
        by_sentence = self.unit == "sentences"
        return {"unit": self.unit, "splitter": self.splitter.signature if by_sentence else None}

    def compute(self, example: Example) -> Measurement | Abstention:
        cut: dict[LengthUnit, Callable[[str], Sequence[str]]] = {
            "words": words,
            "tokens": str.split,
            "characters": str,
            "sentences": self.splitter.split,
        }
        return Measurement(value=len(cut[self.unit](example.output)))


class NgramShare(Computed):
    """A share of the output's runs of `n` words; a subclass has `share`."""

    scale = (0.0, 1.0)
    n: int

    def settings(self) -> Mapping[str, object]:
        return {"n": self.n}

    def compute(self, example: Example) -> Measurement | Abstention:
        # without case, so that a repeated phrase also counts at the start of a sentence
        grams = list(ngrams(casefold_words(example.output), self.n))
        if not grams:
            return too_short(self.name, self.n)
        return Measurement(value=self.share(grams, example))

    @abstractmethod
    def share(self, grams: list[tuple[str, ...]], example: Example) -> float:
        """Return the share of the output's n-grams, 0 to 1."""


class Repetition(NgramShare):
    """Share of the output's n-grams that repeat an earlier one.

    Args:
        n: Words in an n-gram.
    """

    kind: ClassVar[str] = "repetition"
    higher_is_better = False

    def __init__(self, name: str = "repetition", *, n: AtLeastOne = 3) -> None:
        self.name, self.n = name, n
        self.description = (
            f"Share of the output's {n}-word runs that repeat an earlier one, 0 (none) to 1; lower"
            " is better. High values show loops and copied sentences."
        )

    def share(self, grams: list[tuple[str, ...]], example: Example) -> float:
        """Return 1 - distinct / all."""
        return 1 - len(set(grams)) / len(grams)


def too_short(name: str, n: int) -> Abstention:
    """Return the abstention from an output with fewer than `n` words."""
    message = f"{name} needs at least {n} word(s), and the output has fewer"
    return Abstention(type="OutputTooShort", message=message)


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
        return {"formula": "flesch", "syllables": "rules", "splitter": self.splitter.signature}

    def compute(self, example: Example) -> Measurement | Abstention:
        # tokenized text writes "do n't" and "he 's"; both are one word
        text = re.sub(r"(?i)\s+(?=(?:n['’]t|['’](?:s|m|re|ve|ll|d))\b)", "", example.output)
        words = _ENGLISH_WORD.findall(text)
        letters = sum(character.isalpha() for character in text)
        # the formula was fitted to English; a share, as texts may have names in other scripts
        if not words or sum(map(len, words)) < 0.8 * letters:
            message = f"{self.name} knows English only, and most letters of the output are not a-z"
            return Abstention(type="UnsupportedLanguage", message=message)
        sentences = sum(1 for s in self.splitter.split(text) if _ENGLISH_WORD.search(s))
        per_sentence, per_word = len(words) / sentences, sum(map(syllables, words)) / len(words)
        return Measurement(
            value=206.835 - 1.015 * per_sentence - 84.6 * per_word,
            explanation=f"{per_sentence:.3g} words a sentence, {per_word:.3g} syllables a word",
        )


def syllables(word: str) -> int:
    """Return the number of syllables of an English word, by its spelling; at least 1."""
    word = re.sub(r"['’](?:s|m|re|ve|ll|d)$", "", word.lower())
    extra = len(_HIATUS.findall(word)) + len(re.findall(r"(?<=[dsvcw])n['’]t$", word))
    stem = _SILENT_END.sub("", re.sub(r"n?['’].*$", "", word) or word)
    return max(1, len(re.findall(r"[aeiouy]+", stem)) + extra)


class Novelty(NgramShare):
    """Share of the output's n-grams that are not in the source.

    Args:
        n: Words in an n-gram.
    """

    kind: ClassVar[str] = "novelty"
    needs = ("premise",)

    def __init__(self, name: str = "novelty", *, n: AtLeastOne = 2) -> None:
        self.name, self.n = name, n
        self.description = (
            f"Share of the output's {n}-word runs that do not occur in the source (fact and"
            " conversation in dialogue), 0 (all copied) to 1 (all new). New words may be good"
            " paraphrase or invention."
        )

    def share(self, grams: list[tuple[str, ...]], example: Example) -> float:
        """Count every occurrence in the output."""
        of_premise = set(ngrams(casefold_words(premise(example) or ""), self.n))
        return sum(gram not in of_premise for gram in grams) / len(grams)


class Coverage(Computed):
    """Extractive fragment coverage (Grusky et al., 2018, section 4).

    Args:
        shortest: Fragments with fewer words are not counted; 1 is the paper's definition.
    """

    kind: ClassVar[str] = "coverage"
    scale, needs = (0.0, 1.0), ("premise",)

    def __init__(self, name: str = "coverage", *, shortest: AtLeastOne = 1) -> None:
        self.name, self.shortest = name, shortest
        self.description = (
            "Share of the output's words that stand in fragments copied from the source (fact and"
            f" conversation in dialogue; fragments of {shortest} or more words), 0 (nothing copied)"
            " to 1 (all copied). Low values show outputs in other words than the source, or not"
            " about it."
        )

    def settings(self) -> Mapping[str, object]:
        return {"shortest": self.shortest}

    def compute(self, example: Example) -> Measurement | Abstention:
        """Find the fragments; their density (mean squared length) is given in the explanation."""
        output = casefold_words(example.output)
        if not output:
            return too_short(self.name, 1)
        lengths = extractive_fragments(casefold_words(premise(example) or ""), output)
        fragments = [length for length in lengths if length >= self.shortest]
        density = math.fsum(f * f for f in fragments) / len(output)
        return Measurement(
            value=sum(fragments) / len(output),
            explanation=f"{len(fragments)} fragments, longest {max(fragments, default=0)} words,"
            f" density {density:.3g}",
        )


def extractive_fragments(source: Sequence[str], output: Sequence[str]) -> list[int]:
    """Return the lengths of the longest runs of `output` in `source`, greedily from the left."""
    # only places that begin with the same word can start a run
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
        # greedy: each word belongs to one fragment only, the longest that begins at its place
        i += max(longest, 1)
    return lengths

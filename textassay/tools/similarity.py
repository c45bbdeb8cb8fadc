"""Tools with a model that compare the output with other texts: embeddings, BERTScore, BLEURT.

The option `against` (references, source or context) is the same for all of them.
"""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Literal, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example
from textassay.tools.engines import (
    PACKAGED_VECTORS,
    Array,
    Encoding,
    Head,
    StaticEngine,
    ToolEngine,
    read_json,
)
from textassay.tools.model_tool import ModelOptions, ModelTool
from textassay.tools.text import SentenceSplitter, pack_sentences
from textassay.tools.tool import Abstention, Measurement, premise, references

Against = Literal["auto", "references", "source", "context"]
"""Text to compare the output with; `auto` takes the references if there are any, else the source
(context and source together), and records which. `context` is the example's context alone, such as
the fact behind an answer."""


class ComparingOptions(ModelOptions, total=False):
    """Options of every tool with a model that compares two texts."""

    against: Against
    """`references`, `source`, `context`, or `auto` for references if there are any and else the
    source."""


class ComparingTool(ModelTool):
    """A tool with a model that compares two texts; a subclass has `compare`."""

    def __init__(
        self, name: str, model: str, *, against: Against = "auto", **options: Unpack[ModelOptions]
    ) -> None:
        super().__init__(name, model, **options)
        self.against = against
        # with `auto` nothing is required: an example without either text abstains
        if against != "auto":
            self.needs = ("premise" if against == "source" else against,)

    async def measure(self, example: Example) -> Measurement | Abstention:
        """Compare the output with every target; without any, abstain."""
        texts, against = self._targets(example)
        if texts:
            return await self.compare(await self.runner.open(), example.output, texts, against)
        message = f"{self.name} needs references or a source, which this example does not have"
        return Abstention(type="MissingReferences", message=message)

    @abstractmethod
    async def compare(
        self, engine: ToolEngine, output: str, texts: tuple[str, ...], against: str
    ) -> Measurement | Abstention:
        """Compare an output with texts, which are `references`, `source` or `context`."""

    def _targets(self, example: Example) -> tuple[tuple[str, ...], str]:
        """Return the texts to compare an output with, and their kind."""
        if self.against == "context":
            return ((example.context or "").strip(),), "context"
        # references first: they are examples of a good output
        if self.against != "source" and (texts := references(example)):
            return texts, "references"
        text = premise(example)
        return (text,) if text else (), "source"

    def no_tokens(self) -> Abstention:
        """Return the abstention from a text without any token of the model."""
        message = f"{self.name}: the model's vocabulary has no word of one of the texts"
        return Abstention(type="NoTokens", message=message)


def split_windows(
    engine: ToolEngine, text: str, splitter: SentenceSplitter, longest: int | None = None
) -> tuple[Encoding, ...]:
    """Cut a text into inputs that the model takes; one if it fits."""
    tokenizer = engine.tokenizer
    limits = [n for n in (engine.max_tokens, longest) if n]
    room = min(limits, default=10**9) - tokenizer.special_tokens(pair=False)
    if not limits or tokenizer.count(text) <= room:
        return (tokenizer.encode(text),)
    parts = pack_sentences(splitter.split(text), tokenizer.count, max(1, room))
    return tuple(tokenizer.encode(part) for part in parts)


def unit(vectors: Array) -> Array:
    """Return vectors scaled to length 1; a zero vector stays zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths == 0, 1, lengths), dtype=np.float32)


def f1_score(precision: float, recall: float) -> float:
    """Return the harmonic mean; the lower of the two where one is not positive."""
    positive = precision > 0 and recall > 0
    return 2 * precision * recall / (precision + recall) if positive else min(precision, recall)


Pooling = Literal["mean", "cls"]
Per = Literal["text", "sentence"]
"""Whether whole texts are embedded, or their sentences."""

SentenceMeasure = Literal["p", "r", "f", "min"]
"""Summary of sentence-wise cosines: precision (mean over the output's sentences of the best cosine
with the other text), recall (the reverse), their harmonic mean, or the lowest cosine of any of the
output's sentences."""


class Embedding(ComparingTool):
    """Cosine of sentence embeddings.

    Args:
        model: A sentence encoder: a folder, a Hub id with a revision, or `wordllama`; by
            default all-MiniLM-L6-v2 (22 million parameters, Apache-2.0, English), with
            `engine="static"` the vectors of the package `wordllama`.
        per: Whether whole texts are compared, or each sentence with its best counterpart.
        measure: With `per="sentence"`: `p` (default), `r`, `f` or `min`, see
            `SentenceMeasure`.
        pooling: How tokens become one vector; `auto` reads it from the folder; by default the
            mean.

    Raises:
        ConfigurationError: `measure` is given, and whole texts are compared.
    """

    kind: ClassVar[str] = "embedding"
    head: ClassVar[Head] = "encode"

    def __init__(
        self,
        name: str = "embedding",
        model: str | None = None,
        *,
        per: Per = "text",
        measure: SentenceMeasure | None = None,
        pooling: Literal["auto", "mean", "cls"] = "auto",
        **options: Unpack[ComparingOptions],
    ) -> None:
        default = (
            PACKAGED_VECTORS
            if options.get("engine") == "static"
            else "sentence-transformers/all-MiniLM-L6-v2@c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
        )
        super().__init__(name, model or default, **options)
        if measure and per == "text":
            raise ConfigurationError(
                f"{name}: measure={measure} needs per=sentence; whole texts have one cosine"
            )
        self.pooling, self.per, self.measure_ = pooling, per, measure or "p"
        # sources recur with every system; the runner of a network remembers its answers itself
        self._static_vector = lru_cache(8192)(static_vector)
        self.scale = (-1.0, 1.0)
        other = {
            "auto": "closest reference (the source if there is no reference)",
            "references": "closest reference",
            "source": "the source",
            "context": "the context",
        }[self.against]
        self.description = _description(per, self.measure_, other)

    def settings(self) -> Mapping[str, object]:
        settings = {**super().settings(), "pooling": self.pooling}
        if self.per == "sentence":
            splitter = self.splitter.signature
            settings |= {"per": self.per, "measure": self.measure_, "splitter": splitter}
        return settings

    async def compare(
        self, engine: ToolEngine, output: str, texts: tuple[str, ...], against: str
    ) -> Measurement | Abstention:
        """Return the highest value over targets."""
        if self.per == "sentence":
            return await self._compare_sentences(engine, output, texts, against)
        vectors = await self._embed(engine, [output, *texts])
        others = [vectors[text] for text in texts if text in vectors]
        if output not in vectors or not others:
            return self.no_tokens()
        return Measurement(
            value=max(float(vectors[output] @ other) for other in others),
            signature_parts={"against": against},
        )

    async def _compare_sentences(
        self, engine: ToolEngine, output: str, texts: tuple[str, ...], against: str
    ) -> Measurement | Abstention:
        """Match the output's sentences with each target's and keep the highest value."""
        split = [self.splitter.split(text) for text in (output, *texts)]
        vectors = await self._embed(engine, [s for sentences in split for s in sentences])
        mine, *others = [[s for s in sentences if s in vectors] for sentences in split]
        if not mine or not any(others):
            return self.no_tokens()
        ours = np.stack([vectors[s] for s in mine])
        tables = [(text, ours @ np.stack([vectors[s] for s in text]).T) for text in others if text]
        other, cosines = max(tables, key=lambda table: sentence_value(table[1], self.measure_))
        return Measurement(
            value=sentence_value(cosines, self.measure_),
            explanation=f"{len(mine)} sentences against {len(other)}",
            evidence=tuple(
                {"text": s, "cosine": float(row.max()), "closest": other[int(row.argmax())]}
                for s, row in zip(mine, cosines, strict=True)
            ),
            signature_parts={"against": against},
        )

    async def _embed(self, engine: ToolEngine, texts: Sequence[str]) -> dict[str, Array]:
        """Return a vector of length 1 for each text that has a known token."""
        texts = list(dict.fromkeys(texts))
        vectors = zip(texts, await self._vectors(engine, texts), strict=True)
        return {text: vector for text, vector in vectors if vector is not None}

    async def _vectors(self, engine: ToolEngine, texts: Sequence[str]) -> list[Array | None]:
        if isinstance(engine, StaticEngine):
            # a look into a table is cheaper than a place in a queue
            vector = self._static_vector
            return await asyncio.to_thread(lambda: [vector(engine, text) for text in texts])

        def read() -> tuple[Pooling, list[tuple[Encoding, ...]]]:
            pooling = read_pooling(engine.files.folder, engine.label, self.pooling)
            longest = max_seq_length(engine.files.folder)
            return pooling, [split_windows(engine, text, self.splitter, longest) for text in texts]

        pooling, parts = await asyncio.to_thread(read)
        states = await self.ask_grouped(engine, parts)
        return [pool(windows, pooling) if any(map(len, windows)) else None for windows in states]


def static_vector(engine: StaticEngine, text: str) -> Array | None:
    """Return the mean of the tokens' vectors, at length 1; `None` if the table knows no token."""
    encoding = engine.tokenizer.encode(text)
    return pool(engine.evaluate([encoding]), "mean") if len(encoding) else None


def sentence_value(cosines: NDArray[np.float32], measure: SentenceMeasure) -> float:
    """Return one value for cosines, shape `(sentences of the output, sentences of the other)`."""
    forth, back = (cosines.max(axis=axis).astype(np.float64) for axis in (1, 0))
    if measure == "min":
        return float(forth.min())
    precision, recall = fmean(forth), fmean(back)
    return {"p": precision, "r": recall, "f": f1_score(precision, recall)}[measure]


def max_seq_length(folder: Path) -> int | None:
    """Return the longest input that a sentence encoder was trained for, special tokens included."""
    path = folder / "sentence_bert_config.json"
    longest = read_json(path).get("max_seq_length")
    if longest is not None and (not isinstance(longest, int) or longest < 3):
        raise ConfigurationError(f"{str(path)!r}: max_seq_length cannot be {longest!r}")
    return longest


def _description(per: Per, measure: SentenceMeasure, other: str) -> str:
    if per == "text":
        return (
            f"Likeness in topic and meaning of output and {other}: cosine of sentence embeddings,"
            " -1 to 1; higher is closer. Coarse: misses negation and small facts."
        )
    comparison = {
        "p": f"how close each sentence of the output is to the nearest one of {other}, on average",
        "r": f"how close each sentence of {other} is to the nearest one of the output, on average",
        "f": f"harmonic mean of how close the sentences of output and {other} are to their nearest",
        "min": f"how close the output's least supported sentence is to the nearest one of {other}",
    }[measure]
    return (
        f"Sentence-wise likeness in meaning: {comparison}; cosine of embeddings, -1 to 1; higher is"
        " closer. Misses negation and small facts."
    )


def pool(states: list[Array], pooling: Pooling) -> Array:
    """Return the mean, at length 1, of all tokens of windows, or of their first tokens (`cls`)."""
    rows = np.concatenate(states) if pooling == "mean" else np.stack([s[0] for s in states])
    return unit(rows.mean(axis=0))


def read_pooling(folder: Path, label: str, requested: Literal["auto", "mean", "cls"]) -> Pooling:
    """Return how a sentence encoder pools, from the files of sentence-transformers beside it."""
    modules = folder / "modules.json"
    if modules.is_file():
        kinds = [
            str(module["type"]).rpartition(".")[2] for module in json.loads(modules.read_bytes())
        ]
        # without a further layer, such as a dense one, the vectors would not be the model's
        if odd := [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]:
            raise ConfigurationError(
                f"{label} has further layers ({', '.join(odd)}), which this tool does not run"
            )
    if requested != "auto":
        return requested
    # sentence-transformers writes it here; transformers' own files do not have it
    config = folder / "1_Pooling" / "config.json"
    if not config.is_file():
        return "mean"
    settings = read_json(config)
    # older versions of sentence-transformers wrote a flag for each way of pooling
    on = [name for name in settings if name.startswith("pooling_mode_") and settings[name] is True]
    if settings.get("pooling_mode") == "mean" or on == ["pooling_mode_mean_tokens"]:
        return "mean"
    if settings.get("pooling_mode") == "cls" or on == ["pooling_mode_cls_token"]:
        return "cls"
    raise ConfigurationError(
        f"{label} pools by {', '.join(on) or 'nothing known'}; known: mean and cls"
    )


DEFAULT_ENCODER = "FacebookAI/roberta-large@722cf37b1afa9454edce342e7895e588b6ff1d59"
"""The default encoder, which is read at its 17th layer, the authors' choice for English."""


class Match(NamedTuple):
    """How well two texts match."""

    precision: float
    """Mean over tokens of the output of the best cosine with a token of the other text."""
    recall: float
    """The same the other way round."""
    f1: float


class TokenStates(NamedTuple):
    """The embeddings of one text."""

    own: Array
    """Embeddings of the text's own tokens, shape `(tokens, width)`."""
    candidates: Array
    """Embeddings of these and the special tokens, which tokens of another text may match."""

    @classmethod
    def of(cls, windows: Sequence[Encoding], states: list[Array]) -> TokenStates:
        """Return the embeddings of a text that was read in windows."""
        own_states = [s[np.array(e.special) == 0] for e, s in zip(windows, states, strict=True)]
        return cls(np.concatenate(own_states), np.concatenate(states))


class BertScore(ComparingTool):
    """Greedy matching of contextual token embeddings (Zhang et al., 2020).

    Equal to the package bert-score without weighting by rarity and without rescaling by a baseline:
    as there, a token may match a special token of the other text, but special tokens count for
    nothing themselves. Long texts are embedded in windows rather than cut off.

    Args:
        model: An encoder: a folder or a Hub id with a revision.
        layer: Layer whose states are compared; if `None` the last, and 17 for the default
            encoder.
        measure: F1, precision (is all of the output in the other text?) or recall.
    """

    kind: ClassVar[str] = "bertscore"
    head: ClassVar[Head] = "encode"

    def __init__(
        self,
        name: str = "bertscore",
        model: str = DEFAULT_ENCODER,
        *,
        layer: int | None = None,
        measure: Literal["f", "p", "r"] = "f",
        **options: Unpack[ComparingOptions],
    ) -> None:
        super().__init__(name, model, **options)
        # the authors measured which layer of an encoder agrees best with people
        self.layer = 17 if layer is None and model == DEFAULT_ENCODER else layer
        self.measure_ = measure
        self.scale = (-1.0, 1.0)
        self.description = (
            "BERTScore: likeness in meaning of the words of output and closest reference (the"
            " source where there is no reference), -1 to 1 and in practice 0.8 to 1; higher is"
            " closer. Forgives paraphrase, misses small facts."
        )

    def settings(self) -> Mapping[str, object]:
        return {**super().settings(), "measure": self.measure_, "special": "matched"}

    async def compare(
        self, engine: ToolEngine, output: str, texts: tuple[str, ...], against: str
    ) -> Measurement | Abstention:
        """Match against every target and keep the best F1."""
        parts = await asyncio.to_thread(
            lambda: [split_windows(engine, text, self.splitter) for text in (output, *texts)]
        )
        states = await self.ask_grouped(engine, parts)
        embedded = [TokenStates.of(*part) for part in zip(parts, states, strict=True)]
        if not all(len(text.own) for text in embedded):
            return self.no_tokens()
        matches = await asyncio.to_thread(
            lambda: [greedy_match(embedded[0], other) for other in embedded[1:]]
        )
        # by F1 for every measure, as in bert-score: precision alone would favor the longest
        # reference
        best = max(matches, key=lambda m: m.f1)
        return Measurement(
            value={"f": best.f1, "p": best.precision, "r": best.recall}[self.measure_],
            explanation=(
                f"precision {best.precision:.4g}, recall {best.recall:.4g}, "
                f"{sum(len(p) for p in parts)} windows"
            ),
            signature_parts={"against": against},
        )


def greedy_match(output: TokenStates, other: TokenStates) -> Match:
    """Match the tokens of two texts greedily."""
    # candidates include special tokens, rows do not: bert-score masks them on one side only
    precision, recall = (
        float((unit(text.own) @ unit(two.candidates).T).max(axis=1).mean())
        for text, two in ((output, other), (other, output))
    )
    return Match(precision, recall, f1_score(precision, recall))


class Bleurt(ComparingTool):
    """A regressor trained on ratings of how well a candidate says what a reference says.

    Sellam et al. (2020), Pu et al. (2021). Fusion-Eval uses it with the source in the reference's
    place, for which it was not trained; such scores are marked. Texts longer than the input are
    read in windows.

    Args:
        model: A checkpoint with one output: a folder or a Hub id with a revision; the default has
            579 million parameters.
        combine: How several references are combined: the best or the mean.
    """

    kind: ClassVar[str] = "bleurt"
    head: ClassVar[Head] = "classify"

    def __init__(
        self,
        name: str = "bleurt",
        model: str = "lucadiliello/BLEURT-20@e22b9eb071dcb939da9fff08b20a7e746c72a830",
        *,
        combine: Literal["best", "mean"] = "best",
        **options: Unpack[ComparingOptions],
    ) -> None:
        super().__init__(name, model, **options)
        self.combine = combine
        compared = {
            "auto": "the references, or where there are none the source (fact and conversation in"
            " dialogue)",
            "references": "the references",
            "source": "the source (fact and conversation in dialogue) in a reference's place",
            "context": "the context in a reference's place",
        }[self.against]
        self.description = (
            f"BLEURT: how well the output says what {compared} say, learned from human ratings;"
            f" higher is better. {describe_scale(model)} Scores of different checkpoints do not"
            " compare."
        )

    def settings(self) -> Mapping[str, object]:
        return {**super().settings(), "refs": self.combine}

    async def compare(
        self, engine: ToolEngine, output: str, texts: tuple[str, ...], against: str
    ) -> Measurement:
        """Score against every target; with windows, the mean over parts of the best window."""
        plans = await asyncio.to_thread(
            lambda: [self._plan(engine, text, output) for text in texts]
        )
        rows = [row for plan in plans for row in plan]
        answers = await self.ask_grouped(engine, rows)
        # any classifier loads; the number of outputs shows whether it is a regressor
        if (outputs := answers[0][0].size) != 1:
            raise ConfigurationError(
                f"{engine.label} is not a regressor: it has {outputs} outputs, BLEURT has one"
            )
        best = iter([max(float(answer[0]) for answer in row) for row in answers])
        values = [fmean([next(best) for _ in plan]) for plan in plans]
        windows = sum(map(len, rows))
        evidence: tuple[dict[str, Any], ...] = ()
        compared = f"{against} in place of a reference"
        if against == "references":
            compared = f"{len(texts)} references"
            evidence = tuple(
                {"text": text, "bleurt": v} for text, v in zip(texts, values, strict=True)
            )
        return Measurement(
            value=max(values) if self.combine == "best" else fmean(values),
            explanation=f"{compared}, {windows} windows",
            evidence=evidence,
            signature_parts={"against": against},
        )

    def _plan(self, engine: ToolEngine, reference: str, output: str) -> list[list[Encoding]]:
        """Return for every part of the output its pairs, one for each window of the reference."""
        tokenizer = engine.tokenizer
        room = (engine.max_tokens or 10**6) - tokenizer.special_tokens(pair=True)
        if tokenizer.count(reference) + tokenizer.count(output) <= room:
            return [[tokenizer.encode(reference, output)]]
        # a part of the output takes half of the input, so that a window of the reference fits
        parts = pack_sentences(self.splitter.split(output), tokenizer.count, max(1, room // 2))
        limit = max(1, room - max(map(tokenizer.count, parts)))
        # with an overlap, a fact in two sentences of the reference is in one window
        windows = pack_sentences(self.splitter.split(reference), tokenizer.count, limit, overlap=1)
        return [[tokenizer.encode(window, part) for window in windows] for part in parts]


def describe_scale(model: str) -> str:
    """Return a sentence on the scale of a checkpoint, by its name."""
    low = model.lower()
    if "bleurt-20" in low:
        return "About 0 to 1, seldom beyond."
    if any(size in low for size in ("bleurt-tiny", "bleurt-base", "bleurt-large")):
        return "About -2 to 1, centered near 0."
    return "The scale is the scale of the ratings on which the checkpoint was trained."

"""Metrics that are models: BARTScore, BERTScore, BLEURT, UniEval, and probability of a text.

`LMProb` tells how likely the output is, given what it was made from. Fusion-Eval uses "the
conditional probability of the response given the fact and conversation", 0 to 1, and does not say
how tokens are put together. Our reading: exp of the mean log-probability of the output's tokens, so
that length does not decide.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import ClassVar, Literal, NamedTuple, Unpack

import numpy as np

from textassay.runtime.connected import connect
from textassay.runtime.errors import ConfigurationError, ContextTooLong, ModelClosed, UnknownName
from textassay.runtime.messages import Example
from textassay.runtime.model import ContinuationRequest, Model, scoring
from textassay.tools.engines import Array, Encoding, Engine, Head
from textassay.tools.model_tool import (
    ComparingOptions,
    ComparingTool,
    ModelOptions,
    ModelTool,
    f1_score,
    p_yes,
    unit,
    windowed,
)
from textassay.tools.text import pack_sentences
from textassay.tools.tool import Abstention, Measurement, Need, TextTool, premise, references

DEFAULT_BART = "facebook/bart-large-cnn"
"""The paper's BARTScore-CNN; `facebook/bart-large` is its plain BARTScore."""
Direction = Literal["src-hypo", "ref-hypo", "hypo-ref", "f"]
"""Which text is read and which is scored: faithfulness, precision, recall, or the mean of the last
two, as the paper calls them."""
BART_TOKENS = 1024


class BartScore(ModelTool):
    """How likely an encoder-decoder model finds one text after another (Yuan et al., 2021).

    The value is the mean log-probability of the tokens of the text that is scored, the marks at its
    beginning and end among them, after the text that the encoder reads: the authors' formula with
    all weights 1. As theirs, both texts are cut at 1,024 tokens. Their own checkpoint `bart.pth`
    (BARTScore+CNN+Para) is a pickle and is not read.

    Args:
        model: An encoder-decoder model: a folder or a Hub id with a revision.
        direction: `src-hypo`: the output after its source (context and source together);
            `ref-hypo`: the output after a reference; `hypo-ref`: a reference after the output;
            `f`: the mean of these two.
        over_references: What counts of several references.
        max_tokens: Where both texts are cut, marks included.
    """

    kind: ClassVar[str] = "bartscore"
    head: ClassVar[Head] = "likelihood"

    def __init__(
        self,
        name: str = "bartscore",
        model: str = DEFAULT_BART,
        *,
        direction: Direction = "src-hypo",
        over_references: Literal["max", "mean"] = "max",
        max_tokens: int = BART_TOKENS,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(name, model, **options)
        self.direction, self.over_references = direction, over_references
        self.max_tokens = max_tokens
        self.needs = ("premise",) if direction == "src-hypo" else ("references",)
        what = {
            "src-hypo": "the output after its source",
            "ref-hypo": "the output after a reference",
            "hypo-ref": "a reference after the output",
            "f": "output and reference after each other",
        }[direction]
        self.description = (
            f"BARTScore: mean log-probability that a language model gives {what}, per token, at"
            " most 0 and in practice -6 to -1; higher is better. Long fluent copies do well."
        )

    def settings(self) -> Mapping[str, object]:
        """Model, direction, treatment of references and length."""
        several = None if self.direction == "src-hypo" else self.over_references
        return {
            **super().settings(),
            "direction": self.direction,
            "over": several,
            "max_tokens": self.max_tokens,
        }

    async def measure(self, example: Example) -> Measurement:
        """Score the output, or the references, after the other text."""
        engine = await self.runner.open()
        pairs = self._pairs(example)
        encodings = await asyncio.to_thread(
            lambda: [self._encode(engine, first, second) for first, second in pairs]
        )
        answers = await self.runner.ask([encoding for encoding, _ in encodings])
        values = [float(answer.mean()) for answer in answers]
        if self.direction == "f":  # each reference has two
            values = [sum(values[at : at + 2]) / 2 for at in range(0, len(values), 2)]
        best = max(values) if self.over_references == "max" else sum(values) / len(values)
        # Cut texts are marked: their values compare only with each other.
        cut = sum(lost for _, lost in encodings)
        return Measurement(
            value=best,
            explanation=f"{cut} tokens beyond {self.max_tokens} were cut off" if cut else None,
            signature_parts={"cut": "yes"} if cut else {},
        )

    def _pairs(self, example: Example) -> list[tuple[str, str]]:
        """Return what the encoder reads and what is scored, one pair a value."""
        output = example.output.strip()
        if self.direction == "src-hypo":
            return [(premise(example) or "", output)]
        both = [[(one, output), (output, one)] for one in references(example)]
        kept = {"ref-hypo": slice(1), "hypo-ref": slice(1, 2), "f": slice(2)}[self.direction]
        return [pair for pairs in both for pair in pairs[kept]]

    def _encode(self, engine: Engine, first: str, second: str) -> tuple[Encoding, int]:
        """Return both texts as segments, and how many tokens were cut off."""
        limit = min(self.max_tokens, engine.max_tokens or self.max_tokens)
        tokens: list[tuple[int, int, int]] = []
        lost = 0
        for segment, text in enumerate((first, second)):
            one = engine.tokenizer.encode(text)
            # The engine finds the border between the two texts by the segment.
            own = list(zip(one.ids, repeat(segment), one.special, strict=False))
            if over := max(0, len(own) - limit):
                # the mark at the end stays, as when a tokenizer truncates
                end = 1 if one.special[-1] else 0
                own = [*own[: limit - end], *own[len(own) - end :]]
            tokens += own
            lost += over
        ids, types, special = zip(*tokens, strict=True)
        return Encoding(ids, types, special), lost


DEFAULT_ENCODER = "FacebookAI/roberta-large@722cf37b1afa9454edce342e7895e588b6ff1d59"
"""The encoder used if none is named, read at its 17th layer, as the authors chose for
English."""


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
    """Of the text's own tokens, shape `(tokens, width)`."""
    candidates: Array
    """Those and the special tokens', which tokens of another text may match."""

    @classmethod
    def of(cls, windows: Sequence[Encoding], states: list[Array]) -> TokenStates:
        """Return the embeddings of a text that was read in windows."""
        own = [s[np.array(e.special) == 0] for e, s in zip(windows, states, strict=True)]
        return cls(np.concatenate(own), np.concatenate(states))


class BertScore(ComparingTool):
    """Greedy matching of contextual token embeddings (Zhang et al., 2020).

    Equal to the package bert-score without weighting by rarity and without rescaling by a baseline:
    as there, a token may match a special token of the other text, but special tokens count for
    nothing themselves. Long texts are embedded in windows, none is cut off.

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
        # Which layer agrees best with people was measured per encoder, by the authors.
        if layer is None and model == DEFAULT_ENCODER:
            layer = 17
        super().__init__(name, model, layer=layer, **options)
        self.measure_ = measure
        self.scale = (-1.0, 1.0)
        self.description = (
            "BERTScore: likeness in meaning of the words of output and closest reference (the"
            " source where there is no reference), -1 to 1 and in practice 0.8 to 1; higher is"
            " closer. Forgives paraphrase, misses small facts."
        )

    def settings(self) -> Mapping[str, object]:
        """Model, layer and measure."""
        return {**super().settings(), "measure": self.measure_, "special": "matched"}

    async def compare(
        self, engine: Engine, output: str, texts: tuple[str, ...], against: str
    ) -> Measurement | Abstention:
        """Match against every target and keep the best F1."""
        parts = await asyncio.to_thread(
            lambda: [windowed(engine, text, self.splitter) for text in (output, *texts)]
        )
        answers = iter(await self.ask(engine, [encoding for part in parts for encoding in part]))
        embedded = [TokenStates.of(part, [next(answers) for _ in part]) for part in parts]
        if not all(len(one.own) for one in embedded):
            return Abstention(
                type="NoTokens",
                message=f"{self.name}: the model's vocabulary has no word of one of the texts",
            )
        matches = await asyncio.to_thread(
            lambda: [greedy_match(embedded[0], other) for other in embedded[1:]]
        )
        # By F1 whatever is reported, as bert-score does: precision alone would favor the longest
        # reference.
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
    precision, recall = _best(output.own, other.candidates), _best(other.own, output.candidates)
    return Match(precision, recall, f1_score(precision, recall))


def _best(tokens: Array, candidates: Array) -> float:
    """Return the mean over tokens of the highest cosine with a candidate."""
    # Candidates hold special tokens, rows do not: bert-score masks them on one side only.
    return float((unit(tokens) @ unit(candidates).T).max(axis=1).mean())


DEFAULT_BLEURT = "lucadiliello/BLEURT-20@e22b9eb071dcb939da9fff08b20a7e746c72a830"
"""The checkpoint used if none is named; 579 million parameters."""


class Bleurt(ComparingTool):
    """A regressor trained on ratings of how well a candidate says what a reference says.

    Sellam et al. (2020), Pu et al. (2021). With the source in the reference's place, as Fusion-Eval
    uses it, it is used outside of what it was trained for; such scores are marked. Texts longer
    than the input are read in windows.

    Args:
        model: A checkpoint with one output: a folder or a Hub id with a revision.
        combine: What several references give: the best or the mean.
    """

    kind: ClassVar[str] = "bleurt"
    head: ClassVar[Head] = "classify"

    def __init__(
        self,
        name: str = "bleurt",
        model: str = DEFAULT_BLEURT,
        *,
        combine: Literal["best", "mean"] = "best",
        **options: Unpack[ComparingOptions],
    ) -> None:
        super().__init__(name, model, **options)
        self.combine = combine
        compared = {
            "auto": (
                "the references, or where there are none the source (fact and conversation in"
                " dialogue)"
            ),
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
        """Model and treatment of several references."""
        return {**super().settings(), "refs": self.combine}

    async def compare(
        self, engine: Engine, output: str, texts: tuple[str, ...], against: str
    ) -> Measurement:
        """Score against every target; with windows, the mean over parts of the best window."""
        plans = await asyncio.to_thread(
            lambda: [self._plan(engine, text, output) for text in texts]
        )
        answers = await self.ask(
            engine, [encoding for plan in plans for _, row in plan for encoding in row]
        )
        # Any classifier loads; only its number of outputs shows that it is no regressor.
        if answers[0].size != 1:
            raise ConfigurationError(
                f"{engine.label} is not a regressor: it has {answers[0].size} outputs, BLEURT has"
                " one"
            )
        found, values = iter(answers), []
        for plan in plans:
            parts = [max(float(next(found)[0]) for _ in row) for _, row in plan]
            values.append(math.fsum(parts) / len(parts))
        value = max(values) if self.combine == "best" else math.fsum(values) / len(values)
        windows = sum(len(row) for plan in plans for _, row in plan)
        compared = (
            f"{len(texts)} references"
            if against == "references"
            else f"{against} in place of a reference"
        )
        return Measurement(
            value=value,
            explanation=f"{compared}, {windows} windows",
            evidence=(
                tuple({"text": text, "bleurt": v} for text, v in zip(texts, values, strict=True))
                if against == "references"
                else ()
            ),
            signature_parts={"against": against},
        )

    def _plan(
        self, engine: Engine, reference: str, output: str
    ) -> list[tuple[str, list[Encoding]]]:
        """Return every part of the output with its pairs, one for each window of the reference."""
        tokenizer = engine.tokenizer
        room = (engine.max_tokens or 10**6) - tokenizer.special_tokens(pair=True)
        if tokenizer.count(reference) + tokenizer.count(output) <= room:
            return [(output, [tokenizer.encode(reference, output)])]
        # Half of the input for the output's part, so that a window of the reference always has room
        # beside it.
        parts = pack_sentences(self.splitter.split(output), tokenizer.count, max(1, room // 2))
        limit = max(1, room - max(map(tokenizer.count, parts)))
        # With an overlap, what spans two sentences of the reference is whole in one of the windows.
        windows = pack_sentences(self.splitter.split(reference), tokenizer.count, limit, overlap=1)
        return [(part, [tokenizer.encode(window, part) for window in windows]) for part in parts]


def describe_scale(model: str) -> str:
    """Return what is known of the scale of a checkpoint, by its name."""
    low = model.lower()
    if "bleurt-20" in low:
        return "About 0 to 1, seldom beyond."
    if any(size in low for size in ("bleurt-tiny", "bleurt-base", "bleurt-large")):
        return "About -2 to 1, centered near 0."
    return "The scale is that of the ratings the checkpoint was trained on."


DEFAULT_UNIEVAL = {
    "summarization": "MingZhong/unieval-sum",
    "data-to-text": "MingZhong/unieval-sum",
    "dialogue": "MingZhong/unieval-dialog",
    "fact": "MingZhong/unieval-fact",
}
"""The published models by task."""

InputPart = Literal["source", "context", "references"]


class BooleanQuestion(NamedTuple):
    """What is asked about an aspect."""

    text: str
    output_label: str
    """How the output is introduced."""
    others: tuple[tuple[str, InputPart], ...] = ()
    """Further texts with how they are introduced."""
    sentences: Literal["whole", "mean", "sum"] = "whole"
    """Whether the output is judged sentence by sentence, and how the values are put together."""


_DOCUMENT: tuple[str, InputPart] = ("document", "source")
_HISTORY: tuple[str, InputPart] = ("dialogue history", "source")
_FACT: tuple[str, InputPart] = ("fact", "context")
_REFERENCE: tuple[str, InputPart] = ("reference", "references")
_CONSISTENCY = BooleanQuestion(
    "Is this claim consistent with the document?", "claim", (_DOCUMENT,), "mean"
)

QUESTIONS: dict[tuple[str, str], BooleanQuestion] = {
    ("summarization", "coherence"): BooleanQuestion(
        "Is this a coherent summary to the document?", "summary", (_DOCUMENT,)
    ),
    ("summarization", "consistency"): _CONSISTENCY,
    ("summarization", "fluency"): BooleanQuestion(
        "Is this a fluent paragraph?", "paragraph", (), "mean"
    ),
    ("summarization", "relevance"): BooleanQuestion(
        "Is this summary relevant to the reference?", "summary", (_REFERENCE,)
    ),
    ("dialogue", "naturalness"): BooleanQuestion(
        "Is this a natural response in the dialogue?", "response"
    ),
    ("dialogue", "coherence"): BooleanQuestion(
        "Is this a coherent response given the dialogue history?", "response", (_HISTORY,)
    ),
    ("dialogue", "engagingness"): BooleanQuestion(
        "Is this an engaging and informative response according to the dialogue history and fact?",
        "response",
        (_HISTORY, _FACT),
        "sum",
    ),
    ("dialogue", "groundedness"): BooleanQuestion(
        "Is this response consistent with knowledge in the fact?", "response", (_FACT,)
    ),
    ("dialogue", "understandability"): BooleanQuestion(
        "Is this an understandable response in the dialogue?", "response"
    ),
    ("data-to-text", "naturalness"): BooleanQuestion("Is this a fluent utterance?", "utterance"),
    ("data-to-text", "informativeness"): BooleanQuestion(
        "Is this sentence informative according to the reference?", "sentence", (_REFERENCE,)
    ),
    ("fact", "consistency"): _CONSISTENCY,
}
"""Questions by task and aspect."""


class UniEval(ModelTool):
    """A T5 model that answers a yes/no question about an aspect of a text (Zhong et al., 2022).

    The value is P(Yes) / (P(Yes) + P(No)) of the answer's first token. The questions are the
    published models' own: they were trained on these words, so others would give other numbers. If
    the paper asks sentence by sentence, the values are averaged (summed for engagingness). Inputs
    are read whole; the paper cuts them at 1,024 tokens.

    Args:
        model: An encoder-decoder model: a folder or a Hub id; the published one of the task
            if left out.
        task: `summarization`, `dialogue`, `data-to-text` or `fact`.
        aspect: One of the task's aspects; see `QUESTIONS`.
        max_tokens: Longest input that is tried, in tokens; T5 itself sets no limit, memory
            does.

    Raises:
        UnknownName: There is no such task, or no such aspect of the task.
    """

    kind: ClassVar[str] = "unieval"
    head: ClassVar[Head] = "answer"

    def __init__(
        self,
        name: str = "unieval",
        model: str | None = None,
        *,
        task: str = "summarization",
        aspect: str = "coherence",
        max_tokens: int = 8192,
        **options: Unpack[ModelOptions],
    ) -> None:
        tasks = list(dict.fromkeys(task for task, _ in QUESTIONS))
        if task not in tasks:
            raise UnknownName("task of UniEval", task, tasks)
        if (task, aspect) not in QUESTIONS:
            raise UnknownName(
                f"aspect of UniEval's {task}", aspect, [a for t, a in QUESTIONS if t == task]
            )
        super().__init__(name, model or DEFAULT_UNIEVAL[task], **options)
        self.task, self.aspect, self.max_tokens = task, aspect, max_tokens
        self.question = QUESTIONS[task, aspect]
        summed = self.question.sentences == "sum"
        self.scale = None if summed else (0.0, 1.0)
        self.needs: tuple[Need, ...] = tuple(part for _, part in self.question.others)
        self.description = (
            f"UniEval: how sure a T5 model answers yes to {self.question.text!r} about the output, "
            + ("summed over its sentences, from 0 without bound" if summed else "0 to 1")
            + "; higher is better."
        )

    def settings(self) -> Mapping[str, object]:
        """Model, task and aspect."""
        return {**super().settings(), "task": self.task, "aspect": self.aspect}

    async def measure(self, example: Example) -> Measurement | Abstention:
        """Ask about the output, or about each of its sentences."""
        engine = await self.runner.open()
        whole = self.question.sentences == "whole"
        texts = [example.output.strip()] if whole else self.splitter.split(example.output)
        encodings = await asyncio.to_thread(
            lambda: [self._encode(engine, text, example) for text in texts]
        )
        if (longest := max(map(len, encodings))) > self.max_tokens:
            raise ContextTooLong(
                f"{self.name}: {longest} tokens, but max_tokens is {self.max_tokens}"
            )
        yes, no = (answer_token(engine, word) for word in ("Yes", "No"))
        values = [p_yes(float(a[yes]), float(a[no])) for a in await self.runner.ask(encodings)]
        total = math.fsum(values)
        return Measurement(
            value=total if self.question.sentences == "sum" else total / len(values),
            evidence=tuple(
                {"text": text, "p_yes": p} for text, p in zip(texts, values, strict=True)
            ),
        )

    def _encode(self, engine: Engine, text: str, example: Example) -> Encoding:
        """Return the question, the output and the other texts, with an end mark after each."""
        # UniEval was trained on pieces joined by the text "</s>", which T5's tokenizer reads as the
        # end mark.
        end = engine.config.get("eos_token_id")
        if not isinstance(end, int):
            raise ConfigurationError(f"config.json of {engine.label} names no eos_token_id")
        given: dict[InputPart, str] = {
            "source": example.source or "",
            "context": example.context or "",
            "references": next(iter(references(example)), ""),
        }
        pieces = [f"question: {self.question.text}", f"{self.question.output_label}: {text}"]
        pieces += [f"{label}: {given[part].strip()}" for label, part in self.question.others]
        ids: list[int] = []
        for piece in pieces:
            # each piece by itself, so that an end mark written inside a text stays text
            ids += [*engine.tokenizer.encode_plain(piece), end]
        return Encoding(tuple(ids), (0,) * len(ids), (0,) * len(ids))


def answer_token(engine: Engine, word: str) -> int:
    """Return the first token of an answer."""
    ids = engine.tokenizer.encode_plain(word)
    if not ids or ids[0] == engine.tokenizer.unknown:
        raise ConfigurationError(
            f"the vocabulary of {engine.label} does not know {word!r}, so it is not a UniEval model"
        )
    return ids[0]


_PLACE = "{premise}"


class LMProb(TextTool):
    """exp(mean log P(token | premise, earlier tokens)), by a model that scores continuations.

    Args:
        model: Name of a model as `connect` takes it, such as `llamacpp/PATH.gguf`; opened at
            the first score.
        connected: A model that is open already, instead of `model`; the caller closes it.
        template: The prompt; `{premise}` stands for context and source. The output follows
            directly.
        unconditional: Whether the output is scored without a premise, after the template's
            other words.

    Raises:
        ConfigurationError: The template has no place for the premise.
    """

    kind: ClassVar[str] = "lm_prob"

    def __init__(
        self,
        name: str = "lm_prob",
        model: str | None = None,
        *,
        connected: Model | None = None,
        template: str = "{premise}\n",
        unconditional: bool = False,
    ) -> None:
        if not unconditional and template.count(_PLACE) != 1:
            raise ConfigurationError(
                f"the template of {name} needs {_PLACE} exactly once: {template!r}"
            )
        if model is not None and connected is not None:
            raise ConfigurationError(f"{name} takes a model's name or an open model, not both")
        self.name, self.model, self.connected = name, model, connected
        self.template, self.unconditional = template, unconditional
        self.scale = (0.0, 1.0)
        self.needs = () if unconditional else ("premise",)
        given = "" if unconditional else " given the source (fact and conversation in dialogue)"
        self.description = (
            f"Probability a language model gives to the output{given}, per token (geometric mean),"
            " 0 to 1; higher: more natural and expected in its place. Says little about facts."
        )
        self._opened: Model | None = None
        self._opening: asyncio.Lock = asyncio.Lock()
        self._closed = False

    def settings(self) -> Mapping[str, object]:
        """Model and template."""
        name = self.connected.name if self.connected else self.model
        return {
            "model": name,
            "template": repr(self.template),
            "unconditional": self.unconditional or None,
        }

    async def measure(self, example: Example) -> Measurement | Abstention:
        """Ask for the log-probabilities of the output's tokens."""
        model = await self._model()
        text = "" if self.unconditional else premise(example) or ""
        # Not `format`: other braces in a template are text.
        before, _, after = self.template.partition(_PLACE)
        request = ContinuationRequest(
            prompt=f"{before}{text}{after}", continuation=example.output.strip()
        )
        answer = await scoring(model, "continuation").continuation(request)
        mean = answer.logprob / len(answer.tokens)
        cut = (
            f"; {answer.truncated_tokens} tokens of the premise were left out"
            if answer.truncated_tokens
            else ""
        )
        return Measurement(
            value=min(1.0, math.exp(mean)),
            explanation=f"mean log-probability {mean:.4g} over {len(answer.tokens)} tokens{cut}",
            usage=answer.usage,
            signature_parts={"truncated": "yes"} if answer.truncated_tokens else {},
        )

    async def _model(self) -> Model:
        if self._closed:
            raise ModelClosed(f"the tool {self.name} was closed")
        if self.connected is not None:
            return self.connected
        if self.model is None:
            raise ConfigurationError(
                f"{self.name} needs a model: {self.name}:MODEL, such as lm_prob:llamacpp/PATH.gguf"
            )
        # Tools score examples side by side: without a lock each would load the model.
        async with self._opening:
            if self._opened is None:
                self._opened = await connect(self.model).__aenter__()
            return self._opened

    async def aclose(self) -> None:
        """Close the model that the tool opened itself; safe to call twice."""
        self._closed = True
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.aclose()

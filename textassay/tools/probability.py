"""Tools whose value is a probability that a model gives: of entailment, of a yes, or of a text.

NLI: does the source entail the output? Long sources are read in windows and outputs sentence by
sentence, as in SummaC (Laban et al., 2022): each pair gets P(entailment), each output sentence the
maximum over windows, the output the mean over its sentences.

MiniCheck (Tang et al. 2024, arXiv 2404.10774) asks whether a document supports a claim. Its models
are trained on single claims against chunks of a document; the best chunk counts. Their inputs are
one text with an end mark between document and claim, not the usual pair.

UniEval asks a yes/no question about the output. BARTScore and `LMProb` measure how likely the
output is, given its source. Fusion-Eval uses "the conditional probability of the response given the
fact and conversation", 0 to 1, and does not say how tokens are combined. We take exp of the mean
log-probability of the output's tokens, so that length does not decide.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from itertools import chain
from statistics import fmean
from typing import Any, ClassVar, Literal, NamedTuple, Unpack

import numpy as np

from textassay.runtime.api import connect
from textassay.runtime.errors import ConfigurationError, ContextTooLong, ModelClosed, UnknownName
from textassay.runtime.messages import Example
from textassay.runtime.model import ContinuationRequest, Model, scoring
from textassay.tools.engines import Array, Encoding, Head, ToolEngine, labels
from textassay.tools.model_tool import ModelOptions, ModelTool
from textassay.tools.text import pack_sentences, split_long
from textassay.tools.tool import Abstention, Measurement, Need, TextTool, references
from textassay.tools.tool import premise as premise_of


class NLI(ModelTool):
    """Probability that the output is entailed.

    Args:
        model: A sequence classifier with the label "entailment": a folder or a Hub id with a
            revision; the default has 184 million parameters (Apache-2.0).
        premise: The text that is the premise; the other is the hypothesis.
        window: Whether a window of the premise is one sentence, or as many as fit into
            `window_tokens`; with `none` premise and hypothesis are one pair, as in Fusion-Eval,
            which is cut at the end if it is too long for the model.
        window_tokens: Longest window of the premise; less if the model takes less.
        overlap: Sentences that a window of `tokens` repeats from the one before.
        hypothesis: Whether the hypothesis is judged sentence by sentence or as a whole.
    """

    kind: ClassVar[str] = "nli"
    head: ClassVar[Head] = "classify"
    measures: ClassVar[str] = "entailment"
    """Name of the probability in the evidence."""

    def __init__(
        self,
        name: str = "nli",
        model: str = "cross-encoder/nli-deberta-v3-base@6c749ce3425cd33b46d187e45b92bbf96ee12ec7",
        *,
        premise: Literal["source", "output"] = "source",
        window: Literal["sentence", "tokens", "none"] = "sentence",
        window_tokens: int = 400,
        overlap: int = 1,
        hypothesis: Literal["sentences", "whole"] = "sentences",
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(name, model, **options)
        self.premise, self.hypothesis, self.window = premise, hypothesis, window
        self.window_tokens, self.overlap = window_tokens, overlap
        self.scale, self.needs = (0.0, 1.0), ("premise",)
        texts = ("the source (fact and conversation in dialogue)", "the output")
        first, second = texts if premise == "source" else texts[::-1]
        self.description = (
            f"Probability, 0 to 1, that {first} as premise entails {second} as hypothesis, by a"
            " model of natural language inference; the best premise window for each hypothesis"
            " sentence, averaged over sentences. Close to 1: everything said is supported. Low:"
            " contradicted or made up."
        )

    def settings(self) -> Mapping[str, object]:
        size = f"{self.window_tokens}+{self.overlap}"
        return {
            **super().settings(),
            "premise": self.premise,
            "window": size if self.window == "tokens" else self.window,
            "hypothesis": self.hypothesis,
            "splitter": self.splitter.signature,
        }

    async def measure(self, example: Example) -> Measurement | Abstention:
        """Return the mean over hypothesis sentences of the maximum over premise windows."""
        engine = await self.runner.open()
        probability = self.reader(engine)
        texts = (premise_of(example) or "", example.output)
        pair = texts if self.premise == "source" else texts[::-1]
        windows, sentences, encodings = await asyncio.to_thread(self._pairs, engine, *pair)
        table = np.array([probability(logits) for logits in await self.ask(engine, encodings)])
        table = table.reshape(len(windows), len(sentences))
        best = table.max(axis=0)
        return Measurement(
            value=fmean(best),
            explanation=f"{len(windows)} premise windows, {len(sentences)} hypothesis sentences",
            evidence=tuple(
                {
                    "text": text,
                    self.measures: float(p),
                    "window": int(at),
                    "windows": len(windows),
                    "premise": shorten(windows[at]),
                }
                for text, p, at in zip(sentences, best, table.argmax(axis=0), strict=True)
            ),
        )

    def reader(self, engine: ToolEngine) -> Callable[[Array], float]:
        """Return the function from a model's logits to a probability."""
        entailment = entailment_index(engine.config, engine.label)
        return lambda logits: softmax_at(logits, entailment)

    def encode(self, engine: ToolEngine, premise: str, hypothesis: str) -> Encoding:
        """Return a pair as the model was trained on it."""
        return engine.tokenizer.encode(premise, hypothesis)

    def _pairs(
        self, engine: ToolEngine, first: str, second: str
    ) -> tuple[list[str], list[str], list[Encoding]]:
        """Return windows, hypotheses, and the pairs of them, window by window."""
        count, whole = engine.tokenizer.count, self.window == "none"
        room = (engine.max_tokens or 10**6) - engine.tokenizer.special_tokens(pair=True)
        by_sentence = self.hypothesis == "sentences" and not whole
        sentences = self.splitter.split(second) if by_sentence else [second.strip()]
        # a hypothesis may take half of the input; one that is longer is cut, and every part counts
        # as a sentence
        sentences = split_long(sentences, count, max(1, room // 2))[: 1 if whole else None]
        # the longest sentence decides, as each window is paired with every sentence
        room = max(1, room - max(map(count, sentences)))
        if whole:
            windows = split_long([first.strip()], count, room)[:1]
        else:
            parts, limit = self.splitter.split(first), max(1, min(self.window_tokens, room))
            windows = (
                split_long(parts, count, limit)
                if self.window == "sentence"
                else pack_sentences(parts, count, limit, overlap=self.overlap)
            )
        return windows, sentences, [self.encode(engine, w, s) for w in windows for s in sentences]


def entailment_index(config: Mapping[str, Any], label: str) -> int:
    """Return the index of a classifier's entailment output, read from `id2label`."""
    label_of = labels(config)
    indices = [index for index, name in label_of.items() if name.strip().lower() == "entailment"]
    if len(indices) != 1:
        # models order labels in two ways: by its place, contradiction might be taken for entailment
        names = ", ".join(label_of.values()) or "none"
        raise ConfigurationError(
            f"{label} is not an NLI model: among its labels ({names}) there is not one "
            "'entailment'; if it is one, name its labels in id2label of its config.json"
        )
    return indices[0]


def shorten(window: str) -> str:
    """Return the beginning of a window, as evidence shows it."""
    return window if len(window) <= 300 else f"{window[:299]}\u2026"


def softmax_at(logits: Array, index: int) -> float:
    """Return the probability of one of the labels."""
    shifted = np.exp(logits.astype(np.float64) - float(logits.max()))
    return float(shifted[index] / shifted.sum())


class MiniCheck(NLI):
    """Probability that the source supports the output, sentence by sentence.

    Args:
        model: A folder or a Hub id with a revision: a classifier of two labels, or an
            encoder-decoder.
        reads: Whether the model is a classifier (RoBERTa, DeBERTa) or answers with 1 or 0
            (Flan-T5).
        window_tokens: Longest chunk of the source.
    """

    kind: ClassVar[str] = "minicheck"
    measures: ClassVar[str] = "support"

    def __init__(
        self,
        name: str = "minicheck",
        model: str = "lytang/MiniCheck-DeBERTa-v3-Large",
        *,
        reads: Literal["labels", "answer"] = "labels",
        window_tokens: int = 400,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(
            name, model, window="tokens", window_tokens=window_tokens, overlap=0, **options
        )
        self.reads = reads
        if reads == "answer":
            # on the instance, since it depends on the model and not on the kind of tool
            self.head = "answer"  # type: ignore[misc]
        self.description = (
            "Probability, 0 to 1, that the source (fact and conversation in dialogue) supports what"
            " the output says, by a model trained on claims and documents; the best chunk of the"
            " source for each output sentence, averaged over sentences. Low: contradicted or made"
            " up."
        )

    def settings(self) -> Mapping[str, object]:
        return {**super().settings(), "reads": self.reads}

    def reader(self, engine: ToolEngine) -> Callable[[Array], float]:
        label = engine.label
        if self.reads == "answer":
            answers = answer_tokens(engine, "0", "1", kind="MiniCheck")
            return lambda logits: softmax_at(logits[answers], 1)
        names_by_index = labels(engine.config)
        # a config.json without labels means transformers' default, LABEL_0 and LABEL_1
        if names_by_index and len(names_by_index) != 2:
            names = ", ".join(names_by_index.values())
            raise ConfigurationError(
                f"{label} does not have two labels (it has {names}), so it is not a MiniCheck "
                "classifier; an NLI model goes with the tool nli, MiniCheck-Flan-T5 with "
                "reads=answer"
            )
        return lambda logits: softmax_at(logits, 1)

    def encode(self, engine: ToolEngine, premise: str, hypothesis: str) -> Encoding:
        """Return document and claim as one text with an end mark between them."""
        tokenizer = engine.tokenizer
        claim = tokenizer.encode_plain(hypothesis)
        if self.reads == "answer":
            end = end_mark(engine)
            return Encoding.plain(
                [*tokenizer.encode_plain(f"predict: {premise}"), end, *claim, end]
            )
        # [CLS] document [SEP], then claim [SEP] in the same segment
        first = tokenizer.encode(premise).ids
        return Encoding.plain([*first, *claim, first[-1]])


class EvalQuestion(NamedTuple):
    """The question about an aspect."""

    text: str
    output_label: str
    """Label of the output."""
    others: tuple[str, ...] = ()
    """Labels of further texts, of `_PARTS`."""
    sentences: Literal["whole", "mean", "sum"] = "whole"
    """Whether the output is judged sentence by sentence, and how the values are combined."""


_PARTS: dict[str, Need] = {
    "document": "source", "dialogue history": "source", "fact": "context",
    "reference": "references",
}  # fmt: skip
"""Fields of an example by UniEval's labels."""

QUESTIONS = {
    "summarization": {
        "coherence": EvalQuestion(
            "Is this a coherent summary to the document?", "summary", ("document",)
        ),
        "consistency": EvalQuestion(
            "Is this claim consistent with the document?", "claim", ("document",), "mean"
        ),
        "fluency": EvalQuestion("Is this a fluent paragraph?", "paragraph", (), "mean"),
        "relevance": EvalQuestion(
            "Is this summary relevant to the reference?", "summary", ("reference",)
        ),
    },
    "dialogue": {
        "naturalness": EvalQuestion("Is this a natural response in the dialogue?", "response"),
        "coherence": EvalQuestion(
            "Is this a coherent response given the dialogue history?",
            "response",
            ("dialogue history",),
        ),
        "engagingness": EvalQuestion(
            "Is this an engaging and informative response according to the dialogue history and"
            " fact?",
            "response",
            ("dialogue history", "fact"),
            "sum",
        ),
        "groundedness": EvalQuestion(
            "Is this response consistent with knowledge in the fact?", "response", ("fact",)
        ),
        "understandability": EvalQuestion(
            "Is this an understandable response in the dialogue?", "response"
        ),
    },
    "data-to-text": {
        "naturalness": EvalQuestion("Is this a fluent utterance?", "utterance"),
        "informativeness": EvalQuestion(
            "Is this sentence informative according to the reference?", "sentence", ("reference",)
        ),
    },
    "fact": {
        "consistency": EvalQuestion(
            "Is this claim consistent with the document?", "claim", ("document",), "mean"
        )
    },
}
"""Questions by task and aspect."""


class UniEval(ModelTool):
    """A T5 model that answers a yes/no question about an aspect of a text (Zhong et al., 2022).

    The value is P(Yes) / (P(Yes) + P(No)) of the answer's first token. The questions are the
    published models' own: they were trained on these words, so others would give other numbers. If
    the paper asks sentence by sentence, the values are averaged (summed for engagingness). Inputs
    are not cut; the paper cuts them at 1,024 tokens.

    Args:
        model: An encoder-decoder model: a folder or a Hub id; the published one of the task
            if left out.
        task: `summarization`, `dialogue`, `data-to-text` or `fact`.
        aspect: One of the task's aspects; see `QUESTIONS`.
        max_tokens: Longest input in tokens; T5 itself has no limit, but memory has.

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
        if task not in QUESTIONS:
            raise UnknownName("task of UniEval", task, list(QUESTIONS))
        if aspect not in QUESTIONS[task]:
            raise UnknownName(f"aspect of UniEval's {task}", aspect, list(QUESTIONS[task]))
        published = {"dialogue": "dialog", "fact": "fact"}.get(task, "sum")
        super().__init__(name, model or f"MingZhong/unieval-{published}", **options)
        self.task, self.aspect, self.max_tokens = task, aspect, max_tokens
        self.question = QUESTIONS[task][aspect]
        summed = self.question.sentences == "sum"
        self.scale = None if summed else (0.0, 1.0)
        self.needs: tuple[Need, ...] = tuple(_PARTS[label] for label in self.question.others)
        self.description = (
            f"UniEval: how sure a T5 model answers yes to {self.question.text!r} about the output, "
            + ("summed over its sentences, from 0 without bound" if summed else "0 to 1")
            + "; higher is better."
        )

    def settings(self) -> Mapping[str, object]:
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
        answers = answer_tokens(engine, "No", "Yes", kind="UniEval")
        values = [softmax_at(a[answers], 1) for a in await self.runner.ask(encodings)]
        return Measurement(
            value=math.fsum(values) if self.question.sentences == "sum" else fmean(values),
            evidence=tuple(
                {"text": text, "p_yes": p} for text, p in zip(texts, values, strict=True)
            ),
        )

    def _encode(self, engine: ToolEngine, text: str, example: Example) -> Encoding:
        """Return the question, the output and the other texts, with an end mark after each."""
        texts: dict[Need, str] = {
            "source": example.source or "",
            "context": example.context or "",
            "references": next(iter(references(example)), ""),
        }
        pieces = [f"question: {self.question.text}", f"{self.question.output_label}: {text}"]
        pieces += [f"{label}: {texts[_PARTS[label]].strip()}" for label in self.question.others]
        # UniEval was trained on pieces joined by the text "</s>", which T5's tokenizer reads as the
        # end mark; encoded piece by piece, so that "</s>" inside a text remains text
        encoded = [[*engine.tokenizer.encode_plain(piece), end_mark(engine)] for piece in pieces]
        return Encoding.plain(chain.from_iterable(encoded))


def end_mark(engine: ToolEngine) -> int:
    """Return the token that ends a text of an encoder-decoder model."""
    end = engine.config.get("eos_token_id")
    if not isinstance(end, int):
        raise ConfigurationError(f"config.json of {engine.label} has no eos_token_id")
    return end


def answer_tokens(engine: ToolEngine, no: str, yes: str, *, kind: str) -> list[int]:
    """Return the first tokens of two answers; a word may be several, as in the authors' code."""
    first = [engine.tokenizer.encode_plain(word)[:1] for word in (no, yes)]
    if [] in first or [engine.tokenizer.unknown] in first or first[0] == first[1]:
        raise ConfigurationError(
            f"the vocabulary of {engine.label} does not distinguish {yes} from {no}, so it is not a"
            f" {kind} model"
        )
    return [token for [token] in first]


class BartScore(ModelTool):
    """How likely an encoder-decoder model finds one text after another (Yuan et al., 2021).

    The value is the mean log-probability of the tokens of the scored text, with the marks at its
    beginning and end, after the text that the encoder reads: the authors' formula with all weights
    1. As in their code, both texts are cut at 1,024 tokens. Their own checkpoint `bart.pth`
    (BARTScore+CNN+Para) is a pickle and is not read.

    Args:
        model: An encoder-decoder model: a folder or a Hub id with a revision; the default is the
            paper's BARTScore-CNN, and `facebook/bart-large` its plain BARTScore.
        direction: `src-hypo` (faithfulness): the output after its source (context and source
            together); `ref-hypo` (precision): the output after a reference; `hypo-ref` (recall): a
            reference after the output; `f`: the mean of these two.
        over_references: How several references are combined.
        max_tokens: Tokens at which both texts are cut, marks included.
    """

    kind: ClassVar[str] = "bartscore"
    head: ClassVar[Head] = "likelihood"

    def __init__(
        self,
        name: str = "bartscore",
        model: str = "facebook/bart-large-cnn",
        *,
        direction: Literal["src-hypo", "ref-hypo", "hypo-ref", "f"] = "src-hypo",
        over_references: Literal["max", "mean"] = "max",
        max_tokens: int = 1024,
        **options: Unpack[ModelOptions],
    ) -> None:
        super().__init__(name, model, **options)
        self.direction, self.over_references = direction, over_references
        self.max_tokens = max_tokens
        self.needs = ("premise",) if direction == "src-hypo" else ("references",)
        conditional = {
            "src-hypo": "the output after its source",
            "ref-hypo": "the output after a reference",
            "hypo-ref": "a reference after the output",
            "f": "output and reference after each other",
        }[direction]
        self.description = (
            f"BARTScore: mean log-probability that a language model gives {conditional}, per token,"
            " at most 0 and in practice -6 to -1; higher is better. Long fluent copies do well."
        )

    def settings(self) -> Mapping[str, object]:
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
        # cut texts are marked, as their values are comparable only with each other
        cut = sum(lost for _, lost in encodings)
        return Measurement(
            value=best,
            explanation=f"{cut} tokens beyond {self.max_tokens} were cut off" if cut else None,
            signature_parts={"cut": "yes"} if cut else {},
        )

    def _pairs(self, example: Example) -> list[tuple[str, str]]:
        """Return the text that the encoder reads and the scored one, a pair for each value."""
        output = example.output.strip()
        if self.direction == "src-hypo":
            return [(premise_of(example) or "", output)]
        both = [[(reference, output), (output, reference)] for reference in references(example)]
        directions = {"ref-hypo": slice(1), "hypo-ref": slice(1, 2), "f": slice(2)}[self.direction]
        return [pair for pairs in both for pair in pairs[directions]]

    def _encode(self, engine: ToolEngine, first: str, second: str) -> tuple[Encoding, int]:
        """Return both texts as segments, and how many tokens were cut off."""
        limit = min(self.max_tokens, engine.max_tokens or self.max_tokens)
        ids: list[int] = []
        types: list[int] = []
        lost = 0
        for segment, text in enumerate((first, second)):
            encoded = engine.tokenizer.encode(text)
            kept_ids = list(encoded.ids)
            if len(kept_ids) > limit:
                lost += len(kept_ids) - limit
                # the mark at the end is kept, as when a tokenizer truncates
                end = encoded.special[-1]
                kept_ids = [*kept_ids[: limit - end], *kept_ids[len(kept_ids) - end :]]
            ids += kept_ids
            # the engine finds the border between the two texts by the segment
            types += [segment] * len(kept_ids)
        return Encoding(tuple(ids), tuple(types), (0,) * len(ids)), lost


class LMProb(TextTool):
    """exp(mean log P(token | premise, earlier tokens)), by a model that scores continuations.

    Args:
        model: Name of a model as `connect` takes it, such as `llamacpp/PATH.gguf`; opened at
            the first score.
        connected: A model that is open already, instead of `model`; the caller closes it.
        template: The prompt; `{premise}` is replaced by context and source. The output follows
            directly.

    Raises:
        ConfigurationError: The template has no place for the premise.
    """

    kind: ClassVar[str] = "lm_prob"
    description = (
        "Probability a language model gives to the output given the source (fact and conversation"
        " in dialogue), per token (geometric mean), 0 to 1; higher: more natural and expected in"
        " its place. Says little about facts."
    )
    scale, needs = (0.0, 1.0), ("premise",)

    def __init__(
        self,
        name: str = "lm_prob",
        model: str | None = None,
        *,
        connected: Model | None = None,
        template: str = "{premise}\n",
    ) -> None:
        if template.count("{premise}") != 1:
            raise ConfigurationError(
                f"the template of {name} needs {{premise}} exactly once: {template!r}"
            )
        if model and connected:
            raise ConfigurationError(f"{name} takes a model's name or an open model, not both")
        self.name, self.model, self.connected = name, model, connected
        self.template = template
        self._opened: Model | None = None
        self._opening: asyncio.Lock = asyncio.Lock()
        self._closed = False

    def settings(self) -> Mapping[str, object]:
        name = self.connected.name if self.connected else self.model
        return {"model": name, "template": repr(self.template)}

    async def measure(self, example: Example) -> Measurement | Abstention:
        model = await self._model()
        # not `format`: other braces in a template are text
        prompt = self.template.replace("{premise}", premise_of(example) or "")
        request = ContinuationRequest(prompt=prompt, continuation=example.output.strip())
        answer = await scoring(model, "continuation").continuation(request)
        mean = answer.logprob / len(answer.tokens)
        lost = answer.truncated_tokens
        cut = f"; {lost} tokens of the premise were left out" if lost else ""
        return Measurement(
            value=min(1.0, math.exp(mean)),
            explanation=f"mean log-probability {mean:.4g} over {len(answer.tokens)} tokens{cut}",
            usage=answer.usage,
            signature_parts={"truncated": "yes"} if lost else {},
        )

    async def _model(self) -> Model:
        if self._closed:
            raise ModelClosed(f"the tool {self.name} was closed")
        if self.connected:
            return self.connected
        if not self.model:
            raise ConfigurationError(
                f"{self.name} needs a model: {self.name}:MODEL, such as lm_prob:llamacpp/PATH.gguf"
            )
        # examples are scored at the same time: without a lock each would load the model
        async with self._opening:
            if not self._opened:
                self._opened = await connect(self.model).__aenter__()
            return self._opened

    async def aclose(self) -> None:
        """Close the model that the tool opened itself; safe to call twice."""
        self._closed = True
        opened, self._opened = self._opened, None
        if opened:
            await opened.aclose()

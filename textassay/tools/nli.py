"""Natural language inference: does the source entail the output?

Long sources are read in windows and outputs sentence by sentence, as in SummaC (Laban et al.,
2022): each pair gets P(entailment), each output sentence the maximum over windows, the output the
mean over its sentences.

MiniCheck (Tang et al. 2024, arXiv 2404.10774) asks whether a document supports a claim. Its models
are trained on single claims against chunks of a document; the best chunk counts. Their inputs are
one text with an end mark between document and claim, not the usual pair.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Unpack

import numpy as np

from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Example
from textassay.tools.engines import Array, Encoding, Engine, Head, labels
from textassay.tools.model_tool import ModelOptions, ModelTool, p_yes
from textassay.tools.text import pack_sentences, split_long
from textassay.tools.tool import Abstention, Measurement
from textassay.tools.tool import premise as premise_of

DEFAULT_NLI = "cross-encoder/nli-deberta-v3-base@6c749ce3425cd33b46d187e45b92bbf96ee12ec7"
"""The model used if none is named; 184 million parameters, Apache-2.0."""
MAX_PREMISE = 300
"""Characters of the best window that the evidence of a sentence shows."""
DEFAULT_MINICHECK = "lytang/MiniCheck-DeBERTa-v3-Large"
"""The model used if none is named."""
SUPPORTED, UNSUPPORTED = "1", "0"
"""Answers of the encoder-decoder model."""


class NLI(ModelTool):
    """Probability that the output is entailed.

    Args:
        model: A sequence classifier with the label "entailment": a folder or a Hub id with a
            revision.
        premise: Which text is the premise; the other is the hypothesis.
        window: Whether a window of the premise is one sentence, or as many as fit into
            `window_tokens`; `none` has premise and hypothesis as one pair, as Fusion-Eval has
            it, cut at the end if the model cannot take all of it.
        window_tokens: Longest window of the premise; less if the model takes less.
        overlap: Sentences that a window of `tokens` repeats from the one before.
        hypothesis: Whether the hypothesis is judged sentence by sentence or as a whole.
    """

    kind: ClassVar[str] = "nli"
    head: ClassVar[Head] = "classify"
    measures: ClassVar[str] = "entailment"
    """What the evidence calls the probability."""

    def __init__(
        self,
        name: str = "nli",
        model: str = DEFAULT_NLI,
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
        """Model, direction and windows."""
        return {
            **super().settings(),
            "premise": self.premise,
            "window": (
                self.window if self.window != "tokens" else f"{self.window_tokens}+{self.overlap}"
            ),
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
        evidence: tuple[dict[str, Any], ...] = tuple(
            {
                "text": text,
                self.measures: float(p),
                "window": int(at),
                "windows": len(windows),
                "premise": shorten(windows[int(at)]),
            }
            for text, p, at in zip(sentences, best, table.argmax(axis=0), strict=True)
        )
        return Measurement(
            value=math.fsum(best) / len(best),
            explanation=f"{len(windows)} premise windows, {len(sentences)} hypothesis sentences",
            evidence=evidence,
        )

    def reader(self, engine: Engine) -> Callable[[Array], float]:
        """Return what turns a model's logits into a probability."""
        entailment = entailment_index(engine.config, engine.label)
        return lambda logits: softmax_at(logits, entailment)

    def encode(self, engine: Engine, premise: str, hypothesis: str) -> Encoding:
        """Return a pair as the model was trained on it."""
        return engine.tokenizer.encode(premise, hypothesis)

    def _pairs(
        self, engine: Engine, first: str, second: str
    ) -> tuple[list[str], list[str], list[Encoding]]:
        """Return windows, hypotheses, and the pairs of them, window by window."""
        tokenizer = engine.tokenizer
        room = (engine.max_tokens or 10**6) - tokenizer.special_tokens(pair=True)
        if self.window == "none":
            whole = split_long([second.strip()], tokenizer.count, max(1, room // 2))[0]
            premise = split_long(
                [first.strip()], tokenizer.count, max(1, room - tokenizer.count(whole))
            )
            return [premise[0]], [whole], [self.encode(engine, premise[0], whole)]
        sentences = (
            self.splitter.split(second) if self.hypothesis == "sentences" else [second.strip()]
        )
        # a hypothesis may take half of the input; one that is longer is cut, and every part counts
        # as a sentence
        sentences = split_long(sentences, tokenizer.count, max(1, room // 2))
        # The longest sentence decides: each window is paired with every sentence.
        limit = max(1, min(self.window_tokens, room - max(map(tokenizer.count, sentences))))
        parts = self.splitter.split(first)
        windows = (
            split_long(parts, tokenizer.count, limit)
            if self.window == "sentence"
            else pack_sentences(parts, tokenizer.count, limit, overlap=self.overlap)
        )
        return windows, sentences, [self.encode(engine, w, s) for w in windows for s in sentences]


def entailment_index(config: Mapping[str, Any], label: str) -> int:
    """Return the index of a classifier's entailment output, read from `id2label`."""
    known = labels(config)
    indices = [index for index, name in known.items() if name.strip().lower() == "entailment"]
    if len(indices) != 1:
        # The order of labels differs between models (MNLI has two in use): taking one by its place
        # could report contradiction as entailment.
        names = ", ".join(known.values()) or "none"
        raise ConfigurationError(
            f"{label} is not an NLI model: among its labels ({names}) there is not one "
            "'entailment'; if it is one, name its labels in id2label of its config.json"
        )
    return indices[0]


def shorten(window: str) -> str:
    """Return the beginning of a window, as evidence shows it."""
    return window if len(window) <= MAX_PREMISE else f"{window[: MAX_PREMISE - 1]}\u2026"


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
        model: str = DEFAULT_MINICHECK,
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
        """Model, windows and what is read."""
        return {**super().settings(), "reads": self.reads}

    def reader(self, engine: Engine) -> Callable[[Array], float]:
        """Return what turns a model's logits into the probability of support."""
        label = engine.label
        if self.reads == "answer":
            # "0" alone may be two tokens, of which the first is read as in the authors' code
            yes, no = (engine.tokenizer.encode_plain(word) for word in (SUPPORTED, UNSUPPORTED))
            unknown = engine.tokenizer.unknown
            if not yes or not no or unknown in (yes[0], no[0]) or yes[0] == no[0]:
                raise ConfigurationError(
                    f"the vocabulary of {label} does not distinguish 1 from 0, so it is not a "
                    "MiniCheck model"
                )
            return lambda logits: p_yes(float(logits[yes[0]]), float(logits[no[0]]))
        known = labels(engine.config)
        # a config.json without labels stands for transformers' default, LABEL_0 and LABEL_1
        if known and len(known) != 2:
            names = ", ".join(known.values())
            raise ConfigurationError(
                f"{label} does not have two labels (it has {names}), so it is not a MiniCheck "
                "classifier; an NLI model goes with the tool nli, MiniCheck-Flan-T5 with "
                "reads=answer"
            )
        return lambda logits: softmax_at(logits, 1)

    def encode(self, engine: Engine, premise: str, hypothesis: str) -> Encoding:
        """Return document and claim as one text with an end mark between them."""
        tokenizer = engine.tokenizer
        claim = tokenizer.encode_plain(hypothesis)
        if self.reads == "answer":
            end = engine.config.get("eos_token_id")
            if not isinstance(end, int):
                raise ConfigurationError(f"config.json of {engine.label} has no eos_token_id")
            ids = [*tokenizer.encode_plain(f"predict: {premise}"), end, *claim, end]
        else:
            # [CLS] document [SEP], then claim [SEP] in the same segment
            first = tokenizer.encode(premise).ids
            ids = [*first, *claim, first[-1]]
        return Encoding(tuple(ids), (0,) * len(ids), (0,) * len(ids))

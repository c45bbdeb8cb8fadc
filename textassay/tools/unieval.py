"""UniEval (Zhong et al., 2022): a T5 model that answers yes/no questions about a text.

The value is P(Yes) / (P(Yes) + P(No)) of the answer's first token. The questions are the published
models' own: they were trained on these words, so others would give other numbers. If the paper
asks sentence by sentence, the values are averaged (summed for engagingness). Inputs are read whole;
the paper cuts them at 1,024 tokens.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

from textassay.runtime.errors import ConfigurationError, ContextTooLong, UnknownName
from textassay.runtime.messages import Example
from textassay.tools.engines.engine import Encoding, Engine, Head
from textassay.tools.model_tool import ModelTool, p_yes
from textassay.tools.text import DEFAULT_SPLITTER, SentenceSplitter
from textassay.tools.tool import Abstention, Measurement, Need, references

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
    """The answer of a UniEval model on one aspect."""

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
        device: str = "auto",
        batch_tokens: int = 8192,
        splitter: SentenceSplitter = DEFAULT_SPLITTER,
    ) -> None:
        """Keep the settings.

        Args:
            name: Name of the tool.
            model: An encoder-decoder model: a folder or a Hub id; the published one of the task
                if left out.
            task: `summarization`, `dialogue`, `data-to-text` or `fact`.
            aspect: One of the task's aspects; see `QUESTIONS`.
            max_tokens: Longest input that is tried, in tokens; T5 itself sets no limit, memory
                does.
            device: `cpu`, `cuda`, ...; `auto` takes a GPU when there is one.
            batch_tokens: Most tokens in a batch, padding included.
            splitter: Finds sentences.

        Raises:
            UnknownName: There is no such task, or no such aspect of the task.
        """
        tasks = list(dict.fromkeys(task for task, _ in QUESTIONS))
        if task not in tasks:
            raise UnknownName("task of UniEval", task, tasks)
        if (task, aspect) not in QUESTIONS:
            raise UnknownName(
                f"aspect of UniEval's {task}", aspect, [a for t, a in QUESTIONS if t == task]
            )
        super().__init__(
            name,
            model or DEFAULT_UNIEVAL[task],
            engine="transformers",
            device=device,
            batch_tokens=batch_tokens,
        )
        self.task, self.aspect, self.max_tokens, self.splitter = task, aspect, max_tokens, splitter
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
        yes, no = (answer_token(engine, word, self.runner.label) for word in ("Yes", "No"))
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
            raise ConfigurationError(f"config.json of {self.runner.label} names no eos_token_id")
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


def answer_token(engine: Engine, word: str, label: str) -> int:
    """Return the first token of an answer.

    Raises:
        ConfigurationError: The vocabulary does not know the word.
    """
    ids = engine.tokenizer.encode_plain(word)
    if not ids or ids[0] == engine.tokenizer.unknown:
        raise ConfigurationError(
            f"the vocabulary of {label} does not know {word!r}, so it is not a UniEval model"
        )
    return ids[0]

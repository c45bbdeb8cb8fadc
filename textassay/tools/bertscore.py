"""Greedy matching of contextual token embeddings, as in BERTScore (Zhang et al., 2020).

Equal to the package bert-score without weighting by rarity and without rescaling by a baseline: as
there, a token may match a special token of the other text, but special tokens count for nothing
themselves. Long texts are embedded in windows, none is cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

from textassay.tools.engines.engine import Array, Engine, EngineName, Head
from textassay.tools.model_tool import Against, ComparingTool, Windowed, unit, windowed
from textassay.tools.text import DEFAULT_SPLITTER, SentenceSplitter
from textassay.tools.tool import Abstention, Measurement

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
    """Their harmonic mean; the lower of the two if one is not positive."""


class TokenStates(NamedTuple):
    """The embeddings of one text."""

    own: Array
    """Of the text's own tokens, shape `(tokens, width)`."""
    candidates: Array
    """Those and the special tokens', which tokens of another text may match."""

    @classmethod
    def of(cls, text: Windowed, states: list[Array]) -> TokenStates:
        """Return the embeddings of a text that was read in windows."""
        return cls(text.token_states(states), text.all_states(states))


class BertScore(ComparingTool):
    """Greedy matching of token embeddings."""

    kind: ClassVar[str] = "bertscore"
    head: ClassVar[Head] = "encode"

    def __init__(
        self,
        name: str = "bertscore",
        model: str = DEFAULT_ENCODER,
        *,
        layer: int | None = None,
        measure: Literal["f", "p", "r"] = "f",
        against: Against = "auto",
        engine: EngineName = "auto",
        device: str = "auto",
        batch_tokens: int = 8192,
        splitter: SentenceSplitter = DEFAULT_SPLITTER,
    ) -> None:
        """Keep the settings.

        Args:
            name: Name of the tool.
            model: An encoder: a folder or a Hub id with a revision.
            layer: Layer whose states are compared; if `None` the last, and 17 for the default
                encoder.
            measure: F1, precision (is all of the output in the other text?) or recall.
            against: `references`, `source`, `context`, or `auto` for references if there are any
                and else the source.
            engine: `transformers`, `onnx`, or `auto`.
            device: `cpu`, `cuda`, ...; `auto` takes a GPU when there is one.
            batch_tokens: Most tokens in a batch, padding included.
            splitter: Finds sentences, if a text must be read in windows.
        """
        # Which layer agrees best with people was measured per encoder, by the authors.
        if layer is None and model == DEFAULT_ENCODER:
            layer = 17
        super().__init__(
            name,
            model,
            against=against,
            splitter=splitter,
            engine=engine,
            device=device,
            layer=layer,
            batch_tokens=batch_tokens,
        )
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
        answers = iter(
            await self.ask(engine, [encoding for part in parts for encoding in part.encodings])
        )
        embedded = [TokenStates.of(part, [next(answers) for _ in part.encodings]) for part in parts]
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
                f"{sum(len(p.encodings) for p in parts)} windows"
            ),
            signature_parts={"against": against},
        )


def greedy_match(output: TokenStates, other: TokenStates) -> Match:
    """Match the tokens of two texts greedily."""
    precision, recall = _best(output.own, other.candidates), _best(other.own, output.candidates)
    positive = precision > 0 and recall > 0
    f1 = 2 * precision * recall / (precision + recall) if positive else min(precision, recall)
    return Match(precision, recall, f1)


def _best(tokens: Array, candidates: Array) -> float:
    """Return the mean over tokens of the highest cosine with a candidate."""
    # Candidates hold special tokens, rows do not: bert-score masks them on one side only.
    return float((unit(tokens) @ unit(candidates).T).max(axis=1).mean())

"""BARTScore (Yuan et al., 2021): how likely an encoder-decoder model finds one text after another.

The value is the mean log-probability of the tokens of the text that is scored, the marks at its
beginning and end among them, after the text that the encoder reads: the authors' formula with all
weights 1. As theirs, both texts are cut at 1,024 tokens. Their own checkpoint `bart.pth`
(BARTScore+CNN+Para) is a pickle and is not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import ClassVar, Literal

from textassay.runtime.messages import Example
from textassay.tools.engines.engine import Encoding, Engine, Head
from textassay.tools.model_tool import ModelTool
from textassay.tools.tool import Measurement, premise, references

DEFAULT_BART = "facebook/bart-large-cnn"
"""The paper's BARTScore-CNN; `facebook/bart-large` is its plain BARTScore."""
Direction = Literal["src-hypo", "ref-hypo", "hypo-ref", "f"]
"""Which text is read and which is scored: faithfulness, precision, recall, or the mean of the last
two, as the paper calls them."""
MAX_TOKENS = 1024


class BartScore(ModelTool):
    """Mean log-probability of a text after another."""

    kind: ClassVar[str] = "bartscore"
    head: ClassVar[Head] = "likelihood"

    def __init__(
        self,
        name: str = "bartscore",
        model: str = DEFAULT_BART,
        *,
        direction: Direction = "src-hypo",
        over_references: Literal["max", "mean"] = "max",
        max_tokens: int = MAX_TOKENS,
        device: str = "auto",
        batch_tokens: int = 8192,
    ) -> None:
        """Keep the settings.

        Args:
            name: Name of the tool.
            model: An encoder-decoder model: a folder or a Hub id with a revision.
            direction: `src-hypo`: the output after its source (context and source together);
                `ref-hypo`: the output after a reference; `hypo-ref`: a reference after the output;
                `f`: the mean of these two.
            over_references: What counts of several references.
            max_tokens: Where both texts are cut, marks included.
            device: `cpu`, `cuda`, ...; `auto` takes a GPU when there is one.
            batch_tokens: Most tokens in a batch, padding included.
        """
        super().__init__(
            name, model, engine="transformers", device=device, batch_tokens=batch_tokens
        )
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
        pairs: list[tuple[str, str]] = []
        for reference in references(example):
            if self.direction in ("ref-hypo", "f"):
                pairs.append((reference, output))
            if self.direction in ("hypo-ref", "f"):
                pairs.append((output, reference))
        return pairs

    def _encode(self, engine: Engine, first: str, second: str) -> tuple[Encoding, int]:
        """Return both texts as segments, and how many tokens were cut off."""
        limit = min(self.max_tokens, engine.max_tokens or self.max_tokens)
        ids: list[int] = []
        special: list[int] = []
        types: list[int] = []
        lost = 0
        for segment, text in enumerate((first, second)):
            encoding = engine.tokenizer.encode(text)
            over = max(0, len(encoding) - limit)
            # the mark at the end stays, as when a tokenizer truncates
            end = 1 if over and encoding.special[-1] else 0
            kept = [*range(limit - end), *range(len(encoding) - end, len(encoding))]
            places = kept if over else range(len(encoding))
            ids += [encoding.ids[at] for at in places]
            special += [encoding.special[at] for at in places]
            # The engine finds the border between the two texts by the segment.
            types += [segment] * len(places)
            lost += over
        return Encoding(tuple(ids), tuple(types), tuple(special)), lost

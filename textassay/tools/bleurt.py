"""BLEURT: a regressor trained on human ratings of how well a candidate says what a reference says.

Sellam et al. (2020), Pu et al. (2021). With the source in the reference's place, as Fusion-Eval
uses it, it is used outside of what it was trained for; such scores are marked. Texts longer than
the input are read in windows.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np

from textassay.runtime.errors import ConfigurationError
from textassay.tools.engines.engine import Encoding, Engine, EngineName, Head
from textassay.tools.model_tool import Against, ComparingTool
from textassay.tools.text import DEFAULT_SPLITTER, SentenceSplitter, pack_sentences
from textassay.tools.tool import Measurement

DEFAULT_BLEURT = "lucadiliello/BLEURT-20@e22b9eb071dcb939da9fff08b20a7e746c72a830"
"""The checkpoint used if none is named; 579 million parameters."""


class Bleurt(ComparingTool):
    """What a BLEURT checkpoint gives for reference and output."""

    kind: ClassVar[str] = "bleurt"
    head: ClassVar[Head] = "classify"

    def __init__(
        self,
        name: str = "bleurt",
        model: str = DEFAULT_BLEURT,
        *,
        against: Against = "auto",
        combine: Literal["best", "mean"] = "best",
        engine: EngineName = "auto",
        device: str = "auto",
        batch_tokens: int = 8192,
        splitter: SentenceSplitter = DEFAULT_SPLITTER,
    ) -> None:
        """Keep the settings.

        Args:
            name: Name of the tool.
            model: A checkpoint with one output: a folder or a Hub id with a revision.
            against: `references`, `source`, `context`, or `auto` for references if there are any
                and else the source.
            combine: What several references give: the best or the mean.
            engine: `transformers`, `onnx`, or `auto`.
            device: `cpu`, `cuda`, ...; `auto` takes a GPU when there is one.
            batch_tokens: Most tokens in a batch, padding included.
            splitter: Finds sentences, if a text must be read in windows.
        """
        super().__init__(
            name,
            model,
            against=against,
            splitter=splitter,
            engine=engine,
            device=device,
            batch_tokens=batch_tokens,
        )
        self.combine = combine
        compared = {
            "auto": (
                "the references, or where there are none the source (fact and conversation in"
                " dialogue)"
            ),
            "references": "the references",
            "source": "the source (fact and conversation in dialogue) in a reference's place",
            "context": "the context in a reference's place",
        }[against]
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
        """Score against every target.

        With windows, the value is the mean over the output's parts of the best reference window.
        """
        plans = await asyncio.to_thread(
            lambda: [self._plan(engine, text, output) for text in texts]
        )
        answers = await self.ask(
            engine, [encoding for plan in plans for _, row in plan for encoding in row]
        )
        # Any classifier loads; only its number of outputs shows that it is no regressor.
        one_output(answers[0].shape, self.runner.label)
        values, at = [], 0
        for plan in plans:
            parts = []
            for _, row in plan:
                parts.append(max(float(a[0]) for a in answers[at : at + len(row)]))
                at += len(row)
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


def one_output(shape: tuple[int, ...], label: str) -> None:
    """Refuse a model that is no regressor.

    Raises:
        ConfigurationError: It has more than one output.
    """
    if int(np.prod(shape)) != 1:
        raise ConfigurationError(
            f"{label} is not a regressor: it has {int(np.prod(shape))} outputs, BLEURT has one"
        )

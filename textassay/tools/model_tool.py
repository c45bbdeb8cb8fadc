"""Bases of the tools that use a model: runner, windows of long texts, what is compared."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np

from textassay.runtime.errors import ContextTooLong, ModelClosed
from textassay.runtime.messages import Example
from textassay.tools.engines.engine import Array, Encoding, Engine, EngineName, Head
from textassay.tools.engines.runner import ModelKey, Runner, runner_for
from textassay.tools.text import SentenceSplitter, pack_sentences
from textassay.tools.tool import Abstention, Measurement, TextTool, premise, references

Against = Literal["auto", "references", "source", "context"]
"""What the output is compared with; `auto` takes the references if there are any, else the source
(context and source together), and says so. `context` is the example's context alone, such as the
fact that an answer should rest on."""


class ModelTool(TextTool):
    """A tool with a model; a subclass names the head it needs."""

    extra: ClassVar[str | None] = "nli"
    head: ClassVar[Head] = "classify"

    def __init__(
        self,
        name: str,
        model: str,
        *,
        engine: EngineName = "auto",
        device: str = "auto",
        layer: int | None = None,
        batch_tokens: int = 8192,
    ) -> None:
        self.name, self.model, self.engine, self.device = name, model, engine, device
        self.layer, self.batch_tokens = layer, batch_tokens
        self._runner: Runner | None = None
        self._closed = False

    @property
    def runner(self) -> Runner:
        """What runs the model; shared with other tools that name the same model alike."""
        if self._closed:
            raise ModelClosed(f"the tool {self.name} was closed")
        if self._runner is None:
            self._runner = runner_for(
                ModelKey(
                    self.model,
                    self.head,
                    self.engine,
                    self.device,
                    self.layer,
                    self.batch_tokens,
                )
            )
        return self._runner

    def settings(self) -> Mapping[str, object]:
        """The model as named, and once loaded with its commit or digest and its engine."""
        return {"model": self._runner.label if self._runner else self.model, "layer": self.layer}

    async def ask(self, engine: Engine, encodings: Sequence[Encoding]) -> list[Array]:
        """Run the model on inputs."""
        longest = max(map(len, encodings), default=0)
        if engine.max_tokens is not None and longest > engine.max_tokens:
            raise ContextTooLong(
                f"{self.name}: {longest} tokens, but the model takes {engine.max_tokens}"
            )
        return await self.runner.ask(encodings)

    async def prepare(self, *, load: bool = True) -> None:
        """Find out whether the model can be used, and load it; see `Preparable`."""
        await asyncio.to_thread(self.runner.check)
        if load:
            await self.runner.open()

    async def aclose(self) -> None:
        """Free the model unless another tool uses it; safe to call twice."""
        self._closed = True
        # Given up before the await, so that a second call releases nothing twice.
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.release()


class ComparingTool(ModelTool):
    """A tool with a model that compares two texts; a subclass says how."""

    def __init__(
        self,
        name: str,
        model: str,
        *,
        against: Against,
        splitter: SentenceSplitter,
        engine: EngineName,
        device: str,
        layer: int | None = None,
        batch_tokens: int,
    ) -> None:
        super().__init__(
            name, model, engine=engine, device=device, layer=layer, batch_tokens=batch_tokens
        )
        self.against, self.splitter = against, splitter
        # With `auto` nothing is required: what is missing shows per example, as an abstention.
        if against != "auto":
            self.needs = ("premise" if against == "source" else against,)

    async def measure(self, example: Example) -> Measurement | Abstention:
        """Compare the output with every target, or say that there is none."""
        compared = targets(self.name, example, self.against)
        if isinstance(compared, Abstention):
            return compared
        texts, against = compared
        return await self.compare(await self.runner.open(), example.output, texts, against)

    @abstractmethod
    async def compare(
        self, engine: Engine, output: str, texts: tuple[str, ...], against: str
    ) -> Measurement | Abstention:
        """Compare an output with texts.

        Args:
            engine: The model.
            output: What is measured.
            texts: One or more to compare it with.
            against: Whether they are the `references`, the `source` or the `context`.
        """


def targets(
    name: str, example: Example, against: Against
) -> tuple[tuple[str, ...], str] | Abstention:
    """Return the texts to compare an output with, and their kind.

    The kind is `references`, `source` or `context`.
    """
    if against == "context":
        if example.context and example.context.strip():
            return (example.context.strip(),), "context"
        return Abstention(
            type="MissingContext",
            message=f"{name} needs a context, which this example does not have",
        )
    # References first: they say what was wanted, the source only what there was.
    known = references(example) if against != "source" else ()
    if known:
        return known, "references"
    text = premise(example) if against != "references" else None
    if text is not None:
        return (text,), "source"
    if against == "source":
        return Abstention(
            type="MissingSource", message=f"{name} needs a source, which this example does not have"
        )
    needed = "references" if against == "references" else "references or a source"
    return Abstention(
        type="MissingReferences", message=f"{name} needs {needed}, which this example does not have"
    )


def windowed(
    engine: Engine, text: str, splitter: SentenceSplitter, *, longest: int | None = None
) -> tuple[Encoding, ...]:
    """Cut a text into inputs that the model takes; one if it fits."""
    tokenizer = engine.tokenizer
    if engine.max_tokens is None and longest is None:
        return (tokenizer.encode(text),)
    room = min(n for n in (engine.max_tokens, longest) if n is not None) - tokenizer.special_tokens(
        pair=False
    )
    texts = (
        [text]
        if tokenizer.count(text) <= room
        else pack_sentences(splitter.split(text), tokenizer.count, max(1, room))
    )
    return tuple(tokenizer.encode(part) for part in texts)


def unit(vectors: Array) -> Array:
    """Return vectors scaled to length 1; a zero vector stays zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths == 0, 1, lengths), dtype=np.float32)


def p_yes(yes: float, no: float) -> float:
    """Return P(yes) / (P(yes) + P(no)) from two logits."""
    # Beyond 709 the exponential overflows; the result is 0 or 1 long before.
    return float(1 / (1 + np.exp(np.clip(no - yes, -700, 700))))

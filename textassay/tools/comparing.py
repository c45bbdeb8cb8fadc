"""Base of the tools that compare an output with its references or its source by a model."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

from textassay.runtime.messages import Example
from textassay.tools.engines.engine import Engine, EngineName
from textassay.tools.model_tool import ModelTool
from textassay.tools.sentences import SentenceSplitter
from textassay.tools.tool import Abstention, Measurement, premise, references

Against = Literal["auto", "references", "source", "context"]
"""What the output is compared with; `auto` takes the references if there are any, else the source
(context and source together), and says so. `context` is the example's context alone, such as the
fact that an answer should rest on."""


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
        """Keep what to compare with, and which model to use.

        Args:
            name: Name of the tool.
            model: A folder, or a Hub id with a revision.
            against: `references`, `source`, `context`, or `auto` for references if there are any
                and else the source.
            splitter: Finds sentences, if a text must be read in windows.
            engine: `transformers`, `onnx`, or `auto`.
            device: `cpu`, `cuda`, ...; `auto` takes a GPU when there is one.
            layer: Layer whose states are read, if the tool reads states; the last if `None`.
            batch_tokens: Most tokens in a batch, padding included.
        """
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

    Args:
        name: Name of the tool, for the reason if there is nothing to compare with.
        example: The example.
        against: What is wanted.
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

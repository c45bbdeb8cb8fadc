"""Base of the tools that use a transformer model, with a runner that is shared if possible."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import ClassVar

from textassay.runtime.errors import ContextTooLong, ModelClosed
from textassay.tools.engines.engine import Array, Encoding, Engine, EngineName, Head
from textassay.tools.engines.runner import ModelKey, Runner, runner_for
from textassay.tools.tool import TextTool


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
        """Keep which model to use; it is found and read at the first score.

        Args:
            name: Name of the tool.
            model: A folder, or a Hub id with a revision, such as `organization/name@commit`.
            engine: `transformers`, `onnx`, or `auto`.
            device: `cpu`, `cuda`, ...; `auto` takes a GPU when there is one.
            layer: Layer whose states are read, if the tool reads states; the last if `None`.
            batch_tokens: Most tokens in a batch, padding included.
        """
        self.name, self.model, self.engine, self.device = name, model, engine, device
        self.layer, self.batch_tokens = layer, batch_tokens
        self._runner: Runner | None = None
        self._closed = False

    @property
    def runner(self) -> Runner:
        """What runs the model; shared with other tools that name the same model alike.

        Raises:
            ModelClosed: The tool was closed.
        """
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
        """Run the model on inputs.

        Raises:
            ContextTooLong: An input does not fit into the model, and could not be cut to fit.
        """
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

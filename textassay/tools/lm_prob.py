"""Language-model probability: how likely the output is, given what it was made from.

Fusion-Eval uses "the conditional probability of the response given the fact and conversation", 0 to
1, and does not say how tokens are put together. Our reading: exp of the mean log-probability of the
output's tokens, so that length does not decide.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import ClassVar

from textassay.runtime.connected import connect
from textassay.runtime.errors import ConfigurationError, ModelClosed
from textassay.runtime.messages import Example
from textassay.runtime.model import ContinuationRequest, Model, scoring
from textassay.tools.tool import Abstention, Measurement, TextTool, premise

_PLACE = "{premise}"


class LMProb(TextTool):
    """exp(mean log P(token | premise, earlier tokens)), by a model that scores continuations."""

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
        """Keep the settings.

        Args:
            name: Name of the tool.
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

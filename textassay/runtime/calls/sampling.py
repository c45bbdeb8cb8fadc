"""Requests several samples one by one if a model returns only one per request."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import cached_property
from typing import Any

from textassay.runtime.errors import CapabilityError
from textassay.runtime.messages import Usage
from textassay.runtime.model import Capabilities, Request, Response, Wrapper

MAX_SAMPLES_PER_DRAW = 1000
"""Sample i of a request with draw d becomes draw `1000 * d + i`, so that no two samples of one
prompt share a draw."""


class OneSamplePerRequest(Wrapper):
    """Splits a request for `n` samples into `n` concurrent ones if the model gives one each.

    Request by request, sample `i` (from 0) of draw `d` is asked as draw `1000 d + i` with `n = 1`;
    a request for one sample is renumbered in the same way, so whatever mixture of `n` and `draw` is
    asked for one prompt, two samples have equal draws only if they have equal `d` and `i`. Asking
    for more samples of the same draw thereby repeats the first ones, which a cache answers. Unless
    the model is known to be unable, nothing is changed.
    """

    @cached_property
    def _splits(self) -> bool:
        """Whether the model gives one sample per request, as far as known before the first call."""
        return self.wrapped.capabilities.n is False

    @property
    def capabilities(self) -> Capabilities:
        """The wrapped model's, with several samples."""
        own = self.wrapped.capabilities
        return own.model_copy(update={"n": True}) if own.n is False else own

    def generate(self, request: Request) -> Coroutine[Any, Any, Response]:
        """Answer, sample by sample if needed; the first failure cancels the other samples.

        Raises:
            CapabilityError: More than 1,000 samples are asked for.
        """
        # Not `async`: with a model that takes `n`, this wrapper adds no coroutine of its own.
        return self._split(request) if self._splits else self.wrapped.generate(request)

    async def _split(self, request: Request) -> Response:
        if request.n > MAX_SAMPLES_PER_DRAW:
            raise CapabilityError(
                f"{self.name} returns one sample per request; n={request.n} is above"
                f" {MAX_SAMPLES_PER_DRAW}"
            )
        first = MAX_SAMPLES_PER_DRAW * request.draw
        singles = [
            request.model_copy(update={"n": 1, "draw": first + index}) for index in range(request.n)
        ]
        if len(singles) == 1:
            return await self.wrapped.generate(singles[0])
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.wrapped.generate(single)) for single in singles]
        except BaseExceptionGroup as failures:
            # Wrappers further out decide by the class of an error, which a group would hide.
            raise failures.exceptions[0] from None
        return _joined([task.result() for task in tasks])


def _joined(responses: list[Response]) -> Response:
    """Return all samples as one response, in order, with the sum of usage."""
    return Response(
        samples=tuple(sample for response in responses for sample in response.samples),
        usage=sum((response.usage for response in responses), Usage()),
        model=responses[0].model,
    )

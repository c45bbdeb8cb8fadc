"""Draws several samples of one prompt from a model that returns one at a time."""

from __future__ import annotations

from collections.abc import Coroutine
from functools import cached_property
from typing import Any, cast

from textassay.runtime.base import NO_USAGE
from textassay.runtime.calls.call import Call, Wrapper
from textassay.runtime.concurrency import gather
from textassay.runtime.errors import CapabilityError
from textassay.runtime.model import AnyResponse, Capabilities, Request, Response

MAX_SAMPLES_PER_DRAW = 1000
"""Sample i of a request with draw d becomes draw `1000 * d + i`, so that no two samples of one
prompt share a draw. It is part of the keys of the cache, and no threshold: methods take it as the
most samples, 50 times the number in G-Eval (20, section 2.3)."""


class OneSamplePerRequest(Wrapper):
    """Splits a request for `n` samples into `n` concurrent ones if the model returns one each.

    Sample `i` (from 0) of draw `d` is requested as draw `1000 d + i` with `n = 1`, even if `n` is
    1. So two samples of a prompt have equal draws only if both `d` and `i` are equal, and a request
    for more samples of the same draw repeats the first ones, which a cache answers. Requests are
    unchanged unless the model is known to take no `n`.
    """

    @cached_property
    def _splits(self) -> bool:
        """Whether the model is known to return one sample per request."""
        return self.wrapped.capabilities.n is False

    @property
    def capabilities(self) -> Capabilities:
        """The wrapped model's, with several samples."""
        abilities = self.wrapped.capabilities
        return abilities.model_copy(update={"n": True}) if abilities.n is False else abilities

    def send(self, call: Call) -> Coroutine[Any, Any, AnyResponse]:
        """Answer, sample by sample if needed; the first failure cancels the other samples."""
        # not `async`, so that it adds no coroutine if the model takes `n`
        if self._splits and isinstance(call.request, Request):
            return self._split(call, call.request)
        return self._ask(call)

    async def _split(self, call: Call, request: Request) -> AnyResponse:
        if request.n > MAX_SAMPLES_PER_DRAW:
            raise CapabilityError(
                f"{self.name} returns one sample per request; n={request.n} is above"
                f" {MAX_SAMPLES_PER_DRAW}"
            )
        first = MAX_SAMPLES_PER_DRAW * request.draw
        singles = [
            call.with_request(request.model_copy(update={"n": 1, "draw": first + index}))
            for index in range(request.n)
        ]
        responses = [cast(Response, response) for response in await gather(map(self._ask, singles))]
        if len(responses) == 1:
            return responses[0]
        return Response(
            samples=tuple(sample for response in responses for sample in response.samples),
            usage=sum((response.usage for response in responses), NO_USAGE),
            model=responses[0].model,
        )

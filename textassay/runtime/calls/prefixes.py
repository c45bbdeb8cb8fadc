"""Sends the first request with a long prefix ahead of the others, so that they find it cached.

Providers keep what they have computed for the beginning of a prompt, and charge a part of the price
for prompts that begin in the same way: only once the first answer is there, though. Knows nothing
of how a server is told which part is worth keeping.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from textassay.runtime.calls.token_estimates import estimate_tokens
from textassay.runtime.model import A, AnyRequest, Model, Prompted, Q, Wrapper

MIN_TOKENS = 1024
"""Shortest prefix that most providers keep, in tokens."""

MAX_PREFIXES = 4096
"""Prefixes that are remembered; the oldest is forgotten first."""


class PrefixModel(Wrapper):
    """Holds requests back until the first one with the same prefix was answered.

    Inside of the cache: a request that is answered from disk computes no prefix anywhere.
    """

    def __init__(self, wrapped: Model) -> None:
        super().__init__(wrapped)
        self._first: dict[int, asyncio.Event] = {}

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Answer, behind the first request with this prefix."""
        if not is_worth_caching(request):
            return await call(request)
        prefix = hash(prefix_of(request))
        first = self._first.get(prefix)
        if first is not None:
            await first.wait()
            return await call(request)
        if len(self._first) >= MAX_PREFIXES:
            del self._first[next(iter(self._first))]
        self._first[prefix] = answered = asyncio.Event()
        try:
            return await call(request)
        finally:
            answered.set()


def prefix_of(request: Prompted) -> str:
    """Return the text that further requests begin with."""
    *before, last = request.messages
    shared = (*(message.content for message in before), last.content[: request.shared_prefix])
    if request.images:  # they stand before the text
        shared = (*(image.key for image in request.images), *shared)
    return "\n".join(shared)


def is_worth_caching(request: AnyRequest) -> bool:
    """Return whether a provider will keep what requests share."""
    # No estimate where it is too short for certain: a token has at least one byte.
    return request.shared_prefix > MIN_TOKENS and estimate_tokens(prefix_of(request)) >= MIN_TOKENS

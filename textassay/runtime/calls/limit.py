"""The wrapper that asks a model only when a limiter admits it.

Knows what errors of models mean for admission.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from textassay.runtime.calls.forecast import TokenForecast
from textassay.runtime.calls.limiter import Limiter, LimiterState, Permit
from textassay.runtime.errors import RateLimited, ServerFailed, TimedOut
from textassay.runtime.model import A, Model, Q, Wrapper

__all__ = ["LimitedModel", "Limiter", "LimiterState", "Permit"]

OVERLOADED = (503, 529)
"""HTTP statuses by which a server says that it has too much to do."""

MAX_PAUSE = 300.0
"""Seconds: the longest that one `Retry-After` stops everybody, so that an answer of "tomorrow"
comes to light."""


class LimitedModel(Wrapper):
    """Sends a request only when the limiter admits it, and reports the outcome to the limiter.

    Reserves the estimated tokens of the prompt and the longest answer (see `TokenForecast`), and
    settles with what the answer reports. An answer without a token count leaves the reservation as
    it is. A `Retry-After` stops everybody.
    """

    def __init__(self, wrapped: Model, limiter: Limiter) -> None:
        """Wrap a model; `limiter` may serve other wrappers, too."""
        super().__init__(wrapped)
        self.limiter = limiter
        self._forecast = TokenForecast()

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Answer once admitted."""
        # Estimating takes time in proportion to the text, and nobody needs it without a token
        # limit.
        tokens = 0
        if self.limiter.tpm is not None:
            tokens = self._forecast.prompt(request) + self._forecast.completion(request)
        async with self.limiter.admit(tokens) as grant:
            try:
                answer = await call(request)
            except (RateLimited, ServerFailed) as error:
                self._back_off(error, grant)
                raise
            except TimedOut:
                self.limiter.timed_out(grant)
                raise
            used = answer.usage.prompt_tokens + answer.usage.completion_tokens
            # A count of 0 means that the server reports none; settling with it would lift the
            # limit.
            if used:
                grant.settle(used)
                if self.limiter.tpm is not None:
                    self._forecast.learn(request, answer)
            return answer

    def _back_off(self, error: RateLimited | ServerFailed, grant: Permit) -> None:
        if isinstance(error, RateLimited) or error.status in OVERLOADED:
            self.limiter.rejected(grant)
        # All callers share the server's quota, so what one of them is asked to wait holds for
        # everybody.
        if error.retry_after is not None:
            self.limiter.pause(min(max(0.0, error.retry_after), MAX_PAUSE))

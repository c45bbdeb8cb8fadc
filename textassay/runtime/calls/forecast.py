"""Estimates a request's tokens, for limits and budgets that reserve before the call."""

from __future__ import annotations

from textassay.runtime.calls.token_estimates import estimate_tokens
from textassay.runtime.model import AnyRequest, AnyResponse, ContinuationRequest, Request


class TokenForecast:
    """Upper bounds of prompt and completion tokens.

    Learns how long answers are if requests set no limit.

    A sample is taken to be `max_tokens` long; if a request sets none, `DEFAULT` until the first
    answer has come, and then `HEADROOM` times the running mean of such answers (over about the last
    `MEMORY` of them).
    """

    DEFAULT = 256
    HEADROOM = 1.2
    MEMORY = 200

    def __init__(self) -> None:
        self._mean = 0.0
        self._seen = 0

    def prompt(self, request: AnyRequest) -> int:
        """Return the estimated tokens of what is sent."""
        if isinstance(request, ContinuationRequest):
            return estimate_tokens(request.text) + estimate_tokens(request.continuation)
        return estimate_tokens(request.text)

    def completion(self, request: AnyRequest) -> int:
        """Return the expected tokens over all samples; 1 for requests that score given text."""
        if not isinstance(request, Request):
            return 1
        if request.max_tokens is not None:
            return request.n * request.max_tokens
        each = self.HEADROOM * self._mean if self._seen else self.DEFAULT
        return max(1, round(request.n * each))

    def learn(self, request: AnyRequest, answer: AnyResponse) -> None:
        """Take into account how long an answer was; one that reports no tokens teaches nothing."""
        tokens = answer.usage.completion_tokens
        if isinstance(request, Request) and request.max_tokens is None and tokens > 0:
            # A count that stops growing turns the running mean into an exponential one: old answers
            # fade.
            self._seen = min(self._seen + 1, self.MEMORY)
            self._mean += (tokens / request.n - self._mean) / self._seen

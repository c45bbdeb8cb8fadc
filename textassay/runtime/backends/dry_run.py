"""A backend for dry runs: it answers every request without asking any model."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from textassay.runtime.calls.token_estimates import estimate_tokens
from textassay.runtime.messages import Price, Usage, cost_at
from textassay.runtime.model import (
    Capabilities,
    ChoicesRequest,
    ChoicesResponse,
    ContinuationRequest,
    ContinuationResponse,
    Model,
    Request,
    Response,
    Sample,
    TokenLogprob,
)

ASSUMED_ANSWER_TOKENS = 256
ASSUMED_THOUGHT_TOKENS = 600
"""Tokens of a thought, which cannot be known before: about the middle of published counts for short
judgments at medium effort."""


class DryRunModel:
    """Answers every request with its `dry_run_answer` and counts what would have been asked.

    Prompt tokens are estimates; completion tokens are the upper bound `n * max_tokens` (256 a
    sample if a request sets none), and `ASSUMED_THOUGHT_TOKENS` more for each answer of a model
    that is known, or taken by its name, to think: those are its `reasoning_tokens`. Its
    identity is the real model's, so that answers which are in the cache already are not counted.
    """

    def __init__(self, real: Model, *, price: Price | None = None) -> None:
        """Stand in for `real`, which is never asked."""
        self._real, self._price = real, price

    @property
    def name(self) -> str:
        """The real model's name."""
        return self._real.name

    @property
    def identity(self) -> Mapping[str, Any]:
        """The real model's identity."""
        return self._real.identity

    @property
    def capabilities(self) -> Capabilities:
        """The real model's capabilities."""
        return self._real.capabilities

    def _usage(self, prompt: str, answer_tokens: int, thought_tokens: int = 0) -> Usage:
        prompt_tokens, cost = estimate_tokens(prompt), None
        completion_tokens = answer_tokens + thought_tokens
        if self._price is not None:
            cost = cost_at(self._price, prompt_tokens, completion_tokens)
        return Usage(
            calls=1,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            reasoning_tokens=thought_tokens,
            cost=cost,
        )

    async def generate(self, request: Request) -> Response:
        """Return `dry_run_answer` `n` times."""
        # Tokens that spell the answer, so that readers of log-probabilities run as they would.
        words = re.findall(r"\w+|\W", request.dry_run_answer)
        tokens = tuple(TokenLogprob(token=word, logprob=0.0, top=((word, 0.0),)) for word in words)
        sample = Sample(
            text=request.dry_run_answer, logprobs=None if request.logprobs is None else tokens
        )
        answer = (request.max_tokens or ASSUMED_ANSWER_TOKENS) - request.thought_allowance
        usage = self._usage(request.text, request.n * answer, request.n * _assumed_thought(request))
        return Response(samples=(sample,) * request.n, usage=usage)

    async def choices(self, request: ChoicesRequest) -> ChoicesResponse:
        """Return equal probabilities."""
        even = -math.log(len(request.choices))
        usage = self._usage(request.text, 1, _assumed_thought(request))
        return ChoicesResponse(logprobs=dict.fromkeys(request.choices, even), usage=usage)

    async def continuation(self, request: ContinuationRequest) -> ContinuationResponse:
        """Return a log-probability of -1 for every word."""
        words = re.findall(r"\w+|\W", request.continuation)
        # servers that refuse to answer with no token at all are asked for one
        usage = self._usage(request.text + request.continuation, 1)
        return ContinuationResponse(
            tokens=tuple(TokenLogprob(token=w, logprob=-1.0) for w in words), usage=usage
        )

    async def aclose(self) -> None:
        """Close the real model."""
        await self._real.aclose()


def _assumed_thought(request: Request | ChoicesRequest) -> int:
    # a model that is asked in batches gets tokens for a thought whether or not it is known to think
    return ASSUMED_THOUGHT_TOKENS if request.thought_allowance and not request.probing else 0

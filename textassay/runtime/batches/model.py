"""Wrapper that answers through batches within the budget, and by single calls if allowed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from textassay.runtime.batches.provider import BatchProvider
from textassay.runtime.batches.queue import BatchesSubmitted, BatchQueue
from textassay.runtime.calls.budget import Budget, BudgetedModel
from textassay.runtime.errors import ModelError
from textassay.runtime.messages import Price
from textassay.runtime.model import (
    A,
    Capabilities,
    ChoicesRequest,
    ContinuationRequest,
    Model,
    Q,
    Wrapper,
)

Fallback = Literal["live", "none"]


def discounted(price: Price | None, provider: BatchProvider) -> Price | None:
    """Return the price in batches of a provider."""
    return None if price is None else tuple(part * provider.discount for part in price)


class BatchAbilities(Wrapper):
    """A model that can do what it can do in batches, so that methods refuse the rest at once."""

    def __init__(self, wrapped: Model, provider: BatchProvider) -> None:
        """Wrap a model that is asked through batches of the provider."""
        super().__init__(wrapped)
        self._lacks = dict.fromkeys(provider.lacks, False)

    @property
    def capabilities(self) -> Capabilities:
        """The wrapped model's, without those that no model has in these batches."""
        return self.wrapped.capabilities.model_copy(update=self._lacks)


class BatchedModel(Wrapper):
    """Answers through batches; the wrapped model is asked only if a batch gave no answer."""

    def __init__(
        self,
        live: Model,
        queue: BatchQueue,
        *,
        budget: Budget,
        price: Price | None,
        fallback: Fallback = "none",
    ) -> None:
        """Wrap a model.

        Args:
            live: Answers single calls.
            queue: Answers through batches.
            budget: What may be spent; a request holds its part from when it is queued.
            price: The price in batches.
            fallback: Whether requests that no batch answered are sent as single calls.
        """
        super().__init__(live)
        # Around the queue, so that a request holds its part of the budget while its batch is under
        # way; the wrapped model has a budget wrapper of its own for what is asked singly.
        self._batched = BudgetedModel(queue, budget, price)
        self._fallback = fallback

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Answer through a batch, or by falling back.

        Raises:
            ModelError: There is no answer; `BatchesSubmitted` if there is none yet.
        """
        try:
            if isinstance(request, ChoicesRequest):
                return await self._batched.choices(request)  # type: ignore[return-value]
            if isinstance(request, ContinuationRequest):
                return await self._batched.continuation(request)  # type: ignore[return-value]
            return await self._batched.generate(request)  # type: ignore[return-value]
        except BatchesSubmitted:
            raise
        except ModelError as error:
            # What stops the run would stop it for the single call, too.
            if self._fallback == "none" or error.stops_run:
                raise
        return await call(request)

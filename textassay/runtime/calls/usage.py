"""Counts what answering costs: for a whole model, and for the piece of work that is being done.

A piece of work is whatever runs inside `with Metering()`, child tasks included; the ledger travels
in a context variable so that agents need not carry it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar, Token

from textassay.runtime.messages import Usage
from textassay.runtime.model import A, Model, Q, Wrapper


class Ledger:
    """A running sum of usages."""

    def __init__(self) -> None:
        """Start at nothing."""
        self.calls = self.cached_calls = self.prompt_tokens = self.completion_tokens = 0
        self.cost: float | None = 0.0

    def add(self, usage: Usage | Ledger) -> None:
        """Count one more usage, or all of another ledger; an unknown cost makes the sum's cost unknown."""
        self.calls += usage.calls
        self.cached_calls += usage.cached_calls
        self.prompt_tokens += usage.prompt_tokens
        self.completion_tokens += usage.completion_tokens
        self.cost = None if self.cost is None or usage.cost is None else self.cost + usage.cost

    def comes_to(self, usage: Usage) -> bool:
        """Return whether the sum so far is `usage`."""
        return (
            self.calls == usage.calls
            and self.cached_calls == usage.cached_calls
            and self.prompt_tokens == usage.prompt_tokens
            and self.completion_tokens == usage.completion_tokens
            and self.cost == usage.cost
        )

    @property
    def usage(self) -> Usage:
        """The sum so far."""
        return Usage(
            calls=self.calls,
            cached_calls=self.cached_calls,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            cost=self.cost,
        )


_current: ContextVar[Ledger | None] = ContextVar("textassay_ledger", default=None)


class Metering:
    """Gives a ledger that counts every call made inside the block, also by tasks started there."""

    _token: Token[Ledger | None]

    def __enter__(self) -> Ledger:
        """Count in a new ledger."""
        ledger = Ledger()
        self._token = _current.set(ledger)
        return ledger

    def __exit__(self, *_: object) -> None:
        """Count in the ledger that was there before."""
        _current.reset(self._token)


class MeteredModel(Wrapper):
    """Counts every answer in `total` and in the current ledger."""

    def __init__(self, wrapped: Model) -> None:
        """Wrap a model."""
        super().__init__(wrapped)
        self.total = Ledger()

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Answer and count."""
        response = await call(request)
        self.total.add(response.usage)
        ledger = _current.get()
        if ledger is not None:
            ledger.add(response.usage)
        return response

"""Counts what answering costs: for a whole model, and for the piece of work that is being done.

A piece of work is whatever runs inside `with track_usage()`, child tasks included; the ledger
travels in a context variable so that agents need not carry it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar, Token

from textassay.runtime.errors import BudgetReached, ModelError
from textassay.runtime.messages import Usage, UsageTotal
from textassay.runtime.model import A, Model, Q, Wrapper


class Ledger:
    """What the calls of a piece of work cost, in the order in which they were answered."""

    __slots__ = ("__weakref__", "usages")

    def __init__(self) -> None:
        self.usages: list[Usage] = []


_current: ContextVar[Ledger | None] = ContextVar("textassay_ledger", default=None)


class track_usage:
    """Gives a ledger of every call made inside the block, also by tasks started there."""

    _token: Token[Ledger | None]

    def __enter__(self) -> Ledger:
        ledger = Ledger()
        self._token = _current.set(ledger)
        return ledger

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def current_ledger() -> Ledger | None:
    """Return the ledger of the piece of work that the caller is part of, if it is part of one."""
    return _current.get()


class MeteredModel(Wrapper):
    """Counts every answer in `total` and in the current ledger."""

    def __init__(self, wrapped: Model) -> None:
        super().__init__(wrapped)
        self.total = UsageTotal()

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Answer and count; a failed request counts with the cost of its unusable answers."""
        try:
            response = await call(request)
        except (ModelError, BudgetReached) as error:
            # Providers bill answers that could not be used (cut off, filtered, not JSON).
            if error.usage is not None:
                self._count(error.usage)
            raise
        self._count(response.usage)
        return response

    def _count(self, usage: Usage) -> None:
        self.total.add(usage)
        ledger = _current.get()
        if ledger is not None:
            ledger.usages.append(usage)

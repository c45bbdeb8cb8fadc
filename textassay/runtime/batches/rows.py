"""What the lines of an ended batch say: which answers are kept, and why there are no others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from itertools import islice
from typing import Any

from textassay.runtime.backends import http_errors
from textassay.runtime.batches.book import KeyedRequest
from textassay.runtime.batches.provider import UNREADABLE, BatchResult, BatchStatus, ResultsGone
from textassay.runtime.errors import CapabilityError, ModelError, RequestRefused
from textassay.runtime.graph.concurrency import gather

ROWS_PER_COMMIT = 500

Keep = Callable[[KeyedRequest, Any], Awaitable[None]]
"""Keeps the answer to a request, in the format of the provider.

Raises a `ModelError` or `CapabilityError` if it cannot be used.
"""


class MissingAnswer(ModelError):
    """An ended batch says nothing of a request, which may have been paid for."""


class Rows:
    """What the lines of one batch say of its requests."""

    def __init__(self, requests: Mapping[str, KeyedRequest], keep: Keep) -> None:
        """Store the requests by their keys, and what keeps an answer."""
        self._requests, self._keep = requests, keep
        self.answered: set[str] = set()
        """Keys of requests whose answers are kept."""
        self.failed: dict[str, ModelError] = {}
        """Why others have none, by key."""
        self.unrun: set[str] = set()
        """Keys of requests that were certainly not run."""
        self.ignored = 0
        """Lines that are unknown, repeated or unreadable."""
        self.unreadable = 0
        self._lost: ModelError | None = None

    async def read(self, lines: AsyncIterator[BatchResult]) -> None:
        """Read all lines, and keep the answers among them.

        Raises:
            ModelError: They cannot be read to their end; what came before is kept.
            StorageError: The answers cannot be kept.
        """
        pending: dict[str, Any] = {}
        try:
            async for row in lines:
                if row.key not in self._requests or row.key in self.answered or row.key in pending:
                    self.ignored += 1
                    self.unreadable += row is UNREADABLE
                elif row.error is not None:
                    self.failed[row.key] = row.error
                    if row.unrun:
                        self.unrun.add(row.key)
                else:
                    pending[row.key] = row.payload
                    if len(pending) >= ROWS_PER_COMMIT:
                        await self._keep_all(pending)
        except ResultsGone as error:
            self._lost = error
        except ModelError:
            await self._keep_all(pending)  # what was read so far is paid for
            raise
        await self._keep_all(pending)

    def error_of(self, key: str, status: BatchStatus) -> ModelError:
        """Return why a request has no answer."""
        if key in self.failed:
            return self.failed[key]
        if status.failure is not None:
            message = f"the provider refused the whole batch: {status.failure}"
            return http_errors.request_refused(message, 400, status.failure)
        if self._lost is not None:
            return self._lost
        return MissingAnswer(f"the batch ended ({status.word}) without an answer to this request")

    async def _keep_all(self, pending: dict[str, Any]) -> None:
        while pending:
            some = list(islice(pending, ROWS_PER_COMMIT))
            # Together, so that the store commits them in one transaction.
            await gather(self._keep_one(key, pending.pop(key)) for key in some)

    async def _keep_one(self, key: str, payload: Any) -> None:
        try:
            await self._keep(self._requests[key], payload)
        except (ModelError, CapabilityError) as error:
            self.failed[key] = (
                error if isinstance(error, ModelError) else RequestRefused(str(error))
            )
        else:
            self.answered.add(key)
            self.failed.pop(key, None)

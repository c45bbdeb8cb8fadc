"""Batches of Groq: like OpenAI's, for chats alone, and listed page by page in another way.

https://console.groq.com/docs/batch
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from textassay.runtime.batches.openai import OpenAIBatches, listed_in, own_of
from textassay.runtime.batches.provider import (
    GIVEN_TEXT,
    TOKEN_PROBABILITIES,
    BatchResult,
    BatchStatus,
    Prepared,
)
from textassay.runtime.errors import CapabilityError, parameter
from textassay.runtime.model import Request


class GroqBatches(OpenAIBatches):
    """The batch API of Groq."""

    name = "groq"
    lacks = GIVEN_TEXT | TOKEN_PROBABILITIES | {"n"}

    def group(self, request: Request) -> str:
        """Return the endpoint; refuse what the API answers with an error."""
        lacking = {
            f"several samples ({parameter('n', '1')})": request.n > 1,
            "log-probabilities": request.logprobs is not None,
            "plain prompts": not request.messages,
        }
        for what, requested in lacking.items():
            if requested:
                raise CapabilityError(f"Groq's batches do not take {what}")
        return super().group(request)

    async def find(self, batch: Prepared) -> str | None:
        """Look through all pages: no order of the batches is documented."""
        query = ""
        while True:
            page = await self._http.ask("GET", f"/batches{query}")
            if (own := own_of(listed_in(page), batch)) is not None:
                return own
            paging = page.get("paging") if isinstance(page, Mapping) else None
            cursor = paging.get("next_cursor") if isinstance(paging, Mapping) else None
            if not cursor:
                return None
            query = f"?cursor={quote(str(cursor), safe='')}"

    async def results(
        self, batch_id: str, status: BatchStatus, keys: Sequence[str]
    ) -> AsyncIterator[BatchResult]:
        """Yield the lines of both files."""
        async for row in super().results(batch_id, status, keys):
            # Of a batch that was stopped, Groq charges for completed requests alone; which codes
            # the others carry is not documented.
            stopped = status.word in ("expired", "cancelled")
            yield replace(row, unrun=True) if stopped and row.error is not None else row

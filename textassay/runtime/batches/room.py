"""How long a provider may have no room for a further batch."""

from __future__ import annotations

import asyncio
import logging

from textassay.runtime.errors import RateLimited

FIRST_PAUSE = 2.0
MAX_PAUSE = 300.0
"""Longest time between two submissions, whatever the provider asks for."""

_log = logging.getLogger(__name__)


class Room:
    """The wait for room for one batch: reported once, and bounded."""

    def __init__(self, name: str, *, poll: float, longest: float) -> None:
        """Store how long is waited.

        Args:
            name: The model's name, for messages.
            poll: Longest pause between two submissions, in seconds, if the provider asks for none.
            longest: Seconds without room after which it is given up, unless a batch of ours is
                running, whose end makes room.
        """
        self._name, self._poll, self._longest = name, poll, longest
        self._pause = FIRST_PAUSE
        self._since: float | None = None
        self._is_reported = False

    async def wait(self, error: RateLimited, *, is_running: bool) -> None:
        """Wait until the batch may be submitted again.

        Args:
            error: What the provider said.
            is_running: Whether another batch of ours is running.

        Raises:
            RateLimited: There has been no room for too long.
        """
        now = asyncio.get_running_loop().time()
        if self._since is None or is_running:
            self._since = now
        if now - self._since > self._longest:
            raise error
        if not self._is_reported:
            self._is_reported = True
            _log.warning(
                "the batch API of %s has no room for a further batch yet, which is submitted again "
                "later: %s",
                self._name,
                error,
            )
        pause = max(min(self._pause, self._poll), error.retry_after or 0.0)
        self._pause = min(2 * self._pause, MAX_PAUSE)
        await asyncio.sleep(min(pause, MAX_PAUSE))

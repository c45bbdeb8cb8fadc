"""When a provider is asked again about a batch, and when waiting for it is given up."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from dataclasses import dataclass

from textassay.runtime.batches.dialect import FileUnread, Undecided
from textassay.runtime.errors import NothingListening, RateLimited, TransientError

FIRST_PAUSE, GROWTH = 1.0, 1.5
MAX_PAUSE = 300.0
"""Longest time between two attempts, whatever the provider asks for."""
FIRST_ANSWER = 10.0
"""Seconds after which a server is given up at whose address nothing has listened in this session:
its address is more likely wrong than that it is being restarted."""
USUAL_READING = 60.0
"""Time in which an uploaded file is usually read, so that nothing is reported before."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PollPolicy:
    """How often a provider is asked about batches, and how long; in seconds."""

    quiet: float = 2.0
    """Time without a further request after which a batch is cut."""
    interval: float = 60.0
    """Longest time between two looks at a batch."""
    call: float = 120.0
    """Time for one small call; uploads and results get ten times as long or more."""
    outage: float = 300.0
    """Time that a provider may fail every call."""
    unread: float = 3600.0
    """Time that a provider may take to read an uploaded file."""
    capacity: float = 1800.0
    """Time that a provider may have no room for a batch while no other of the run is running."""


@dataclass
class Availability:
    """Whether the batch API of a model answers; shared by all batches of the model."""

    name: str
    has_answered: bool = False
    is_failing: bool = False

    def answered(self) -> None:
        """Note that the provider has answered a call; log the end of an outage."""
        self.has_answered = True
        if self.is_failing:
            self.is_failing = False
            _log.warning("the batch API of %s answers again", self.name)

    def failed(self, error: TransientError, seconds: float) -> None:
        """Log a warning, once per outage, that the provider is asked again for some seconds."""
        if not self.is_failing:
            self.is_failing = True
            _log.warning(
                "the batch API of %s fails with %s; it is tried again for %g s",
                self.name,
                type(error).__name__,
                seconds,
            )


@dataclass
class _Wait:
    """One reason for which a batch waits."""

    since: float | None = None
    pause: float = FIRST_PAUSE
    is_reported: bool = False


class Polling:
    """The waits of one batch.

    Each is reported once, returns the seconds to the next attempt, and raises its error once that
    has held for too long.
    """

    def __init__(self, policy: PollPolicy, provider: Availability) -> None:
        self._policy, self._provider = policy, provider
        self._waits: defaultdict[str, _Wait] = defaultdict(_Wait)

    def answered(self) -> None:
        """Note that the provider has answered, be it with a refusal: an outage is over."""
        self._waits.pop("outage", None)
        self._provider.answered()

    def look_again(self) -> float:
        """Wait for the batch to end."""
        return self._pause("end")

    def outage(self, error: TransientError, since: float) -> float:
        """Wait for a provider that fails, whose first failed call began at `since`."""
        longest = self._policy.outage
        if isinstance(error, NothingListening) and not self._provider.has_answered:
            longest = min(longest, FIRST_ANSWER)
        if self._waited("outage", since) > longest:
            raise error
        self._provider.failed(error, longest)
        return min(self._pause("outage"), MAX_PAUSE)

    def no_capacity(self, error: RateLimited, *, is_other_running: bool) -> float:
        """Wait until as many tokens are no longer enqueued as the account may have."""
        if is_other_running:
            self._waits["capacity"].since = None
        if self._waited("capacity") > self._policy.capacity:
            raise error
        if self._is_unreported("capacity"):
            _log.warning(
                "the batch API of %s has no room for a further batch yet, which is submitted again "
                "later: %s",
                self._provider.name,
                error,
            )
        return min(max(self._pause("capacity"), error.retry_after or 0.0), MAX_PAUSE)

    def unread(self, error: FileUnread) -> float:
        """Wait until the provider has read an uploaded file."""
        waited, longest = self._waited("unread"), self._policy.unread
        if waited > longest:
            raise FileUnread(
                f"{error} within {waited / 60:.0f} minutes; a resumed run looks at it again"
            ) from error
        if waited > USUAL_READING and self._is_unreported("unread"):
            _log.warning("%s; waiting for up to %.0f minutes", error, longest / 60)
        return min(self._pause("unread"), MAX_PAUSE)

    def undecided(self, error: Undecided) -> float:
        """Wait for the end of a batch that may be ours."""
        if self._is_unreported("undecided"):
            _log.warning("%s", error)
        return min(self._pause("undecided"), MAX_PAUSE)

    def _waited(self, reason: str, since: float | None = None) -> float:
        """Return for how long a reason has held, from now on or from `since` if it is a new one."""
        wait = self._waits[reason]
        if wait.since is None:
            wait.since = loop_time() if since is None else since
        return loop_time() - wait.since

    def _is_unreported(self, reason: str) -> bool:
        wait = self._waits[reason]
        is_new, wait.is_reported = not wait.is_reported, True
        return is_new

    def _pause(self, reason: str) -> float:
        wait, longest = self._waits[reason], self._policy.interval
        pause = min(wait.pause, longest)
        wait.pause = min(GROWTH * wait.pause, longest)
        return pause


def loop_time() -> float:
    """Return the time by the loop's clock, which that of pauses and time limits is."""
    return asyncio.get_running_loop().time()

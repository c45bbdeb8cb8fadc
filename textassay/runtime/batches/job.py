"""One batch, from its requests to their answers.

Its states are passed in order, each journaled before the next step: whatever a crash interrupts is
taken up again from the last one. Answers are stored before their callers are woken, and a batch
counts as collected only when all of its answers are kept.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from textassay.runtime.batches.book import BatchBook, BatchEntry, KeyedRequest
from textassay.runtime.batches.callers import Callers
from textassay.runtime.batches.outage import Outage
from textassay.runtime.batches.patience import Patience
from textassay.runtime.batches.provider import BatchProvider, BatchStatus, FileUnread, Undecided
from textassay.runtime.batches.room import MAX_PAUSE, Room
from textassay.runtime.batches.rows import Keep, Rows
from textassay.runtime.batches.unread import UnreadFile
from textassay.runtime.calls.cache import look_up
from textassay.runtime.errors import (
    AnswerTooLong,
    FatalModelError,
    ModelError,
    ModelNotFound,
    RateLimited,
    RequestRefused,
    TimedOut,
    TransientError,
    quoted,
)
from textassay.runtime.graph.concurrency import gather
from textassay.runtime.model import AnyResponse
from textassay.runtime.storage.answers import AnswerStore

FIRST_POLL = 1.0
MAX_ATTEMPTS = 2
"""Batches in which a request is put that was not run: the second is the last."""
MIN_DIVIDED = 10
"""Most requests of a batch that is not divided any further."""
READ_AT_ONCE = 500
"""Answers that are looked up together."""

T = TypeVar("T")
_log = logging.getLogger(__name__)


class BatchUnfinished(ModelError):
    """A batch cannot be followed for now; the run stops, and a resumed one goes on with it.

    Its requests may be running: to ask them in another way could pay for them twice.
    """

    stops_run = True


Requeue = Callable[[Iterable[KeyedRequest], int], None]
"""Puts requests into another batch, as the attempt of that number."""


@dataclass(frozen=True)
class BatchContext:
    """What all batches of a model share, and what they ask of the queue that made them."""

    name: str
    """The model's name."""
    provider: BatchProvider
    book: BatchBook
    store: AnswerStore
    callers: Callers
    outage: Outage
    patience: Patience
    submit_only: bool
    """Whether the run stops once everything is submitted."""
    keep: Keep
    """Keeps the answer to a request, and wakes who waits for it."""
    requeue: Requeue
    """Queues requests, to be cut together with others."""
    requeue_as_batch: Requeue
    """Makes a batch of requests at once."""
    is_another_running: Callable[[BatchEntry], bool]
    """Returns whether a batch other than the given one is followed and submitted."""
    announce_if_all_submitted: Callable[[], None]
    """Ends the waiting for answers if there is nothing left to submit."""


class BatchJob:
    """Carries one batch from its current state to its end."""

    entry: BatchEntry
    """Where the batch stands."""
    requests: Mapping[str, KeyedRequest]
    """Its requests by their keys."""
    is_submitted: bool
    """Whether there is nothing to do for now but to wait for the provider."""
    is_collecting: bool
    """Whether it has ended, and its answers are being fetched."""

    def __init__(
        self,
        entry: BatchEntry,
        requests: Mapping[str, KeyedRequest],
        context: BatchContext,
        lines: Sequence[bytes] | None = None,
    ) -> None:
        """Store what to do; `run` does it.

        Args:
            entry: Where the batch stands.
            requests: Its requests by their keys.
            context: What it shares with other batches.
            lines: The requests as the provider takes them; `None` for a batch of an earlier
                session, which is written down already.
        """
        self.entry, self.requests = entry, requests
        self.is_submitted, self.is_collecting = entry.id is not None, False
        self._context, self._book, self._provider = context, context.book, context.provider
        self._patience, self._outage = context.patience, context.outage
        self._room = Room(context.name, poll=context.patience.poll, longest=context.patience.room)
        self._unread = UnreadFile(context.patience.unread)
        self._is_reported_undecided = False
        self._lines = lines
        self._is_resumed = self._may_be_started = lines is None

    async def run(self) -> None:
        """Carry the batch to its end: every request gets an answer or an error, or is requeued.

        Raises:
            ModelError: The batch cannot be followed, or the provider refuses it.
            StorageError: The disk is full.
        """
        if self._lines is not None:
            await self._book.prepare(self.entry, self.requests.values(), self._lines)
            self._lines = None  # up to hundreds of megabytes, and batches take hours
            self.entry = self._book.entries[self.entry.tag]
        try:
            status = await self._follow_to_end()
        except _Dissolved:
            return
        if self.entry.state != "ended":
            await self._book.note(self.entry.tag, "ended", status=status.word)
        self.is_collecting = True
        await self._collect(status)

    async def _follow_to_end(self) -> BatchStatus:
        """Submit the batch, unless that was done already, and return its status at its end.

        Raises:
            _Dissolved: Its requests are queued again.
        """
        entry = self.entry
        while True:
            if entry.id is None:
                batch_id = await self._submit_until_taken()
                # A crash before this row leaves a batch without an id, which `find` looks for after
                # a restart.
                await self._book.note(entry.tag, "submitted", id=batch_id)
                self.is_submitted = True
            status = await self._last_status()
            if not status.is_postponed:
                return status
            # The provider took it, looked at its file, and found that too much is enqueued.
            self.is_submitted = False
            await self._book.note(entry.tag, "uploaded", id=None, refused=entry.id)
            self._is_resumed = self._may_be_started = False
            await self._wait_for_room(RateLimited(status.failure or status.word))

    async def _submit_until_taken(self) -> str:
        """Submit the batch, unless that was done already, and return its id.

        Raises:
            _Dissolved: Its requests are queued again.
        """
        pause, failing_since = FIRST_POLL, _now()
        while True:
            try:
                return await self._attempt()
            except (FatalModelError, RequestRefused):
                if not self._may_be_started:  # it is what was refused
                    await self._drop(failed=len(self.requests))
                raise
            except RateLimited as error:
                self._outage.answered()
                await self._wait_for_room(error)
                failing_since = _now()
                continue
            except FileUnread as error:
                self._unread.wait_longer(error)
                # This, too, is an answer: what fails after it is not an outage of that length.
                failing_since = _now()
                self._outage.answered()
            except Undecided as error:
                failing_since = _now()
                self._outage.answered()
                self._report_undecided(error)
            except TransientError as error:
                if self._outage.is_too_long(_now() - failing_since, error):
                    raise
                self._may_be_started = True  # all the same
            pause = min(2 * pause, MAX_PAUSE)
            await asyncio.sleep(min(pause, self._patience.poll))

    async def _attempt(self) -> str:
        """Submit the batch unless it is found at the provider; return its id.

        Raises:
            _Dissolved: Its requests are queued again.
        """
        batch = self._book.prepared(self.entry, self.requests)
        if self._may_be_started:
            own = await self._in_time(self._provider.find(batch), 10)
            if own is not None:
                return own
            if self._is_resumed:
                await self._dissolve_if_answered()
        # Found nowhere, so it was not started: retries after a plain refusal need not look again.
        self._may_be_started = False
        return await self._in_time(self._provider.submit(batch, self._note_upload), 10)

    async def _note_upload(self, file: str) -> None:
        await self._book.note(self.entry.tag, "uploaded", uploaded=file)

    def _report_undecided(self, error: Undecided) -> None:
        if not self._is_reported_undecided:
            self._is_reported_undecided = True
            _log.warning("%s", error)
        if self._context.submit_only:  # all that can be done now is done
            self.is_submitted = True
            self._context.announce_if_all_submitted()

    async def _wait_for_room(self, error: RateLimited) -> None:
        """Wait until as many tokens are no longer enqueued as the account may have.

        A batch that finds no room for too long may be larger than the account allows: it is
        divided, unless it may be started.

        Raises:
            RateLimited: It is too small for that, or may be started.
            _Dissolved: It was divided.
        """
        if self._may_be_started:
            await self._room.wait(error, is_running=False)
            return
        # who only submits does not wait until others have ended, which may take a day
        waits = not self._context.submit_only and self._context.is_another_running(self.entry)
        try:
            await self._room.wait(error, is_running=waits)
        except RateLimited:
            if len(self.requests) <= MIN_DIVIDED:
                raise
        else:
            return
        _log.warning(
            "batch %s of %d requests has found no room, and is divided",
            self.entry.tag,
            len(self.requests),
        )
        items, half = list(self.requests.values()), len(self.requests) // 2
        # before the halves are written down: a crash in between leaves requests that are new
        await self._drop()
        for part in (items[:half], items[half:]):
            self._context.requeue_as_batch(part, self.entry.attempt)
        raise _Dissolved

    async def _dissolve_if_answered(self) -> None:
        """Dissolve a batch that was never submitted if some of it has been answered otherwise.

        Single calls may have done so when an earlier session gave the batch up. What has no answer
        yet is queued for another batch.

        Raises:
            _Dissolved: It was.
        """
        answers: dict[str, AnyResponse] = {}
        keys = iter(self.requests)
        # together, as a distant store answers many as soon as one
        while some := list(islice(keys, READ_AT_ONCE)):
            found = await gather([look_up(self._context.store, key) for key in some])
            answers |= {k: answer for k, answer in zip(some, found, strict=True) if answer}
        if not answers:
            return
        # Before the rest is queued: after a crash in between, the run asks for it as for what is
        # new, while two batches in the journal would both be submitted.
        await self._drop(answered=len(answers))
        for key, answer in answers.items():
            self._context.callers.answer(key, answer)
        rest = [item for key, item in self.requests.items() if key not in answers]
        self._context.requeue(rest, self.entry.attempt)
        raise _Dissolved

    async def _last_status(self) -> BatchStatus:
        """Return the status of the submitted batch once it has ended."""
        assert self.entry.id is not None
        pause, failing_since = min(FIRST_POLL, self._patience.poll), _now()
        while True:
            try:
                status = await self._in_time(self._provider.status(self.entry.id), 1)
            except ModelNotFound as error:
                raise self._unknown(error) from error
            except AnswerTooLong:
                raise
            except TransientError as error:
                if self._outage.is_too_long(_now() - failing_since, error):
                    raise
            else:
                failing_since = _now()
                if status.ended:
                    return status
                if self._context.submit_only:
                    self._context.announce_if_all_submitted()
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, self._patience.poll)

    def _unknown(self, error: ModelError) -> BatchUnfinished:
        """Return the error of a batch that the provider does not know.

        Its requests are not asked again by themselves: with another key they are merely not seen.
        """
        entry = self.entry
        days = (time.time() - entry.since) / 86400
        return BatchUnfinished(
            f"the provider does not know batch {entry.id} of {self._context.name}, made"
            f" {days:.1f} days ago: the key or the address is of another account, or the batch was"
            f" deleted. To give it up, remove the lines with {entry.tag} from {self._book.path};"
            f" its requests are then asked again ({quoted(error)})"
        )

    async def _collect(self, status: BatchStatus) -> None:
        """Store all answers, wake their callers, and requeue what was not run."""
        rows = await self._read(status)
        await self._drop(answered=len(rows.answered), failed=len(rows.failed))
        if rows.ignored:
            _log.warning(
                "batch %s: %d rows were unknown, repeated or unreadable",
                self.entry.tag,
                rows.ignored,
            )
        again: list[KeyedRequest] = []
        for key, item in self.requests.items():
            if key in rows.answered:
                continue
            reason = rows.error_of(key, status)
            # An attempt that was never run costs nothing; one that nobody waits for any more is not
            # repeated.
            was_run = key not in rows.unrun and (key in rows.failed or not _was_stopped(status))
            is_worth_another = not was_run or isinstance(reason, TransientError)
            attempts_left = self.entry.attempt < MAX_ATTEMPTS
            if is_worth_another and attempts_left and key in self._context.callers:
                again.append(item)
            else:
                self._context.callers.fail(key, reason)
        self._context.requeue(again, self.entry.attempt + 1)

    async def _read(self, status: BatchStatus) -> Rows:
        """Read what the provider says of each request, and keep the answers."""
        assert self.entry.id is not None
        failing_since, was_unreadable = _now(), False
        while True:
            # Repeated in each attempt: answers that were kept already are simply kept again.
            rows = Rows(self.requests, self._context.keep)
            lines = self._provider.results(self.entry.id, status, tuple(self.requests))
            try:
                await self._in_time(rows.read(lines), 30)
            except AnswerTooLong:
                raise
            except TransientError as error:
                if self._outage.is_too_long(_now() - failing_since, error):
                    raise
            else:
                # A line that cannot be read may have been damaged on its way.
                if was_unreadable or not rows.unreadable:
                    return rows
                was_unreadable = True
            await asyncio.sleep(min(FIRST_POLL, self._patience.poll))

    async def _drop(self, *, answered: int = 0, failed: int = 0) -> None:
        """Note that nothing more is to be expected of the batch, and forget its requests."""
        tag = self.entry.tag
        await self._book.note(tag, "collected", answered=answered, failed=failed)
        # Only after "collected" is on the disk: until then a crash needs the requests.
        self._book.forget(tag)

    async def _in_time(self, work: Awaitable[T], times: int) -> T:
        try:
            async with asyncio.timeout(times * self._patience.call):
                result = await work
        except TimeoutError as error:
            raise TimedOut(
                f"the batch API of {self._context.name} did not answer in time"
            ) from error
        self._outage.answered()
        return result


class _Dissolved(Exception):
    """The batch was given up before it was started, and its requests are queued again."""


def _now() -> float:
    # The clock of the loop, as that of the pauses and time limits.
    return asyncio.get_running_loop().time()


def _was_stopped(status: BatchStatus) -> bool:
    """Return whether a batch ended before all of it was run."""
    return any(word in status.word.lower() for word in ("expired", "cancel"))

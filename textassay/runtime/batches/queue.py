"""The model that answers through batches.

Requests wait, a batch is cut when no more come, its answers wake them.

The custom id of a request is the key of its answer, so a batch is known by its content: a repeated
request, in this process or after a crash, joins the batch in progress. Answers are stored before
their callers are woken, and a batch counts as collected only when all of its answers are kept.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from textassay.runtime.backends.openai_probabilities import choices_as_request, read_choices
from textassay.runtime.batches.book import BatchBook, BatchEntry, KeyedRequest
from textassay.runtime.batches.outage import Outage
from textassay.runtime.batches.provider import (
    BatchProvider,
    BatchStatus,
    FileUnread,
    Undecided,
)
from textassay.runtime.batches.room import MAX_PAUSE, Room
from textassay.runtime.batches.rows import Rows
from textassay.runtime.batches.unread import UnreadFile
from textassay.runtime.calls.cache import Keys, decode_answer, encode_answer, identity_bytes
from textassay.runtime.calls.masking import MaskedModel
from textassay.runtime.errors import (
    AnswerTooLong,
    CapabilityError,
    FatalModelError,
    ModelClosed,
    ModelError,
    ModelNotFound,
    RateLimited,
    RequestRefused,
    TimedOut,
    TransientError,
    parameter,
    quoted,
)
from textassay.runtime.model import (
    AnyResponse,
    Capabilities,
    ChoicesRequest,
    ChoicesResponse,
    ContinuationRequest,
    ContinuationResponse,
    Model,
    Request,
    Response,
)
from textassay.runtime.storage.answers import AnswerStore

FIRST_POLL = 1.0
MAX_ATTEMPTS = 2
"""Batches in which a request is put that was not run: the second is the last."""
MIN_DIVIDED = 10
"""Most requests of a batch that is not divided any further."""

T = TypeVar("T")
_log = logging.getLogger(__name__)


class BatchesSubmitted(ModelError):
    """Everything that can be requested now is submitted, and `submit_only` is set.

    The run stops, resumable.
    """

    stops_run = True


class BatchUnfinished(ModelError):
    """A batch cannot be followed for now; the run stops, and a resumed one goes on with it.

    Its requests may be running: to ask them in another way could pay for them twice.
    """

    stops_run = True


@dataclass(frozen=True)
class Patience:
    """How long what is waited for, in seconds."""

    quiet: float = 2.0
    """Time without a further request after which a batch is cut."""
    poll: float = 60.0
    """Longest time between two looks at a batch."""
    outage: float = 300.0
    """Time that a provider may fail every call."""
    call: float = 120.0
    """Time for one small call; uploads and results get ten times as long."""
    unread: float = 3600.0
    """Time that a provider may take to read an uploaded file."""
    room: float = 1800.0
    """Time that a provider may have no room for a batch while no other of the run is running."""


class BatchQueue:
    """Answers requests through a provider's batches."""

    def __init__(
        self,
        backend: Model,
        provider: BatchProvider,
        book: BatchBook,
        store: AnswerStore,
        *,
        identity: Mapping[str, Any],
        known_secrets: Iterable[str] = (),
        patience: Patience = Patience(),
        submit_only: bool = False,
    ) -> None:
        """Store what to work with.

        Batches of earlier sessions are looked for with the first request.

        Args:
            backend: The model that is asked, for its name and what it can do.
            provider: Runs the batches.
            book: Where they are written down.
            store: Where answers are kept.
            identity: What answers are filed under.
            known_secrets: What answers must not show.
            patience: How long is waited.
            submit_only: Whether to stop the run once everything is submitted.
        """
        self._backend, self._provider, self._book, self._store = backend, provider, book, store
        self._identity = identity
        self._keys = Keys(identity)
        self._model = hashlib.sha256(identity_bytes(identity)).hexdigest()[:16]
        self._mask = MaskedModel(backend, known_secrets)
        self._patience, self._submit_only = patience, submit_only
        self._outage = Outage(backend.name, patience.outage)
        self._waiting: dict[str, asyncio.Future[AnyResponse]] = {}
        # Per key of a request the tag of its batch, "" as long as it is queued.
        self._under_way: dict[str, str] = {}
        # Per key the batch that was given up with it in this session, and is not collected.
        self._given_up: dict[str, BatchEntry] = {}
        self._queued: dict[tuple[str, int], dict[str, tuple[KeyedRequest, bytes]]] = defaultdict(
            dict
        )
        self._bytes: dict[tuple[str, int], int] = defaultdict(int)
        self._tasks: set[asyncio.Task[None]] = set()
        self._collecting: set[asyncio.Task[None]] = set()
        self._unsubmitted: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._started = self._closed = False

    @property
    def name(self) -> str:
        """The model's name."""
        return self._backend.name

    @property
    def identity(self) -> Mapping[str, Any]:
        """What answers are filed under."""
        return self._identity

    @property
    def capabilities(self) -> Capabilities:
        """What the model can do."""
        return self._backend.capabilities

    async def generate(self, request: Request) -> Response:
        """Return the answer once its batch has ended.

        Raises:
            CapabilityError: The provider's batches cannot answer such a request.
            BatchesSubmitted: It is submitted, and `submit_only` is set.
            BatchUnfinished: The provider fails for too long.
            ModelError: The batch gave no answer.
        """
        return cast(Response, await self._ask(request))

    async def choices(self, request: ChoicesRequest) -> ChoicesResponse:
        """Return the probabilities of choices once the batch has ended; errors as `generate`."""
        return cast(ChoicesResponse, await self._ask(request))

    async def continuation(self, request: ContinuationRequest) -> ContinuationResponse:
        """Refuse: batch APIs do not return the likelihood of a given text."""
        raise CapabilityError(
            f"batches of {self.name!r} cannot score the likelihood of a given text; leave out"
            f" {parameter('batch')}"
        )

    async def aclose(self) -> None:
        """Stop waiting; submitted batches continue at the provider."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._collecting:  # answers that are being kept need not be fetched again
            await asyncio.wait(self._collecting, timeout=self._patience.call)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._provider.aclose()

    async def _ask(self, request: Request | ChoicesRequest) -> AnyResponse:
        if self._closed:
            raise ModelClosed(f"model {self.name!r} was used after it was closed")
        self._start()
        key = self._keys.get(request)
        # A batch of an earlier session may have been answered since the cache was asked, even if it
        # is under way still: nobody would be woken by an answer that is kept already.
        kept = self._store.get(key)
        if kept is not None:
            return decode_answer(kept)
        if key not in self._under_way:
            # Of two batches in the journal with the same request, a later session would submit
            # both.
            if (entry := self._given_up.get(key)) is not None:
                self._resume(entry)
            else:
                self._enqueue(KeyedRequest(key, request), attempt=1)
        future = self._waiting.get(key)
        if future is None:
            future = self._waiting[key] = asyncio.get_running_loop().create_future()
        try:
            return await future
        finally:
            if self._waiting.get(key) is future:
                del self._waiting[key]
            self._withdraw(key)

    def _start(self) -> None:
        """Resume the batches of earlier sessions."""
        if self._started:
            return
        self._started = True
        for entry in self._book.open_entries(self._model):
            self._resume(entry)

    def _resume(self, entry: BatchEntry) -> None:
        requests = {item.key: item for item in self._book.requests(entry.tag)}
        for key in requests:
            self._given_up.pop(key, None)
        self._start_batch(entry, requests, resumed=True)

    def _enqueue(self, item: KeyedRequest, attempt: int) -> None:
        plain = plain_request(item.request)
        group = (self._provider.group(plain), attempt)
        line = self._provider.encode(item.key, plain)
        limits, size = self._provider.limits, len(line) + 1
        if size > limits.bytes:
            raise RequestRefused(f"the request has {size} bytes, a batch at most {limits.bytes}")
        # Cut before the request that would pass the limit, and after the one that reaches a count.
        if self._bytes[group] + size > limits.bytes:
            self._cut(group)
        self._queued[group][item.key] = (item, line)
        self._bytes[group] += size
        # From now until its batch is collected, equal requests join this one instead of being
        # queued.
        self._under_way[item.key] = ""
        if len(self._queued[group]) >= limits.requests:
            self._cut(group)
        self._wait_for_quiet()

    def _withdraw(self, key: str) -> None:
        """Remove a queued request whose caller was canceled before its batch was cut."""
        for group, rows in self._queued.items():
            if (row := rows.pop(key, None)) is not None:
                self._bytes[group] -= len(row[1]) + 1
                self._under_way.pop(key, None)

    def _wait_for_quiet(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._patience.quiet, self._cut_all)

    def _cut_all(self) -> None:
        self._timer = None
        for group in list(self._queued):
            self._cut(group)

    def _cut(self, group: tuple[str, int]) -> None:
        """Make a batch of what waits."""
        rows = self._queued.pop(group, {})
        self._bytes.pop(group, None)
        if not rows:
            return
        entry = BatchEntry(
            tag=f"textassay-{secrets.token_hex(8)}",
            model=self._model,
            group=group[0],
            requests=len(rows),
            since=time.time(),
            attempt=group[1],
            # Batches that exist already cannot be this one, whatever `find` sees of them later.
            known=frozenset(e.id for e in self._book.entries.values() if e.id is not None),
        )
        requests = {key: item for key, (item, _) in rows.items()}
        self._start_batch(entry, requests, lines=[line for _, line in rows.values()])

    def _start_batch(
        self,
        entry: BatchEntry,
        requests: dict[str, KeyedRequest],
        *,
        lines: list[bytes] | None = None,
        resumed: bool = False,
    ) -> None:
        self._under_way.update(dict.fromkeys(requests, entry.tag))
        if entry.id is None:
            self._unsubmitted.add(entry.tag)
        task = asyncio.create_task(self._whole(entry, requests, lines, resumed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _whole(
        self,
        entry: BatchEntry,
        requests: dict[str, KeyedRequest],
        lines: list[bytes] | None,
        resumed: bool,
    ) -> None:
        """Carry a batch from its current state to its end.

        Every request in it gets an answer or an error.
        """
        try:
            if lines is not None:
                # The states are passed in order, each on the disk before the next step: whatever a
                # crash interrupts is taken up again by `_start` from the last one.
                await self._book.prepare(entry, requests.values(), lines)
                entry = self._book.entries[entry.tag]
            status = await self._run(entry, requests, resumed=resumed)
            if status is None:
                return
            if entry.state != "ended":
                await self._book.note(entry.tag, "ended", status=status.word)
            task = cast("asyncio.Task[None]", asyncio.current_task())
            self._collecting.add(task)
            task.add_done_callback(self._collecting.discard)
            await self._collected(entry, requests, status)
        except Exception as error:  # a fault of ours, too, must reach those who wait
            kept = self._book.entries.get(entry.tag)
            reason = error
            if kept is not None and kept.state != "collected":
                self._given_up.update(dict.fromkeys(requests, kept))
                if isinstance(error, ModelError) and not error.stops_run:
                    reason = self._unfinished(kept, error)
            for key in requests:
                self._fail(key, reason)
        finally:
            self._unsubmitted.discard(entry.tag)
            for key in requests:
                # What was put into another batch meanwhile is still under way.
                if self._under_way.get(key) == entry.tag:
                    del self._under_way[key]

    def _unfinished(self, entry: BatchEntry, error: ModelError) -> BatchUnfinished:
        """Return the error of a batch that is not collected."""
        which = entry.tag if entry.id is None else f"{entry.id} ({entry.tag})"
        unfinished = BatchUnfinished(
            f"batch {which} of {self.name} is not collected yet, and a resumed run goes on with"
            f" it: {quoted(error)}"
        )
        unfinished.__cause__ = error
        return unfinished

    async def _run(
        self, entry: BatchEntry, requests: Mapping[str, KeyedRequest], *, resumed: bool
    ) -> BatchStatus | None:
        """Submit a batch, unless that was done already, and return its status once it has ended.

        Returns `None` if the batch was dissolved.
        """
        room = Room(self.name, poll=self._patience.poll, longest=self._patience.room)
        while True:
            if entry.id is None:
                batch_id = await self._submitted(entry, requests, room, resumed=resumed)
                if batch_id is None:
                    return None
                # A crash before this row leaves a batch without an id, which `find` looks for after
                # a restart.
                await self._book.note(entry.tag, "submitted", id=batch_id)
                self._unsubmitted.discard(entry.tag)
            status = await self._ended(entry)
            if not status.is_postponed:
                return status
            # The provider took it, looked at its file, and found that too much is enqueued.
            self._unsubmitted.add(entry.tag)
            await self._book.note(entry.tag, "uploaded", id=None, refused=entry.id)
            resumed = False
            reason = RateLimited(status.failure or status.word)
            if not await self._waited(room, reason, entry, requests):
                return None

    async def _waited(
        self,
        room: Room,
        error: RateLimited,
        entry: BatchEntry,
        requests: Mapping[str, KeyedRequest],
    ) -> bool:
        """Wait for room for a batch that was not started; return whether to submit it again.

        One that finds none for too long may be larger than the account allows: it is divided.

        Raises:
            RateLimited: It is too small for that.
        """
        batches = self._book.open_entries(self._model)
        is_running = any(other.id is not None for other in batches if other.tag != entry.tag)
        try:
            # who only submits does not wait until others have ended, which may take a day
            await room.wait(error, is_running=is_running and not self._submit_only)
        except RateLimited:
            if len(requests) <= MIN_DIVIDED:
                raise
        else:
            return True
        _log.warning(
            "batch %s of %d requests has found no room, and is divided", entry.tag, len(requests)
        )
        # before the halves are written down: a crash in between leaves requests that are new
        await self._drop(entry)
        items, half = list(requests.values()), len(requests) // 2
        for part in (items[:half], items[half:]):
            for item in part:
                self._enqueue(item, entry.attempt)
            self._cut((entry.group, entry.attempt))
        return False

    async def _submitted(
        self,
        entry: BatchEntry,
        requests: Mapping[str, KeyedRequest],
        room: Room,
        *,
        resumed: bool,
    ) -> str | None:
        """Submit a batch, unless that was done already, and return its id.

        Returns `None` if the batch was dissolved.
        """

        async def uploaded(file: str) -> None:
            await self._book.note(entry.tag, "uploaded", uploaded=file)

        look_first, pause, failing_since = resumed, FIRST_POLL, self._now()
        was_undecided = False
        unread = UnreadFile(self._patience.unread)
        while True:
            batch = self._book.prepared(entry, requests)
            try:
                if look_first:
                    own = await self._in_time(self._provider.find(batch), 10)
                    if own is not None:
                        return own
                    if resumed and await self._dissolved(entry, requests):
                        return None
                # Found nowhere, so it was not started: retries after a plain refusal need not look
                # again.
                look_first = False
                return await self._in_time(self._provider.submit(batch, uploaded), 10)
            except (FatalModelError, RequestRefused):
                if not look_first:  # it is what was refused, and so was not started
                    await self._drop(entry, failed=len(requests))
                raise
            except FileUnread as error:
                unread.wait_longer(error)
                # This, too, is an answer: what fails after it is not an outage of that length.
                failing_since = self._now()
                self._outage.answered()
            except Undecided as error:
                failing_since = self._now()
                self._outage.answered()
                if not was_undecided:
                    was_undecided = True
                    _log.warning("%s", error)
                if self._submit_only:  # all that can be done now is done
                    self._unsubmitted.discard(entry.tag)
                    self._announce_submitted()
            except RateLimited as error:
                self._outage.answered()
                # as many tokens are enqueued as the account may have: others must end first
                if look_first:  # it may be started
                    await room.wait(error, is_running=False)
                elif not await self._waited(room, error, entry, requests):
                    return None
                failing_since = self._now()
                continue
            except TransientError as error:
                if self._outage.is_too_long(self._now() - failing_since, error):
                    raise
                # the provider may have started it all the same
                look_first = True
            pause = min(2 * pause, MAX_PAUSE)
            await asyncio.sleep(min(pause, self._patience.poll))

    async def _drop(self, entry: BatchEntry, *, answered: int = 0, failed: int = 0) -> None:
        """Note that nothing more is to be expected of a batch, and forget its requests."""
        await self._book.note(entry.tag, "collected", answered=answered, failed=failed)
        # Only after "collected" is on the disk: until then a crash needs the requests.
        self._book.forget(entry.tag)

    async def _dissolved(self, entry: BatchEntry, requests: Mapping[str, KeyedRequest]) -> bool:
        """Dissolve a batch that was never submitted if some of it has been answered otherwise.

        Single calls may have done so when an earlier session gave the batch up. What has no answer
        yet is queued for another batch.
        """
        kept = {key for key in requests if self._store.get(key) is not None}
        if not kept:
            return False
        # Before the rest is queued: after a crash in between, the run asks for it as for what is
        # new, while two batches in the journal would both be submitted.
        await self._drop(entry, answered=len(kept))
        for key, item in requests.items():
            if key not in kept:
                self._enqueue(item, entry.attempt)
            elif key in self._waiting and (answer := self._store.get(key)) is not None:
                self._wake(key, decode_answer(answer))
        return True

    async def _ended(self, entry: BatchEntry) -> BatchStatus:
        """Return the status of the batch once it has ended."""
        assert entry.id is not None
        pause, failing_since = min(FIRST_POLL, self._patience.poll), self._now()
        while True:
            try:
                status = await self._in_time(self._provider.status(entry.id), 1)
            except ModelNotFound as error:
                raise self._unknown(entry, error) from error
            except AnswerTooLong:
                raise
            except TransientError as error:
                if self._outage.is_too_long(self._now() - failing_since, error):
                    raise
            else:
                failing_since = self._now()
                if status.ended:
                    return status
                if self._submit_only:
                    self._announce_submitted()
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, self._patience.poll)

    def _unknown(self, entry: BatchEntry, error: ModelError) -> BatchUnfinished:
        """Return the error of a batch that the provider does not know.

        Its requests are not asked again by themselves: with another key they are merely not seen.
        """
        days = (time.time() - entry.since) / 86400
        return BatchUnfinished(
            f"the provider does not know batch {entry.id} of {self.name}, made {days:.1f} days"
            f" ago: the key or the address is of another account, or the batch was deleted. To"
            f" give it up, remove the lines with {entry.tag} from {self._book.path}; its requests"
            f" are then asked again ({quoted(error)})"
        )

    def _announce_submitted(self) -> None:
        """Fail all waiting requests with `BatchesSubmitted`, once everything is submitted."""
        if self._unsubmitted or any(self._queued.values()):
            return
        requests, batches = len(self._under_way), len(self._book.open_entries(self._model))
        asked, verb = ("1 request", "is") if requests == 1 else (f"{requests} requests", "are")
        for key in list(self._waiting):
            self._fail(
                key,
                BatchesSubmitted(
                    f"{asked} to {self.name} {verb} submitted in {batches} "
                    f"batch{'es' if batches != 1 else ''}"
                ),
            )

    async def _collected(
        self, entry: BatchEntry, requests: Mapping[str, KeyedRequest], status: BatchStatus
    ) -> None:
        """Store all answers, wake their waiters, and put what was not run into another batch."""
        assert entry.id is not None
        failing_since, was_unreadable = self._now(), False
        while True:
            # Repeated in each attempt: answers that were kept already are simply kept again.
            rows = Rows(requests, self._keep)
            lines = self._provider.results(entry.id, status, tuple(requests))
            try:
                await self._in_time(rows.read(lines), 30)
            except AnswerTooLong:
                raise
            except TransientError as error:
                if self._outage.is_too_long(self._now() - failing_since, error):
                    raise
            else:
                # A line that cannot be read may have been damaged on its way.
                if was_unreadable or not rows.unreadable:
                    break
                was_unreadable = True
            await asyncio.sleep(min(FIRST_POLL, self._patience.poll))
        await self._drop(entry, answered=len(rows.answered), failed=len(rows.failed))
        if rows.ignored:
            _log.warning(
                "batch %s: %d rows were unknown, repeated or unreadable", entry.tag, rows.ignored
            )
        for key, item in requests.items():
            if key in rows.answered:
                continue
            reason = rows.error_of(key, status)
            # An attempt that was never run costs nothing; one that nobody waits for any more is not
            # repeated.
            again = key in rows.unrun or (key not in rows.failed and _was_stopped(status))
            again = again or isinstance(reason, TransientError)
            if again and entry.attempt < MAX_ATTEMPTS and key in self._waiting:
                self._enqueue(item, entry.attempt + 1)
            else:
                self._fail(key, reason)

    async def _keep(self, item: KeyedRequest, payload: Any) -> None:
        """Keep an answer and wake who waits for it.

        Raises:
            ModelError: The answer cannot be used.
            StorageError: The store cannot be written to.
        """
        plain = plain_request(item.request)

        async def parsed(_: Request) -> Response:
            return self._provider.read(payload, plain)

        answer: AnyResponse = await self._mask.around(plain, parsed)
        if isinstance(item.request, ChoicesRequest):
            answer = read_choices(cast(Response, answer), item.request)
        # Kept before the waiter is woken: it may end the process as soon as it has the answer.
        await self._store.put(item.key, encode_answer(answer))
        self._wake(item.key, answer)

    def _wake(self, key: str, answer: AnyResponse) -> None:
        future = self._waiting.get(key)
        if future is not None and not future.done():
            future.set_result(answer)

    def _fail(self, key: str, error: Exception) -> None:
        future = self._waiting.get(key)
        if future is not None and not future.done():
            future.set_exception(error)

    @staticmethod
    def _now() -> float:
        # The clock of the loop, as that of the pauses and time limits.
        return asyncio.get_running_loop().time()

    async def _in_time(self, work: Awaitable[T], times: int) -> T:
        try:
            async with asyncio.timeout(times * self._patience.call):
                result = await work
        except TimeoutError as error:
            raise TimedOut(f"the batch API of {self.name} did not answer in time") from error
        self._outage.answered()
        return result


def plain_request(request: Request | ChoicesRequest) -> Request:
    """Return the request that is sent: of choices, the one whose alternatives hold them."""
    return request if isinstance(request, Request) else choices_as_request(request)


def _was_stopped(status: BatchStatus) -> bool:
    """Return whether a batch ended before all of it was run."""
    return any(word in status.word.lower() for word in ("expired", "cancel"))

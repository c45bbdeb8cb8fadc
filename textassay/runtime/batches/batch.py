"""One batch, from its requests to their answers: a state machine that survives its process.

prepared -> uploaded -> submitted -> ended -> collected. Each state is journaled before the next
step is taken, so that a run resumes from the last one after a crash. Answers are stored before
their callers are woken, and a batch counts as collected only when all of its answers are stored.
`Polling` decides how often and how long a provider is asked about it; `BatchBook` records a run's
batches:

RUN/batches.jsonl               states of the batches, each forced to the disk before the next step
RUN/batches/TAG.requests.jsonl  key and request, one a line, until the batch is collected
RUN/batches/TAG.input.jsonl     the lines that the provider takes
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast

from textassay.runtime.backends import http_errors
from textassay.runtime.backends.openai_format import choices_as_request, out_of_tokens, read_choices
from textassay.runtime.base import NO_USAGE
from textassay.runtime.batches.dialect import (
    UNREADABLE,
    BatchRecord,
    BatchStatus,
    Dialect,
    FileUnread,
    ResultsGone,
    State,
    Undecided,
)
from textassay.runtime.calls.cache import encode_answer, look_up
from textassay.runtime.calls.call import Call, Posting
from textassay.runtime.calls.masking import MaskedModel
from textassay.runtime.concurrency import gather, give_error, give_result
from textassay.runtime.errors import (
    AnswerTooLong,
    CapabilityError,
    DataError,
    FatalModelError,
    ModelError,
    ModelNotFound,
    NothingListening,
    PathNotFound,
    RateLimited,
    RequestRefused,
    TimedOut,
    TransientError,
)
from textassay.runtime.model import AnyResponse, ChoicesRequest, Request, Response
from textassay.runtime.storage.answer_store import AnswerStore
from textassay.runtime.storage.files import encode, storage_errors, sync_folder, write_synced
from textassay.runtime.storage.journal import Journal, read_rows
from textassay.runtime.storage.run_files import BATCHES

AT_ONCE = 500
"""Answers that are looked up, or stored, together: 10,000 take 20 transactions of the store. Any
number of hundreds does."""
_PREPARED = ("model", "group", "requests", "since", "attempt")
"""Fields of a record in the first row of its batch, beside `known`."""

Reply = TypeVar("Reply")
_log = logging.getLogger(__name__)


class BatchUnfinished(ModelError):
    """A batch cannot be followed at present: the run stops, and a resumed run continues with it.

    Its requests may be running: if they were sent again, they could be billed twice.
    """

    stops_run = True


class MissingAnswer(ModelError):
    """An ended batch has no result for a request, which may have been billed."""


class BatchBook:
    """The batches of one run; one process writes to it."""

    def __init__(self, run: Path) -> None:
        """Read the journal."""
        self.run, self.path = run, run / BATCHES
        # If a power cut lost the row "submitted", the batch would be paid for twice.
        self._journal = Journal(self.path)
        try:
            self.records = read_records(run)
        except BaseException:
            self._journal.close()
            raise

    @property
    def ids(self) -> frozenset[str]:
        """The provider's ids of all batches that have one."""
        return frozenset(filter(None, (record.id for record in self.records.values())))

    def open_records(self, model: str) -> list[BatchRecord]:
        """Return a model's batches that are not collected yet, oldest first."""
        return [e for e in self.records.values() if e.model == model and e.state != "collected"]

    async def prepare(
        self, record: BatchRecord, calls: Iterable[tuple[str, Call]], lines: Iterable[bytes]
    ) -> None:
        """Write a batch to the disk, before any of it is sent."""
        rows = (
            encode({
                "key": key,
                "kind": type(call.request).__name__,
                "request": call.request.model_dump(),
                "posting": call.posting._asdict(),
            })
            for key, call in calls
        )  # fmt: skip
        # The files come first, since the journal's row implies that they exist.
        await asyncio.to_thread(_write, self._requests(record.tag), rows)
        await asyncio.to_thread(_write, self.input(record.tag), lines)
        facts = {name: getattr(record, name) for name in _PREPARED}
        await self.note(record.tag, "prepared", **facts, known=sorted(record.known))

    async def note(self, tag: str, state: State, **facts: Any) -> None:
        """Journal a state; return once it is on the disk."""
        row = {"tag": tag, "state": state, "at": round(time.time(), 3), **facts}
        self._journal.append(encode(row))
        await self._journal.sync()
        _take(self.records, row)

    def requests(self, tag: str) -> Iterator[tuple[str, Call]]:
        """Iterate over the requests of a batch and their cache keys."""
        for row in read_rows(self._requests(tag)):
            posting: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in row["posting"].items()
            }
            kind = ChoicesRequest if row["kind"] == "ChoicesRequest" else Request
            yield row["key"], Call(kind(**row["request"]), Posting(**posting))

    def input(self, tag: str) -> Path:
        """Return the file that the provider takes."""
        return self.run / "batches" / f"{tag}.input.jsonl"

    def forget(self, tag: str) -> None:
        """Remove the requests of a batch that is collected."""
        with suppress(OSError):  # they are useless and harmless
            self._requests(tag).unlink(missing_ok=True)
            self.input(tag).unlink(missing_ok=True)

    @property
    def is_free(self) -> bool:
        """Whether all batches were refused, so that none is or may be submitted."""
        return all(not e.id and e.state == "collected" for e in self.records.values())

    async def aclose(self) -> None:
        """Close the journal; one without a batch that was submitted is removed."""
        await self._journal.aclose()
        # not before: another batch may be about to write its files into the folder
        with suppress(OSError):  # it is absent, or has files of batches that are not collected
            (self.run / "batches").rmdir()
        if self.is_free:
            # the folder of a `fit` has no lock: another one may have written, too
            self.records = read_records(self.run)
        if self.is_free:
            self.path.unlink(missing_ok=True)

    def _requests(self, tag: str) -> Path:
        return self.run / "batches" / f"{tag}.requests.jsonl"


def read_records(run: Path) -> dict[str, BatchRecord]:
    """Return the batches of a run by their tags; empty if it has no journal of them."""
    records: dict[str, BatchRecord] = {}
    path = run / BATCHES
    if path.exists():
        for row in read_rows(path):
            try:
                _take(records, row)
            except (KeyError, TypeError) as error:
                raise DataError(f"{path}: a line is damaged or was edited: {error!r}") from error
    return records


def _take(records: dict[str, BatchRecord], row: Mapping[str, Any]) -> None:
    """Apply a row of the journal to the records."""
    tag, state = row["tag"], row["state"]
    if state == "prepared":
        facts = {name: row[name] for name in _PREPARED}
        records[tag] = BatchRecord(tag, **facts, known=frozenset(row["known"]))
    record = records[tag]
    record.state = state
    # Rows have only the fields that have changed.
    record.uploaded = row.get("uploaded", record.uploaded)
    record.id = row.get("id", record.id) or ""
    if refused := row.get("refused"):
        record.known |= {refused}


def _write(path: Path, lines: Iterable[bytes]) -> None:
    """Write a file and force it to the disk."""
    with storage_errors(f"{path} cannot be written"):
        path.parent.mkdir(exist_ok=True)
        write_synced(path, (line + b"\n" for line in lines))
        sync_folder(path.parent)
        sync_folder(path.parent.parent)


class PendingRequest:
    """A request, the callers that wait for its answer, and the batch that will answer it."""

    def __init__(self, key: str, call: Call) -> None:
        self.key, self.call = key, call
        self.futures: list[asyncio.Future[AnyResponse]] = []
        self.batch: Batch | None = None
        self.spent = NO_USAGE
        """Usage of unusable answers."""

    def answer(self, result: AnyResponse) -> None:
        """Give the answer to all callers, with the usage of earlier ones added."""
        if self.spent is not NO_USAGE:
            result = result.model_copy(update={"usage": self.spent + result.usage})
        give_result(self.futures, result)

    def fail(self, error: Exception) -> None:
        """Raise an error where the answer is awaited."""
        give_error(self.futures, error)

    @property
    def request(self) -> Request | ChoicesRequest:
        return cast("Request | ChoicesRequest", self.call.request)

    @property
    def is_awaited(self) -> bool:
        """Whether a caller waits for the answer."""
        return bool(self.futures)

    @contextmanager
    def waiting(self) -> Iterator[asyncio.Future[AnyResponse]]:
        """Yield a future for the answer, which may come from now on."""
        future: asyncio.Future[AnyResponse] = asyncio.get_running_loop().create_future()
        # asyncio logs exceptions that are never retrieved, and the caller may be canceled
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.futures.append(future)
        try:
            yield future
        finally:
            self.futures.remove(future)


@dataclass(frozen=True)
class BatchContext:
    """The objects and settings that all batches of a model share."""

    dialect: Dialect
    book: BatchBook
    store: AnswerStore
    mask: MaskedModel
    policy: PollPolicy
    provider: Availability
    submit_only: bool = False
    """Whether the run stops once everything is submitted."""


@dataclass
class _Results:
    """The results of an ended batch."""

    answered: set[str] = field(default_factory=set)
    """Keys of requests whose answers are stored."""
    failed: dict[str, ModelError] = field(default_factory=dict)
    """Errors of requests without an answer, by key."""
    unrun: set[str] = field(default_factory=set)
    """Keys of requests that were certainly not run."""
    ignored: int = 0
    """Lines that are unknown, repeated or unreadable."""
    unreadable: int = 0
    lost: ModelError | None = None
    """The error that ended the lines."""

    def error(self, key: str, status: BatchStatus) -> ModelError:
        """Return the reason why a request has no answer."""
        if key in self.failed:
            return self.failed[key]
        if status.failure:
            message = f"the provider refused the whole batch: {status.failure}"
            return http_errors.request_refused(message, 400, status.failure)
        return self.lost or MissingAnswer(
            f"the batch ended ({status.word}) without an answer to this request"
        )


class Batch:
    """One batch of a model, which `advance` carries to its end step by step.

    Once it is collected, every request has an answer or an error, or is one of the `remaining` for
    another batch.
    """

    def __init__(
        self,
        context: BatchContext,
        record: BatchRecord,
        calls: Iterable[PendingRequest],
        lines: Sequence[bytes] = (),
    ) -> None:
        self.record = record
        self.calls = {call.key: call for call in calls}
        self.is_waiting = False
        """Whether the provider has to run a batch before the next step."""
        self.remaining: list[PendingRequest] = []
        """Requests to be asked in another batch."""
        self.next_attempt = record.attempt
        """Attempt of a batch with the remaining requests."""
        self.is_divided = False
        """Whether the remaining requests are to be two batches."""
        self._context, self._book, self._dialect = context, context.book, context.dialect
        self._polling = Polling(context.policy, context.provider)
        self._lines = lines  # as the provider takes them; empty once they are on the disk
        self._is_resumed = self._may_be_started = not lines
        self._status: BatchStatus | None = None  # once it has ended
        self._was_unreadable = False
        self._were_running: frozenset[str] = frozenset()
        """Ids of other batches at the last refusal for lack of capacity."""

    @property
    def is_collected(self) -> bool:
        """Whether it has no further results."""
        return self.record.state == "collected"

    @property
    def is_open(self) -> bool:
        """Whether a later session would continue with it: it is recorded and not collected."""
        return self.record.tag in self._book.records and not self.is_collected

    @property
    def is_collecting(self) -> bool:
        """Whether it has ended, and its answers are being fetched."""
        return self._status is not None

    async def advance(self, *, running: frozenset[str]) -> float:
        """Take the next step; return the seconds to wait before the one after it."""
        if self._lines:
            await self._prepare(self._lines)
            return 0.0
        began = loop_time()
        try:
            pause = await self._step()
        except FileUnread as error:
            pause = self._polling.unread(error)
        except Undecided as error:
            self.is_waiting = True
            pause = self._polling.wait_for_decision(error)
        except AnswerTooLong:
            raise
        except TransientError as error:
            if not isinstance(error, RateLimited) or self.record.id:
                self._may_be_started = True  # despite the error
                return self._polling.outage(error, began)
            pause = await self._wait_for_capacity(error, running)
        self._polling.note_answer()
        return pause

    async def _prepare(self, lines: Sequence[bytes]) -> None:
        calls = ((pending.key, pending.call) for pending in self.calls.values())
        await self._book.prepare(self.record, calls, lines)
        self._lines = ()  # up to hundreds of megabytes, and batches take hours
        self.record = self._book.records[self.record.tag]

    async def _step(self) -> float:
        """Ask the provider for the next step; return the seconds to wait after it."""
        if not self.record.id:
            await self._submit()
            return 0.0
        if not self._status:
            return await self._look(self.record.id)
        return await self._collect(self.record.id, self._status)

    async def _submit(self) -> None:
        """Submit the batch, unless that was done already."""
        try:
            batch_id = await self._find_or_start()
        except (FatalModelError, RequestRefused):
            if not self._may_be_started:  # the batch itself was refused
                await self._close(failed=len(self.calls))
            raise
        if batch_id:
            # After a crash before this row, `find` looks for the batch.
            await self._book.note(self.record.tag, "submitted", id=batch_id)

    async def _find_or_start(self) -> str:
        """Return the id of the batch, found or started; empty if it was dissolved."""
        record, file = self.record, self._book.input(self.record.tag)
        if self._may_be_started:
            # its id was never noted, so batches whose ids are known are others
            record.known |= self._book.ids
            if batch_id := await self._in_time(self._dialect.find(record, self.calls.keys()), 10):
                return batch_id
            if self._is_resumed and await self._dissolve_if_answered():
                return ""
        # It was not found, so it was not started: retries after a refusal need not look again.
        self._may_be_started = False
        if not record.uploaded and (
            uploaded := await self._in_time(self._dialect.upload(file), 10)
        ):
            # Noted before the batch is started: after a crash in between, the file is not uploaded
            # again, and a batch that was started despite it is found by its file.
            await self._book.note(record.tag, "uploaded", uploaded=uploaded)
        return await self._in_time(self._dialect.submit(record, file), 10)

    async def _dissolve_if_answered(self) -> bool:
        """Dissolve a batch that was never submitted if single calls have answered some requests.

        An earlier session may have sent them after it gave the batch up. Requests without an answer
        remain for another batch.
        """
        answers: dict[str, AnyResponse] = {}
        keys = iter(self.calls)
        # together, as a distant store returns many as fast as one
        while some := list(islice(keys, AT_ONCE)):
            stored = await gather([look_up(self._context.store, key) for key in some])
            answers |= {k: answer for k, answer in zip(some, stored, strict=True) if answer}
        if not answers:
            return False
        # Before the rest is queued: after a crash in between, the run sends it like new requests,
        # while two batches in the journal would both be submitted.
        await self._close(answered=len(answers))
        for key, answer in answers.items():
            self.calls[key].answer(answer)
        self.remaining = [call for key, call in self.calls.items() if key not in answers]
        return True

    async def _wait_for_capacity(self, error: RateLimited, running: frozenset[str]) -> float:
        """Wait for capacity, or divide the batch, which may be larger than the account allows."""
        # Only a batch that already ran before counts: one that was just accepted may be refused
        # like this one, and the two would wait for each other for ever.
        is_other_running = not running.isdisjoint(self._were_running)
        self._were_running = running
        # with `submit_only`, the run does not wait for the end of others, which may take a day
        waits = is_other_running and not (self._context.submit_only or self._may_be_started)
        try:
            return self._polling.no_capacity(error, is_other_running=waits)
        except RateLimited:
            if self._may_be_started or len(self.calls) <= 10:  # its size is not the cause
                raise
        _log.warning(
            "the provider has no capacity for batch %s of %d requests, which is divided",
            self.record.tag,
            len(self.calls),
        )
        # before the halves are recorded: after a crash in between, their requests are new
        await self._close()
        self.remaining, self.is_divided = list(self.calls.values()), True
        return 0.0

    async def _look(self, batch_id: str) -> float:
        """Ask for the status of the submitted batch."""
        try:
            status = await self._in_time(self._dialect.status(batch_id), 1)
        except (ModelNotFound, PathNotFound) as error:
            # not asked again automatically: with another key it is only invisible
            tag, days = self.record.tag, (time.time() - self.record.since) / 86400
            raise BatchUnfinished(
                f"the provider does not know batch {batch_id} of {self._context.provider.name},"
                f" made {days:.1f} days ago: the key or the address is of another account, or the"
                f" batch was deleted. To give it up, remove the lines with {tag} from"
                f" {self._book.path}; its requests are then asked again ({error})"
            ) from error
        self.is_waiting = not status.ended
        if not status.ended:
            return self._polling.look_again()
        if status.is_postponed:
            # The provider accepted it, read its file, and found that too much is enqueued.
            await self._book.note(self.record.tag, "uploaded", id=None, refused=batch_id)
            self._is_resumed = self._may_be_started = False
            raise RateLimited(status.failure or status.word)
        if self.record.state != "ended":
            await self._book.note(self.record.tag, "ended", status=status.word)
        self._status = status
        return 0.0

    async def _collect(self, batch_id: str, status: BatchStatus) -> float:
        """Store all answers and wake their callers; requests that were not run remain."""
        # Repeated in each attempt: answers are stored again.
        results = _Results()
        await self._in_time(self._read(results, batch_id, status), 30)
        # A line that cannot be read may have been damaged on its way.
        if results.unreadable and not self._was_unreadable:
            self._was_unreadable = True
            return min(_Wait.pause, self._context.policy.interval)
        await self._close(answered=len(results.answered), failed=len(results.failed))
        if results.ignored:
            _log.warning(
                "batch %s: %d rows were unknown, repeated or unreadable",
                self.record.tag,
                results.ignored,
            )
        for key, call in self.calls.items():
            if key in results.answered:
                continue
            reason = results.error(key, status)
            if key in results.failed and reason.usage:
                call.spent = reason.usage = call.spent + reason.usage
            # A request that was not run is free; it is repeated once, if a caller waits.
            was_run = key not in results.unrun and (key in results.failed or not status.was_stopped)
            is_worth_another = not was_run or isinstance(reason, TransientError)
            if is_worth_another and self.record.attempt == 1 and call.is_awaited:
                self.remaining.append(call)
            else:
                call.fail(reason)
        self.next_attempt = self.record.attempt + 1
        return 0.0

    async def _read(self, results: _Results, batch_id: str, status: BatchStatus) -> None:
        """Read the provider's result of each request, and store the answers."""
        pending: dict[str, Any] = {}
        try:
            async for row in self._dialect.results(batch_id, status, tuple(self.calls)):
                if row.key not in self.calls or row.key in results.answered or row.key in pending:
                    results.ignored += 1
                    results.unreadable += row is UNREADABLE
                elif row.error:
                    results.failed[row.key] = row.error
                    if row.unrun:
                        results.unrun.add(row.key)
                else:
                    pending[row.key] = row.payload
                    if len(pending) >= AT_ONCE:
                        await self._keep_all(pending, results)
        except ResultsGone as error:
            results.lost = error
        except ModelError:
            await self._keep_all(pending, results)  # the answers read so far are paid for
            raise
        await self._keep_all(pending, results)

    async def _keep_all(self, pending: dict[str, Any], results: _Results) -> None:
        while pending:
            some = list(islice(pending, AT_ONCE))
            # Together, so that the store commits them in one transaction.
            await gather(self._keep(key, pending.pop(key), results) for key in some)

    async def _keep(self, key: str, payload: Any, results: _Results) -> None:
        """Store an answer and wake its callers, or note why it cannot be used."""
        request = self.calls[key].request
        plain = plain_request(request)

        async def read(_: Call) -> AnyResponse:
            return self._dialect.read(payload, plain)

        try:
            answer: AnyResponse = await self._context.mask.around(Call(plain), read)
            if isinstance(request, ChoicesRequest):
                answer = read_choices(cast(Response, answer), request)
            elif cast(Response, answer).is_unfinished:
                # not stored: the request is repeated with more tokens under the same key
                raise out_of_tokens(cast(Response, answer))
        except CapabilityError as error:
            refused = results.failed[key] = RequestRefused(str(error))
            refused.refusal, refused.usage = getattr(error, "refusal", None), error.usage
        except ModelError as error:
            results.failed[key] = error
        else:
            # Stored before a caller is woken, which may end the process at once.
            await self._context.store.put(key, encode_answer(answer))
            self.calls[key].answer(answer)
            results.answered.add(key)
            results.failed.pop(key, None)

    async def _close(self, *, answered: int = 0, failed: int = 0) -> None:
        """Note that the batch has no further results, and forget its requests."""
        tag = self.record.tag
        await self._book.note(tag, "collected", answered=answered, failed=failed)
        # Only after "collected" is on the disk: until then a crash needs the requests.
        self._book.forget(tag)

    async def _in_time(self, work: Awaitable[Reply], times: int) -> Reply:
        try:
            async with asyncio.timeout(times * self._context.policy.call):
                result = await work
        except TimeoutError as error:
            raise TimedOut(
                f"the batch API of {self._context.provider.name} did not answer in time"
            ) from error
        self._context.provider.has_answered = True
        return result


def plain_request(request: Request | ChoicesRequest) -> Request:
    """Return the request that is sent; for choices, one whose alternatives include them."""
    return request if isinstance(request, Request) else choices_as_request(request)


@dataclass(frozen=True)
class PollPolicy:
    """How often a provider is asked about batches, and how long; in seconds."""

    quiet: float = 2.0
    """Longest wait for a further request before a batch is submitted, which `BatchQueue` shortens:
    a graph sends all possible requests in one turn of the loop, and its tools take no longer.
    """
    interval: float = 60.0
    """Longest time between two requests for a batch's status; the first ones are sent sooner."""
    call: float = 120.0
    """Time for one small call; uploads and results get ten times as long or more."""
    outage: float = 300.0
    """Time for which a provider may fail every call."""
    first_answer: float = 10.0
    """The same if nothing listens or the path is unknown, and the provider has not answered in this
    session: then its address is probably wrong.
    """
    pause: float = 300.0
    """Longest time between two attempts, even if the provider asks for more."""
    unread: float = 3600.0
    """Time that a provider may take to read an uploaded file."""
    capacity: float = 1800.0
    """Time for which a provider may lack capacity for a batch while no other batch of the run is
    running.
    """


@dataclass
class Availability:
    """Whether the batch API of a model answers; shared by all batches of the model."""

    name: str
    has_answered: bool = False
    is_failing: bool = False

    def note_answer(self) -> None:
        """Note that the provider has answered a call; log the end of an outage."""
        self.has_answered = True
        if self.is_failing:
            self.is_failing = False
            _log.warning("the batch API of %s answers again", self.name)

    def note_failure(self, error: TransientError, seconds: float) -> None:
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
    pause: float = 0.1
    is_reported: bool = False


class Polling:
    """The waits of one batch.

    Each is logged once, returns the seconds to the next attempt, and raises its error after too
    long a time.
    """

    def __init__(self, policy: PollPolicy, provider: Availability) -> None:
        self._policy, self._provider = policy, provider
        self._waits: defaultdict[str, _Wait] = defaultdict(_Wait)

    def note_answer(self) -> None:
        """Record an answer, even a refusal, which ends an outage."""
        self._waits.pop("outage", None)
        self._provider.note_answer()

    def look_again(self) -> float:
        """Wait for the batch to end."""
        return self._pause("end")

    def outage(self, error: TransientError, since: float) -> float:
        """Wait for a provider that fails; its first failed call began at `since`."""
        longest, has_answered = self._policy.outage, self._provider.has_answered
        if isinstance(error, (NothingListening, PathNotFound)) and not has_answered:
            longest = min(longest, self._policy.first_answer)
        if self._waiting_time("outage", since) > longest:
            if isinstance(error, PathNotFound) and not has_answered:
                raise ModelNotFound(str(error)) from error
            raise error
        self._provider.note_failure(error, longest)
        return self._pause("outage")

    def no_capacity(self, error: RateLimited, *, is_other_running: bool) -> float:
        """Wait until fewer tokens are enqueued than the account allows."""
        if is_other_running:
            self._waits["capacity"].since = None
        if self._waiting_time("capacity") > self._policy.capacity:
            raise error
        name = self._provider.name
        self._report(
            "capacity",
            f"the batch API of {name} has no capacity for another batch yet; it is submitted again"
            f" later: {error}",
        )
        return min(max(self._pause("capacity"), error.retry_after or 0.0), self._policy.pause)

    def unread(self, error: FileUnread) -> float:
        """Wait until the provider has read an uploaded file."""
        waited, longest = self._waiting_time("unread"), self._policy.unread
        if waited > longest:
            raise FileUnread(
                f"{error} within {waited / 60:.0f} minutes; a resumed run looks at it again"
            ) from error
        if waited > 60:  # most files are read earlier
            self._report("unread", f"{error}; waiting for up to {longest / 60:.0f} minutes")
        return self._pause("unread")

    def wait_for_decision(self, error: Undecided) -> float:
        """Wait for the end of a batch that may be ours."""
        self._report("undecided", str(error))
        return self._pause("undecided")

    def _waiting_time(self, reason: str, since: float | None = None) -> float:
        """Return how long a reason has lasted; a new one begins now, or at `since`."""
        wait = self._waits[reason]
        if wait.since is None:
            wait.since = loop_time() if since is None else since
        return loop_time() - wait.since

    def _report(self, reason: str, message: str) -> None:
        wait = self._waits[reason]
        if not wait.is_reported:
            wait.is_reported = True
            _log.warning("%s", message)

    def _pause(self, reason: str) -> float:
        longest = self._policy.interval
        if reason != "end":
            longest = min(longest, self._policy.pause)
        wait = self._waits[reason]
        pause = min(wait.pause, longest)
        wait.pause = min(1.5 * wait.pause, longest)
        return pause


def loop_time() -> float:
    """Return the time of the loop's clock, which pauses and time limits use."""
    return asyncio.get_running_loop().time()

"""The model that answers through batches.

Requests wait, a batch is cut when no more come, its answers wake them; `job.py` carries each batch
to its end.

The custom id of a request is the key of its answer, so a batch is known by its content: a repeated
request, in this process or after a crash, joins the batch in progress.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from textassay.runtime.backends.openai_probabilities import choices_as_request, read_choices
from textassay.runtime.batches.book import BatchBook, BatchEntry, KeyedRequest
from textassay.runtime.batches.callers import Callers
from textassay.runtime.batches.job import BatchContext, BatchJob, BatchUnfinished
from textassay.runtime.batches.outage import Outage
from textassay.runtime.batches.patience import Patience
from textassay.runtime.batches.provider import BatchProvider
from textassay.runtime.calls.cache import Keys, encode_answer, identity_bytes, look_up
from textassay.runtime.calls.masking import MaskedModel
from textassay.runtime.errors import (
    CapabilityError,
    ModelClosed,
    ModelError,
    RequestRefused,
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


class BatchesSubmitted(ModelError):
    """Everything that can be requested now is submitted, and `submit_only` is set.

    The run stops, resumable.
    """

    stops_run = True


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
        patience: Patience,
        known_secrets: Iterable[str] = (),
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
            patience: How long is waited.
            known_secrets: What answers must not show.
            submit_only: Whether to stop the run once everything is submitted.
        """
        self._backend, self._provider, self._book, self._store = backend, provider, book, store
        self._identity = identity
        self._keys = Keys(identity)
        self._model = hashlib.sha256(identity_bytes(identity)).hexdigest()[:16]
        self._mask = MaskedModel(backend, known_secrets)
        self._patience = patience
        self._callers = Callers()
        self._context = BatchContext(
            name=backend.name,
            provider=provider,
            book=book,
            store=store,
            callers=self._callers,
            outage=Outage(backend.name, patience.outage),
            patience=patience,
            keep=self._keep,
            submit_only=submit_only,
            requeue=self._requeue,
            requeue_as_batch=self._requeue_as_batch,
            is_another_running=self._is_another_running,
            announce_if_all_submitted=self._announce_if_all_submitted,
        )
        # Per key of a request the tag of its batch, "" as long as it is queued.
        self._under_way: dict[str, str] = {}
        # Per key the batch that was given up with it in this session, and is not collected.
        self._given_up: dict[str, BatchEntry] = {}
        self._queued: dict[tuple[str, int], dict[str, tuple[KeyedRequest, bytes]]] = defaultdict(
            dict
        )
        self._bytes: dict[tuple[str, int], int] = defaultdict(int)
        self._jobs: dict[BatchJob, asyncio.Task[None]] = {}
        self._reading = 0
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
        collecting = [task for job, task in self._jobs.items() if job.is_collecting]
        if collecting:  # answers that are being kept need not be fetched again
            await asyncio.wait(collecting, timeout=self._patience.call)
        tasks = list(self._jobs.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._jobs.clear()  # a task that was canceled before its first step has not done so
        for key in self._callers:
            self._callers.fail(key, self._was_closed())
        await self._provider.aclose()

    def _was_closed(self) -> ModelClosed:
        return ModelClosed(f"model {self.name!r} was used after it was closed")

    async def _ask(self, request: Request | ChoicesRequest) -> AnyResponse:
        if self._closed:
            raise self._was_closed()
        self._start()
        key = self._keys.get(request)
        try:
            # before the store is read: an answer that is kept while a distant one replies is not
            # missed, nor asked for again
            with self._callers.waiting(key) as future:
                kept = await self._kept(key)
                if kept is not None:
                    return kept
                if not future.done():
                    self._ensure_asked(key, request)
                return await future
        finally:
            if key not in self._callers:
                self._withdraw(key)

    async def _kept(self, key: str) -> AnyResponse | None:
        """Return an answer that has come since the cache was asked.

        A batch of an earlier session may have ended: nobody would be woken by its answers.
        """
        self._reading += 1
        try:
            return await look_up(self._store, key)
        finally:
            self._reading -= 1

    def _ensure_asked(self, key: str, request: Request | ChoicesRequest) -> None:
        if self._closed:  # since the caller has begun to wait
            raise self._was_closed()
        if key in self._under_way:
            return
        # Of two batches in the journal with the same request, a later session would submit both.
        if (entry := self._given_up.get(key)) is not None:
            self._resume(entry)
        else:
            self._enqueue(KeyedRequest(key, request), attempt=1)

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
        self._start_job(entry, requests)

    def _requeue(self, items: Iterable[KeyedRequest], attempt: int) -> None:
        for item in items:
            self._enqueue(item, attempt)

    def _requeue_as_batch(self, items: Iterable[KeyedRequest], attempt: int) -> None:
        groups = {self._enqueue(item, attempt) for item in items}
        for group in groups:
            self._cut(group)

    def _is_another_running(self, entry: BatchEntry) -> bool:
        # of those that are followed: nobody hears of the end of one that was given up
        return any(job.entry.id is not None for job in self._jobs if job.entry.tag != entry.tag)

    def _enqueue(self, item: KeyedRequest, attempt: int) -> tuple[str, int]:
        """Queue a request; return the group with which it is cut."""
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
        return group

    def _withdraw(self, key: str) -> None:
        """Remove a queued request whose caller was canceled before its batch was cut."""
        for group, rows in self._queued.items():
            if (row := rows.pop(key, None)) is not None:
                self._bytes[group] -= len(row[1]) + 1
                self._under_way.pop(key, None)

    def _wait_for_quiet(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._closed:
            return
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
        if not rows or self._closed:
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
        self._start_job(entry, requests, [line for _, line in rows.values()])

    def _start_job(
        self,
        entry: BatchEntry,
        requests: Mapping[str, KeyedRequest],
        lines: Sequence[bytes] | None = None,
    ) -> None:
        """Have a batch carried to its end; without `lines`, one that is written down already."""
        self._under_way.update(dict.fromkeys(requests, entry.tag))
        job = BatchJob(entry, requests, self._context, lines)
        self._jobs[job] = asyncio.create_task(self._follow(job))

    async def _follow(self, job: BatchJob) -> None:
        try:
            await job.run()
        except Exception as error:  # a fault of ours, too, must reach those who wait
            reason = self._given_up_with(job, error)
            for key in job.requests:
                self._callers.fail(key, reason)
        finally:
            del self._jobs[job]
            for key in job.requests:
                # What was put into another batch meanwhile is still under way.
                if self._under_way.get(key) == job.entry.tag:
                    del self._under_way[key]

    def _given_up_with(self, job: BatchJob, error: Exception) -> Exception:
        """Return what to raise for the requests of a batch that has failed.

        One that may be running is taken up again when its requests are repeated.
        """
        kept = self._book.entries.get(job.entry.tag)
        if kept is None or kept.state == "collected":
            return error
        self._given_up.update(dict.fromkeys(job.requests, kept))
        if not isinstance(error, ModelError) or error.stops_run:
            return error
        which = kept.tag if kept.id is None else f"{kept.id} ({kept.tag})"
        unfinished = BatchUnfinished(
            f"batch {which} of {self.name} is not collected yet, and a resumed run goes on with"
            f" it: {quoted(error)}"
        )
        unfinished.__cause__ = error
        return unfinished

    def _announce_if_all_submitted(self) -> None:
        """Fail all waiting requests with `BatchesSubmitted`, once everything is submitted."""
        is_queued = self._reading or any(self._queued.values())
        if is_queued or not all(job.is_submitted for job in self._jobs):
            return
        requests, batches = len(self._under_way), len(self._book.open_entries(self._model))
        asked, verb = ("1 request", "is") if requests == 1 else (f"{requests} requests", "are")
        for key in self._callers:
            self._callers.fail(
                key,
                BatchesSubmitted(
                    f"{asked} to {self.name} {verb} submitted in {batches} "
                    f"batch{'es' if batches != 1 else ''}"
                ),
            )

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
        self._callers.answer(item.key, answer)


def plain_request(request: Request | ChoicesRequest) -> Request:
    """Return the request that is sent: of choices, the one whose alternatives hold them."""
    return request if isinstance(request, Request) else choices_as_request(request)

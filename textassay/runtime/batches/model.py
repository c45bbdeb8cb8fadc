"""The model that answers through batches.

`open_dialect` finds the batch API of a model by its name, and how to reach it.

Requests wait; a batch is made when no more requests come, and its answers wake the callers.
`batch.py` processes each batch.

The custom id of a request is the key of its answer, so a batch is known by its content: a repeated
request, in this process or after a crash, joins the batch in progress.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from textassay.runtime.backends.endpoint import PROVIDERS, Endpoint, read_address, split_address
from textassay.runtime.batches.anthropic import AnthropicDialect
from textassay.runtime.batches.batch import (
    Batch,
    BatchContext,
    BatchUnfinished,
    PendingRequest,
    loop_time,
    plain_request,
)
from textassay.runtime.batches.dialect import BatchHttp, BatchRecord, Dialect
from textassay.runtime.batches.gemini import GeminiDialect
from textassay.runtime.batches.openai import SERVERS, OpenAIDialect, OpenAIServer
from textassay.runtime.calls.cache import look_up
from textassay.runtime.calls.call import Call, Send, Wrapper
from textassay.runtime.errors import (
    CapabilityError,
    ConfigurationError,
    ModelClosed,
    ModelError,
    RequestRefused,
)
from textassay.runtime.model import (
    AnyResponse,
    Capabilities,
    ContinuationRequest,
    Model,
    load_images,
)
from textassay.runtime.questions import DecisionRequest

_RequestGroup = tuple[str, int]
"""The dialect's group and the attempt, which requests of one batch have in common."""


class BatchesSubmitted(ModelError):
    """All requests so far are submitted, and `submit_only` is set: the run stops."""

    stops_run = True


@dataclass
class _Pending:
    """Requests of one group that wait for their batch to be cut."""

    lines: dict[str, bytes] = field(default_factory=dict)
    """The lines of the batch by the keys of the requests."""
    size: int = 0
    """Bytes of all lines."""


class BatchQueue(Wrapper):
    """Answers requests through a provider's batches.

    Batches of earlier sessions are resumed with the first request.
    """

    def __init__(self, backend: Model, context: BatchContext) -> None:
        super().__init__(backend)
        self._context = context
        self._model = hashlib.sha256(self.identity_bytes).hexdigest()[:16]
        # Requests that callers wait for, or that a batch has which is not collected.
        self._calls: dict[str, PendingRequest] = {}
        self._queued: defaultdict[_RequestGroup, _Pending] = defaultdict(_Pending)
        self._tasks: dict[Batch, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._active_at = 0.0
        """When the last request was queued, or the last answer came, which may lead to another."""
        self._longest_gap = 0.0
        """Longest time in seconds from there to the next request, which depends on the run's tools.
        """
        self._started = self._closed = False

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        """Return the answer once its batch has ended; refuse requests that no batch API takes."""
        if isinstance(call.request, ContinuationRequest):
            raise CapabilityError(
                f"batches of {self.name!r} cannot score the likelihood of a given text; leave out"
                " batch="
            )
        if isinstance(call.request, DecisionRequest):
            raise CapabilityError(
                f"{self.name!r} answers typed questions, and no provider takes these in batches;"
                " leave out batch="
            )
        if self._closed:
            raise self._was_closed()
        self._resume_earlier()
        key, images = call.key(self.identity_bytes), call.request.images
        if images:  # read here, off the event loop, so that they are at hand when queued
            await asyncio.to_thread(load_images, images)
        if (pending := self._calls.get(key)) is None:
            pending = self._calls[key] = PendingRequest(key, call)
        try:
            # before the store is read: an answer that comes meanwhile is not missed
            with pending.waiting() as future:
                # a batch of an earlier session may have ended since the cache was read
                if stored := await look_up(self._context.store, key):
                    return stored
                if not future.done():
                    self._ensure_asked(pending)
                answer = await future
                self._active_at = loop_time()
                return answer
        finally:
            if not pending.is_awaited:
                self._withdraw(pending)

    async def aclose(self) -> None:
        """Stop waiting; submitted batches continue at the provider."""
        self._closed = True
        if self._timer:
            self._timer.cancel()
        collecting = [task for batch, task in self._tasks.items() if batch.is_collecting]
        if collecting:  # their answers need not be fetched again
            await asyncio.wait(collecting, timeout=self._context.policy.call)
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._tasks.clear()  # tasks that were canceled before their first step are still in it
        for call in self._calls.values():
            call.fail(self._was_closed())
        await self._context.dialect.aclose()

    def _was_closed(self) -> ModelClosed:
        return ModelClosed(f"model {self.name!r} was used after it was closed")

    def _ensure_asked(self, call: PendingRequest) -> None:
        if self._closed:  # since the caller has begun to wait
            raise self._was_closed()
        if not call.batch:
            if not self._is_queued(call):
                self._enqueue(call, attempt=1)
        elif call.batch not in self._tasks:
            # Follow it again rather than make another one: of two batches in the journal with the
            # same request, a later session would submit both.
            self._start(Batch(self._context, call.batch.record, call.batch.calls.values()))

    def _resume_earlier(self) -> None:
        """Resume the batches of earlier sessions."""
        if self._started:
            return
        self._started = True
        for record in self._context.book.open_records(self._model):
            calls = [
                self._calls.setdefault(key, PendingRequest(key, earlier))
                for key, earlier in self._context.book.requests(record.tag)
            ]
            self._start(Batch(self._context, record, calls))

    def _enqueue(self, pending: PendingRequest, attempt: int) -> _RequestGroup:
        """Queue a request; return the group with which it is cut."""
        key, posting = pending.key, pending.call.posting
        plain = plain_request(pending.request)
        group = (self._context.dialect.group(plain, posting), attempt)
        if plain.images:
            plain = plain.model_copy(update={"images": load_images(plain.images)})
        line = self._context.dialect.encode(key, plain, posting)
        limits, size = self._context.dialect.limits, len(line) + 1
        if size > limits.bytes:
            raise RequestRefused(f"the request has {size} bytes, a batch at most {limits.bytes}")
        # Cut before the request that would exceed the size, and after the one that completes the
        # count.
        if self._queued[group].size + size > limits.bytes:
            self._cut(group)
        queued = self._queued[group]
        queued.lines[key] = line
        queued.size += size
        if len(queued.lines) >= limits.requests:
            self._cut(group)
        self._wait_for_quiet()
        return group

    def _is_queued(self, call: PendingRequest) -> bool:
        return any(call.key in pending.lines for pending in self._queued.values())

    def _withdraw(self, call: PendingRequest) -> None:
        """Forget a request that no caller waits for, unless a batch has it."""
        if call.batch:
            return
        self._calls.pop(call.key, None)
        for pending in self._queued.values():
            if line := pending.lines.pop(call.key, b""):
                pending.size -= len(line) + 1

    def _wait_for_quiet(self) -> None:
        if self._timer:
            self._timer.cancel()
        if self._closed:
            return
        now, quiet = loop_time(), self._context.policy.quiet
        if self._active_at:
            self._longest_gap = max(self._longest_gap, now - self._active_at)
        self._active_at = now
        # a request that comes too late costs a batch; in `submit_only` it would cost a session
        if not self._context.submit_only:
            quiet = min(quiet, 0.2 + 4 * self._longest_gap)
        self._timer = asyncio.get_running_loop().call_later(quiet, self._cut_all)

    def _cut_all(self) -> None:
        self._timer = None
        for group in list(self._queued):
            self._cut(group)

    def _cut(self, group: _RequestGroup) -> None:
        """Make a batch of the queued requests of a group."""
        pending = self._queued.pop(group, _Pending())
        if not pending.lines or self._closed:
            return
        record = BatchRecord(
            tag=f"textassay-{secrets.token_hex(8)}",
            model=self._model,
            group=group[0],
            requests=len(pending.lines),
            since=time.time(),
            attempt=group[1],
            # Batches that exist already cannot be this one.
            known=self._context.book.ids,
        )
        calls = [self._calls[key] for key in pending.lines]
        self._start(Batch(self._context, record, calls, list(pending.lines.values())))

    def _start(self, batch: Batch) -> None:
        for call in batch.calls.values():
            call.batch = batch
        self._tasks[batch] = asyncio.create_task(self._follow(batch))

    async def _follow(self, batch: Batch) -> None:
        try:
            while not batch.is_collected:
                # only batches that are followed: of others the end is not noticed
                others = (other.record.id for other in self._tasks if other is not batch)
                running = frozenset(filter(None, others))
                pause = await batch.advance(running=running)
                if self._context.submit_only and batch.is_waiting:
                    self._stop_if_all_submitted()
                if pause:
                    await asyncio.sleep(pause)
            self._requeue(batch)
        except Exception as error:  # errors of our own must reach the callers as well
            reason = self._failure_of(batch, error)
            for call in batch.calls.values():
                call.fail(reason)
        finally:
            del self._tasks[batch]
            if not batch.is_open:
                self._release(batch)

    def _requeue(self, batch: Batch) -> None:
        """Put the remaining requests of a batch into another one, or into two."""
        remaining, half = batch.remaining, len(batch.remaining) // 2
        parts = [remaining[:half], remaining[half:]] if batch.is_divided else [remaining]
        for part in parts:
            groups = {self._enqueue(call, batch.next_attempt) for call in part}
            for group in groups if batch.is_divided else ():
                self._cut(group)

    def _release(self, batch: Batch) -> None:
        """Take a batch's requests from it, unless they are in another one meanwhile."""
        for call in batch.calls.values():
            if call.batch is batch:
                call.batch = None
                if not (call.is_awaited or self._is_queued(call)):
                    self._calls.pop(call.key, None)

    def _failure_of(self, batch: Batch, error: Exception) -> Exception:
        """Return the error of the requests of a batch that has failed."""
        if not batch.is_open or not isinstance(error, ModelError) or error.stops_run:
            return error
        tag, id_ = batch.record.tag, batch.record.id
        which = f"{id_} ({tag})" if id_ else tag
        unfinished = BatchUnfinished(
            f"batch {which} of {self.name} is not collected yet, and a resumed run continues with "
            f"it: {error}"
        )
        unfinished.__cause__ = error
        return unfinished

    def _stop_if_all_submitted(self) -> None:
        """Fail all waiting requests with `BatchesSubmitted`, once everything is submitted."""
        # a request without a batch is queued, or is being looked up in the store
        if not all(call.batch for call in self._calls.values()):
            return
        if not all(batch.is_waiting for batch in self._tasks):
            return
        requests, batches = sum(len(batch.calls) for batch in self._tasks), len(self._tasks)
        text, verb = ("1 request", "is") if requests == 1 else (f"{requests} requests", "are")
        for call in self._calls.values():
            call.fail(
                BatchesSubmitted(
                    f"{text} to {self.name} {verb} submitted in {batches} "
                    f"batch{'es' if batches != 1 else ''}"
                )
            )


class BatchAbilities(Wrapper):
    """A model with its abilities in batches, so that methods refuse others at once."""

    def __init__(self, wrapped: Model, dialect: Dialect) -> None:
        super().__init__(wrapped)
        self._lacks = dict.fromkeys(dialect.lacks, False)

    @property
    def capabilities(self) -> Capabilities:
        """The wrapped model's abilities that these batches share."""
        return self.wrapped.capabilities.model_copy(update=self._lacks)


DIALECTS: dict[str, Callable[[BatchHttp, str], Dialect]] = {
    "anthropic": AnthropicDialect,
    "gemini": GeminiDialect,
}
"""Batch APIs that differ from OpenAI's by more than `SERVERS` describes, by provider."""


def open_dialect(
    name: str, *, api_base: str | None, api_key: str | None, endpoint: Endpoint, window: str = "24h"
) -> Dialect:
    """Return the batch API of a model."""
    provider, _, model = name.partition("/")
    if provider not in PROVIDERS or not model:
        raise ConfigurationError(
            f"no batch API is known for {name!r}; batch=True takes models of {', '.join(PROVIDERS)}"
        )
    api, server = PROVIDERS[provider], SERVERS.get(provider, OpenAIServer())
    if window != "24h" and not server.takes_windows:
        raise ConfigurationError(
            f"batches of {name!r} take 24 hours at most: leave out batch_window={window}"
        )
    base = api_base or api.address
    if not base:
        raise ConfigurationError(f"batches of {name!r} need api_base=")
    base = batch_address(provider, base, endpoint)
    login = read_address(base).login  # as with single calls, in place of a key in the environment
    key = api_key or ("" if login else api.key)
    header = endpoint.key_header or api.key_header
    secret = {header: key} if header else {"Authorization": f"Bearer {key}"}
    headers = {**api.headers, **(secret if key else {})}
    endpoint = endpoint._replace(max_bytes=max(endpoint.max_bytes, api.max_bytes))
    http = BatchHttp(base, endpoint, name=name, headers=headers, key=key)
    if provider in DIALECTS:
        return DIALECTS[provider](http, model)
    return OpenAIDialect(http, model, server, window=window)


def batch_address(provider: str, call_address: str, endpoint: Endpoint) -> str:
    """Return the address of the batch API for a given address of single calls.

    litellm takes the addresses of Azure and Anthropic without the API's own path.
    """
    address, query = split_address(call_address)
    if provider == "anthropic":
        # Complete addresses of single calls are accepted, too.
        address = address.removesuffix("/messages").removesuffix("/v1") + "/v1"
    elif provider == "azure":
        # Files and batches belong to the resource, single calls to one of its deployments.
        address, deployment, _ = address.partition("/openai/deployments/")
        if deployment or "openai" not in urlsplit(address).path.split("/"):
            # Only the older API, beside the one with "v1" in its path, has versions by date.
            dated = "api-version" in query | dict(endpoint.query)
            address += "/openai" if dated else "/openai/v1"
    return f"{address}?{urlencode(query)}" if query else address

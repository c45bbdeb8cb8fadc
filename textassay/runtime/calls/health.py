"""Distinguishes failures of a request from failures of its server, and waits for outages.

Knows the families of errors; knows nothing of HTTP. Belongs outside of retry: what it sees has
failed in every attempt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from textassay.runtime.errors import (
    AnswerUnfinished,
    ConnectionFailed,
    FatalModelError,
    MalformedResponse,
    ModelError,
    NothingListening,
    RequestRefused,
    ServerFailed,
    ServerUnusable,
    TimedOut,
)
from textassay.runtime.model import (
    A,
    AnyRequest,
    ChatMessage,
    ChoicesRequest,
    Model,
    Q,
    Request,
    Wrapper,
    scoring,
)

PROBE = "Is water wet? Answer with yes or no."
"""What is asked to find out whether a server answers anything at all."""

FIRST_PAUSE = 1.0
MAX_PAUSE = 30.0
"""Seconds between two probes of a server that is down: doubled from the first to the longest."""

_OUTAGE = (ServerFailed, ConnectionFailed, NothingListening, TimedOut)
_log = logging.getLogger(__name__)


class Health:
    """What calls to one model have shown of its server; shared by all stacks around the model."""

    def __init__(self, *, outage_wait: float = 300.0, failure_limit: int = 20) -> None:
        self.outage_wait, self.failure_limit = outage_wait, failure_limit
        self.answered = 0
        """Calls that were answered."""
        self.failed_in_a_row = 0
        """Calls that failed since the last answer."""
        self.outage: asyncio.Task[None] | None = None
        """Waits for the server to come back, while it is down."""


class HealthModel(Wrapper):
    """Decides what a failed call means for the run.

    - A refusal that would stop the run (a 403, an unknown model) is checked with a harmless
      request: if that is answered, the refusal is this text's own and becomes `RequestRefused`.
    - A server that has answered before and then fails like one that is down is probed with growing
      pauses for up to `outage_wait` seconds, while all callers wait; then everybody asks again.
    - `failure_limit` failed calls in a row, without an answer in between, stop the run, unless they
      are refusals and the harmless request is answered.
    """

    def __init__(self, wrapped: Model, *, once: Model, health: Health) -> None:
        super().__init__(wrapped)
        # `once` is without retries, for probes of a server that is down
        self._once, self.health = once, health

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Answer, once the server is up."""
        health, asked_again = self.health, False
        while True:
            if health.outage is not None:
                # Shielded: one caller that is canceled must not end the probing for all others.
                await asyncio.shield(health.outage)
            # If anything is answered between asking and failing, the server is up and the failure
            # is this request's own.
            answered_before = health.answered
            try:
                answer = await call(request)
            except ModelError as error:
                # The server answers: the request is adapted to what it says and sent again.
                if isinstance(error, AnswerUnfinished) or (
                    isinstance(error, RequestRefused) and error.refusal is not None
                ):
                    raise
                if isinstance(error, FatalModelError):
                    raise await self._own_refusal(error, request, answered_before) from error
                down = isinstance(error, NothingListening) or health.answered == answered_before
                # Waiting only helps a server that worked before. One that comes back and fails this
                # request again fails the request: it is not waited for a second time.
                if not (
                    isinstance(error, _OUTAGE) and down and health.answered and not asked_again
                ):
                    await self._count(error, request)
                    raise
                await self._wait_for_server(error, request)
                asked_again = True
            else:
                health.answered += 1
                health.failed_in_a_row = 0
                return answer

    async def _own_refusal(
        self, error: FatalModelError, request: AnyRequest, answered_before: int
    ) -> ModelError:
        """Return the error of this text alone if others are answered, else the error as it is."""
        if not error.may_be_text:
            return error
        if self.health.answered > answered_before or await self._answers_probe(request):
            return RequestRefused(f"{error} (refused for this text only: another was answered)")
        return error

    async def _count(self, error: ModelError, request: AnyRequest) -> None:
        health = self.health
        health.failed_in_a_row += 1
        if health.failed_in_a_row < health.failure_limit:
            return
        if isinstance(error, RequestRefused) and await self._answers_probe(request):
            health.failed_in_a_row = 0  # it is the texts that are refused
            return
        failed = health.failed_in_a_row
        _log.warning("%d calls in a row failed, the last with %s", failed, _kind(error))
        raise ServerUnusable(
            f"the last {failed} calls to {self.name} failed, and none was answered "
            f"in between; the last: {error}"
        ) from error

    async def _answers_probe(self, request: AnyRequest) -> bool:
        try:
            # With retries, for a single failed probe would turn one refused text into the end of
            # the run.
            await _ask(self.wrapped, probe_like(request))
        except ModelError as error:
            _log.debug("the probe failed: %s", type(error).__name__)
            return False
        return True

    async def _wait_for_server(self, error: ModelError, request: AnyRequest) -> None:
        """Wait until the server answers again, together with everybody else who waits for it."""
        health = self.health
        # One task probes for all: a server that struggles back up should not meet every caller's
        # probe.
        if health.outage is None:
            health.outage = asyncio.create_task(self._probe_until_up(error, request))
            health.outage.add_done_callback(self._outage_over)
        await asyncio.shield(health.outage)

    def _outage_over(self, task: asyncio.Task[None]) -> None:
        self.health.outage = None
        if not task.cancelled():
            task.exception()  # all who wait have it; if they were cancelled, nobody wants it

    async def _probe_until_up(self, error: ModelError, request: AnyRequest) -> None:
        loop, pause = asyncio.get_running_loop(), FIRST_PAUSE
        began = loop.time()
        while True:
            try:
                # Without retries: the pauses between probes are already those of this loop.
                await _ask(self._once, probe_like(request))
            except (*_OUTAGE, MalformedResponse) as failure:
                error = failure  # a gateway may answer with a page of its own meanwhile
            except ModelError as failure:
                # It answers, and what it says of the probe need not hold for those who wait.
                _log.debug("the server is up: the probe failed with %s", _kind(failure))
                return
            else:
                return
            left = began + self.health.outage_wait - loop.time()
            if left <= 0:
                _log.warning(
                    "no answer for %g s, the last %s", self.health.outage_wait, _kind(error)
                )
                raise ServerUnusable(
                    f"{self.name} answered before, and has failed for {loop.time() - began:.0f} s "
                    f"(outage_wait=SECONDS): {error}"
                ) from error
            _log.debug("server is down (%s); next probe in %.1f s", _kind(error), min(pause, left))
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, MAX_PAUSE)


def _kind(error: ModelError) -> str:
    return type(error).__name__


def probe_like(request: AnyRequest) -> AnyRequest:
    """Return a request of the same kind and settings as `request`, with a harmless text."""
    # The same kind and settings, because some servers refuse exactly those (log-probabilities,
    # say).
    fields: dict[str, Any] = {"truncatable": None}
    if request.messages:
        fields |= {"messages": (ChatMessage(role="user", content=PROBE),), "images": ()}
    else:
        fields["prompt"] = PROBE
    if isinstance(request, Request):
        fields["n"] = 1
    return request.model_copy(update=fields)


async def _ask(model: Model, request: AnyRequest) -> None:
    """Ask a request of any kind."""
    if isinstance(request, Request):
        await model.generate(request)
    elif isinstance(request, ChoicesRequest):
        await scoring(model, "choices").choices(request)
    else:
        await scoring(model, "continuation").continuation(request)

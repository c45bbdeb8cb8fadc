"""Repeats failed calls within time limits, and decides which failures stop the run.

From the inside out: `DeadlineModel` gives up an attempt, `RetryingModel` asks again after transient
failures, and `HealthModel` distinguishes failures of a request from failures of its server, and
waits for outages to end. They know the families of errors, but not HTTP. A rate limit belongs
inside of retry, so that it counts each attempt and no slot is held between two attempts.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from textassay.runtime.base import NO_USAGE
from textassay.runtime.calls.call import Call, Send, Wrapper, sender
from textassay.runtime.errors import (
    OUTAGE,
    AnswerUnfinished,
    FatalModelError,
    MalformedResponse,
    ModelError,
    ModelNotFound,
    NothingListening,
    PageAnswered,
    PathNotFound,
    RateLimited,
    RequestRefused,
    ServerUnusable,
    TextassayError,
    TimedOut,
    TransientError,
)
from textassay.runtime.model import AnyRequest, AnyResponse, ChatMessage, Model, Request
from textassay.runtime.questions import DecisionRequest, NamedText
from textassay.runtime.settings import Settings

if TYPE_CHECKING:
    import tenacity


class DeadlineModel(Wrapper):
    """Gives up an attempt after a number of seconds, which differs for requests with a thought."""

    def __init__(self, wrapped: Model, *, timeout: float, thinking_timeout: float) -> None:
        super().__init__(wrapped)
        self._plain, self._thinking = timeout, thinking_timeout

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        seconds = self._thinking if call.posting.allowance else self._plain
        try:
            async with asyncio.timeout(seconds) as attempt:
                return await ask(call)
        except TimeoutError as error:
            # one from further in (a socket, a nested scope) is not about this limit
            if attempt.expired():
                raise TimedOut(
                    f"no answer from {self.name} within {seconds:g} s (timeout=SECONDS)"
                ) from error
            raise


MIN_WAIT = 0.5
"""Upper bound of the first wait, in seconds: `INITIAL_RETRY_DELAY` of OpenAI's client."""

MAX_WAIT = 60.0
"""Upper bound of any wait, in seconds, unless the server asks for a longer one: the bound in
OpenAI's guide to rate limits (`wait_random_exponential(min=1, max=60)`), as a limit per minute has
reset by then."""

_log = logging.getLogger(__name__)


class RetryingModel(Wrapper):
    """Repeats a request after a transient error.

    Waits as long as the server asks, plus up to a tenth. If the server names no time, the wait is
    random: up to 0.5 s, doubled with each attempt up to 60 s. A rate limit may hold for a minute:
    the wait is multiplied by five with each such error in a row, so that the waits of six attempts
    together exceed a minute. Gives up after `attempts`, or at once if the next wait would end after
    `total_timeout`, and raises the last error with the number of attempts in its message.
    """

    def __init__(
        self,
        wrapped: Model,
        *,
        attempts: int = Settings.model_fields["attempts"].default,
        total_timeout: float = Settings.model_fields["total_timeout"].default,
        on_failure: Callable[[ModelError], None] = lambda error: None,
        gives_up: Callable[[BaseException, Call], bool] = lambda error, call: False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        """Set when to stop: after `attempts`, `total_timeout`, or an error that `gives_up` accepts.

        The first attempt is never the last one because of `gives_up`. `on_failure` is called with
        the error of each attempt.
        """
        super().__init__(wrapped)
        self.attempts, self.gives_up = attempts, gives_up
        self.total_timeout = total_timeout
        self.on_failure = on_failure
        self._sleep = sleep
        self._rng = rng or random.Random()

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        started = time.monotonic()
        try:
            # outside of tenacity, which would cost an answer as much CPU as its parsing
            return await ask(call)
        except TransientError as error:
            first = error
        return await self._ask_again(call, ask, first, started)

    async def _ask_again(
        self, call: Call, ask: Send, first: TransientError, started: float
    ) -> AnyResponse:
        """Answer after a first attempt that failed."""
        failing_since, spent, limited = time.monotonic(), NO_USAGE, 0
        import tenacity  # here, since most runs never need it

        def wait(state: tenacity.RetryCallState) -> float:
            nonlocal limited
            error = _error_of(state)
            names_no_time = isinstance(error, RateLimited) and not error.retry_after
            limited = limited + 1 if names_no_time else 0
            return self.wait_after(error, state.attempt_number, limited)

        attempts = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(TransientError),
            wait=wait,
            stop=lambda state: self._is_over(state, started, call),
            before_sleep=_log_failure,
            sleep=self._sleep,
            reraise=True,
        )
        try:
            async for attempt in attempts:
                number = attempt.retry_state.attempt_number
                with attempt:
                    try:
                        if number == 1:  # tenacity begins with the attempt that was made
                            raise first
                        answer = await ask(call)
                    except TextassayError as error:
                        # the error that is raised in the end has the cost of all attempts
                        spent, error.usage = spent + (error.usage or NO_USAGE), None
                        if isinstance(error, TransientError):
                            self.on_failure(error)
                        raise
        except TextassayError as error:
            # other errors end a request at the first attempt
            if isinstance(error, TransientError):
                _say_attempts(error, number)
            if isinstance(error, ModelError):
                error.failing_since = failing_since
            error.usage = None if spent is NO_USAGE else spent
            raise
        if spent is NO_USAGE:
            return answer
        return answer.model_copy(update={"usage": spent + answer.usage})

    def _is_over(self, state: tenacity.RetryCallState, started: float, call: Call) -> bool:
        """Return whether the attempt that has just failed was the last."""
        # a wait that would end too late is not begun
        end = time.monotonic() + state.upcoming_sleep
        is_last = state.attempt_number >= self.attempts or end - started > self.total_timeout
        # not at the first, as a gateway that has just started may answer anything once
        return is_last or (state.attempt_number > 1 and self.gives_up(_error_of(state), call))

    def wait_after(self, error: TransientError, failed: int, limited: int = 0) -> float:
        """Return the seconds to wait after attempt number `failed`, counted from 1.

        The last `limited` attempts came to a rate limit whose server names no time.
        """
        # 0 counts as no time: some servers round to whole seconds, or their limits end with the
        # minute
        if error.retry_after:
            # spread, as all callers were given the same Retry-After
            return error.retry_after + self._rng.uniform(0, 0.1 * error.retry_after + 0.05)
        if limited > 1:
            ceiling = min(MAX_WAIT, MIN_WAIT * 5.0 ** min(limited - 1, 30))
            # not from zero, as the waits of six attempts must exceed a minute
            return self._rng.uniform(ceiling / 2, ceiling)
        # a wrong address fails at once, so its attempts should not take long
        first = MIN_WAIT / 5 if isinstance(error, NothingListening) else MIN_WAIT
        # the exponent is bounded, as a float would overflow after a thousand attempts
        ceiling = min(MAX_WAIT, first * 2.0 ** min(failed - 1, 30))
        # from zero ("full jitter"), as callers that failed together should not return together
        return self._rng.uniform(0, ceiling)


def _error_of(state: tenacity.RetryCallState) -> TransientError:
    # tenacity only asks about attempts that failed with one
    return cast("TransientError", cast("tenacity.Future", state.outcome).exception())


def _log_failure(state: tenacity.RetryCallState) -> None:
    _log.debug(
        "attempt %d failed with %s; the next is in %.2f s",
        state.attempt_number,
        type(_error_of(state)).__name__,
        state.upcoming_sleep,
    )


def _say_attempts(error: TransientError, failed: int) -> None:
    """Add the number of attempts to the error's message, once."""
    if failed > 1 and not str(error).endswith(" attempts)"):
        error.args = (f"{error} (after {failed} attempts)", *error.args[1:])


PROBE = "Is water wet? Answer with yes or no."
"""A harmless question, which shows whether a server answers at all."""

MAX_OUTAGES = 3
"""Outages for whose end one request waits: it may be the cause of them. A text that brings its
server down for 30 s each time makes a run of 1,000 calls last 187 s in virtual time (one outage:
115, twelve: 509), and the 49 calls beside it are lost with any of them. A server that is up for a
minute and then down for 20 s loses none of 300 calls of 30 s (one outage: 25, two: 9)."""


@dataclass
class Health:
    """The state of a model's server, learned from calls; shared by all stacks around the model."""

    outage_wait: float = 300.0
    failure_limit: int = 20
    answered: int = 0
    """Calls that were answered."""
    answered_forms: set[str] = field(default_factory=set)
    """Their forms, see `_form`."""
    up_at: float = -math.inf
    """When the newest of them began (`time.monotonic`): a server that went down may still answer
    the calls in flight."""
    consecutive_failures: int = 0
    """Calls that failed since the last answer."""
    outage: asyncio.Task[bool] | None = None
    """Waits for a server that is down to come back; returns whether it was down."""

    def finds_no_model(self, error: BaseException, call: Call) -> bool:
        """Return whether an error shows that the address, or the path of a call, has no model."""
        if isinstance(error, PathNotFound):
            return _form(call.request) not in self.answered_forms
        return isinstance(error, PageAnswered) and not self.answered


class HealthModel(Wrapper):
    """Decides whether a failed call stops the run.

    - After a refusal that would stop the run (a 403, an unknown model) it sends a harmless request:
      if that is answered, the text caused the refusal, which becomes `RequestRefused`.
    - If a server has answered before, and then fails as if it were down, without an answer to any
      call that began after the first failed attempt of this one, it is probed with growing pauses
      for up to `outage_wait` seconds, while all callers wait. Then all of them ask again.
    - `failure_limit` failed calls in a row stop the run, unless they are refusals and a harmless
      request is answered.
    """

    def __init__(self, wrapped: Model, *, once: Model, health: Health) -> None:
        super().__init__(wrapped)
        # `once` is without retries, for probes of a server that is down
        self._once, self.health = once, health

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        health, outages = self.health, 0
        while True:
            if health.outage is not None:
                # shielded, as a canceled caller must not end the probing for the others
                await asyncio.shield(health.outage)
            # if another call is answered meanwhile, a refusal is about this request
            answered_before, began = health.answered, time.monotonic()
            try:
                answer = await ask(call)
            except ModelError as error:
                # the server answers: the request is adapted to the refusal and sent again
                if isinstance(error, AnswerUnfinished) or (
                    isinstance(error, RequestRefused) and error.refusal is not None
                ):
                    raise
                if health.finds_no_model(error, call):
                    raise ModelNotFound(str(error)) from error
                if isinstance(error, FatalModelError):
                    raise await self._blame_text_or_server(error, call, answered_before) from error
                since = began if error.failing_since is None else error.failing_since
                down = isinstance(error, NothingListening) or health.up_at <= since
                # waiting only helps if the server worked before
                may_wait = isinstance(error, OUTAGE) and down and health.answered
                if not may_wait or outages >= MAX_OUTAGES:
                    await self._count(error, call)
                    raise
                was_down = await self._wait_for_server(error, call)
                # if the server was up all the time, the request fails when it fails again
                outages += 1 if was_down else MAX_OUTAGES
            else:
                health.answered += 1
                health.answered_forms.add(_form(call.request))
                health.up_at = max(health.up_at, began)
                health.consecutive_failures = 0
                return answer

    async def _blame_text_or_server(
        self, error: FatalModelError, call: Call, answered_before: int
    ) -> ModelError:
        """Return `RequestRefused` if other texts are answered, else the error unchanged."""
        if not error.may_be_text:
            return error
        if self.health.answered > answered_before or await self._answers_probe(call):
            return RequestRefused(f"{error} (refused for this text only: another was answered)")
        return error

    async def _count(self, error: ModelError, call: Call) -> None:
        health = self.health
        health.consecutive_failures += 1
        if health.consecutive_failures < health.failure_limit:
            return
        if isinstance(error, RequestRefused) and await self._answers_probe(call):
            health.consecutive_failures = 0  # it is the texts that are refused
            return
        failed = health.consecutive_failures
        _log.warning("%d calls in a row failed, the last with %s", failed, _kind(error))
        raise ServerUnusable(
            f"{failed} calls to {self.name} failed in a row; the last error: {error}"
        ) from error

    async def _answers_probe(self, call: Call) -> bool:
        try:
            # with retries, as one failed probe would let a refused text end the run
            await self._ask(probe_like(call))
        except ModelError as error:
            _log.debug("the probe failed: %s", type(error).__name__)
            return False
        return True

    async def _wait_for_server(self, error: ModelError, call: Call) -> bool:
        """Wait with all callers until the server answers again; return whether it was down."""
        health = self.health
        # one task probes for all, as a server that restarts should not be sent every caller's probe
        if health.outage is None:
            health.outage = asyncio.create_task(self._probe_until_up(error, call))
            health.outage.add_done_callback(self._outage_over)
        return await asyncio.shield(health.outage)

    def _outage_over(self, task: asyncio.Task[bool]) -> None:
        self.health.outage = None
        if not task.cancelled():
            task.exception()  # seen by the callers that wait, if there are any left

    async def _probe_until_up(self, error: ModelError, call: Call) -> bool:
        """Return whether the server was down, once it is up."""
        loop, pause, was_down = asyncio.get_running_loop(), 1.0, False
        began = loop.time()
        while True:
            try:
                # without retries, as this loop has pauses of its own
                await sender(self._once)(probe_like(call))
            except (*OUTAGE, MalformedResponse) as failure:
                error, was_down = failure, True
            except ModelError as failure:
                # it answers, and its error need not be true for the requests that wait
                _log.debug("the server is up: the probe failed with %s", _kind(failure))
                return was_down
            else:
                return was_down
            rest = began + self.health.outage_wait - loop.time()
            if rest <= 0:
                _log.warning(
                    "no answer for %g s, the last %s", self.health.outage_wait, _kind(error)
                )
                raise ServerUnusable(
                    f"{self.name} answered before, and has failed for {loop.time() - began:.0f} s "
                    f"(outage_wait=SECONDS): {error}"
                ) from error
            _log.debug("server is down (%s); next probe in %.1f s", _kind(error), min(pause, rest))
            await asyncio.sleep(min(pause, rest))
            pause = min(2 * pause, 30.0)


def _kind(error: ModelError) -> str:
    return type(error).__name__


def _form(request: AnyRequest) -> str:
    """Return the form of a request, which decides its path below the base address."""
    if isinstance(request, DecisionRequest):
        return "questions"
    return "chat" if request.messages else "prompt"


def probe_like(call: Call) -> Call:
    """Return a call of the same kind and parameters with a harmless text."""
    return call.with_request(_harmless(call.request))


def _harmless(request: AnyRequest) -> AnyRequest:
    # the same kind and parameters, as some servers refuse exactly those (such as log-probabilities)
    if isinstance(request, DecisionRequest):
        texts, questions = (NamedText(name="text", text=PROBE),), request.questions[:1]
        return request.model_copy(update={"texts": texts, "questions": questions, "images": ()})
    fields: dict[str, Any] = {"truncatable": None}
    if request.messages:
        fields |= {"messages": (ChatMessage(role="user", content=PROBE),), "images": ()}
    else:
        fields["prompt"] = PROBE
    if isinstance(request, Request):
        fields["n"] = 1
    return request.model_copy(update=fields)

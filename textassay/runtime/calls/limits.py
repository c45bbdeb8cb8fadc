"""Limits requests and tokens per minute, and calls in flight.

`AdaptiveConcurrency` learns from answers, rejections and timeouts how many calls a server can
handle. It only computes with times that the `Limiter` passes: it has no clock and no event loop.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Coroutine
from dataclasses import dataclass, fields, replace
from typing import Any

from textassay.runtime.calls.budget import TokenForecast
from textassay.runtime.calls.call import Call, Send, Wrapper
from textassay.runtime.errors import ConfigurationError, RateLimited, ServerFailed, TimedOut
from textassay.runtime.model import AnyResponse, Model


class AdaptiveConcurrency:
    """A limit on calls in flight, between 1 and a cap: additive increase, multiplicative decrease.

    Increase: an unknown server may answer one call at a time. So the limit starts at `FIRST_SHARE`
    of the cap, but at least at `FIRST`. It grows after the first answer, and after each round of as
    many answers as the limit: at first to as many calls as the server would answer within `IN_TIME`
    of the timeout even if they queue, after the first cut to twice as many, and after the second by
    `GROWTH`, but at least by one call.

    Decrease: a rejection (429, 503) cuts the limit to `CUT` of itself or to the value before it
    last grew, whichever is less; a timeout cuts it to `TIMEOUT_CUT` if answers come late as well.
    Calls that were sent before a cut say nothing about the lower limit, and do not cut it again.

    Rejections may not depend on the calls in flight (a quota that others use up, a faulty proxy).
    So cuts stop if the limit fell to `LOWER` of itself while the share of rejections, over `JUDGED`
    calls, did not even halve; they begin again once it does, or exceeds one half.

    `benchmarks.in_flight` measures the start, `benchmarks.faults` the effect of rejections.
    """

    FIRST = 4
    FIRST_SHARE = 0.02
    IN_TIME = 0.75
    GROWTH = 0.05
    CUT = 0.8
    TIMEOUT_CUT = 0.5
    JUDGED = 64
    LOWER = 0.7

    def __init__(
        self, cap: int, *, timeout: float = math.inf, first_share: float = FIRST_SHARE
    ) -> None:
        self.cap, self._timeout = cap, timeout
        # Growth and cuts are computed on the exact limit: 5 % of 10 calls are half a call.
        self._exact = self._before_growth = max(self.FIRST, first_share * cap)
        self._factor = math.inf
        self._cut_at = -math.inf
        self._answers = 0
        self._round = self.limit
        """Answers after which the round ends."""
        self._is_first = True
        # before the first answer, any call that times out may have waited for others
        self._slowest = self._slowest_before = math.inf
        self._calls = self._rejections = 0
        self._judged = (math.inf, math.inf)
        """The limit when cuts began, and the share of rejections then; infinite without any."""
        self._cuts_help = True

    @property
    def limit(self) -> int:
        """Calls that may be in flight now."""
        return min(self.cap, int(self._exact))

    def note_answer(self, sent_at: float, now: float) -> None:
        """Learn from the answer to a call that was sent at `sent_at`."""
        self._slowest = now - sent_at if not self._answers else max(self._slowest, now - sent_at)
        self._answers += 1
        self._judge_cuts(rejections=0)
        if self._answers >= self._round:
            self._grow(self._round)
            self._begin_round()
        elif self._is_first:
            # If calls queue, the first to be answered has waited for no other.
            self._is_first = False
            self._grow(1)

    def note_rejection(self, sent_at: float, now: float) -> None:
        """Learn that the server turned away a call because of load."""
        self._judge_cuts(rejections=1)
        if self._cuts_help:
            self._cut(sent_at, now, self.CUT)

    def note_timeout(self, sent_at: float, now: float) -> None:
        """Learn from a timeout; if answers come in time, load is not its reason."""
        if max(self._slowest, self._slowest_before) > self.IN_TIME * self._timeout:
            self._cut(sent_at, now, self.TIMEOUT_CUT)

    def _grow(self, calls: int) -> None:
        """Raise the limit after this number of calls was answered in time."""
        limit = min(self._exact, self.cap)
        grown = max(self._factor * limit, limit + 1)
        if self._slowest > 0:
            # If calls queue, each further one makes all of them slower by the same share.
            grown = min(grown, calls * self.IN_TIME * self._timeout / self._slowest)
        if grown > limit:
            self._before_growth, self._exact = limit, min(grown, self.cap)

    def _cut(self, sent_at: float, now: float, factor: float) -> None:
        if sent_at <= self._cut_at:
            return
        self._cut_at = now
        self._exact = max(1.0, min(self._before_growth, factor * self._exact))
        self._factor = 2.0 if self._factor == math.inf else 1 + self.GROWTH
        self._begin_round()

    def _begin_round(self) -> None:
        self._is_first = False
        self._round = self.limit
        self._slowest_before = self._slowest
        self._answers, self._slowest = 0, 0.0

    def _judge_cuts(self, *, rejections: int) -> None:
        """Count a call, and decide whether cuts help, once there are `JUDGED` calls."""
        self._calls += 1
        self._rejections += rejections
        if self._calls < self.JUDGED:
            return
        share = self._rejections / self._calls
        self._calls = self._rejections = 0
        if share > 0.5 or share < self._judged[1] / 2:
            self._judged = (self._exact, share) if share else (math.inf, math.inf)
            self._cuts_help = True
        elif self._exact <= self.LOWER * self._judged[0]:
            self._cuts_help = False


WINDOW = 60.5
"""Seconds over which a limit per minute is respected: a request may overtake an earlier one on its
way by half a second and still be within the minute. `benchmarks.limit` is granted 99.2 % of a
limit, and sees no window above it."""

CELL = 0.01
"""Seconds of admissions that are counted together. A quarter or four times as much changes the
requests granted by under 0.1 % (3,000 requests and 200,000 tokens a minute, in virtual time); a
cell for each request takes nine times the memory at 1,000 requests a second (8 MB)."""


@dataclass(frozen=True, slots=True)
class LimiterState:
    """State of a limiter, for progress displays."""

    in_flight: int
    """Requests admitted and not ended."""
    limit: int
    """Requests that may be in flight now."""
    concurrency: int
    """The cap on `limit`."""
    waiting: int
    """Requests that wait for admission."""
    paused_for: float
    """Seconds until anything is admitted again; 0 if nothing is paused."""
    requests_last_minute: int
    """Requests admitted in the last minute."""
    tokens_last_minute: int
    """Their tokens: the reserved ones until the true number is known."""
    answered: int = 0
    """Requests that were answered."""
    answer_seconds: float = 0.0
    """Sum of their seconds from admission to answer."""
    rejected: int = 0
    """Requests that the server rejected because of load (429, 503, 529)."""

    def __add__(self, other: LimiterState) -> LimiterState:
        """Return the sum of both states, with the longer pause."""
        sums = {
            each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)
        }
        return LimiterState(**{**sums, "paused_for": max(self.paused_for, other.paused_for)})

    def at_end(self) -> LimiterState:
        """Return the totals alone, for a limiter that admits nothing more."""
        return replace(
            self, in_flight=0, limit=0, concurrency=0, waiting=0, paused_for=0.0,
            requests_last_minute=0, tokens_last_minute=0,
        )  # fmt: skip


class Pace:
    """Spaces amounts evenly: the generic cell rate algorithm, with weights.

    An amount may go once the one before it is paid off. A rest earns no credit, as a burst would
    follow it. Only an amount that waited, and went late (slow timers, a busy event loop), is
    credited for that: up to 0.1 seconds, but no more than a server forgives whose own bucket has
    the amount of one second.
    """

    __slots__ = ("free_at", "seconds_each")

    def __init__(self, per_minute: float) -> None:
        self.set_rate(per_minute)
        self.free_at = -math.inf
        """The time from which the next amount may go."""

    def set_rate(self, per_minute: float) -> None:
        """Set the units per minute for amounts that are sent from now on."""
        self.seconds_each = WINDOW / per_minute

    def take(self, now: float, amount: float, *, waited: bool) -> None:
        """Send `amount` now."""
        took = amount * self.seconds_each
        credit = min(0.1, max(0.0, 1.0 - took)) if waited else 0.0
        self.free_at = max(self.free_at, now - credit) + took

    def correct(self, amount: float) -> None:
        """Add to a sent amount (or subtract, if negative), once its true size is known."""
        self.free_at += amount * self.seconds_each


class _WindowSlot:
    """Admissions within `CELL` seconds of each other."""

    __slots__ = ("is_live", "last", "opened", "requests", "tokens")

    def __init__(self, now: float) -> None:
        self.opened = self.last = now
        self.requests = self.tokens = 0
        self.is_live = True
        """Whether the cell is still in the window."""


class Window:
    """Counts requests and tokens in a sliding minute."""

    __slots__ = ("_cells", "requests", "tokens")

    def __init__(self) -> None:
        self.requests = self.tokens = 0
        self._cells: deque[_WindowSlot] = deque()

    def fits_at(self, now: float, tokens: int, limit: float) -> float:
        """Return when to ask again whether `tokens` fit; `-math.inf` if they fit now.

        An amount above the limit fits if there are no other tokens: otherwise it could never be
        sent, and the server may refuse it.
        """
        self.forget(now)
        if not self.tokens or self.tokens + tokens <= limit:
            return -math.inf
        # The oldest cell may not free enough; this is rare, as the pace keeps the window below its
        # limit.
        return self._cells[0].last + WINDOW

    def forget(self, now: float) -> None:
        """Drop the cells that are older than the window."""
        cells = self._cells
        while cells and cells[0].last + WINDOW <= now:
            cell = cells.popleft()
            cell.is_live = False
            self.requests -= cell.requests
            self.tokens -= cell.tokens

    def add(self, now: float, tokens: int) -> _WindowSlot:
        """Count one request with `tokens`, and return the cell it is counted in."""
        self.forget(now)
        cell = self._cells[-1] if self._cells else None
        if cell is None or now - cell.opened >= CELL:
            cell = _WindowSlot(now)
            self._cells.append(cell)
        cell.last = now
        self.correct(cell, 1, tokens)
        return cell

    def correct(self, cell: _WindowSlot, requests: int, tokens: int) -> None:
        """Add to the counts of a cell (or subtract, if negative), unless it has left the window."""
        if cell.is_live:
            cell.requests += requests
            cell.tokens += tokens
            self.requests += requests
            self.tokens += tokens


class Permit:
    """One admission: entering the block waits for it, leaving the block gives it back."""

    __slots__ = ("cell", "is_settled", "limiter", "paced", "sent", "tokens")

    cell: _WindowSlot
    sent: float
    """The event loop's time of the admission."""

    def __init__(self, limiter: Limiter, tokens: int) -> None:
        self.limiter = limiter
        self.tokens = tokens
        """Tokens that count against the limit: the reserved ones, or the true ones once settled."""
        self.paced = 0.0
        """Tokens that the pace has counted."""
        self.is_settled = False

    def __aenter__(self) -> Coroutine[Any, Any, Permit]:
        return self.limiter._enter(self)

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        self.limiter._leave(self, error)

    def settle(self, actual_tokens: int) -> None:
        """Replace the reserved tokens with the tokens used; may be called again."""
        self.limiter._settle(self, actual_tokens)


class Limiter:
    """Admits requests in the order in which they come, within all limits at once.

    - **Requests and tokens per minute**: no window of 60 s ever exceeds the limit, and admissions
      are spread evenly, so that a server with a bucket of one second's amount refuses none. Tokens
      are reserved on admission and corrected by `Permit.settle`: the window counts all reserved
      tokens, the pace counts the share of them that settled requests have used, and both are
      corrected as soon as the true number is known.
    - **Calls in flight**: at most `concurrency`, and fewer while the server can handle fewer
      (see `AdaptiveConcurrency`).
    - **Order**: first come, first served. A large request delays the ones behind it, as it might
      otherwise be overtaken forever. A request above the whole token limit is admitted alone, once
      the window has no tokens.
    - **Giving back**: leaving the block, for any reason, frees the place in flight. A request that
      is canceled while it waits leaves no trace. A request that fails was sent, so it still counts
      as a request, but its tokens are given back unless `settle` was called. A request that
      succeeds without `settle` counts with its reservation.

    Belongs to one event loop at a time, and to one thread.
    """

    def __init__(
        self,
        *,
        rpm: float | None,
        tpm: float | None,
        concurrency: int,
        timeout: float = math.inf,
        first_share: float = AdaptiveConcurrency.FIRST_SHARE,
    ) -> None:
        """Set the limits; `None` means that there is none.

        `timeout` and `first_share` are for `AdaptiveConcurrency`: all of the calls may be in flight
        at once with a share of 1.
        """
        for name, value in (("rpm", rpm), ("tpm", tpm), ("concurrency", concurrency)):
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ConfigurationError(f"{name} must be a positive number, not {value!r}")
        self.rpm = math.inf if rpm is None else rpm
        """Requests per minute; infinite without a limit."""
        self.tpm = math.inf if tpm is None else tpm
        """Tokens per minute; infinite without a limit."""
        self.concurrency = int(concurrency)
        self._undivided = (self.rpm, self.tpm, self.concurrency)
        self._request_pace, self._token_pace = Pace(_whole_requests(self.rpm)), Pace(self.tpm)
        self._window = Window()
        self._tokens_used = self._tokens_reserved = 0.0
        self._calls_limit = AdaptiveConcurrency(
            self.concurrency, timeout=timeout, first_share=first_share
        )
        self._in_flight = self._answered = self._rejected = 0
        self._answer_seconds = 0.0
        self._paused_until = -math.inf
        self._waiting: OrderedDict[asyncio.Future[None], Permit] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def divide(self, part: int, parts: int) -> None:
        """Respect one of several equal parts of the limits, from the next request on.

        For processes that share the limits; may be called again.
        """
        rpm, tpm, concurrency = self._undivided
        calls = concurrency * (part + 1) // parts - concurrency * part // parts
        if calls < 1:
            raise ConfigurationError(
                f"{concurrency} concurrent calls cannot be divided into {parts} parts"
            )
        self.concurrency = calls
        self.rpm, self.tpm = rpm / parts, tpm / parts
        self._request_pace.set_rate(_whole_requests(self.rpm))
        self._token_pace.set_rate(self.tpm)
        self._calls_limit.cap = calls
        if self._waiting:
            self._wake()

    def admit(self, tokens: int = 0) -> Permit:
        """Return an async context manager that waits until a request with `tokens` may go."""
        return Permit(self, tokens)

    def pause(self, seconds: float) -> None:
        """Pause all admissions for some seconds; never shortens a running pause."""
        self._loop = asyncio.get_running_loop()
        self._paused_until = max(self._paused_until, self._loop.time() + seconds)
        self._wake()

    def note_rejection(self, permit: Permit) -> None:
        """Learn that the server rejected a request because of load (429, 503)."""
        self._rejected += 1
        self._calls_limit.note_rejection(permit.sent, asyncio.get_running_loop().time())

    def note_timeout(self, permit: Permit) -> None:
        """Learn that a request timed out."""
        self._calls_limit.note_timeout(permit.sent, asyncio.get_running_loop().time())

    @property
    def limit(self) -> int:
        """Requests that may be in flight now."""
        return self._calls_limit.limit

    @property
    def counts_tokens(self) -> bool:
        """Whether tokens are limited."""
        return self.tpm < math.inf

    @property
    def is_exceeded(self) -> bool:
        """Whether more calls are in flight than allowed, as `divide` has lowered the limit."""
        return self._in_flight > self.concurrency

    @property
    def state(self) -> LimiterState:
        """The limiter's current state."""
        now = -math.inf if self._loop is None else self._loop.time()
        self._window.forget(now)
        return LimiterState(
            in_flight=self._in_flight,
            limit=self.limit,
            concurrency=self.concurrency,
            waiting=len(self._waiting),
            paused_for=self._paused_until - now if self._paused_until > now else 0.0,
            requests_last_minute=self._window.requests,
            tokens_last_minute=self._window.tokens,
            answered=self._answered,
            answer_seconds=self._answer_seconds,
            rejected=self._rejected,
        )

    async def _enter(self, permit: Permit) -> Permit:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._waiting:
                raise RuntimeError(
                    "this limiter is in use in another event loop; connect once in each loop"
                )
            self._loop = loop
        # the usual case, without a future and a turn of the event loop
        if not self._waiting:
            now = loop.time()
            if self._ready_at(permit.tokens, now) <= now:
                self._take(permit, now, waited=False)
                return permit
        future: asyncio.Future[None] = loop.create_future()
        self._waiting[future] = permit
        # only the head of the queue determines the timer
        if len(self._waiting) == 1:
            self._wake()
        try:
            await future
        except BaseException:
            # if it was admitted in the same turn of the loop, `__aexit__` will not run
            if future.done() and not future.cancelled():
                self._undo(permit)
            self._waiting.pop(future, None)
            self._wake()
            raise
        return permit

    @property
    def _used_share(self) -> float:
        """The share of reserved tokens that requests use: 1 until one has settled."""
        return self._tokens_used / self._tokens_reserved if self._tokens_reserved else 1.0

    def _ready_at(self, tokens: int, now: float) -> float:
        """Return when to try again: up to `now` if at once, infinite if a call must end first."""
        # the next call that ends wakes the queue
        if self._in_flight >= self.limit:
            return math.inf
        at = max(self._paused_until, self._request_pace.free_at)
        if not self.counts_tokens:
            return at
        paced = self._token_pace.free_at if tokens else at
        return max(at, paced, self._window.fits_at(now, tokens, self.tpm))

    def _take(self, permit: Permit, now: float, *, waited: bool) -> None:
        self._in_flight += 1
        permit.sent = now
        permit.cell = self._window.add(now, permit.tokens)
        self._request_pace.take(now, 1, waited=waited)
        if permit.tokens:
            # The pace only has to be right on average, so it counts the expected use. The window
            # must never be exceeded, so it counts the whole reservation.
            permit.paced = permit.tokens * self._used_share
            self._token_pace.take(now, permit.paced, waited=waited)

    def _undo(self, permit: Permit) -> None:
        """Undo an admission whose task was canceled before it could send anything."""
        self._correct(permit, 0)
        self._window.correct(permit.cell, -1, 0)
        self._request_pace.correct(-1)
        self._in_flight -= 1

    def _leave(self, permit: Permit, error: BaseException | None) -> None:
        self._in_flight -= 1
        if error is not None and not permit.is_settled:
            self._correct(permit, 0)
        if error is None:
            now = asyncio.get_running_loop().time()
            self._answered += 1
            self._answer_seconds += now - permit.sent
            self._calls_limit.note_answer(permit.sent, now)
        if self._waiting:
            self._wake()

    def _settle(self, permit: Permit, tokens: int) -> None:
        # only the first settlement is compared with the reservation, which `_correct` replaces
        if not permit.is_settled:
            self._tokens_used += tokens
            self._tokens_reserved += permit.tokens
        permit.is_settled = True
        self._correct(permit, tokens)
        # without a limit on tokens no request waits for any
        if self._waiting and self.counts_tokens:
            self._wake()

    def _correct(self, permit: Permit, tokens: int) -> None:
        """Replace the tokens that were reserved."""
        self._window.correct(permit.cell, 0, tokens - permit.tokens)
        permit.tokens = tokens
        self._token_pace.correct(tokens - permit.paced)
        permit.paced = float(tokens)

    def _wake(self) -> None:
        """Admit requests from the head of the queue, and set the timer for the next one."""
        at = math.inf
        while self._waiting:
            now = asyncio.get_running_loop().time()
            future, permit = next(iter(self._waiting.items()))
            if not future.done():
                at = self._ready_at(permit.tokens, now)
                # first come, first served: the ones behind it wait, too, even if they would fit
                if at > now:
                    break
                self._take(permit, now, waited=True)
                future.set_result(None)
            del self._waiting[future]
            at = math.inf
        self._set_timer(at)

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            # kept if it fits, as canceled timers stay in the loop's heap until they are due
            if self._timer.when() == at:
                return
            self._timer.cancel()
            self._timer = None
        if at < math.inf:
            self._timer = asyncio.get_running_loop().call_at(at, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self._wake()


def _whole_requests(rpm: float) -> float:
    """Return the limit for an even pace: a minute has a whole number of requests."""
    return max(rpm // 1, min(rpm, 1.0)) if rpm < math.inf else rpm


MAX_PAUSE = 300.0
"""Seconds: the longest pause of all calls for one `Retry-After`. After it a server that asks to
wait until tomorrow is asked again, and its error is raised. Five minutes, as for an outage: with
eight calls in flight, such a server ends a run after 25 minutes of virtual time (a quarter: 6, four
times: 100), while a `Retry-After` of a minute costs the same with any of them."""


class LimitedModel(Wrapper):
    """Sends a request once the limiter admits it, and reports the outcome to the limiter.

    Reserves the estimated tokens of the prompt and the longest answer (see `TokenForecast`), and
    settles with the tokens that the answer reports, if it does. A `Retry-After` pauses all calls.
    """

    def __init__(self, wrapped: Model, limiter: Limiter) -> None:
        super().__init__(wrapped)
        self.limiter = limiter
        self._forecast = TokenForecast()

    async def around(self, call: Call, ask: Send) -> AnyResponse:
        # an estimate takes time in proportion to the text, so it is only made for a token limit
        tokens = 0
        if self.limiter.counts_tokens:
            tokens = self._forecast.prompt(call.request) + self._forecast.completion(call)
        async with self.limiter.admit(tokens) as grant:
            try:
                answer = await ask(call)
            except (RateLimited, ServerFailed) as error:
                self._back_off(error, grant)
                raise
            except TimedOut:
                self.limiter.note_timeout(grant)
                raise
            used = answer.usage.prompt_tokens + answer.usage.completion_tokens
            # 0 means that the server reports none; settling with it would lift the limit
            if used:
                grant.settle(used)
                if self.limiter.counts_tokens:
                    self._forecast.learn(call, answer)
            return answer

    def _back_off(self, error: RateLimited | ServerFailed, grant: Permit) -> None:
        if isinstance(error, RateLimited) or error.status in (503, 529):  # overloaded
            self.limiter.note_rejection(grant)
        # all callers share the server's quota, so all of them wait
        if error.retry_after is not None:
            self.limiter.pause(min(max(0.0, error.retry_after), MAX_PAUSE))

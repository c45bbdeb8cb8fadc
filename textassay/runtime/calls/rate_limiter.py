"""Admission: who may send a request now.

One object per endpoint, key and model, shared by everybody who asks.

Combines the pace and the window (`bucket.py`), the adaptive limit on calls in flight
(`adaptive_concurrency.py`) and one queue. Knows the event loop's clock and timers; knows requests
only as a number of tokens, and models not at all.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from textassay.runtime.calls.adaptive_concurrency import AdaptiveLimit
from textassay.runtime.calls.bucket import Bucket, Pace, UsedShare, Window
from textassay.runtime.errors import ConfigurationError, TransientError


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
    """Their tokens: reserved, or actual if they are known already."""

    def __add__(self, other: LimiterState) -> LimiterState:
        """Return the state of both limiters together, paused as long as either."""
        return LimiterState(
            in_flight=self.in_flight + other.in_flight,
            limit=self.limit + other.limit,
            concurrency=self.concurrency + other.concurrency,
            waiting=self.waiting + other.waiting,
            paused_for=max(self.paused_for, other.paused_for),
            requests_last_minute=self.requests_last_minute + other.requests_last_minute,
            tokens_last_minute=self.tokens_last_minute + other.tokens_last_minute,
        )


class Permit:
    """One admission: waits when entered, gives back when left.

    `async with limiter.admit(tokens) as grant:`.
    """

    __slots__ = (
        "_cell",
        "_limiter",
        "_number",
        "_paced",
        "_rejected",
        "_settled",
        "_since",
        "tokens",
    )

    _cell: Bucket
    _number: int
    _paced: float
    _since: float

    def __init__(self, limiter: Limiter, tokens: int) -> None:
        """Ask for admission with `tokens`; use `Limiter.admit`."""
        self.tokens = tokens
        """Tokens that count against the limit: reserved, or true once settled."""
        self._limiter = limiter
        self._settled = self._rejected = False

    async def __aenter__(self) -> Self:
        await self._limiter._enter(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._limiter._leave(self, error)

    def settle(self, actual_tokens: int) -> None:
        """Replace the reserved tokens with those really used; may be called again.

        Raises:
            ValueError: The number is negative.
        """
        self._limiter._settle(self, actual_tokens)


class Limiter:
    """Admits requests in the order in which they come, within all limits at once.

    - **Requests and tokens per minute**: no window of 60 s (60.5, to be safe) ever holds more than
      the limit, and admissions are spread evenly, so that a server with a bucket of one second's
      amount has nothing to refuse. Tokens are reserved on admission and corrected by
      `Permit.settle`: the window counts all that is reserved, the pace the share of it that settled
      requests have used, and both are made right as soon as the true number is known.
    - **Calls in flight**: at most `concurrency`, and fewer while the server can handle fewer
      (see `AdaptiveLimit`).
    - **Order**: first come, first served. A large request holds up those behind it rather than be
      overtaken for ever. One above the whole token limit is admitted alone, once a minute's window
      holds no tokens.
    - **Giving back**: leaving the block, however that comes, frees the place in flight. A request
      canceled while it waits leaves no trace. One that fails was sent, so it still counts as a
      request, but its tokens are given back unless `settle` was called. One that succeeds without
      `settle` counts with its reservation.

    Belongs to one event loop at a time and is not to be used from other threads.
    """

    def __init__(
        self,
        *,
        rpm: float | None,
        tpm: float | None,
        concurrency: int,
        adaptive: bool = True,
        timeout: float | None = None,
    ) -> None:
        """Set the limits.

        Args:
            rpm: Requests per minute; `None` for no limit.
            tpm: Tokens per minute, prompt and completion together; `None` for no limit.
            concurrency: Most requests in flight.
            adaptive: Whether fewer are kept in flight while the server can handle fewer.
            timeout: Seconds after which a request is abandoned; with it, the limit starts low
                until something is known of the server. `None` for no timeout.

        Raises:
            ConfigurationError: A limit is not a positive number.
        """
        for name, value in (("rpm", rpm), ("tpm", tpm), ("concurrency", concurrency)):
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ConfigurationError(f"{name} must be a positive number, not {value!r}")
        self.rpm, self.tpm, self.concurrency = rpm, tpm, int(concurrency)
        self._whole = (rpm, tpm, int(concurrency))
        self._request_pace = None if rpm is None else Pace(rpm, one_second=True)
        self._token_pace = None if tpm is None else Pace(tpm, one_second=False)
        self._used_share = UsedShare()
        self._window = Window(math.inf if rpm is None else rpm, math.inf if tpm is None else tpm)
        self._adaptive = AdaptiveLimit(self.concurrency, timeout=timeout) if adaptive else None
        self._in_flight = 0
        self._granted = 0
        self._last_before_cut = 0
        self._in_flight_before_cut = 0
        self._paused_until = -math.inf
        self._waiting: OrderedDict[asyncio.Future[None], Permit] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def take_part(self, number: int, count: int) -> None:
        """Keep to one of `count` equal parts of the limits that were set, from the next request on.

        Args:
            number: Which part, from 0: the parts of a concurrency that does not divide differ by
                one call.
            count: The number of parts; 1 for all of the limits.

        Raises:
            ConfigurationError: There are more parts than calls in flight to divide.
        """
        rpm, tpm, concurrency = self._whole
        calls = concurrency * (number + 1) // count - concurrency * number // count
        if calls < 1:
            raise ConfigurationError(
                f"{concurrency} concurrent calls cannot be divided into {count} parts"
            )
        self.concurrency = calls
        self.rpm = None if rpm is None else rpm / count
        self.tpm = None if tpm is None else tpm / count
        if self._request_pace is not None and self.rpm is not None:
            self._request_pace.set_rate(self.rpm)
        if self._token_pace is not None and self.tpm is not None:
            self._token_pace.set_rate(self.tpm)
        self._window.set_limits(self.rpm or math.inf, self.tpm or math.inf)
        if self._adaptive is not None:
            self._adaptive.set_cap(calls)
        if self._waiting:
            self._wake()

    def admit(self, tokens: int = 0) -> Permit:
        """Return an async context manager that waits until a request with `tokens` may go.

        Raises:
            ValueError: `tokens` is negative.
        """
        if tokens < 0:
            raise ValueError(f"a request cannot have {tokens} tokens")
        return Permit(self, tokens)

    def pause(self, seconds: float) -> None:
        """Admit nothing for some seconds; a longer pause that is under way stays.

        Raises:
            ValueError: `seconds` is not a number from 0 up.
        """
        if not 0 <= seconds < math.inf:
            raise ValueError(f"cannot pause for {seconds!r} seconds")
        self._loop = asyncio.get_running_loop()
        self._paused_until = max(self._paused_until, self._loop.time() + seconds)
        self._wake()

    def rate_limited(self, grant: Permit | None = None) -> None:
        """Learn that the server turned a request away (429): fewer in flight, once per episode.

        An episode is everything that was in flight at the last cut: what those requests meet says
        nothing about the lower limit.

        Args:
            grant: The request that was turned away. Without it, an episode lasts until all that was
                in flight ended.
        """
        self._overload(grant, AdaptiveLimit.CUT)

    def overloaded(self, grant: Permit | None = None) -> None:
        """Record an overload (503); like `rate_limited`, with a milder cut."""
        self._overload(grant, AdaptiveLimit.OVERLOAD_CUT)

    def timed_out(self, grant: Permit) -> None:
        """Record a timeout; handled like `rate_limited` if other answers are slow, too."""
        if self._adaptive is not None and self._adaptive.answers_come_late:
            self._overload(grant, AdaptiveLimit.TIMEOUT_CUT)

    @property
    def limit(self) -> int:
        """Requests that may be in flight now."""
        return self.concurrency if self._adaptive is None else self._adaptive.limit

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
            paused_for=max(0.0, self._paused_until - now) if self._paused_until > now else 0.0,
            requests_last_minute=self._window.requests,
            tokens_last_minute=self._window.tokens,
        )

    async def _enter(self, grant: Permit) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._waiting:
                raise RuntimeError(
                    "this limiter is in use in another event loop; connect once in each loop"
                )
            self._loop = loop
        # An empty queue is the common case: admit without a future and a turn of the loop.
        if not self._waiting:
            now = loop.time()
            if self._ready_at(grant.tokens, now) <= now:
                self._take(grant, now, waited=False)
                return
        future: asyncio.Future[None] = loop.create_future()
        self._waiting[future] = grant
        # Only the head of the queue determines the timer; who joins behind it changes nothing.
        if len(self._waiting) == 1:
            self._wake()
        try:
            await future
        except BaseException:
            # Admitted and canceled in the same turn of the loop: `__aexit__` will not run.
            if future.done() and not future.cancelled():
                self._undo(grant)
            self._waiting.pop(future, None)
            self._wake()
            raise

    def _ready_at(self, tokens: int, now: float) -> float:
        """Return when to try again: a time up to `now` if the request may go now.

        It is infinite if a call in flight must end first.
        """
        # No time to wait for: the next request that leaves wakes the queue.
        if self._in_flight >= self.limit:
            return math.inf
        at = max(self._paused_until, self._window.ready_at(now, tokens))
        if self._request_pace is not None:
            at = max(at, self._request_pace.free_at)
        if self._token_pace is not None and tokens:
            at = max(at, self._token_pace.free_at)
        return at

    def _take(self, grant: Permit, now: float, *, waited: bool) -> None:
        self._in_flight += 1
        self._granted += 1
        grant._number = self._granted
        grant._since = now
        grant._cell = self._window.add(now, grant.tokens)
        grant._paced = 0.0
        if self._request_pace is not None:
            self._request_pace.take(now, 1, waited=waited)
        if self._token_pace is not None and grant.tokens:
            # The pace only has to be right on average, so it takes what such requests really use.
            # The window must never be exceeded, so it holds the whole reservation.
            grant._paced = grant.tokens * self._used_share.value
            self._token_pace.take(now, grant._paced, waited=waited)

    def _undo(self, grant: Permit) -> None:
        """Take back an admission whose task was canceled before it could send anything."""
        self._correct(grant, 0)
        self._window.correct(grant._cell, -1, 0)
        if self._request_pace is not None:
            self._request_pace.correct(-1)
        self._free(grant)

    def _leave(self, grant: Permit, error: BaseException | None) -> None:
        # The adaptive limit wants the load under which this answer came, itself included.
        in_flight = self._in_flight
        self._free(grant)
        if error is not None and not grant._settled:
            self._correct(grant, 0)
        if self._adaptive is not None:
            if error is None:
                now = self._now()
                self._adaptive.answered(now, now - grant._since, in_flight)
            elif isinstance(error, TransientError) and not grant._rejected:
                self._adaptive.failed()
        if self._waiting:
            self._wake()

    def _free(self, grant: Permit) -> None:
        self._in_flight -= 1
        # Numbers are given in the order of admission, so this counts what is left of the last
        # episode.
        self._in_flight_before_cut -= grant._number <= self._last_before_cut

    def _settle(self, grant: Permit, tokens: int) -> None:
        if tokens < 0:
            raise ValueError(f"a request cannot have used {tokens} tokens")
        # Only the first settlement is measured against the reservation; `_correct` then replaces
        # it.
        if not grant._settled:
            grant._settled = True
            if self.tpm is not None:
                self._used_share.learn(tokens, grant.tokens)
        self._correct(grant, tokens)
        # Without a limit on tokens, nobody waits for any.
        if self._waiting and self.tpm is not None:
            self._wake()

    def _correct(self, grant: Permit, tokens: int) -> None:
        """Put the true tokens in place of those reserved."""
        self._window.correct(grant._cell, 0, tokens - grant.tokens)
        grant.tokens = tokens
        if self._token_pace is not None:
            self._token_pace.correct(tokens - grant._paced)
            grant._paced = float(tokens)

    def _overload(self, grant: Permit | None, factor: float) -> None:
        if self._adaptive is None:
            return
        # Counted as rejected below, so `_leave` must not count it as failed as well.
        if grant is not None:
            grant._rejected = True
        new_episode = (
            self._in_flight_before_cut == 0
            if grant is None
            else grant._number > self._last_before_cut
        )
        if new_episode:
            self._adaptive.cut(factor)
            self._last_before_cut = self._granted
            self._in_flight_before_cut = self._in_flight
        self._adaptive.rejected()

    def _now(self) -> float:
        if self._loop is None:
            raise AssertionError("nothing was admitted yet")
        return self._loop.time()

    def _wake(self) -> None:
        """Admit from the head of the queue whatever may go, and set the timer for the next."""
        if not self._waiting:
            self._set_timer(math.inf)
            return
        now, at = self._now(), math.inf
        while self._waiting:
            future, grant = next(iter(self._waiting.items()))
            if not future.done():
                at = self._ready_at(grant.tokens, now)
                # First come, first served: whoever is behind waits, even if it were small enough to
                # go.
                if at > now:
                    break
                self._take(grant, now, waited=True)
                future.set_result(None)
            del self._waiting[future]
            at = math.inf
        self._set_timer(at)

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            # Canceled timers stay in the loop's heap until they are due, so one that fits is kept.
            if self._timer.when() == at:
                return
            self._timer.cancel()
            self._timer = None
        if at < math.inf and self._loop is not None:
            self._timer = self._loop.call_at(at, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self._wake()

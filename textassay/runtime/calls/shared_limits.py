"""Admission under limits that several processes share.

The queue, the adaptive limit and the protocol are those of `Limiter`; the times at which requests
may go come from a `RedisQuota`. Knows nothing of how that counts.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from textassay.runtime.calls.bucket import WINDOW, Pace
from textassay.runtime.calls.rate_limiter import Limiter, Permit
from textassay.runtime.calls.redis_quota import BLOCK, RedisQuota, Share
from textassay.runtime.errors import ConfigurationError, parameter, quoted
from textassay.runtime.storage.redis import RedisUnavailable

BEAT = 0.25
"""Seconds between two messages to Redis at most, so that shares and pauses are known."""

STALE = 0.1
"""Most seconds after its time for which a reserved time may be used. Later it is lost: used all at
once, times that an overloaded process has missed would be a burst."""

SETTLE = 0.05
"""Seconds after which corrections of tokens are passed on, if nothing else is to be sent."""

MAX_RESERVED = 64
"""Times that are reserved at once."""

OPEN_ATTEMPTS = 10
"""Times that Redis is asked at the start if it answers late, as on a busy machine. Later there is a
share to continue with, so that one attempt is enough."""

CLOCKS = 16
"""Number of recent replies from which the offset of Redis' clock is estimated, and how long an
exchange takes."""

MAX_BLOCK = 0.2
"""Most seconds of capacity that are reserved at once, however long an exchange takes."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReservedTime:
    """A time at which a request may go."""

    at: float
    """On the event loop's clock."""
    tokens: float
    """Tokens that were reserved with it."""


def usable_for(rpm: float | None, processes: int) -> float:
    """Return the seconds after its time for which a reserved time may be used.

    If all of them are late by so much, no second sees more requests than the limit and one for each
    process: times are reserved slightly below the limit (`bucket.WINDOW`). Without a limit on
    requests, a block may be late by its own length.
    """
    if rpm is None:
        return BLOCK
    # a second holds a whole number of requests
    most = math.floor(rpm / 60 + processes)
    return min(STALE, most * WINDOW / rpm - 1 - 1e-6)


class OwnPace(Pace):
    """The pace of one of several processes, without credit for being late.

    Each of them could be late at the same moment, and their credits would add up to a burst.
    """

    __slots__ = ()

    def credit(self, amount: float) -> float:
        """Return no more than the amount's own interval."""
        return amount * self.seconds_each


class SharedLimiter(Limiter):
    """Keeps one set of limits together with the processes that use the same Redis.

    While Redis does not answer, this process continues with its last share: its calls in flight,
    and the limits per minute divided by the last known number of processes. A warning is logged
    once per outage, and Redis is retried throughout.

    Open it (`open`) before the first `admit`, and close it afterward, in the same event loop.
    """

    def __init__(
        self,
        quota: RedisQuota,
        *,
        rpm: float | None,
        tpm: float | None,
        concurrency: int,
        adaptive: bool = True,
        timeout: float | None = None,
    ) -> None:
        """Set the limits, which hold for all processes together; see `Limiter`.

        Raises:
            ConfigurationError: A limit is not a positive number.
        """
        super().__init__(
            rpm=rpm, tpm=tpm, concurrency=concurrency, adaptive=adaptive, timeout=timeout
        )
        self._quota = quota
        self._request_pace = self._token_pace = None  # while Redis answers, the pace is its own
        self._is_paced = rpm is not None or tpm is not None
        self._reserved: deque[ReservedTime] = deque()
        self._last_reserved = -math.inf
        self._last_taken = (-math.inf, 0.0)
        self._share = 0
        self._is_unconfirmed = False
        """Whether Redis is to hear that a smaller share is kept to."""
        self._processes = 1
        self._stale = usable_for(rpm, 1)
        self._correction = 0.0
        self._unreported_until = -math.inf
        """End of a pause that Redis may not know of."""
        self._took: deque[float] = deque([0.0], maxlen=CLOCKS)
        self._is_capped = False
        self._apart = False
        self._failed = False
        self._together_at = -math.inf
        self._clocks: deque[float] = deque(maxlen=CLOCKS)
        self._exchanging = asyncio.Lock()
        self._asking: asyncio.Task[None] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._settling: asyncio.TimerHandle | None = None

    @property
    def is_shared(self) -> bool:
        """Whether Redis answers."""
        return not self._failed

    @property
    def limit(self) -> int:
        """Requests that this process may have in flight now."""
        return min(super().limit, self._share)

    async def open(self) -> None:
        """Join the other processes.

        Raises:
            ConfigurationError: Redis refuses, or answers late `OPEN_ATTEMPTS` times.
        """
        self._loop = asyncio.get_running_loop()
        for attempt in range(1, 1 + OPEN_ATTEMPTS):
            try:
                share = await self._quota.exchange(busy=0, requested=0, correction=0.0, pause=0.0)
                break
            except RedisUnavailable as error:
                if not error.is_late or attempt == OPEN_ATTEMPTS:
                    raise ConfigurationError(
                        f"limits cannot be shared: {quoted(error).rstrip('.')}; check that Redis "
                        f"runs there, or change or leave out {parameter('limits')}"
                    ) from error
        self._apply(share)
        self._beating = asyncio.create_task(self._beat())

    async def aclose(self) -> None:
        """Leave the other processes; safe to call twice."""
        tasks = [task for task in (self._beating, self._asking) if task is not None]
        self._beating = self._asking = None
        if self._settling is not None:
            self._settling.cancel()
        for task in tasks:
            task.cancel()
        # not only by cancellation, which Python 3.11 loses if an answer arrives at that moment
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(RedisUnavailable):
            if owed := self._correction - sum(reserved.tokens for reserved in self._reserved):
                self._correction = 0.0
                self._reserved.clear()
                await self._quota.exchange(busy=0, requested=0, correction=owed, pause=0.0)
            await self._quota.leave()
        await self._quota.aclose()

    def pause(self, seconds: float) -> None:
        """Admit nothing for some seconds, in no process; a longer pause that is under way stays.

        Raises:
            ValueError: `seconds` is not a number from 0 up.
        """
        super().pause(seconds)
        self._unreported_until = max(self._unreported_until, self._now() + seconds)
        self._ask()

    async def _enter(self, grant: Permit) -> None:
        try:
            await super()._enter(grant)
        except BaseException:
            self._give_back_unneeded()
            raise

    def _give_back_unneeded(self) -> None:
        """Give back the tokens of times for which nobody waits any more; others may need them."""
        surplus = range(len(self._waiting), len(self._reserved))
        if tokens := sum(self._reserved[at].tokens for at in surplus):
            for at in surplus:
                self._reserved[at] = ReservedTime(self._reserved[at].at, 0.0)
            self._add_correction(-tokens)
            self._ask()  # at once, as others may be about to reserve behind them

    @property
    def _block(self) -> float:
        """Seconds of capacity to reserve at once: what is used while an exchange is under way."""
        return min(MAX_BLOCK, max(BLOCK, 2 * max(self._took)))

    def _ready_at(self, tokens: int, now: float) -> float:
        if self._beating is None:
            raise RuntimeError("a shared limiter admits between open() and aclose() only")
        if self._apart:
            return super()._ready_at(tokens, now)
        if self._in_flight >= self.limit:
            return math.inf
        if not self._is_paced:
            return self._paused_until
        while self._reserved and self._reserved[0].at < now - self._stale:
            # A missed time is lost, but the tokens that were paid with it are given back.
            self._add_correction(-self._reserved.popleft().tokens)
        if self._reserved:
            return max(self._paused_until, self._reserved[0].at)
        if self._paused_until > now:
            return self._paused_until
        self._ask()
        return math.inf

    def _take(self, grant: Permit, now: float, *, waited: bool) -> None:
        super()._take(grant, now, waited=waited)
        self._last_taken = (now, float(grant.tokens))
        if self._apart or not self._reserved:
            return
        reserved = self._reserved.popleft()
        if self.tpm is not None:
            grant._paced = grant.tokens * self._used_share.value
            # whoever the time was reserved for may have been canceled meanwhile
            self._add_correction(grant._paced - reserved.tokens)
        if self._last_reserved - now < self._block:
            self._ask()

    def _correct(self, grant: Permit, tokens: int) -> None:
        before = grant._paced
        super()._correct(grant, tokens)
        if self.tpm is not None and not self._apart:
            grant._paced = float(tokens)
            self._add_correction(tokens - before)

    def _add_correction(self, tokens: float) -> None:
        """Have a correction passed on soon, together with others."""
        self._correction += tokens
        if self._correction and self._settling is None and self._loop is not None:
            self._settling = self._loop.call_later(SETTLE, self._settle_now)

    def _settle_now(self) -> None:
        self._settling = None
        self._ask()

    def _ask(self) -> None:
        """Have an exchange with Redis begin, unless one is about to."""
        if self._asking is None and self._beating is not None:
            self._asking = asyncio.create_task(self._exchange_reservations())

    async def _exchange_reservations(self) -> None:
        try:
            await self._exchange()
        finally:
            self._asking = None
        # what came meanwhile could not ask again
        now = self._now()
        is_ready = not (self._apart or self._reserved) and self._paused_until <= now
        if self._is_unconfirmed or (
            is_ready and (self._unreported_until > now or self._weights_to_reserve())
        ):
            self._ask()

    async def _beat(self) -> None:
        task = asyncio.current_task()
        while self._beating is task:
            left = self._together_at - self._now()
            await asyncio.sleep(min(BEAT, left) if left > 0 else BEAT)
            await self._exchange()

    def _weights_to_reserve(self) -> list[float]:
        """Return the tokens of those in the queue for whom a time is worth reserving."""
        if self._apart or not self._is_paced:
            return []
        now = self._now()
        if self._paused_until > now or (
            self._reserved and self._last_reserved - now >= self._block
        ):
            return []
        # Times for requests that the limit on calls in flight would not admit then would be lost.
        room = min(MAX_RESERVED, self.limit - self._in_flight) - len(self._reserved)
        waiting = (grant for future, grant in self._waiting.items() if not future.done())
        # The head of the queue has its times already: they were reserved in the queue's order.
        first = len(self._reserved)
        share = self._used_share.value
        return [grant.tokens * share for grant in islice(waiting, first, first + max(0, room))]

    async def _exchange(self) -> None:
        # One at a time: of two overlapping answers the older could arrive last, and its share would
        # win.
        async with self._exchanging:
            tokens = self._weights_to_reserve()
            # Taken before the await, so that what is owed meanwhile goes with the next exchange.
            correction, self._correction = self._correction, 0.0
            pause_until, self._unreported_until = self._unreported_until, -math.inf
            began = self._now()
            self._is_unconfirmed = False
            try:
                share = await self._quota.exchange(
                    tokens,
                    # all that may be in flight until the answer is here
                    busy=max(self._in_flight, self._share),
                    requested=self._in_flight + len(self._waiting),
                    correction=correction,
                    pause=max(0.0, pause_until - began),
                    block=self._block,
                    is_back=self._failed,
                )
            except RedisUnavailable as error:
                # Whether Redis got this message is unknown. A pause can be sent twice without harm;
                # a correction cannot, and is dropped: the window still keeps this process' own
                # limit.
                self._unreported_until = max(self._unreported_until, pause_until)
                self._miss(error)
                return
            self._took.append(self._now() - began)
            self._apply(share, tokens)

    def _apply(self, share: Share, tokens: list[float] | None = None) -> None:
        """Take what Redis answered, and admit who may go now."""
        now = self._now()
        if self._failed:
            self._failed = False
            _log.info("Redis at %s answers again", self._quota.url)
        if share.apart_for:
            # others have only their own shares as well, or will from their next exchange on
            self._together_at = now + share.apart_for
            # The larger number: some of the others may not have noticed yet that one has come back.
            self._processes = max(self._processes, share.processes)
            self._go_apart()
            return
        if self._apart:
            self._come_together()
        # the others get what is given up once Redis has heard that nothing goes by the old share
        self._is_unconfirmed = share.in_flight < self._share
        self._share, self._processes = share.in_flight, share.processes
        if self._is_unconfirmed:
            self._ask()
        self._stale = usable_for(self.rpm, share.processes)
        if share.concurrency < self.concurrency and not self._is_capped:
            self._is_capped = True
            _log.warning(
                "another process shares these limits with a concurrency of %d, which holds for "
                "all, rather than %d",
                share.concurrency,
                self.concurrency,
            )
        if share.paused_for:
            self._paused_until = max(self._paused_until, now + share.paused_for)
        # the answer that traveled fastest tells the clocks' difference best
        self._clocks.append(now - share.now)
        ours = share.now + min(self._clocks)
        for start, weight in zip(share.starts, tokens or (), strict=False):
            self._last_reserved = ours + start
            self._reserved.append(ReservedTime(ours + start, weight))
        self._wake()
        self._give_back_unneeded()  # some may have been canceled meanwhile

    def _miss(self, error: RedisUnavailable) -> None:
        """Continue with the last share, and log a warning at the first failure."""
        self._go_apart()
        if not self._failed:
            self._failed = True
            _log.warning(
                "%s; this process continues with its last share: 1/%d of the limits, %d calls in"
                " flight",
                error,
                self._processes,
                self._share,
            )

    def _go_apart(self) -> None:
        """Admit by a pace of this process alone."""
        if self._apart:
            return
        self._apart = True
        # who had nothing to do has lent its calls to the others, and may need some now
        self._share = max(self._share, self.concurrency // self._processes, 1)
        rpm, tpm = (None if n is None else n / self._processes for n in (self.rpm, self.tpm))
        self._request_pace = None if rpm is None else OwnPace(rpm, one_second=True)
        self._token_pace = None if tpm is None else OwnPace(tpm, one_second=False)
        # Begins where the shared pace left off, so that the change itself is no burst: with the
        # next time that is reserved, or as if the last request had been sent by this pace already.
        last_at, tokens = self._last_taken
        for pace, amount in ((self._request_pace, 1.0), (self._token_pace, tokens)):
            if pace is not None:
                after_last = max(self._now(), last_at + amount * pace.seconds_each)
                pace.free_at = self._reserved[0].at if self._reserved else after_last
        self._correction = 0.0
        self._wake()

    def _come_together(self) -> None:
        self._apart = False
        self._request_pace = self._token_pace = None
        # Times that lie ahead are still this process' own; those that have passed were used by its
        # own pace, or missed.
        now = self._now()
        while self._reserved and self._reserved[0].at <= now:
            self._reserved.popleft()
        # Measured again: the clocks of two machines drift apart over a long outage.
        self._clocks.clear()

"""Limits that several processes share, through Redis.

`RedisQuota` runs one Lua script in Redis, on Redis' clock: it reserves times for requests (the
generic cell rate algorithm, over requests and tokens at once), takes corrections and pauses, and
divides the calls in flight. `SharedLimiter` is a `Limiter` whose times come from there; queue and
adaptive limit are those of its process.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import uuid
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from textassay.runtime.calls.limits import WINDOW, Limiter, Pace, Permit
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.storage.redis import RedisUnavailable, as_unavailable, open_async

BLOCK = 0.025
"""Least seconds of capacity that a process reserves at once, and before it needs them. A process
that is killed wastes at most twice that, or one request."""

BEAT = 0.25
"""Most seconds between two exchanges with Redis, so that shares and pauses are known."""

MEMBER_SECONDS = 5.0
"""Time after which a process that has not been heard of no longer counts."""

REJOIN_SECONDS = 0.6
"""Time that processes keep to their own shares after Redis has lost what it knew: within it, all of
them find out."""

TIMEOUT = 1.0
"""Seconds to wait for a reply of Redis: no request is admitted meanwhile."""

OPEN_ATTEMPTS = 10
"""Times that Redis is asked at the start if it answers late, as on a busy machine."""

MAX_RESERVED = 64
"""Times that are reserved at once."""

REPLIES = 16
"""Recent replies from which the offset of Redis' clock is estimated, and how long one takes."""

FORGET_SECONDS = 3600
"""Time after which an unused quota expires in Redis."""

# Redis runs a script to its end before anything else, so processes need no lock among each other.
# One hash per quota: `member ID` holds the calls in flight that one of the processes may have, and
# when it was last heard of; `requests` and `tokens` are the times (in microseconds of Redis' clock)
# from which the next may go; `pause` and `rejoin` are the ends of a pause, and of the time in which
# all keep to their own shares.
# - `last` is the time of Redis' last reply to this process: a Redis that has no quota then, or an
#   earlier time, was restarted, or its clock was set back.
# - A process is given no calls that others may still have in flight.
# - The first time is reserved however far ahead it is, so that processes take turns.
# - Numbers are returned as text: Redis cuts Lua's floats to integers, and `tostring` to 14 digits.
SCRIPT = (
    """
local function text(number) return string.format('%.0f', number) end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local id, last = ARGV[1], tonumber(ARGV[2])
local each, token, cap = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local held, correction, pause = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local block, silent, rejoin_for = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])

local quota, others, live, rank = {}, 0, 1, 0
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  local member = string.match(flat[i], '^member (.*)$')
  if not member then
    quota[flat[i]] = tonumber(flat[i + 1])
  elseif member ~= id then
    local calls, seen = string.match(flat[i + 1], '^(%d+) (%d+)$')
    if now - tonumber(seen) > silent then
      redis.call('HDEL', KEYS[1], flat[i])
    else
      others, live = others + tonumber(calls), live + 1
      if member < id then rank = rank + 1 end
    end
  end
end
local share = math.max(math.min(math.floor((cap + rank) / live), cap - others), 0)
redis.call('HSET', KEYS[1], 'member ' .. id, text(math.max(share, held)) .. ' ' .. text(now))

if last > now then quota = {} end
local rejoin = quota.rejoin or 0
if last > 0 and not quota.requests then rejoin = now + rejoin_for end
local paused = math.max(quota.pause or 0, now + pause)
local requests = math.max(quota.requests or 0, rejoin)
local tokens = (quota.tokens or 0) + correction * token
local reply = {text(now), text(share), text(live), text(math.max(paused - now, 0)),
  text(math.max(rejoin - now, 0))}
if paused <= now and rejoin <= now then
  local first = nil
  for i = 12, #ARGV do
    local start = math.max(now, requests, tokens)
    if first and start > first + block then break end
    first = first or start
    requests = start + each
    tokens = start + tonumber(ARGV[i]) * token
    reply[#reply + 1] = text(start - now)
  end
end
redis.call('HSET', KEYS[1], 'requests', text(requests), 'tokens', text(tokens),
  'pause', text(paused), 'rejoin', text(rejoin))
redis.call('EXPIRE', KEYS[1],
  math.ceil(math.max(requests - now, tokens - now, 0) / 1000000) + """
    + f"{FORGET_SECONDS})\nreturn reply\n"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reply:
    """What Redis answered."""

    now: float
    """Redis' time in seconds."""
    in_flight: int
    """Calls that this process may have in flight."""
    processes: int
    """Processes that share the limits, this one included."""
    paused_for: float
    """Seconds for which no process may send a request."""
    apart_for: float
    """Seconds for which each process keeps to its own share, since Redis has lost what it knew."""
    starts: tuple[float, ...]
    """Seconds from `now` at which requests may go, as many as were reserved."""


class RedisQuota:
    """The shared limits of one endpoint, key and model, as one of the processes sees them."""

    def __init__(
        self, url: str, name: str, *, rpm: float | None, tpm: float | None, concurrency: int
    ) -> None:
        self.url = url
        # The name holds the endpoint's address and its key: neither is to be seen in Redis.
        digest = hashlib.sha256(name.encode()).hexdigest()[:32]
        # The number is that of what the hash holds, which another version may not read.
        self._key = f"textassay:limits:3:{digest}"
        self._id = uuid.uuid4().hex
        self._last = 0
        self._limits = (
            0.0 if rpm is None else WINDOW / rpm * 1e6,
            0.0 if tpm is None else WINDOW / tpm * 1e6,
            concurrency,
        )
        self._client = open_async(url, timeout=TIMEOUT)
        self._script: Any = self._client.register_script(SCRIPT)

    async def exchange(
        self,
        tokens: Sequence[float] = (),
        *,
        held: int = 0,
        correction: float = 0.0,
        pause: float = 0.0,
        block: float = BLOCK,
    ) -> Reply:
        """Reserve times for requests, and report the outcome of earlier ones.

        Fewer are reserved than requested if they would take more than `block` seconds, and none
        during a pause, or while processes keep to their own shares. `held` calls are in flight, or
        may be before the reply is here; `correction` is in tokens, negative to give back.
        """
        timing = [pause * 1e6, block * 1e6, MEMBER_SECONDS * 1e6, REJOIN_SECONDS * 1e6]
        with as_unavailable(self.url):
            reply = await self._script(
                keys=[self._key],
                args=[self._id, self._last, *self._limits, held, correction, *timing, *tokens],
            )
        self._last = int(reply[0])
        now, in_flight, processes, paused, apart, *starts = map(float, reply)
        return Reply(
            now=now / 1e6,
            in_flight=int(in_flight),
            processes=int(processes),
            paused_for=paused / 1e6,
            apart_for=apart / 1e6,
            starts=tuple(start / 1e6 for start in starts),
        )

    async def leave(self) -> None:
        """Let the other processes have this one's share at once, rather than after a while."""
        with as_unavailable(self.url):
            await self._client.hdel(self._key, f"member {self._id}")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


@dataclass(frozen=True, slots=True)
class ReservedTime:
    """A time at which a request may go."""

    at: float
    """On the event loop's clock."""
    tokens: float
    """Tokens that were reserved with it."""


def usable_for(rpm: float | None, processes: int) -> float:
    """Return the seconds after its time for which a reserved time may be used.

    Later it is lost: used all at once, times that an overloaded process has missed would be a
    burst. If all processes are late by so much, no second sees more requests than the limit and one
    for each process: times are reserved slightly below the limit (`WINDOW`).
    """
    if rpm is None:
        return BLOCK
    most_in_a_second = math.floor(rpm / 60 + processes)
    return most_in_a_second * WINDOW / rpm - 1 - 1e-6


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
        super().__init__(
            rpm=rpm, tpm=tpm, concurrency=concurrency, adaptive=adaptive, timeout=timeout
        )
        self._quota = quota
        # While Redis answers, times are reserved; without it, a pace of this process takes over.
        self._request_pace = self._token_pace = None
        self._is_apart = self._is_lost = False
        self._together_at = -math.inf
        self._share, self._processes = 0, 1
        self._reserved: deque[ReservedTime] = deque()
        self._correction = 0.0
        self._unreported_until = -math.inf
        """End of a pause that Redis may not know of."""
        self._offsets: deque[float] = deque(maxlen=REPLIES)
        self._took: deque[float] = deque([0.0], maxlen=REPLIES)
        self._due = asyncio.Event()
        self._exchanging: asyncio.Task[None] | None = None

    @property
    def is_shared(self) -> bool:
        """Whether Redis answers."""
        return not self._is_lost

    @property
    def limit(self) -> int:
        """Requests that this process may have in flight now."""
        return min(super().limit, self._share)

    async def open(self) -> None:
        """Join the other processes."""
        self._loop = asyncio.get_running_loop()
        for attempt in range(1, 1 + OPEN_ATTEMPTS):
            try:
                reply = await self._quota.exchange()
                break
            except RedisUnavailable as error:
                if not error.is_late or attempt == OPEN_ATTEMPTS:
                    raise ConfigurationError(
                        f"limits cannot be shared: {str(error).rstrip('.')}; check that Redis "
                        "runs there, or change or leave out limits="
                    ) from error
        self._apply(reply, [])
        self._exchanging = asyncio.create_task(self._exchange_until_closed())

    async def aclose(self) -> None:
        """Leave the other processes; safe to call twice."""
        task, self._exchanging = self._exchanging, None
        if task is not None:
            self._due.set()  # for one more exchange, which gives back what was reserved
            await asyncio.gather(task, return_exceptions=True)
            with suppress(RedisUnavailable):
                await self._quota.leave()
        await self._quota.aclose()

    def pause(self, seconds: float) -> None:
        """Admit nothing for some seconds, in no process; a longer pause that is under way stays."""
        super().pause(seconds)
        self._unreported_until = max(self._unreported_until, self._now() + seconds)
        self._due.set()

    def _ready_at(self, tokens: int, now: float) -> float:
        if self._exchanging is None:
            raise RuntimeError("a shared limiter admits between open() and aclose() only")
        if self._is_apart or (self.rpm is None and self.tpm is None):
            return super()._ready_at(tokens, now)
        if self._in_flight >= self.limit:
            return math.inf
        while self._reserved and self._reserved[0].at < now - usable_for(self.rpm, self._processes):
            self._correction -= self._reserved.popleft().tokens
        if self._paused_until > now:
            return self._paused_until
        return self._reserved[0].at if self._reserved else math.inf

    def _take(self, permit: Permit, now: float, *, waited: bool) -> None:
        super()._take(permit, now, waited=waited)
        if not self._reserved or self._is_apart:
            return
        reserved = self._reserved.popleft()
        if self.tpm is not None:
            permit.paced = permit.tokens * self._used_share
            # Whoever the time was reserved for may have been canceled meanwhile.
            self._correction += permit.paced - reserved.tokens

    def _correct(self, permit: Permit, tokens: int) -> None:
        before = permit.paced
        super()._correct(permit, tokens)
        if self.tpm is not None and not self._is_apart:
            permit.paced = float(tokens)
            self._correction += tokens - before
            # Others are about to reserve behind what is corrected; little can wait for a beat.
            if abs(self._correction) * WINDOW > self.tpm * BLOCK:
                self._due.set()

    def _wake(self) -> None:
        super()._wake()
        if self._waiting and self._weights(self._now()):
            self._due.set()

    @property
    def _block(self) -> float:
        """Seconds of capacity to reserve at once: what is used while an exchange is under way."""
        return max(BLOCK, 2 * max(self._took))

    def _give_back(self, keep: int) -> None:
        """Give up the times for which nobody waits any more, and their tokens."""
        while len(self._reserved) > keep:
            self._correction -= self._reserved.pop().tokens

    def _weights(self, now: float) -> list[float]:
        """Return the tokens of those in the queue for whom a time is worth reserving."""
        is_unlimited = self.rpm is None and self.tpm is None
        if is_unlimited or self._is_apart or self._paused_until > now:
            return []
        if self._reserved and self._reserved[-1].at - now >= self._block:
            return []
        # The head of the queue has its times already. Times for requests that the limit on calls in
        # flight would not admit then would be lost.
        first = len(self._reserved)
        last = min(MAX_RESERVED, self.limit - self._in_flight)
        share = self._used_share
        return [permit.tokens * share for permit in islice(self._waiting.values(), first, last)]

    async def _exchange_until_closed(self) -> None:
        task, is_open = asyncio.current_task(), True
        while is_open:
            left = self._together_at - self._now()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(BEAT, left) if left > 0 else BEAT):
                    await self._due.wait()
            self._due.clear()
            # Known before the exchange: what is given back while one is under way needs another.
            is_open = self._exchanging is task
            await self._exchange()

    async def _exchange(self) -> None:
        self._give_back(keep=len(self._waiting))
        began = self._now()
        tokens = self._weights(began)
        # Taken before the await, so that what is owed meanwhile goes with the next exchange.
        correction, self._correction = self._correction, 0.0
        pause_until, self._unreported_until = self._unreported_until, -math.inf
        try:
            reply = await self._quota.exchange(
                tokens,
                held=max(self._in_flight, self._share),
                correction=correction,
                pause=max(0.0, pause_until - began),
                block=self._block,
            )
        except RedisUnavailable as error:
            # Whether Redis got this message is unknown. A pause can be sent twice without harm; a
            # correction cannot, and is dropped: the window still keeps this process' own limit.
            self._unreported_until = max(self._unreported_until, pause_until)
            self._lose(error)
            return
        self._took.append(self._now() - began)
        self._apply(reply, tokens)

    def _apply(self, reply: Reply, tokens: list[float]) -> None:
        """Take what Redis answered, and admit who may go now."""
        now = self._now()
        if self._is_lost:
            self._is_lost = False
            _log.info("Redis at %s answers again", self._quota.url)
        if reply.paused_for:
            self._paused_until = max(self._paused_until, now + reply.paused_for)
        if reply.apart_for:
            # The number of processes is that from before: Redis has not heard of all of them yet.
            self._together_at = now + reply.apart_for
            self._go_apart()
            return
        if self._is_apart:
            self._come_together(now)
        self._share, self._processes = reply.in_flight, reply.processes
        # The reply that traveled fastest tells the clocks' difference best.
        self._offsets.append(now - reply.now)
        offset = min(self._offsets)
        self._reserved.extend(
            ReservedTime(reply.now + offset + start, weight)
            for start, weight in zip(reply.starts, tokens, strict=False)
        )
        self._wake()

    def _lose(self, error: RedisUnavailable) -> None:
        """Continue with the last share, and log a warning at the first failure."""
        self._go_apart()
        if not self._is_lost:
            self._is_lost = True
            _log.warning(
                "%s; this process continues with its last share: 1/%d of the limits, %d calls in"
                " flight",
                error,
                self._processes,
                self._share,
            )

    def _go_apart(self) -> None:
        """Admit by a pace of this process alone."""
        if self._is_apart:
            return
        self._is_apart = True
        self._correction = 0.0
        # Where times were reserved, it begins with the next, so that the change itself is no burst.
        now, catch_up = self._now(), usable_for(self.rpm, self._processes)
        self._request_pace, self._token_pace = (
            None if limit is None else Pace(limit / self._processes, catch_up=catch_up)
            for limit in (self.rpm, self.tpm)
        )
        for pace in (self._request_pace, self._token_pace):
            if pace is not None:
                pace.free_at = self._reserved[0].at if self._reserved else now + pace.seconds_each
        self._wake()

    def _come_together(self, now: float) -> None:
        self._is_apart = False
        self._request_pace = self._token_pace = None
        # Times that have passed were used by this process' own pace.
        while self._reserved and self._reserved[0].at <= now:
            self._reserved.popleft()
        # Measured again: the clocks of two machines drift apart over a long outage.
        self._offsets.clear()

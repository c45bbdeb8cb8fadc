"""Requests, tokens and calls in flight that processes share, counted in one place: Redis.

One Lua script, on Redis' own clock, reserves times for requests (the generic cell rate algorithm,
over requests and tokens at once), takes corrections and pauses, and divides the calls in flight.
Knows numbers only; who waits for what is the business of `shared_limits.py`.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from textassay.runtime.calls.bucket import WINDOW
from textassay.runtime.storage.redis import as_unavailable, open_async

BLOCK = 0.025
"""Least seconds of capacity that are reserved at once. A process reserves the next block when it
begins to use the last, and so holds at most twice that, or one request: what is lost with a process
that is killed."""

TIMEOUT = 1.0
"""Seconds to wait for a reply of Redis: no request is admitted meanwhile."""

MEMBER_SECONDS = 5.0
"""Time after which a process that has not been heard of no longer counts."""

RETURN_SECONDS = 0.6
"""Time that all processes keep to their own shares after one of them has come back: the others come
back within it, and then all of them reserve again from the same moment."""

FORGET_SECONDS = 3600
"""Time after which an unused quota expires in Redis."""

# Redis runs a script to its end before anything else, so processes need no lock among each other.
# - The time is Redis' own: clocks of machines differ by more than two requests are apart. Writing
# after TIME needs Redis 5, which replicates effects rather than the script.
# - One hash per quota. `member ID` holds "cap, calls held, calls wanted, last heard of" of one of
# the processes; `requests` and `tokens` are the times (in microseconds) from which the next one may
# go; `pause` and `apart` are the ends of a pause and of the time in which all keep to their own
# shares.
# - Numbers are returned as text: Redis cuts Lua's floats to integers. `%.0f` because `tostring`
# rounds to 14 digits, and microseconds since 1970 have 16.
# - Reserving stops after one block of capacity, however many requests were named: a process that
# took more would keep the others waiting for times that it may never use.
# - A share never exceeds what the others do not hold: who gives calls up holds them until they end.
# Shares are whole calls that add up to the cap: the rest of the division goes to the first by id.
# - A Redis that restarts forgets everything, and its client connects again without an error. So a
# process says when it was last answered, and what `requests` and `tokens` were: if Redis does not
# remember, all keep to their own shares until each of them has been heard of.
# - A clock that was set back would block everybody until it has caught up: then all begins anew.
SCRIPT = (
    """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local id = ARGV[1]
local each, token, cap = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local busy, want = tonumber(ARGV[5]), tonumber(ARGV[6])
local correction, pause = tonumber(ARGV[7]), tonumber(ARGV[8])
local block, silent = tonumber(ARGV[9]), tonumber(ARGV[10])
local back, apart_for = tonumber(ARGV[11]), tonumber(ARGV[12])
local answered = tonumber(ARGV[13])
local requests_then, tokens_then = tonumber(ARGV[14]), tonumber(ARGV[15])

local quota, members = {}, {}
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  local member = string.match(flat[i], '^member (.*)$')
  if member then members[member] = flat[i + 1] else quota[flat[i]] = tonumber(flat[i + 1]) end
end

if answered > now then
  quota, back = {}, 1
elseif answered > 0 then
  local known = string.match(members[id] or '', '(%d+)$')
  if not known or tonumber(known) ~= answered then
    back = 1
    quota.requests = math.max(quota.requests or 0, requests_then)
    quota.tokens = math.max(quota.tokens or 0, tokens_then)
  end
end

-- calls in flight: an equal share for each, and what some leave over for those who want more
local others, own = 0, cap
local ids, wants = {id}, {[id] = want}
for member, told in pairs(members) do
  if member ~= id then
    local limit, held, wanted, seen = string.match(told, '^(%d+) (%d+) (%d+) (%d+)$')
    if now - tonumber(seen) > silent then
      redis.call('HDEL', KEYS[1], 'member ' .. member)
    else
      cap = math.min(cap, tonumber(limit))
      others = others + tonumber(held)
      ids[#ids + 1] = member
      wants[member] = tonumber(wanted)
    end
  end
end
table.sort(ids)
local live = #ids
local target, spare, hungry, place = 0, 0, 0, 0
for i, member in ipairs(ids) do
  local share = math.floor(cap / live)
  if i <= cap % live then share = share + 1 end
  if wants[member] > share then hungry = hungry + 1 else spare = spare + share - wants[member] end
  if member == id then target, place = share, hungry end
end
if want > target then
  target = target + math.floor(spare / hungry)
  if place <= spare % hungry then target = target + 1 end
elseif hungry > 0 then
  target = want
end
local mine = math.max(math.min(target, cap - others), 0)
-- what is in flight above its share is still there, and nobody else's until it ends
redis.call('HSET', KEYS[1], 'member ' .. id,
  string.format('%.0f %.0f %.0f %.0f', own, math.max(mine, busy), want, now))

local requests = quota.requests or 0
local tokens = (quota.tokens or 0) + correction * token
local paused = math.max(quota.pause or 0, now + pause)
local apart = quota.apart or 0
if back == 1 and apart <= now then apart = now + apart_for end
local reply = {string.format('%.0f', now), tostring(mine), tostring(live), tostring(cap),
  string.format('%.0f', math.max(paused - now, 0)), string.format('%.0f', math.max(apart - now, 0)),
  '', ''}
if paused <= now and apart <= now then
  -- each process may just have sent one by its own pace
  if apart > 0 then requests = math.max(requests, apart + live * each) end
  local first = nil
  for i = 16, #ARGV do
    local start = math.max(now, requests, tokens)
    if first and start > first + block then break end
    first = first or start
    local weight = tonumber(ARGV[i])
    if each > 0 then requests = start + each end
    if token > 0 and weight > 0 then tokens = start + weight * token end
    reply[#reply + 1] = string.format('%.0f', start - now)
  end
end
reply[7], reply[8] = string.format('%.0f', requests), string.format('%.0f', tokens)
redis.call('HSET', KEYS[1], 'requests', reply[7],
  'tokens', reply[8], 'pause', string.format('%.0f', paused),
  'apart', string.format('%.0f', apart))
redis.call('EXPIRE', KEYS[1],
  math.ceil(math.max(requests - now, tokens - now, 0) / 1000000) + """
    + f"{FORGET_SECONDS})\nreturn reply\n"
)


@dataclass(frozen=True, slots=True)
class Share:
    """What Redis answered."""

    now: float
    """Redis' time in seconds."""
    in_flight: int
    """Calls that this process may have in flight."""
    processes: int
    """Processes that share the limits, this one included."""
    concurrency: int
    """Calls that all of them together may have in flight: the least that one of them was given."""
    paused_for: float
    """Seconds for which no process may send a request."""
    apart_for: float
    """Seconds for which each process keeps to its own share, since one has just come back or Redis
    has lost what it knew."""
    starts: tuple[float, ...]
    """Seconds from `now` at which requests may go, as many as were reserved."""


class RedisQuota:
    """The shared limits of one endpoint, key and model, as one of the processes sees them."""

    def __init__(
        self, url: str, name: str, *, rpm: float | None, tpm: float | None, concurrency: int
    ) -> None:
        """Store the limits; nothing is connected yet.

        Args:
            url: Address of Redis; may name environment variables as `${NAME}`.
            name: Identifies the quota; only a digest of it is stored.
            rpm: Requests per minute; `None` for no limit.
            tpm: Tokens per minute; `None` for no limit.
            concurrency: Most calls in flight of all processes together.

        Raises:
            ConfigurationError: The address cannot be used, or the package redis is missing.
        """
        self.url = url
        # The name holds the endpoint's address and its key: neither is to be seen in Redis.
        digest = hashlib.sha256(name.encode()).hexdigest()[:32]
        # The number is that of what the hash holds, which another version may not read.
        self._key = f"textassay:limits:2:{digest}"
        self._id = uuid.uuid4().hex
        self._answered = 0
        self._next_free = ("0", "0")
        """`requests` and `tokens` of the last reply."""
        self._concurrency = concurrency
        # A minute's limit is spread over slightly more than a minute (see `bucket.py`).
        self._each = 0.0 if rpm is None else WINDOW / rpm * 1e6
        self._token = 0.0 if tpm is None else WINDOW / tpm * 1e6
        self._client = open_async(url, timeout=TIMEOUT)
        self._script: Any = self._client.register_script(SCRIPT)

    async def exchange(
        self,
        tokens: Sequence[float] = (),
        *,
        busy: int,
        requested: int,
        correction: float,
        pause: float,
        block: float = BLOCK,
        is_back: bool = False,
    ) -> Share:
        """Reserve times for requests, and report the outcome of earlier ones.

        Fewer are reserved than requested if they would take more than `block` seconds, and none
        during a pause or while processes keep to their own shares. That is so for `RETURN_SECONDS`
        once one has come back or Redis has restarted.

        Args:
            tokens: Tokens of each request.
            busy: Calls that are in flight, or may be before the reply is here.
            requested: Calls in flight and calls that wait.
            correction: Tokens to add to what was reserved earlier; negative to give back.
            pause: Seconds for which no process may send a request.
            block: Seconds of capacity that are reserved at most.
            is_back: Whether the exchange before this one failed.

        Raises:
            RedisUnavailable: Redis did not answer; nothing is known of what it did.
        """
        with as_unavailable(self.url):
            reply = await self._script(
                keys=[self._key],
                args=[
                    self._id,
                    self._each,
                    self._token,
                    self._concurrency,
                    busy,
                    requested,
                    correction,
                    pause * 1e6,
                    block * 1e6,
                    MEMBER_SECONDS * 1e6,
                    int(is_back),
                    RETURN_SECONDS * 1e6,
                    self._answered,
                    *self._next_free,
                    *tokens,
                ],
            )
        self._answered = int(reply[0])
        # as text: a float has too few digits for microseconds since 1970
        self._next_free = (_text(reply[6]), _text(reply[7]))
        now, in_flight, processes, concurrency, paused, apart, _, _, *starts = map(float, reply)
        return Share(
            now=now / 1e6,
            in_flight=int(in_flight),
            processes=int(processes),
            concurrency=int(concurrency),
            paused_for=paused / 1e6,
            apart_for=apart / 1e6,
            starts=tuple(start / 1e6 for start in starts),
        )

    async def leave(self) -> None:
        """Let the other processes have this one's share at once, rather than after a while.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        with as_unavailable(self.url):
            await self._client.hdel(self._key, f"member {self._id}")

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _text(item: bytes | str) -> str:
    return item.decode() if isinstance(item, bytes) else item

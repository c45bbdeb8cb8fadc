"""Serves the page for raters, chooses their next items, and stores their answers.

Raters need a personal link; there are no passwords. Requests are refused unless they name
this server in Host (a page elsewhere could otherwise reach it by a name that resolves to the
loopback) and, if they change something, come from its own page (Origin).

Items come least rated first, balanced by system within a source, some of them twice. A shown item
is leased to its rater. A lease that runs out returns the item to the others, so that no item waits
for a rater who left; a later answer still counts.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from textassay.annotate.ratings import (
    CollectedRatings,
    Rater,
    RaterAnswer,
    StaleRevision,
    Visit,
    write_ratings,
)
from textassay.listening import answers_to, host_name, listen
from textassay.runtime.concurrency import in_thread
from textassay.runtime.errors import DataError, StorageError
from textassay.runtime.storage.files import decode

REPEAT_DISTANCE = 8
"""Other items between the two showings of a repeated one, so that it is not simply remembered."""
PAGE = Path(__file__).parent / "page"
SHARED = Path(__file__).parents[1] / "assets"
"""Files that the page shares with the report."""
ASSETS = {
    "page.js": (PAGE, "text/javascript"),
    "page.css": (PAGE, "text/css"),
    "material.js": (SHARED, "text/javascript"),
    "material.css": (SHARED, "text/css"),
}
HEADERS = {
    # texts to rate come from models and the web: even if one broke out of its element, only the
    # page's own files could run or be reached
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    # the address holds the rater's token
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
AnnotationHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class _Lease:
    visit: Visit
    position: int
    until: float


class Allocation:
    """Deals items to raters."""

    def __init__(
        self,
        ratings: CollectedRatings,
        *,
        lease_seconds: float = 1800.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ratings, self._study = ratings, ratings.study
        self._lease_seconds, self._clock = lease_seconds, clock
        self._leases: dict[str, list[_Lease]] = {}
        self._orders: dict[str, dict[str, int]] = {}

    def upcoming(self, rater: Rater, count: int = 1) -> list[tuple[Visit, int]]:
        """Return the rater's next visits with their positions, leased to the rater from now on."""
        now = self._clock()
        # leases live in memory only: after a restart there are none, and at worst an item is
        # shown to one rater more
        leases = [
            lease
            for lease in self._leases.get(rater.name, [])
            if lease.visit not in self._ratings.answers and lease.until > now
        ]
        self._leases[rater.name] = leases
        while len(leases) < count:
            visit = self._next(rater, [lease.visit for lease in leases], now)
            if visit is None:
                break
            leases.append(_Lease(visit, len(rater.visits) + len(leases), now + self._lease_seconds))
        # a new request renews all leases, since the browser is still open
        for lease in leases:
            lease.until = now + self._lease_seconds
        return [(lease.visit, lease.position) for lease in leases[:count]]

    def is_swapped(self, visit: Visit) -> bool:
        """Return whether a comparison shows its second text first.

        At random, and differently when repeated.
        """
        draw = random.Random(f"{self._study.seed} {visit.rater} {visit.key} {visit.repeat}")
        return self._study.paired and draw.random() < 0.5

    def remaining(self, rater: Rater) -> int:
        """Return how many items this rater may still be asked for the first time."""
        counts = self._counts(rater, self._clock())
        return sum(self._open(rater, key, counts) for key in self._study.keys)

    def _next(self, rater: Rater, held: list[Visit], now: float) -> Visit | None:
        repeated = self._repeat(rater, held)
        if repeated is not None:
            return repeated
        leased = {visit.key for visit in held}
        counts = self._counts(rater, now)
        order = self._order(rater)
        seen = [*rater.visits, *held]
        by_system = Counter(self._system(visit.key) for visit in seen if not visit.repeat)
        candidates = [
            key for key in self._study.keys if key not in leased and self._open(rater, key, counts)
        ]
        if not candidates:
            return None
        # least rated first keeps the number of raters equal whenever the study is ended; then the
        # system that this rater saw least, so that a rater's severity does not fall on one system
        next_key = min(candidates, key=lambda k: (counts[k], by_system[self._system(k)], order[k]))
        return Visit(rater.name, next_key)

    def _open(self, rater: Rater, key: str, counts: Counter[str]) -> bool:
        """Return whether the item still needs a rating that this rater may give."""
        answered = Visit(rater.name, key) in self._ratings.answers
        return not answered and counts[key] < self._study.per_item

    def _counts(self, rater: Rater, now: float) -> Counter[str]:
        """Count ratings by item, including other raters' leases."""
        # second showings measure the rater, not the item, so they do not fill its quota
        counts = Counter(visit.key for visit in self._ratings.answers if not visit.repeat)
        for name, leases in self._leases.items():
            if name != rater.name:
                counts.update(
                    lease.visit.key
                    for lease in leases
                    if lease.until > now
                    and not lease.visit.repeat
                    and lease.visit not in self._ratings.answers
                )
        return counts

    def _system(self, key: str) -> str | None:
        return self._study.by_key[key].system

    def _order(self, rater: Rater) -> dict[str, int]:
        """Return the rater's own random order, the same after a restart."""
        if rater.name not in self._orders:
            keys = list(self._study.keys)
            random.Random(f"{self._study.seed} {rater.name}").shuffle(keys)
            self._orders[rater.name] = {key: place for place, key in enumerate(keys)}
        return self._orders[rater.name]

    def _repeat(self, rater: Rater, held: list[Visit]) -> Visit | None:
        """Return a second showing of an item when it is time for one.

        Whether it is time depends on the seed, the rater and the number of visits alone, so that a
        restart deals the same.
        """
        past = [*rater.visits, *held]
        # a string as seed: it is hashed by SHA-512 and gives the same draws in every process,
        # which `hash` would not
        draw = random.Random(f"{self._study.seed} {rater.name} repeat {len(past)}")
        if draw.random() >= self._study.repeat_share:
            return None
        twice = {visit.key for visit in past if visit.repeat}
        far = past[: max(0, len(past) - REPEAT_DISTANCE)]
        eligible = [v.key for v in far if not v.repeat and v.key not in twice]
        return Visit(rater.name, draw.choice(eligible), repeat=1) if eligible else None


class AnnotationServer:
    """The web application of one study."""

    def __init__(
        self,
        ratings: CollectedRatings,
        out: Path,
        *,
        host: str = "127.0.0.1",
        public: str | None = None,
        warn: Callable[[str], object] = lambda message: None,
    ) -> None:
        self.ratings, self.out, self.host, self.public = ratings, out, host, public
        self.assignment = Allocation(ratings)
        self._warn = warn
        self._changed = asyncio.Event()

    def application(self) -> web.Application:
        """Return the routes, for `web.AppRunner` or a test client."""
        app = web.Application(middlewares=[self._guard], client_max_size=64 * 1024)
        app.on_response_prepare.append(self._add_headers)
        app.router.add_get("/", self._front)
        app.router.add_get("/assets/{name}", self._asset)
        app.router.add_get("/rate/{token}", self._page)
        app.router.add_get("/api/{token}/study", self._study)
        app.router.add_get("/api/{token}/items", self._items)
        app.router.add_get("/api/{token}/history/{position}", self._history)
        app.router.add_post("/api/{token}/ratings", self._rate)
        return app

    @asynccontextmanager
    async def serving(self, port: int) -> AsyncIterator[int]:
        """Serve inside the block; yield the port, which is a free one for `port` 0."""
        writing = asyncio.create_task(self._keep_writing())
        try:
            async with listen(self.application(), self.host, port) as free_port:
                yield free_port
        finally:
            # requests ended first; then the last answers are written
            writing.cancel()
            await asyncio.wait([writing])
            await self._write()

    @web.middleware
    async def _guard(self, request: web.Request, handler: AnnotationHandler) -> web.StreamResponse:
        # before anything else, even the token
        host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
        # proxies pass the name on with or without a port
        is_public = self.public is not None and host_name(host) == host_name(self.public)
        if not is_public and not answers_to(host, self.host):
            return _refusal(403, "this server does not accept that host name; give it its own")
        # behind a proxy the browser's page is at the public address, with any Host from the proxy
        if origin not in (None, f"http://{host}", f"https://{host}", self.public):
            return _refusal(403, "only this server's own page may send requests")
        try:
            return await handler(request)
        except web.HTTPException as error:
            return _refusal(error.status, error.reason)

    async def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(HEADERS)

    def _rater(self, request: web.Request) -> Rater:
        rater = self.ratings.rater_of(request.match_info["token"])
        if rater is None:
            raise web.HTTPNotFound(reason="this link is not valid; ask for a new one")
        return rater

    async def _front(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text="Open your personal link to rate.\n", content_type="text/plain")

    async def _asset(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in ASSETS:
            raise web.HTTPNotFound
        folder, kind = ASSETS[name]
        text = (folder / name).read_text(encoding="utf-8")
        return web.Response(text=text, content_type=kind, charset="utf-8")

    async def _page(self, request: web.Request) -> web.StreamResponse:
        self._rater(request)
        text = (PAGE / "page.html").read_text(encoding="utf-8")
        return web.Response(text=text, content_type="text/html", charset="utf-8")

    async def _study(self, request: web.Request) -> web.StreamResponse:
        rater = self._rater(request)
        study = self.ratings.study.browser_view()
        return web.json_response({**study, "rater": rater.name, **self._progress(rater)})

    async def _items(self, request: web.Request) -> web.StreamResponse:
        rater = self._rater(request)
        # the shown item, and five that the browser may hold ahead of it
        upcoming = self.assignment.upcoming(rater, 1 + 5)
        items = [self._item(visit, position) for visit, position in upcoming]
        return web.json_response({"items": items, **self._progress(rater)})

    async def _history(self, request: web.Request) -> web.StreamResponse:
        rater = self._rater(request)
        position = request.match_info["position"]
        # the length bounds what int() has to parse
        is_number = position.isdecimal() and len(position) <= 15
        if not is_number or int(position) >= len(rater.visits):
            raise web.HTTPNotFound(reason="there is no such earlier item")
        visit = rater.visits[int(position)]
        answer = self.ratings.answers[visit]
        item = self._item(visit, int(position))
        item["answer"] = {
            "ratings": self._as_shown(visit, dict(answer.ratings)),
            "revision": answer.revision,
            "seconds": answer.seconds,
            "comment": answer.comment,
        }
        return web.json_response(item)

    async def _rate(self, request: web.Request) -> web.StreamResponse:
        rater = self._rater(request)
        try:
            visit, answer = self._read(rater, decode(await request.read()))
        except (web.RequestPayloadError, DataError, ValueError, KeyError, TypeError) as error:
            return _refusal(400, f"not an answer: {error}")
        try:
            await self.ratings.record(visit, answer)
        except StaleRevision:
            saved = self.ratings.answers[visit]
            return web.json_response(
                {"error": "a different answer is already saved", "revision": saved.revision},
                status=409,
            )
        except StorageError as error:
            # 507 (insufficient storage): the browser keeps the answer and sends it again
            return _refusal(507, str(error))
        self._changed.set()
        return web.json_response({"kept": answer.revision, **self._progress(rater)})

    def _read(self, rater: Rater, body: dict[str, Any]) -> tuple[Visit, RaterAnswer]:
        """Read an answer to any item of the study, including items whose lease has expired."""
        key, repeat = body["key"], body["repeat"]
        if key not in self.ratings.study.by_key or repeat not in (0, 1):
            raise DataError("the item is not part of this study")
        visit = Visit(rater.name, key, repeat)
        if repeat and Visit(rater.name, key) not in self.ratings.answers:
            raise DataError("it repeats an item that was not rated before")
        revision, comment = body["revision"], body.get("comment", "")
        if not isinstance(revision, int) or not 1 <= revision <= 1000:
            raise DataError("its revision is not a number from 1 to 1000")
        if not isinstance(comment, str):
            raise DataError("its comment is not text")
        earlier = self.ratings.answers.get(visit)
        return visit, RaterAnswer(
            ratings=self._as_shown(visit, self.ratings.study.check(body["ratings"])),
            revision=revision,
            # measured by the browser, whose clock may jump
            seconds=float(min(max(body["seconds"], 0), 86400)),
            # the server's count: a page that is open twice would report a position twice
            position=earlier.position if earlier else len(rater.visits),
            swapped=self.assignment.is_swapped(visit),
            comment=comment[:2000],
        )

    def _as_shown(self, visit: Visit, ratings: dict[str, float | None]) -> dict[str, float | None]:
        """Reverse the choices of a swapped comparison: stored ones always refer to `output`."""
        if not self.assignment.is_swapped(visit):
            return ratings
        return {name: None if value is None else 1.0 - value for name, value in ratings.items()}

    def _item(self, visit: Visit, position: int) -> dict[str, Any]:
        swapped = self.assignment.is_swapped(visit)
        item = self.ratings.study.browser_item(visit.key, swapped=swapped)
        return {**item, "repeat": visit.repeat, "position": position}

    def _progress(self, rater: Rater) -> dict[str, int]:
        return {
            "done": len(rater.visits),
            "repeated": sum(visit.repeat > 0 for visit in rater.visits),
            "remaining": self.assignment.remaining(rater),
        }

    async def _keep_writing(self) -> None:
        """Write the file of ratings after new answers, and try again if that fails.

        There is only one such task, since two writers would remove each other's unfinished file.
        """
        is_warned = False
        while True:
            await self._changed.wait()
            # cleared before the write: an answer that arrives during it sets the event again
            self._changed.clear()
            try:
                await self._write()
                is_warned = False
            except StorageError as error:
                self._changed.set()
                if not is_warned:
                    self._warn(f"{error}; the server tries again every second")
                    is_warned = True
            # an acknowledged answer is in the journal at once, and in the file within a second
            await asyncio.sleep(1.0)

    async def _write(self) -> None:
        # a snapshot, because the event loop goes on recording while the thread writes
        answers = self.ratings.snapshot()
        try:
            await in_thread(lambda: write_ratings(answers, self.out))
        except OSError as error:
            raise StorageError(
                f"{self.out} cannot be written: {error.strerror or error}; "
                f"{self.ratings.path} has all answers"
            ) from error


def _refusal(status: int, reason: str) -> web.Response:
    return web.Response(
        status=status, text=json.dumps({"error": reason}), content_type="application/json"
    )

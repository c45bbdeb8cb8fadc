"""The queue before every model of this process: right answers to the right callers, one thread,
nobody starves, cancelling and closing are safe; by shared prefixes and by lengths."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import itertools
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.waiting import HANGS_AFTER, eventually
from textassay.runtime.backends.local.work_queue import (
    MAX_BATCH,
    PATIENCE,
    LengthOrder,
    PrefixOrder,
    QueuedRequest,
    WorkQueue,
    await_shared,
)
from textassay.runtime.calls.sharing import chain_requests
from textassay.runtime.errors import ConfigurationError, ModelClosed

FOREVER = 1e6  # a wait of so long that is not ended fails its test
ORDERS = {"prefix": PrefixOrder, "length": LengthOrder}


class Text(bytes):
    """A prepared request, which is its own key."""

    key = property(bytes)


class Box:
    """An engine that notes what it is given, and answers while its gate is open."""

    def __init__(self, *, shut: bool = False) -> None:
        self.batches: list[list[bytes]] = []
        self.threads: set[int] = set()
        self.closed = 0
        self.started, self.gate = threading.Event(), threading.Event()
        if not shut:
            self.gate.set()

    @property
    def ran(self) -> list[bytes]:
        return [text for batch in self.batches for text in batch]

    def prepare(self, text: bytes) -> Text:
        self.threads.add(threading.get_ident())
        if text == b"unreadable":
            raise ValueError("cannot be prepared")
        return Text(text)

    def run(self, batch: Sequence[Text], abandoned: Callable[[], bool]) -> list[Any]:
        self.threads.add(threading.get_ident())
        self.batches.append([bytes(text) for text in batch])
        self.started.set()
        assert self.gate.wait(HANGS_AFTER)
        if b"boom" in batch:
            raise RuntimeError("a bad batch")
        answers = [b"<%b>" % text for text in batch if text != b"lost"]
        return [KeyError("bad") if answer == b"<bad>" else answer for answer in answers]

    def close(self) -> None:
        self.threads.add(threading.get_ident())
        self.closed += 1


class Endless(Box):
    """One that continues until no caller waits."""

    def run(self, batch: Sequence[Text], abandoned: Callable[[], bool]) -> list[Any]:
        if b"endless" in batch:
            self.started.set()
            while not abandoned():
                threading.Event().wait(0.001)
            raise RuntimeError("abandoned")
        return super().run(batch, abandoned)


def queue_of(
    box: Box, order: PrefixOrder | LengthOrder | None = None, **options: float
) -> WorkQueue[Box, bytes, bytes]:
    return WorkQueue(lambda: box, PrefixOrder() if order is None else order, name="box", **options)


def asking(queue: WorkQueue[Box, bytes, bytes], *texts: bytes) -> asyncio.Task[list[bytes]]:
    return asyncio.create_task(queue.ask(texts))


async def running(queue: WorkQueue[Box, bytes, bytes], box: Box) -> asyncio.Task[list[bytes]]:
    """Ask for "first" and wait until it runs."""
    task = asking(queue, b"first")
    await asyncio.to_thread(box.started.wait, HANGS_AFTER)
    return task


@pytest.fixture(params=ORDERS)
def order(request):
    return ORDERS[request.param]()


# ---- whatever the order ----


async def test_many_callers_get_their_own_answers_from_one_thread(order):
    box = Box()
    queue = queue_of(box, order)
    texts = [b"ab" * (number % 7 + 1) + b"%d" % number for number in range(60)]
    tasks = {text: asking(queue, text) for text in texts}
    for text, task in tasks.items():
        assert await task == [b"<%b>" % text]
    assert await queue.ask([b"one", b"two"]) == [b"<one>", b"<two>"]
    assert await queue.ask([]) == []
    assert (queue.requests, queue.batches) == (62, len(box.batches))
    await queue.aclose()
    assert len(box.threads) == 1
    assert box.closed == 1


async def test_requests_that_are_canceled_are_not_run(order):
    """What has not begun leaves the queue at once; others are unharmed, also by one that runs."""
    box = Box(shut=True)
    queue = queue_of(box, order)
    first = await running(queue, box)
    doomed, kept = asking(queue, b"never", b"ever"), asking(queue, b"kept")
    await asyncio.sleep(0)
    for canceled in (doomed, first):
        canceled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await canceled
    box.gate.set()
    assert await kept == [b"<kept>"]
    assert box.ran == [b"first", b"kept"]
    await queue.aclose()


async def test_an_engine_may_stop_early_once_no_caller_waits_for_a_batch(order):
    box = Endless()
    queue = queue_of(box, order)
    endless = asking(queue, b"endless")
    await asyncio.to_thread(box.started.wait, HANGS_AFTER)
    endless.cancel()
    async with asyncio.timeout(HANGS_AFTER):
        assert await queue.ask([b"next"]) == [b"<next>"]
        endless = asking(queue, b"endless")
        await queue.ask([])
        await queue.aclose()
        with pytest.raises(ModelClosed):
            await endless


async def test_an_error_reaches_its_own_caller():
    """Of preparing, of one request in a batch, and of a batch; the thread lives on."""
    box = Box(shut=True)
    queue = queue_of(box, LengthOrder())
    first = await running(queue, box)
    good, unreadable, bad = asking(queue, b"a"), asking(queue, b"unreadable"), asking(queue, b"bad")
    await asyncio.sleep(0)
    box.gate.set()
    assert await first
    assert await good == [b"<a>"]
    with pytest.raises(ValueError, match="cannot be prepared"):
        await unreadable
    with pytest.raises(KeyError, match="bad"):
        await bad
    with pytest.raises(RuntimeError, match="bad batch"):
        await queue.ask([b"boom"])
    # answers must never be given to the wrong callers
    with pytest.raises(ValueError, match="1 requests, but 0 answers"):
        await queue.ask([b"lost"])
    assert await queue.ask([b"good"]) == [b"<good>"]
    await queue.aclose()


async def test_closing_ends_the_thread_and_fails_what_waits(order):
    """What runs and finishes is answered; closing twice is fine."""
    box = Box(shut=True)
    queue = WorkQueue(lambda: box, order, name="closing")
    first = await running(queue, box)
    waiting = asking(queue, b"waiting")
    await asyncio.sleep(0)
    closing = asyncio.create_task(queue.aclose())
    await asyncio.sleep(0)
    box.gate.set()
    await closing
    assert await first == [b"<first>"]
    with pytest.raises(ModelClosed):
        await waiting
    for later in (queue.ask([b"late"]), queue.open()):
        with pytest.raises(ModelClosed):
            await later
    await queue.aclose()
    assert box.closed == 1
    assert not [one for one in threading.enumerate() if one.name == "textassay-closing"]


async def test_an_engine_is_opened_once_for_all_who_wait():
    """A caller that gives up leaves the others their engine; one that cannot be opened fails them,
    and is tried again by the next."""
    gate, box, calls = threading.Event(), Box(), []

    def opening() -> Box:
        calls.append(threading.get_ident())
        assert gate.wait(HANGS_AFTER)
        if len(calls) == 1:
            raise ConfigurationError("no such thing")
        return box

    queue = WorkQueue(opening, PrefixOrder(), name="box")
    impatient, asked = asyncio.create_task(queue.open()), asking(queue, b"a")
    waiting = asyncio.create_task(queue.open())
    await eventually(lambda: calls)
    impatient.cancel()
    gate.set()
    for task in (asked, waiting):
        with pytest.raises(ConfigurationError, match="no such thing"):
            await task
    assert await queue.open() is box
    assert await queue.ask([b"a"]) == [b"<a>"]
    assert len(calls) == 2
    await queue.aclose()


def test_an_error_after_the_end_of_those_who_waited_is_not_complained_of():
    """asyncio would log "Future exception was never retrieved"."""
    complaints = []

    async def give_up() -> None:
        future: Future[None] = Future()
        waiting = asyncio.create_task(await_shared(future))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        future.set_exception(ConfigurationError("no such model"))

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    loop.run_until_complete(give_up())
    loop.close()
    gc.collect()
    assert not complaints


async def test_an_engine_that_is_opened_too_late_is_closed():
    gate, box, opening = threading.Event(), Box(), threading.Event()

    def slow() -> Box:
        opening.set()
        assert gate.wait(HANGS_AFTER)
        return box

    queue = WorkQueue(slow, PrefixOrder(), name="box")
    waiting = asyncio.create_task(queue.open())
    await asyncio.to_thread(opening.wait, HANGS_AFTER)
    closing = asyncio.create_task(queue.aclose())
    await asyncio.sleep(0)
    gate.set()
    await closing
    with pytest.raises(ModelClosed):
        await waiting
    assert box.closed == 1


def test_one_queue_serves_several_event_loops():
    """As in a notebook or a web server."""
    queue = queue_of(Box())
    assert asyncio.run(queue.ask([b"a"])) == [b"<a>"]
    assert asyncio.run(queue.ask([b"b"])) == [b"<b>"]
    asyncio.run(queue.aclose())


# ---- by length ----


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=40) | st.just([1] * 300), st.integers(10, 999)
)
def test_no_batch_is_larger_than_allowed(lengths, batch_tokens):
    """Tokens count with padding; a longer request goes alone."""

    async def main() -> None:
        box = Box()
        queue = queue_of(box, LengthOrder(batch_tokens=batch_tokens))
        asked = [b"x" * length for length in lengths]
        assert await queue.ask(asked) == [b"<%b>" % text for text in asked]
        await queue.aclose()
        for batch in box.batches:
            assert len(batch) <= MAX_BATCH
            assert len(batch) == 1 or len(batch) * max(map(len, batch)) <= batch_tokens
        assert len(box.ran) == len(asked)

    asyncio.run(main())


async def test_requests_of_like_length_share_a_batch():
    """Short ones are not padded to the longest."""
    box = Box()
    queue = queue_of(box, LengthOrder(batch_tokens=40))
    await queue.ask([b"x" * n for n in (20, 1, 19, 2, 1, 20, 2)])
    found = sorted(sorted(map(len, batch)) for batch in box.batches)
    assert found == [[1, 1, 2, 2], [19], [20, 20]]
    await queue.aclose()


async def test_the_oldest_request_is_always_served_next():
    """A long request is not held back by a stream of short ones."""
    box = Box(shut=True)
    queue = queue_of(box, LengthOrder(batch_tokens=10))
    first = await running(queue, box)
    late = [asking(queue, text) for text in (b"x" * 50, b"a", b"b", b"c")]
    await asyncio.sleep(0)
    box.gate.set()
    await asyncio.gather(first, *late)
    assert box.batches[1] == [b"x" * 50]
    await queue.aclose()


# ---- by prefix ----


@pytest.mark.parametrize("together", [1, 3])
async def test_shared_prefixes_are_brought_together(together):
    """Mixed arrivals run sorted by prefix, neighbors in one batch."""
    box = Box(shut=True)
    queue = queue_of(box, PrefixOrder(together))
    first = await running(queue, box)
    keys = [b"%c%d" % (letter, number) for number in range(6) for letter in b"abcd"]
    asked = [asking(queue, key) for key in keys]
    await asyncio.sleep(0)
    box.gate.set()
    await asyncio.gather(first, *asked)
    letters = [key[:1] for key in box.ran[1:]]
    assert sum(one != other for one, other in itertools.pairwise(letters)) == 3
    assert [len(batch) for batch in box.batches[1:]] == [together] * (24 // together)
    await queue.aclose()


async def test_no_request_waits_forever_for_a_prefix_that_stays_popular():
    """A request that was passed over often enough runs although better matches keep coming."""
    box = Box(shut=True)
    queue = queue_of(box)
    first = await running(queue, box)
    lonely, popular = asking(queue, b"zzz"), asking(queue, b"first again")
    await asyncio.sleep(0)
    box.gate.set()
    await asyncio.gather(first, popular)
    for _ in range(PATIENCE // 8 + 20):
        await asyncio.gather(*(asking(queue, b"first") for _ in range(16)))
        if lonely.done():
            break
    assert await lonely == [b"<zzz>"]
    await queue.aclose()


def test_the_longest_waiting_goes_first_but_once_in_many_turns():
    """The request next to it then runs beside it, even if others have waited longer."""
    order = PrefixOrder()
    ran: list[bytes] = []

    def add(key: bytes, number: int) -> None:
        entry: QueuedRequest[bytes, bytes] = QueuedRequest(key, number)
        entry.prepared = Text(key)
        order.add(entry)

    for turn in range(2 * PATIENCE + 8):
        add(b"bbb", 4 * turn)
        if turn == 1:
            add(b"a1", 4 * turn + 1)
            add(b"m1", 4 * turn + 2)
        if ran == [b"a1"]:
            add(b"a12", 4 * turn + 3)
        [chosen] = order.take()
        chosen.deliver(b"")
        if chosen.item != b"bbb":
            ran.append(chosen.item)
        if chosen.item == b"a12":
            assert turn < PATIENCE + 8
    assert ran == [b"a1", b"a12", b"m1"]


# ---- chains of requests ----


async def in_turn(queue: WorkQueue[Box, bytes, bytes], *keys: bytes) -> None:
    """Ask one after the other in a chain, each once the one before is answered."""
    with chain_requests() as chain:
        for key in keys:
            chain.has_next = key is not keys[-1]
            await queue.ask([key])


def apart(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Start a task that belongs to no chain."""
    return asyncio.create_task(coroutine, context=contextvars.Context())


async def test_what_follows_in_a_chain_runs_before_what_shares_less_with_it():
    box = Box(shut=True)
    queue = queue_of(box, next_turn_seconds=FOREVER)
    first = await running(queue, box)
    keys = [[letter * number for number in range(1, 5)] for letter in (b"a", b"b", b"c")]
    chains = [asyncio.create_task(in_turn(queue, *some)) for some in keys]
    await asyncio.sleep(0)
    box.gate.set()
    async with asyncio.timeout(HANGS_AFTER):
        await asyncio.gather(first, *chains)
    letters = [key[:1] for key in box.ran[1:]]
    assert sum(one != other for one, other in itertools.pairwise(letters)) == 2
    await queue.aclose()


async def test_a_next_request_that_never_comes_is_waited_for_a_moment_only():
    """Neither waiting requests nor closing depend on what a chain announced."""
    queue = queue_of(Box(), next_turn_seconds=0.2)
    async with asyncio.timeout(HANGS_AFTER):
        with chain_requests():
            await queue.ask([b"a"])
            await apart(queue.ask([b"b"]))
        queue = queue_of(Box(), next_turn_seconds=FOREVER)
        with chain_requests():
            await queue.ask([b"a"])
            await queue.aclose()


async def test_a_wait_ends_with_the_next_request_though_others_share_more_with_the_last():
    """As where a source is cut shorter for a longer question; then what shares most goes first."""
    box = Box(shut=True)
    queue = queue_of(box, next_turn_seconds=FOREVER)
    async with asyncio.timeout(HANGS_AFTER):
        chain = asyncio.create_task(in_turn(queue, b"source q1", b"sour q2"))
        await asyncio.to_thread(box.started.wait, HANGS_AFTER)
        others = [asking(queue, key) for key in (b"source q3", b"source q1 and")]
        await asyncio.sleep(0)
        box.gate.set()
        await asyncio.gather(chain, *others)
    assert box.ran == [b"source q1", b"source q1 and", b"source q3", b"sour q2"]
    await queue.aclose()


@pytest.mark.parametrize("way", ["returns", "raises", "cancelled"])
async def test_a_wait_ends_with_its_chain_however_that_ends(way):
    """A caller that gives up or fails delays no other."""
    queue = queue_of(Box(), next_turn_seconds=FOREVER)
    answered = asyncio.Event()

    async def ask() -> None:
        with chain_requests():
            await queue.ask([b"a"])
            answered.set()
            if way == "raises":
                raise ValueError("no use")
            if way == "cancelled":
                await asyncio.Event().wait()

    async with asyncio.timeout(HANGS_AFTER):
        asker = asyncio.create_task(ask())
        await answered.wait()
        if way == "cancelled":
            asker.cancel()
        await asyncio.wait([asker])
        assert await queue.ask([b"b"]) == [b"<b>"]
        await queue.aclose()
    assert asker.cancelled() == (way == "cancelled")


async def test_requests_of_others_do_not_end_a_wait():
    """Only the chain's own next request does; another that came sooner runs after it."""
    box = Box()
    queue = queue_of(box, next_turn_seconds=FOREVER)
    async with asyncio.timeout(HANGS_AFTER):
        with chain_requests() as chain:
            await queue.ask([b"aa"])
            other = apart(queue.ask([b"ab"]))
            await asyncio.sleep(0)
            chain.has_next = False
            await queue.ask([b"aa then"])
        assert await other == [b"<ab>"]
    assert box.ran == [b"aa", b"aa then", b"ab"]
    await queue.aclose()


async def test_nothing_is_waited_for_where_the_chain_has_more_in_the_queue():
    """As where its requests are asked at once."""
    box = Box(shut=True)
    queue = queue_of(box, next_turn_seconds=FOREVER)
    async with asyncio.timeout(HANGS_AFTER):
        with chain_requests():
            asked = [asking(queue, key) for key in (b"a", b"b", b"c")]
            await asyncio.sleep(0)
            box.gate.set()
            await eventually(lambda: len(box.ran) == 3)
        await asyncio.gather(*asked)
    await queue.aclose()


async def test_others_that_keep_asking_do_not_make_a_wait_longer():
    """Each asks anew as soon as it is prepared, until one of them is run."""
    loop, asked = asyncio.get_running_loop(), []

    class Pressing(Box):
        def prepare(self, text: bytes) -> Text:
            if text == b"b" and b"b" not in self.ran:
                loop.call_soon_threadsafe(ask)
            return super().prepare(text)

    def ask() -> None:
        asked.append(apart(queue.ask([b"b"])))

    box = Pressing()
    queue = queue_of(box, next_turn_seconds=0.2)
    async with asyncio.timeout(HANGS_AFTER):
        with chain_requests():
            await queue.ask([b"a"])
            ask()
            await eventually(lambda: b"b" in box.ran)
    assert box.ran[:2] == [b"a", b"b"]
    await queue.aclose()
    await asyncio.gather(*asked, return_exceptions=True)

"""Batches whose process dies at any step: nothing is paid for twice, and every request ends."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import threading
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from tests.batch_server import Faults, serve_batches
from textassay.runtime.api import connect
from textassay.runtime.backends.endpoint import Endpoint
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.batches.batch import (
    Availability,
    BatchBook,
    BatchContext,
    BatchUnfinished,
    PollPolicy,
)
from textassay.runtime.batches.dialect import BatchRecord, FileUnread
from textassay.runtime.batches.model import BatchQueue, open_dialect
from textassay.runtime.calls.adaptation import Adaptation, AdaptingModel
from textassay.runtime.calls.cache import encode_answer
from textassay.runtime.calls.call import Call, Posting, request_key
from textassay.runtime.calls.masking import MaskedModel
from textassay.runtime.errors import CapabilityError, DataError, ModelError, ServerFailed
from textassay.runtime.model import ChatMessage, Request, Response, Sample
from textassay.runtime.storage.answers import DiskStore

QUICK = PollPolicy(quiet=0.01, interval=0.01, outage=1.0, call=10.0)


class Killed(Exception):
    """Stands for the death of the process at one step."""


class DyingBook(BatchBook):
    """A journal whose process dies before or after its n-th line."""

    dies_at: float = float("inf")
    dies_after: bool = False
    count = 0

    async def note(self, tag, state, **facts):
        self.count += 1
        if self.count >= self.dies_at and not self.dies_after:
            raise Killed(state)
        await super().note(tag, state, **facts)
        if self.count >= self.dies_at:
            raise Killed(state)


class DyingStore(DiskStore):
    """A store whose process dies with the n-th answer."""

    dies_at: float = float("inf")
    count = 0

    async def put(self, key, value):
        self.count += 1
        if self.count >= self.dies_at:
            raise Killed("put")
        await super().put(key, value)


def asked(number: int) -> list[Request]:
    """So many requests."""
    return [
        Request(messages=(ChatMessage(role="user", content=f"Rate text {i} from 1 to 5"),))
        for i in range(number)
    ]


def keys_of(requests: list[Request]) -> list[str]:
    """The keys of their answers."""
    return [request_key(ScriptedModel(["x"], name="direct/m").identity, r) for r in requests]


def batch_queue(backend, dialect, book, store, *, policy=QUICK, submit_only=False):
    """A queue as `connected` makes it."""
    mask, provider = MaskedModel(backend, ()), Availability(backend.name)
    context = BatchContext(dialect, book, store, mask, policy, provider, submit_only)
    return BatchQueue(backend, context)


@asynccontextmanager
async def opened(
    tmp_path, server, *, note=None, after=False, put=None, name="direct/m", dialect=None,
    late=None, **queue,
):  # fmt: skip
    """Open a queue for one process's life, which ends at a journal line or an answer.

    `late` is awaited before a distant store's reply.
    """
    store = DyingStore(tmp_path / "answers")
    if late is not None:
        of_store = store.fetch

        async def fetch(key):
            value = await of_store(key)
            await late(store, key)
            return value

        store.fetch = fetch
    book = DyingBook(tmp_path)
    book.dies_at, book.dies_after = note or book.dies_at, after
    store.dies_at = put or store.dies_at
    backend = ScriptedModel(["x"], name=name)
    if dialect is None:
        # The address of an Azure resource has no path: litellm and our adapter add their own.
        address = server.url.removesuffix("/v1") if name.startswith("azure/") else server.url
        dialect = open_dialect(name, api_base=address, api_key="a-key", endpoint=Endpoint())
    opened_queue = batch_queue(backend, dialect, book, store, **queue)
    try:
        yield opened_queue
    finally:
        await opened_queue.aclose()
        await book.aclose()
        await store.aclose()


async def session(tmp_path, server, requests, **how):
    """Ask all in one process's life; return what each got."""
    async with opened(tmp_path, server, **how) as queue:
        return await asyncio.gather(*map(queue.generate, requests), return_exceptions=True)


async def test_a_batch_may_be_of_the_responses_api(tmp_path):
    """Its answers are those of single calls."""
    async with serve_batches() as server:
        got = await session(tmp_path, server, asked(3), name="responses/m")
        chats = await session(tmp_path / "chats", server, asked(3))
        assert [answer.samples for answer in got] == [answer.samples for answer in chats]
        assert all(answer.usage.completion_tokens for answer in got)


async def test_a_file_that_is_never_read_stops_the_run(tmp_path):
    """Resumable: the file is looked at again, and not uploaded again."""
    async with serve_batches(Faults(unread=1_000_000)) as server:
        got = await session(
            tmp_path, server, asked(3), name="azure/m", policy=replace(QUICK, unread=0.0)
        )
        assert all(isinstance(answer, FileUnread) and answer.stops_run for answer in got)
        assert not server.batches
        server.faults.unread = 0
        got = await session(tmp_path, server, asked(3), name="azure/m")
        assert all(isinstance(answer, Response) for answer in got)
        assert len(server.batches) == 1
        assert sum(b"custom_id" in body for body in server.files.values()) == 2  # input and output


async def test_random_deaths_pay_for_nothing_twice(tmp_path):
    """80 deaths before, after and between all states; every request was run exactly once, and its
    answer is that of a single call."""
    rng, deaths, round_number = random.Random(11), 0, 0
    async with (
        serve_batches() as server,
        connect("direct/m", api_base=server.url, api_key_env=None) as model,
    ):
        live = [await model.generate(request) for request in asked(12)]
        while deaths < 80:
            round_number += 1
            folder = tmp_path / str(round_number)
            folder.mkdir()
            requests = asked(rng.randint(1, 12))
            before = sum(server.billed.values())
            for _ in range(8):
                at, after = rng.randint(1, 5), rng.random() < 0.5
                put = rng.choice([None, None, rng.randint(1, len(requests))])
                shown = await session(folder, server, requests, note=at, after=after, put=put)
                if not any(isinstance(answer, Killed) for answer in shown):
                    break
                deaths += 1
            shown = await session(folder, server, requests)
            own = live[: len(requests)]
            assert [answer.samples for answer in shown] == [answer.samples for answer in own]
            assert sum(server.billed.values()) - before == len(requests)
        assert len(server.batches) == round_number


async def test_what_is_collected_while_a_distant_store_replies_is_not_asked_again(tmp_path):
    """The reply shows what was kept when it was sent."""
    requests, sent, released = asked(3), asyncio.Event(), asyncio.Event()

    async def late(_store, key):
        if resumed and key == keys[0] and not sent.is_set():
            sent.set()
            await released.wait()

    keys = keys_of(requests)
    async with serve_batches(Faults(unavailable=1)) as server:
        resumed = False
        given_up = replace(QUICK, outage=0.0)
        async with opened(tmp_path, server, policy=given_up, late=late) as queue:
            shown = await asyncio.gather(*map(queue.generate, requests), return_exceptions=True)
            assert {type(answer) for answer in shown} == {BatchUnfinished}
            resumed = True
            first = asyncio.create_task(queue.generate(requests[0]))
            await sent.wait()
            await queue.generate(requests[1])  # takes the batch up again, to its end
            await queue.generate(requests[2])
            released.set()
            assert isinstance(await first, Response)
        assert list(server.billed.values()) == [1] * 3
        assert len(server.batches) == 1


async def test_an_answer_kept_elsewhere_while_a_batch_is_dissolved_wakes_its_caller(tmp_path):
    """Another process keeps it, once this one has looked for it and begins to wait."""
    requests, reads = asked(3), []
    keys = keys_of(requests)
    waits = asyncio.Event()

    async def late(store, key):
        reads.append(key)
        if reads == keys[:1]:  # the caller's own
            answer = encode_answer(Response(samples=(Sample(text="of another process"),)))
            await store.put(key, answer)
            waits.set()
        elif key == keys[2] and reads.count(key) == 1:  # the last that the batch looks for
            await waits.wait()
            await asyncio.sleep(0)

    async with serve_batches() as server:
        await session(tmp_path, server, requests, note=2, after=True)  # prepared, and no more
        async with opened(tmp_path, server, late=late) as queue:
            async with asyncio.timeout(20):
                answer = await queue.generate(requests[0])
        assert answer.samples[0].text == "of another process"


async def test_thousands_of_judgments_are_one_batch(tmp_path):
    async with serve_batches() as server:
        shown = await session(tmp_path, server, asked(2_500))
        assert all(isinstance(answer, Response) for answer in shown)
        assert len(server.batches) == 1
        assert set(server.billed.values()) == {1}


async def answer_singly(tmp_path, requests):
    """Keep answers of single calls, as for a batch that was given up; return their keys."""
    store, keys = DiskStore(tmp_path / "answers"), keys_of(requests)
    for key in keys:
        await store.put(key, encode_answer(Response(samples=(Sample(text="answered singly"),))))
    await store.aclose()
    return keys


@pytest.mark.parametrize("singly", [3, 1])
async def test_requests_that_single_calls_answered_are_not_submitted(tmp_path, singly):
    """A batch that was given up is dissolved; only the rest of it is asked for."""
    requests = asked(4)
    async with serve_batches() as server:
        shown = await session(tmp_path, server, requests[:3], note=2, after=True)
        assert all(isinstance(answer, Killed) for answer in shown)
        kept = await answer_singly(tmp_path, requests[:singly])
        shown = await session(tmp_path, server, requests)
        texts = [answer.samples[0].text for answer in shown]
        assert [text == "answered singly" for text in texts] == [n < singly for n in range(4)]
        assert not server.billed.keys() & set(kept)
        assert list(server.billed.values()) == [1] * (4 - singly)
        assert not (tmp_path / "batches").exists()


async def test_deaths_while_a_batch_is_dissolved_pay_for_nothing_twice(tmp_path):
    """Every request is answered once, singly or in a batch, wherever the process dies."""
    requests = asked(4)
    async with serve_batches() as server:
        for at, after in itertools.product(range(1, 6), (False, True)):
            folder = tmp_path / f"{at}{after}"
            folder.mkdir()
            server.billed.clear()
            await session(folder, server, requests[:3], note=2, after=True)
            kept = await answer_singly(folder, requests[:2])
            shown = await session(folder, server, requests, note=at, after=after)
            assert any(isinstance(answer, Killed) for answer in shown)
            shown = await session(folder, server, requests)
            assert all(isinstance(answer, Response) for answer in shown)
            assert not server.billed.keys() & set(kept)
            assert list(server.billed.values()) == [1, 1]


async def test_abandoned_requests_are_not_put_into_another_batch(tmp_path):
    """Two batches in the journal with the same request would both be submitted after a crash."""
    requests = asked(3)
    async with serve_batches(Faults(unavailable=1)) as server:
        async with opened(tmp_path, server, policy=replace(QUICK, outage=0.0)) as queue:
            given_up = await asyncio.gather(*map(queue.generate, requests), return_exceptions=True)
            assert all(isinstance(answer, BatchUnfinished) for answer in given_up)
            assert all(isinstance(answer.__cause__, ServerFailed) for answer in given_up)
            assert (await queue.generate(requests[1])).samples
        journal = (tmp_path / "batches.jsonl").read_text()
        assert journal.count('"prepared"') == journal.count('"collected"') == len(server.batches)
        assert len(server.batches) == 1


async def test_a_request_that_comes_after_its_answer_is_answered(tmp_path):
    """Its batch is under way still: the answer is kept, and "collected" is not written yet."""
    requests = asked(3)
    async with serve_batches() as server:
        await session(tmp_path, server, requests, note=4)  # dies before "ended"
        async with opened(tmp_path, server) as queue:
            assert (await queue.generate(requests[0])).samples
            assert "collected" not in (tmp_path / "batches.jsonl").read_text()
            for request in requests:
                assert (await queue.generate(request)).samples
        assert list(server.billed.values()) == [1, 1, 1]


async def test_a_single_request_is_submitted(tmp_path):
    """In the singular."""
    async with serve_batches(Faults(hold=True)) as server:
        (one,) = await session(tmp_path, server, asked(1), submit_only=True)
        assert str(one) == "1 request to direct/m is submitted in 1 batch"


async def test_a_batch_whose_submission_was_not_written_down_is_found_again(tmp_path):
    """By our tag, on a later page of the provider's list."""
    async with serve_batches() as server:
        shown = await session(tmp_path, server, asked(3), note=3)
        assert all(isinstance(answer, Killed) for answer in shown)
        (name,) = server.batches
        newer = {
            f"other-{i}": {"id": f"other-{i}", "created_at": 5e9, "metadata": {}} for i in range(5)
        }
        server.batches.update(newer)
        shown = await session(tmp_path, server, asked(3))
        assert all(answer.samples for answer in shown)
        assert set(server.batches) == {name, *newer}


@pytest.mark.parametrize(
    ("faults", "bad", "billed"),
    [
        (Faults(expire=1), 0, 10),
        (Faults(expire=2), 3, 7),
        (Faults(missing=1), 2, 10),
        (Faults(refuse=1), 10, 0),
        (Faults(gone=1), 10, 10),
        (Faults(enqueued=3), 0, 10),
        (Faults(postponed=3), 0, 10),
        (Faults(damaged=1), 1, 10),
        (Faults(bad_rows=frozenset({"text 4 "})), 1, 9),
    ],
    ids=["expired", "expired twice", "missing", "refused", "gone", "enqueued", "postponed",
         "damaged", "bad row"],
)  # fmt: skip
async def test_every_request_ends_whatever_a_batch_lacks(tmp_path, faults, bad, billed):
    """Expired rows go to one more batch; missing, refused and deleted ones are errors, never a
    hang."""
    async with serve_batches(faults) as server:
        shown = await session(tmp_path, server, asked(10))
        assert sum(isinstance(answer, ModelError) for answer in shown) == bad
        assert sum(not isinstance(answer, BaseException) for answer in shown) == 10 - bad
        assert sum(server.billed.values()) == billed
        assert max(server.billed.values(), default=1) == 1
        assert not (tmp_path / "batches").exists()
        again = await session(tmp_path, server, asked(10))  # what is answered is not asked again
        assert not any(isinstance(answer, BaseException) for answer in again) or faults.bad_rows


async def test_an_answer_that_its_thought_left_no_tokens_is_asked_for_with_more(tmp_path):
    """Before, the first answer was kept, and given to the request with more tokens."""

    def reply(body, draw):
        return "<think>hm" if body["max_tokens"] < 5000 else "<think>hm</think>4"

    async with (
        serve_batches(reply=reply) as server,
        opened(tmp_path, server) as queue,
    ):
        model = AdaptingModel(queue, Adaptation(queue, in_batches=True))
        answer = await model.generate(asked(1)[0].model_copy(update={"max_tokens": 64}))
    assert answer.samples[0].text == "4"
    assert (answer.usage.calls, sum(server.billed.values())) == (2, 2)


async def test_answers_that_cannot_be_used_are_counted(tmp_path):
    """They were billed; before, only the last one counted."""
    async with serve_batches() as server:
        dialect = open_dialect("direct/m", api_base=server.url, api_key="k", endpoint=Endpoint())
        read, broken_off = dialect.read, iter([{"finish_reason": "abort"}])

        def of_payload(payload, request):
            payload["choices"][0] |= next(broken_off, {})
            return read(payload, request)

        dialect.read = of_payload
        (answer,) = await session(tmp_path, server, asked(1), dialect=dialect)
    assert (answer.usage.calls, sum(server.billed.values())) == (2, 2)


async def test_answers_without_log_probabilities_say_so_and_are_counted(tmp_path):
    """So that methods take samples instead; a harmless fourth request confirms it for all."""
    async with (
        serve_batches(omit_logprobs=True) as server,
        opened(tmp_path, server) as queue,
    ):
        model = AdaptingModel(queue, Adaptation(queue, in_batches=True))
        requests = [request.model_copy(update={"logprobs": 5}) for request in asked(3)]
        errors = await asyncio.gather(*map(model.generate, requests), return_exceptions=True)
    assert [type(error) for error in errors] == [CapabilityError] * 3
    assert sum(error.usage.calls for error in errors) == sum(server.billed.values()) == 4


async def test_deaths_around_a_batch_that_is_postponed_pay_for_nothing_twice(tmp_path):
    """The refused one stays in the provider's list with our tag, and is not taken for the next."""
    async with serve_batches() as server:
        for number, (at, after) in enumerate(itertools.product(range(1, 8), (False, True))):
            folder = tmp_path / str(number)
            folder.mkdir()
            server.faults.postponed = 1
            server.billed.clear()
            await session(folder, server, asked(3), note=at, after=after)
            server.faults.postponed = 0
            shown = await session(folder, server, asked(3))
            assert all(isinstance(answer, Response) for answer in shown)
            assert list(server.billed.values()) == [1, 1, 1]
            server.batches.clear()


@pytest.mark.parametrize("status", [400, 503])
async def test_a_batch_that_cannot_be_followed_stops_the_run(tmp_path, status):
    """It may be running, so its requests are not asked otherwise; a resumed run collects it."""
    async with serve_batches() as server:
        server.faults.unfollowed = status
        shown = await session(tmp_path, server, asked(3), policy=replace(QUICK, outage=0.0))
        assert all(isinstance(answer, BatchUnfinished) and answer.stops_run for answer in shown)
        server.faults.unfollowed = 0
        shown = await session(tmp_path, server, asked(3))
        assert all(isinstance(answer, Response) for answer in shown)
        assert list(server.billed.values()) == [1, 1, 1]


async def test_a_gateway_without_its_server_delays_a_submission(tmp_path):
    """The path is unknown for a moment, and the batch stays the same."""
    async with serve_batches() as server:
        server.faults.lost = 1
        shown = await session(tmp_path, server, asked(3))
        assert all(isinstance(answer, Response) for answer in shown)
        assert len(server.batches) == 1


async def test_a_batch_that_the_provider_does_not_know_can_be_given_up(tmp_path):
    """Not by itself: with another key, a batch that runs is unknown, too."""
    async with serve_batches() as server:
        await session(tmp_path, server, asked(3), note=3, after=True)  # dies once it is submitted
        (name,) = server.batches
        server.faults.unfollowed = 404
        (shown, *_) = await session(tmp_path, server, asked(3))
        assert isinstance(shown, BatchUnfinished)
        book = tmp_path / "batches.jsonl"
        tag = json.loads(book.read_text().splitlines()[0])["tag"]
        for told in (name, tag, str(book), "remove the lines"):
            assert told in str(shown)
        server.faults.unfollowed = 0
        book.write_text("".join(x for x in book.read_text().splitlines(True) if tag not in x))
        again = await session(tmp_path, server, asked(3))
        assert all(isinstance(answer, Response) for answer in again)
        assert len(server.batches) == 2


async def test_a_damaged_journal_leaves_no_thread(tmp_path):
    """The error names the line's file."""
    (tmp_path / "batches.jsonl").write_text('{"tag": "t", "state": "submitted"}\n')
    before = threading.active_count()
    with pytest.raises(DataError, match=r"batches\.jsonl"):
        BatchBook(tmp_path)
    assert threading.active_count() == before


async def test_a_batch_is_written_down_while_others_are_collected(tmp_path):
    """The folder of their files stays until the run is left: another may be about to use it."""
    book = BatchBook(tmp_path)
    (request,) = asked(1)
    for tag in map(str, range(10)):
        record = BatchRecord(
            tag, model="m", group="chat", requests=1, since=0.0, attempt=1, known=frozenset()
        )
        written = asyncio.create_task(book.prepare(record, [("key", Call(request))], [b"{}"]))
        while not written.done():
            book.forget("another")
            await asyncio.sleep(0)
        await written
        book.forget(tag)
        assert (tmp_path / "batches").is_dir()
    await book.aclose()
    assert not (tmp_path / "batches").exists()


@pytest.mark.parametrize("known", ["at once", "after a look"])
async def test_a_batch_larger_than_the_account_allows_is_divided(tmp_path, known):
    """Until there is room for its parts; every caller is answered, and each request runs once."""
    policy = replace(QUICK, capacity=0.02, outage=60.0)
    async with serve_batches(Faults(largest=12, refused_late=known == "after a look")) as server:
        shown = await session(tmp_path, server, asked(80), policy=policy)
        assert all(isinstance(answer, Response) for answer in shown)
        assert set(server.billed.values()) == {1}
        assert len(server.billed) == 80
        journal = (tmp_path / "batches.jsonl").read_text()
        assert journal.count('"prepared"') == journal.count('"collected"')


async def test_a_batch_without_room_that_is_not_divided_stops_the_run(tmp_path):
    """It is submitted by a resumed one."""
    policy = replace(QUICK, capacity=0.02)
    async with serve_batches(Faults(largest=1)) as server:
        shown = await session(tmp_path, server, asked(4), policy=policy)
        assert all(isinstance(answer, BatchUnfinished) for answer in shown)
        server.faults.largest = None
        shown = await session(tmp_path, server, asked(4))
        assert all(isinstance(answer, Response) for answer in shown)
        assert len(server.batches) == 1


async def test_a_later_session_reads_what_was_asked_and_how_it_was_sent(tmp_path):
    posting = Posting(("seed",), "4", 2000, "key", "max_completion_tokens", 4096, ("reasoning",))
    call, book = Call(asked(1)[0], posting), BatchBook(tmp_path)
    await book.prepare(BatchRecord("tag", "m", "", 1, 0.0), [("key", call)], [b"{}"])
    await book.aclose()
    later = BatchBook(tmp_path)
    [(key, read)] = later.requests("tag")
    assert (key, read.request, read.posting) == ("key", call.request, posting)
    await later.aclose()

"""Dynamic batching: right answers to the right callers, batches by tokens, nobody starves,
cancelling is safe."""

import asyncio
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.waiting import HANGS_AFTER
from textassay.runtime.backends.batching import Batcher
from textassay.runtime.errors import ModelClosed


class Recorder:
    """Answers with the length of each text and keeps the batches; waits at a gate where one is
    given."""

    def __init__(self, gate=None):
        self.batches, self.gate, self.threads = [], gate, set()
        self.started = threading.Event()

    def __call__(self, batch):
        self.threads.add(threading.get_ident())
        self.batches.append(list(batch))
        self.started.set()
        if self.gate is not None:
            assert self.gate.wait(HANGS_AFTER)
        if "bad" in batch:
            raise RuntimeError("a bad batch")
        return [f"<{text}>" for text in batch]


def encode(text):
    if text == "unreadable":
        raise ValueError("cannot encode")
    return text


@pytest.mark.asyncio
async def test_many_callers_get_their_own_answers_from_few_batches():
    """One worker thread answers everybody."""
    model = Recorder()
    batcher = Batcher(encode, model, batch_tokens=100, linger_seconds=0.05)
    async with asyncio.TaskGroup() as group:
        tasks = {
            t: group.create_task(batcher.ask([t]))
            for t in (("ab" * (i % 7 + 1)) + str(i) for i in range(60))
        }
    for text, task in tasks.items():
        assert task.result() == [f"<{text}>"]
    assert len(model.batches) < 30
    assert len(model.threads) == 1
    assert batcher.requests == 60
    await batcher.aclose()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=40), st.integers(10, 80), st.integers(1, 9)
)
def test_no_batch_is_larger_than_allowed(lengths, batch_tokens, batch_size):
    """Tokens count with padding; a longer request goes alone."""

    async def main():
        model = Recorder()
        batcher = Batcher(
            encode, model, batch_tokens=batch_tokens, batch_size=batch_size, linger_seconds=0
        )
        asked = ["x" * length for length in lengths]
        assert await batcher.ask(asked) == [f"<{text}>" for text in asked]
        await batcher.aclose()
        for batch in model.batches:
            assert len(batch) <= batch_size
            assert len(batch) == 1 or len(batch) * max(map(len, batch)) <= batch_tokens
        assert sum(map(len, model.batches)) == len(asked)

    asyncio.run(main())


@pytest.mark.asyncio
async def test_requests_of_like_length_share_a_batch():
    """Short ones are not padded to the longest."""
    model = Recorder()
    batcher = Batcher(encode, model, batch_tokens=40, linger_seconds=0.05)
    await batcher.ask(["x" * n for n in (20, 1, 19, 2, 1, 20, 2)])
    assert sorted(sorted(map(len, b)) for b in model.batches) == [[1, 1, 2, 2], [19], [20, 20]]
    await batcher.aclose()


@pytest.mark.asyncio
async def test_the_oldest_request_is_always_served_next():
    """A long request is not held back by a stream of short ones."""
    gate = threading.Event()
    model = Recorder(gate)
    batcher = Batcher(encode, model, batch_tokens=10, linger_seconds=0)
    first = asyncio.create_task(batcher.ask(["go"]))
    await asyncio.to_thread(model.started.wait, 20)
    late = [asyncio.create_task(batcher.ask([text])) for text in ("x" * 50, "a", "b", "c")]
    await asyncio.sleep(0)
    gate.set()
    await first
    for task in late:
        await task
    assert model.batches[1] == ["x" * 50]
    await batcher.aclose()


@pytest.mark.asyncio
async def test_cancelled_requests_are_not_run():
    """What has not begun leaves the queue; others are unharmed."""
    gate = threading.Event()
    model = Recorder(gate)
    batcher = Batcher(encode, model, linger_seconds=0)
    first = asyncio.create_task(batcher.ask(["first"]))
    await asyncio.to_thread(model.started.wait, 20)
    doomed = asyncio.create_task(batcher.ask(["never", "ever"]))
    kept = asyncio.create_task(batcher.ask(["kept"]))
    await asyncio.sleep(0)
    doomed.cancel()
    with pytest.raises(asyncio.CancelledError):
        await doomed
    gate.set()
    assert await first == ["<first>"]
    assert await kept == ["<kept>"]
    assert [t for b in model.batches for t in b] == ["first", "kept"]
    await batcher.aclose()


@pytest.mark.asyncio
async def test_cancelling_a_request_that_runs_is_harmless():
    """The batch goes on, its other answers arrive."""
    gate = threading.Event()
    model = Recorder(gate)
    batcher = Batcher(encode, model, linger_seconds=0)
    running = asyncio.create_task(batcher.ask(["running"]))
    await asyncio.to_thread(model.started.wait, 20)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    gate.set()
    assert await batcher.ask(["next"]) == ["<next>"]
    await batcher.aclose()


@pytest.mark.asyncio
async def test_a_failing_batch_reaches_its_callers_and_no_other():
    """The worker lives on."""
    batcher = Batcher(encode, Recorder(), batch_size=1)
    with pytest.raises(RuntimeError, match="bad batch"):
        await batcher.ask(["bad"])
    with pytest.raises(ValueError, match="cannot encode"):
        await batcher.ask(["unreadable"])
    assert await batcher.ask(["good"]) == ["<good>"]
    await batcher.aclose()


@pytest.mark.asyncio
async def test_an_unreadable_request_does_not_spoil_its_neighbours():
    """Encoding fails one by one."""
    batcher = Batcher(encode, Recorder(), linger_seconds=0.05)
    results = [asyncio.create_task(batcher.ask([t])) for t in ("a", "unreadable", "b")]
    await asyncio.wait(results)
    assert results[0].result() == ["<a>"]
    assert isinstance(results[1].exception(), ValueError)
    assert results[2].result() == ["<b>"]
    await batcher.aclose()


@pytest.mark.asyncio
async def test_an_answer_too_few_is_an_error():
    """Answers must never be given to the wrong callers."""
    batcher = Batcher(encode, lambda batch: [], linger_seconds=0)
    with pytest.raises(ValueError, match="1 requests, but 0 answers"):
        await batcher.ask(["a"])
    await batcher.aclose()


@pytest.mark.asyncio
async def test_closing_ends_the_thread_and_fails_what_waits():
    """Nothing hangs, and closing twice is fine."""
    gate = threading.Event()
    model = Recorder(gate)
    batcher = Batcher(encode, model, linger_seconds=0, name="closing")
    running = asyncio.create_task(batcher.ask(["running"]))
    await asyncio.to_thread(model.started.wait, 20)
    waiting = asyncio.create_task(batcher.ask(["waiting"]))
    await asyncio.sleep(0)
    closing = asyncio.create_task(batcher.aclose())
    await asyncio.sleep(0)
    gate.set()
    await closing
    assert await running == ["<running>"]
    with pytest.raises(ModelClosed):
        await waiting
    with pytest.raises(ModelClosed):
        await batcher.ask(["late"])
    await batcher.aclose()
    assert not [t for t in threading.enumerate() if t.name == "textassay-closing"]


def test_one_batcher_serves_several_event_loops():
    """As in a notebook or a web server."""
    batcher = Batcher(encode, Recorder(), linger_seconds=0)
    assert asyncio.run(batcher.ask(["a"])) == ["<a>"]
    assert asyncio.run(batcher.ask(["b"])) == ["<b>"]
    asyncio.run(batcher.aclose())

"""What several want at once is done once, and what their prompts begin with is paid once."""

from __future__ import annotations

import asyncio
import traceback

import pytest

from benchmarks.prompt_caching import CachingServer, at_once, examples, judged
from examples.mock_server import Options, serving
from tests.runtime.calls.test_adaptation import ANSWER, Server, adapted
from tests.runtime.counting import PAID, CountingModel
from textassay import Settings, evaluate
from textassay.runtime.backends.openai_format import prompt_fields, sampling_fields
from textassay.runtime.base import Usage
from textassay.runtime.calls.adaptation import Adaptation
from textassay.runtime.calls.budget import MeteredModel
from textassay.runtime.calls.cache import CachedModel, StoringModel
from textassay.runtime.calls.call import Call, Posting
from textassay.runtime.calls.sharing import PrefixModel, SharedModel, once
from textassay.runtime.concurrency import to_the_end
from textassay.runtime.errors import RateLimited, Refusal, RequestRefused, ServerFailed
from textassay.runtime.model import ChatMessage, ChoicesRequest, ContinuationRequest, Request
from textassay.runtime.storage.answers import DiskStore

FREE = Usage(cached_calls=1)
ASKED = Request(prompt="Rate it.")


async def turns(count: int = 5) -> None:
    """Let all other tasks run until they wait."""
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("kind", "request_", "other"),
    [
        ("generate", ASKED, Request(prompt="Rate it!")),
        ("choices", *(ChoicesRequest(prompt=p, choices={"yes": ("yes",)}) for p in "pq")),
        ("continuation", *(ContinuationRequest(prompt=p, continuation="yes") for p in "pq")),
    ],
)
async def test_equal_requests_in_flight_are_asked_once(kind, request_, other):
    """One of ten pays, all get the same; other requests and later ones are asked."""
    model = CountingModel(waits=True)
    ask = getattr(SharedModel(model), kind)
    tasks = [asyncio.create_task(ask(request_)) for _ in range(10)]
    tasks.append(asyncio.create_task(ask(other)))
    await turns()
    assert len(model.asked) == 2
    model.gate.set()
    responses = [await task for task in tasks]
    assert [r.usage for r in responses] == [PAID] + [FREE] * 9 + [PAID]
    assert {r.model_copy(update={"usage": FREE}) == responses[1] for r in responses[:10]} == {True}
    assert (await ask(request_)).usage == PAID
    assert len(model.asked) == 3


async def test_a_cancelled_leader_hands_over():
    model = CountingModel(waits=True)
    shared = SharedModel(model)
    leader, *others = [asyncio.create_task(shared.generate(ASKED)) for _ in range(4)]
    await turns()
    leader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leader
    await turns()
    others.append(asyncio.create_task(shared.generate(ASKED)))
    await turns()
    model.gate.set()
    assert [(await task).usage for task in others] == [PAID] + [FREE] * 3
    assert (len(model.asked), model.cancelled) == (2, 1)


async def test_a_leader_that_is_cancelled_while_its_answer_is_kept_has_asked_for_all(tmp_path):
    class Slow(DiskStore):
        """Takes turns to keep an answer."""

        async def put(self, key, value):
            await super().put(key, value)
            await to_the_end(asyncio.ensure_future(turns()))

    model = CountingModel(waits=True)
    async with Slow(tmp_path) as store:
        cached = CachedModel(SharedModel(StoringModel(model, store), store), store)
        leader, *others = [asyncio.create_task(cached.generate(ASKED)) for _ in range(3)]
        await turns()
        model.gate.set()
        # its next turn ends in `put`, which a cancellation does not interrupt
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        leader.cancel()
        await asyncio.wait([leader])
        assert leader.cancelled()
        assert [(await task).samples[0].text for task in others] == ["answer 1"] * 2
    assert len(model.asked) == 1


async def test_cancelling_one_that_joined_leaves_the_others_and_the_last_ends_the_request():
    model = CountingModel(waits=True)
    shared = SharedModel(model)
    tasks = [asyncio.create_task(shared.generate(ASKED)) for _ in range(3)]
    await turns()
    tasks[1].cancel()
    await turns()
    assert tasks[1].cancelled()
    assert (len(model.asked), model.cancelled) == (1, 0)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert model.cancelled == len(model.asked) == 1
    assert len(asyncio.all_tasks()) == 1
    model.gate.set()
    assert (await shared.generate(ASKED)).usage == PAID


async def test_a_failure_reaches_everyone_and_is_forgotten():
    model = CountingModel(waits=True)
    model.error = ServerFailed("503", retry_after=2.0)
    shared = SharedModel(model)
    tasks = [asyncio.create_task(shared.generate(ASKED)) for _ in range(50)]
    await turns()
    model.gate.set()
    await asyncio.wait(tasks)
    assert {id(task.exception()) for task in tasks} == {id(model.error)}
    assert len(list(traceback.walk_tb(model.error.__traceback__))) < 12
    model.error = None
    assert (await shared.generate(ASKED)).usage == PAID


async def test_a_failure_is_paid_for_once():
    model = CountingModel(waits=True)
    model.error = RateLimited("429", retry_after=2.0)
    model.error.usage = PAID
    metered = MeteredModel(SharedModel(model))
    tasks = [asyncio.create_task(metered.generate(ASKED)) for _ in range(3)]
    await turns()
    model.gate.set()
    errors = await asyncio.gather(*tasks, return_exceptions=True)
    assert metered.total.usage == PAID
    assert sorted(error.usage is None for error in errors) == [False, True, True]
    assert [(str(error), error.retry_after) for error in errors] == [("429", 2.0)] * 3


async def test_an_error_that_a_cancellation_became_does_not_reach_the_others():
    """Some clients report a canceled request as a failed connection."""

    class Careless(CountingModel):
        async def generate(self, request):
            try:
                return await super().generate(request)
            except asyncio.CancelledError:
                raise ServerFailed("closed") from None

    model = Careless(waits=True)
    shared = SharedModel(model)
    leader, other = (asyncio.create_task(shared.generate(ASKED)) for _ in range(2))
    await turns()
    leader.cancel()
    await asyncio.wait([leader])
    model.gate.set()
    assert (await other).usage == PAID


async def test_cache_around_sharing_never_asks_twice(tmp_path):
    model = CountingModel(waits=True)
    async with DiskStore(tmp_path) as store:
        cached = CachedModel(SharedModel(StoringModel(model, store)), store)
        tasks = [asyncio.create_task(cached.generate(ASKED))]
        await turns()
        model.gate.set()
        for _ in range(9):
            tasks.append(asyncio.create_task(cached.generate(ASKED)))
            await asyncio.sleep(0)
        usages = [(await task).usage for task in tasks]
    assert len(model.asked) == 1
    assert sorted(usages, key=lambda usage: -usage.calls) == [PAID] + [FREE] * (len(tasks) - 1)


class Steps:
    """An agent that writes down what it was called with, and waits for the test."""

    def __init__(self) -> None:
        self.calls: list[object] = []
        self.gate = asyncio.Event()
        self.fails = False

    async def __call__(self, aspect: str, *, language: str = "en") -> str:
        self.calls.append(aspect)
        await self.gate.wait()
        if self.fails:
            raise ServerFailed("503")
        return f"steps for {aspect} in {language}"


async def test_an_agent_is_called_once_for_equal_arguments():
    """Whether they come at once or later; a failure is not remembered."""
    agent = Steps()
    agent.fails = True
    memo = once(agent)
    tasks = [asyncio.create_task(memo("coherence")) for _ in range(5)]
    tasks.append(asyncio.create_task(memo("fluency", language="de")))
    await turns()
    agent.gate.set()
    await asyncio.wait(tasks)
    assert [type(task.exception()) for task in tasks] == [ServerFailed] * 6
    agent.fails = False
    found = await asyncio.gather(memo("coherence"), memo("fluency", language="de"))
    assert found == ["steps for coherence in en", "steps for fluency in de"]
    assert await memo("coherence") == "steps for coherence in en"
    assert agent.calls == ["coherence", "fluency"] * 2


async def test_arguments_that_cannot_be_remembered_are_an_error():
    memo = once(Steps())
    with pytest.raises(TypeError, match="unhashable"):
        await memo(["coherence"])


LONG = "It rained on the bridge, and nobody minded. " * 200


def prompted(rest: str, shared: int = len(LONG)) -> Call:
    request = Request(messages=(ChatMessage(role="user", content=LONG + rest),), max_tokens=8)
    return Call(request, Posting(shared_prefix=shared))


def test_a_provider_that_keeps_prefixes_is_paid_a_fraction():
    """Ten aspects of a text: all but the first find its 2,000 tokens; without an order few do."""
    ordered = asyncio.run(judged("shared-prefix", 3)).paid_in_full
    assert ordered < 0.2
    assert ordered < 0.5 * asyncio.run(at_once(3)).paid_in_full
    assert asyncio.run(judged("paper", 2)).paid_in_full > 0.9


async def test_a_jury_profits_too(tmp_path):
    server = CachingServer(Options(latency_ms=20))
    async with serving(server):
        await evaluate(
            examples(2),
            method="jury",
            task="summarization",
            model={"juror1": "direct/a", "juror2": "direct/b"},
            settings=Settings(api_base=server.url, cache=False),
            options={"prompt_layout": "shared-prefix"},
        )
    # of four aspects each, the first pays
    assert server.paid_in_full < 0.45


async def test_the_first_request_of_a_prefix_goes_ahead_also_where_it_fails():
    started: list[str] = []
    gate, second = asyncio.Event(), asyncio.Event()

    class Held(Server):
        async def generate(self, request, posting):
            started.append(request.messages[0].content[len(LONG) :])
            if len(started) == 2:
                second.set()
            if len(started) == 1:
                await gate.wait()
                raise RequestRefused("no")
            return ANSWER

    model = PrefixModel(Held(lambda _: ANSWER))
    tasks = [asyncio.create_task(model.send(prompted(rest))) for rest in "abc"]
    tasks.append(asyncio.create_task(model.send(prompted("d", shared=0))))
    await second.wait()
    assert started == ["a", "d"]
    gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(result, RequestRefused) for result in results] == [True, False, False, False]
    assert set(started) == set("abcd")


@pytest.mark.parametrize(
    ("name", "base", "mark"),
    [
        ("anthropic/claude-sonnet-5", "https://api.anthropic.com", "block"),
        ("openrouter/anthropic/claude-opus-5", "https://openrouter.ai/api/v1", "block"),
        ("direct/gpt-6-sol", "https://api.openai.com/v1", "key"),
        ("direct/llama", "http://127.0.0.1:8000/v1", "none"),
    ],
)
def test_a_provider_is_told_what_to_keep_in_its_own_way(name, base, mark):
    class At(Server):
        @property
        def identity(self):
            return {"backend": "openai-compatible", "model": name, "api_base": base}

    adaptation = Adaptation(At(lambda _: ANSWER, name))
    sent = adaptation.adapt(prompted("Rate it."))
    assert sent.posting.prefix_mark == mark
    content = prompt_fields(sent.request, sent.posting)["messages"][0]["content"]
    if mark == "block":
        assert [part["text"] for part in content] == [LONG, "Rate it."]
        assert [part.get("cache_control") for part in content] == [{"type": "ephemeral"}, None]
    else:
        assert content == LONG + "Rate it."
    assert ("prompt_cache_key" in sampling_fields(sent.request, sent.posting)) == (mark == "key")
    assert adaptation.adapt(prompted("Rate it.", shared=100)).posting.prefix_mark == "none"
    assert adaptation.adapt(prompted("Rate it.", shared=0)).posting.prefix_mark == "none"


async def test_a_mark_that_is_refused_is_left_out():
    error = RequestRefused("cache_control: Extra inputs are not permitted")
    error.refusal = Refusal("drop", "cache_control")
    server = Server(lambda r: error if r.prefix_mark == "block" else ANSWER, "x/claude-1")
    await adapted(server).send(prompted("Rate it."))
    assert [request.prefix_mark for request in server.sent] == ["block", "none"]

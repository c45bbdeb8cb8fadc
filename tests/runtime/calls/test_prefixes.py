"""What requests have in common is computed once by a provider that keeps it."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.prompt_caching import CachingServer, at_once, examples, judged
from examples.mock_server import Options, serving
from tests.runtime.calls.test_adaptation import ANSWER, Server, adapted
from textassay import Settings, evaluate
from textassay.runtime.backends.openai_format import prompt_fields, sampling_fields
from textassay.runtime.calls.adaptation import Adaptation
from textassay.runtime.calls.prefixes import PrefixModel
from textassay.runtime.errors import Refusal, RequestRefused
from textassay.runtime.model import ChatMessage, Request

LONG = "It rained on the bridge, and nobody minded. " * 200


def asked(rest: str, shared: int = len(LONG)) -> Request:
    return Request(
        messages=(ChatMessage(role="user", content=LONG + rest),),
        max_tokens=8,
        shared_prefix=shared,
    )


def test_a_provider_that_keeps_prefixes_is_paid_a_fraction():
    """Ten aspects of a text: all but the first find its 2,000 tokens; without an order few do."""
    ordered = asyncio.run(judged("shared-prefix", 3)).paid_in_full
    assert ordered < 0.2
    assert ordered < 0.5 * asyncio.run(at_once(3)).paid_in_full
    assert asyncio.run(judged("paper", 2)).paid_in_full > 0.9


@pytest.mark.asyncio
async def test_a_jury_profits_too(tmp_path):
    """Each juror's provider keeps the text for the other aspects."""
    server = CachingServer(Options(latency_ms=20))
    async with serving(server):
        await evaluate(
            examples(2),
            method="jury",
            task="summarization",
            model={"juror1": "direct/a", "juror2": "direct/b"},
            settings=Settings(api_base=server.url, no_cache=True),
            options={"prompt_layout": "shared-prefix"},
        )
    # of four aspects each, the first pays
    assert server.paid_in_full < 0.45


@pytest.mark.asyncio
async def test_the_first_request_of_a_prefix_goes_ahead_also_where_it_fails():
    started: list[str] = []
    gate, second = asyncio.Event(), asyncio.Event()

    class Held(Server):
        async def generate(self, request):
            started.append(request.messages[0].content[len(LONG) :])
            if len(started) == 2:
                second.set()
            if len(started) == 1:
                await gate.wait()
                raise RequestRefused("no")
            return ANSWER

    model = PrefixModel(Held(lambda _: ANSWER))
    tasks = [asyncio.create_task(model.generate(asked(rest))) for rest in "abc"]
    tasks.append(asyncio.create_task(model.generate(asked("d", shared=0))))
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
    """Nothing is marked that is too short to be kept, or stands in no other prompt."""

    class At(Server):
        @property
        def identity(self):
            return {"backend": "openai-compatible", "model": name, "api_base": base}

    adaptation = Adaptation(At(lambda _: ANSWER, name))
    sent = adaptation.fit(asked("Rate it."))
    assert sent.prefix_mark == mark
    content = prompt_fields(sent)["messages"][0]["content"]
    if mark == "block":
        assert [part["text"] for part in content] == [LONG, "Rate it."]
        assert [part.get("cache_control") for part in content] == [{"type": "ephemeral"}, None]
    else:
        assert content == LONG + "Rate it."
    assert ("prompt_cache_key" in sampling_fields(sent)) == (mark == "key")
    assert adaptation.fit(asked("Rate it.", shared=100)).prefix_mark == "none"
    assert adaptation.fit(asked("Rate it.", shared=0)).prefix_mark == "none"


@pytest.mark.asyncio
async def test_a_mark_that_is_refused_is_left_out():
    error = RequestRefused("cache_control: Extra inputs are not permitted")
    error.refusal = Refusal("drop", "cache_control")
    server = Server(lambda r: error if r.prefix_mark == "block" else ANSWER, "x/claude-1")
    await adapted(server).generate(asked("Rate it."))
    assert [request.prefix_mark for request in server.sent] == ["block", "none"]

"""Requests are adapted to what a model takes, its number of samples included."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import textassay
from textassay.runtime import errors
from textassay.runtime.backends.replay import RecordedModel
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.base import Usage
from textassay.runtime.calls.adaptation import KNOWN, Adaptation, AdaptingModel
from textassay.runtime.calls.cache import CachedModel, StoringModel
from textassay.runtime.calls.call import PLAIN, Call, Posting, PostingModel
from textassay.runtime.calls.retry import PROBE
from textassay.runtime.calls.samples import OneSamplePerRequest
from textassay.runtime.calls.traits import ALLOWANCES, Sampling
from textassay.runtime.errors import (
    AnswerUnfinished,
    CapabilityError,
    ContentRefused,
    ContextTooLong,
    NoLogprobs,
    Refusal,
    RequestRefused,
)
from textassay.runtime.model import (
    Capabilities,
    ChatMessage,
    ChoicesRequest,
    ChoicesResponse,
    Effort,
    Request,
    Response,
    Sample,
    TokenLogprob,
)
from textassay.runtime.storage.answers import DiskStore

_ports = count(1)
CHAT = (
    ChatMessage(role="system", content="You judge."),
    ChatMessage(role="user", content="Rate it."),
)
ANSWER = Response(samples=(Sample(text="4"),), usage=Usage(calls=1, completion_tokens=1, cost=None))
CUT = Response(
    samples=(Sample(text="", finish_reason="length"),),
    usage=Usage(calls=1, completion_tokens=16, reasoning_tokens=16, cost=None),
)


def asked(**fields: Any) -> Request:
    return Request(messages=CHAT, max_tokens=16, **fields)


def refused(kind: str, name: str, **fields: Any) -> RequestRefused:
    error = RequestRefused(f"the server refuses {name}")
    error.refusal = Refusal(kind, name, **fields)  # type: ignore[arg-type]
    return error


class Sent:
    """A request as a server sees it: its fields and those of its posting."""

    def __init__(self, request: Request, posting: Posting) -> None:
        self.request, self.posting = request, posting
        self.max_tokens = posting.most_tokens(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.posting if name in Posting._fields else self.request, name)


class Server(PostingModel, ScriptedModel):
    """A model at an address, by a function of what is sent that refuses or answers."""

    def __init__(self, reply: Callable[[Sent], Any], name: str = "direct/judge") -> None:
        self._reply = reply
        self.sent: list[Sent] = []
        super().__init__(name=name, choices=lambda _: {"yes": -0.1, "no": -2.0})
        self._address = f"http://127.0.0.1/{next(_ports)}/v1"

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"backend": "openai-compatible", "model": self.name, "api_base": self._address}

    async def generate(self, request: Request, posting: Posting = PLAIN) -> Response:
        self.requests.append(request)
        self.sent.append(Sent(request, posting))
        reply = self._reply(self.sent[-1])
        if isinstance(reply, BaseException):
            raise reply
        answer: Response = reply.model_copy(update={"samples": reply.samples * request.n})
        return answer

    async def choices(self, request: ChoicesRequest, posting: Posting = PLAIN) -> ChoicesResponse:
        return await super().choices(request)


def adapted(server: Server, **sampling: Any) -> AdaptingModel:
    return AdaptingModel(server, Adaptation(server, Sampling(**sampling)))


def takes(name: str, test: Callable[[Sent], bool], error: RequestRefused) -> Server:
    """A server that answers what passes the test and refuses the rest."""
    return Server(lambda request: ANSWER if test(request) else error, name)


REPAIRS: dict[str, tuple[Callable[[Sent], object], RequestRefused, dict[str, Any]]] = {
    "temperature": (lambda r: r.temperature is None, refused("drop", "temperature"), {}),
    "seed": (lambda r: r.seed is None, refused("drop", "seed"), {"seed": 7}),
    "top_p": (lambda r: r.top_p == 1, refused("drop", "top_p"), {"top_p": 0.5}),
    "stop": (lambda r: not r.stop, refused("drop", "stop"), {"stop": ("x",)}),
    "max_tokens": (lambda r: r.cap_field == "max_completion_tokens" and r.max_tokens == 16,
                   refused("rename", "max_tokens"), {}),
    # max_completion_tokens is unknown to this server. It understands max_tokens.
    "its other name": (lambda r: r.cap_field == "max_completion_tokens",
                       refused("rename", "max_tokens"), {}),
    "n": (lambda r: r.n <= 8, refused("range", "n", limit=8), {"n": 20}),
    "no n": (lambda r: r.n == 1, refused("drop", "n"), {"n": 20}),
    "top_logprobs": (lambda r: (r.logprobs or 0) <= 5, refused("range", "top_logprobs", limit=5),
                     {"logprobs": 20}),
    # vLLM: Requested sample logprobs of 20, which is greater than max allowed: 5
    "logprobs": (lambda r: (r.logprobs or 0) == 5, refused("range", "logprobs", limit=5),
                 {"logprobs": 20}),
    "at least 1": (lambda r: r.temperature is None, refused("drop", "temperature"), {}),
    "role": (lambda r: [m.content for m in r.messages] == ["You judge.\n\nRate it."],
             refused("drop", "system"), {}),
    "schema": (lambda r: r.json_schema is None and '{"type":"object"}' in r.messages[-1].content,
               refused("drop", "json_schema"), {"json_schema": {"type": "object"}}),
    "at least": (lambda r: (r.max_tokens or 0) >= 32, refused("range", "max_tokens", limit=32), {}),
}  # fmt: skip


@pytest.mark.parametrize(("test", "error", "fields"), REPAIRS.values(), ids=REPAIRS)
async def test_a_refused_parameter_is_repaired_once_and_for_all(
    test: Any, error: RequestRefused, fields: dict[str, Any]
) -> None:
    server = takes("direct/judge", test, error)
    model = adapted(server)
    for _ in range(3):
        assert (await model.generate(asked(**fields))).samples[0] == ANSWER.samples[0]
    assert len(server.sent) == 4


@pytest.mark.parametrize("name", ["temperature", "n", "top_logprobs", "role", "schema"])
async def test_a_refused_parameter_is_repaired_in_batches_too(name: str) -> None:
    """All requests of the first batch are refused, and all of the next are answered."""
    test, error, fields = REPAIRS[name]
    server = takes("direct/judge", lambda request: bool(test(request)), error)
    model = AdaptingModel(server, Adaptation(server, in_batches=True))
    for _ in range(2):
        await asyncio.gather(*(model.generate(asked(draw=i, **fields)) for i in range(3)))
    assert len(server.sent) <= 3 + 6


async def test_answers_from_batches_show_that_a_model_thinks() -> None:
    """So that fewer samples are asked of it."""
    usage = Usage(calls=1, completion_tokens=900, reasoning_tokens=890, cost=None)
    server = Server(lambda request: ANSWER.model_copy(update={"usage": usage}))
    model = AdaptingModel(server, Adaptation(server, in_batches=True))
    await model.generate(asked())
    assert model.capabilities.thinks is True


async def test_a_hundred_first_requests_learn_the_same_thing_once() -> None:
    """And later connections to the same address know it."""
    server = takes("direct/judge", lambda r: r.temperature is None, refused("drop", "temperature"))
    model = adapted(server)
    answers = await asyncio.gather(*(model.generate(asked(draw=draw)) for draw in range(100)))
    assert len(answers) == 100
    assert len(server.sent) == 101
    await adapted(server).generate(asked())
    assert len(server.sent) == 102


async def test_learned_traits_are_stored_with_the_answers(tmp_path: Path) -> None:
    """A new process, here one that has forgotten it, sends the same and pays nothing.

    Its first requests come together, before what was learned is read.
    """
    server = takes("direct/judge", lambda r: r.temperature is None, refused("drop", "temperature"))
    async with DiskStore(tmp_path / "answers") as store:
        for cached_calls in (0, 1):
            KNOWN.clear()
            cached = CachedModel(StoringModel(server, store), store)
            model = AdaptingModel(cached, Adaptation(server), store)
            answers = await asyncio.gather(*(model.generate(asked(draw=i)) for i in range(4)))
            assert [one.usage.cached_calls for one in answers] == [cached_calls] * 4
    assert len(server.sent) == 5


async def test_a_replay_of_a_run_that_learned_nothing_teaches_nothing(tmp_path: Path) -> None:
    """The model itself, connected later in the same process, begins with what its cache knows."""
    server = takes("direct/judge", lambda r: True, refused("drop", "temperature"))
    known = Adaptation(server)
    known.learn(unsent=("temperature",))
    KNOWN.clear()
    async with DiskStore(tmp_path / "answers") as store:
        await store.put("a key", b"an answer")
    replay = RecordedModel(server.name, server.identity, server.capabilities, store.place)
    async with textassay.connect(replay):
        later = Adaptation(server)
        later.restore(known.learned_bytes)
    assert later.learned == known.learned
    await replay.aclose()


@pytest.mark.parametrize(
    ("sampling", "fields", "error"),
    [
        ({"temperature": 0.5}, {}, refused("drop", "temperature")),
        ({"temperature": 1.5}, {}, refused("drop", "temperature")),
        ({"top_p": 0.5}, {}, refused("drop", "top_p")),
        ({"effort": "low"}, {}, refused("drop", "reasoning_effort")),
        ({"effort": "low"}, {}, refused("drop", "reasoning")),
        ({"thinking_tokens": 100}, {}, refused("drop", "thinking_token_budget")),
        ({"extra": {"top_k": 3}}, {}, refused("drop", "top_k")),
        ({"extra": {"temperature": 0}}, {}, refused("drop", "temperature")),
        (
            {"extra": {"max_tokens": 9}},
            {},
            refused("rename", "max_tokens"),
        ),
        ({}, {"seed": 3, "required": ("seed",)}, refused("drop", "seed")),
        ({}, {"logprobs": 5}, refused("drop", "logprobs")),
    ],
)
async def test_settings_of_the_user_are_never_left_out_in_silence(
    sampling: dict[str, Any], fields: dict[str, Any], error: RequestRefused
) -> None:
    name = error.refusal.parameter if error.refusal else ""
    posting = Posting(required=fields.pop("required", ()))
    server = Server(lambda request: error)
    if name == "thinking_token_budget":  # two forms are sent; a server that takes none refuses both
        server = Server(
            lambda r: refused("drop", r.thinking_fields[0]) if r.thinking_fields else ANSWER
        )
    with pytest.raises(CapabilityError, match="the server refuses"):
        await adapted(server, **sampling).send(Call(asked(**fields), posting))
    assert len(server.sent) <= 2


async def test_another_model_behind_the_name_is_reported_once_and_recorded(caplog) -> None:
    names = iter(["emb", "emb", None, "other", "emb", "other", "third"])
    server = Server(lambda request: ANSWER.model_copy(update={"model": next(names)}))
    model = adapted(server)
    for draw in range(7):
        await model.generate(asked(draw=draw))
        assert len(caplog.records) == (draw >= 3)
    assert "before from 'emb', now from 'other'" in caplog.text
    assert model.adaptation.described["answered_as"] == ["emb", "other", "third"]


async def test_of_a_gateway_with_a_name_for_each_answer_the_first_names_are_kept() -> None:
    names = (f"replica-{number}" for number in range(100))
    server = Server(lambda request: ANSWER.model_copy(update={"model": next(names)}))
    model = adapted(server)
    for draw in range(100):
        await model.generate(asked(draw=draw))
    assert model.adaptation.described["answered_as"] == [
        f"replica-{number}" for number in range(20)
    ]


async def test_in_batches_one_answer_without_log_probabilities_is_asked_again() -> None:
    """Whichever of a batch comes first."""
    rated = Sample(text="4", logprobs=(TokenLogprob(token="4", logprob=-0.1),))
    answer = ANSWER.model_copy(update={"samples": (rated,)})
    lacking = iter([NoLogprobs("none")])
    server = Server(lambda request: next(lacking, answer))
    model = AdaptingModel(server, Adaptation(server, in_batches=True))
    requests = (model.generate(asked(draw=i, logprobs=20)) for i in range(3))
    answers = await asyncio.gather(*requests)
    assert [one.samples[0].logprobs for one in answers] == [rated.logprobs] * 3
    assert model.adaptation.learned.unsent == ()


async def test_refused_log_probabilities_show_in_the_capabilities() -> None:
    server = Server(lambda request: refused("drop", "logprobs") if request.logprobs else ANSWER)
    model = adapted(server)
    with pytest.raises(CapabilityError, match="sends no log-probabilities"):
        await model.generate(asked(logprobs=20))
    assert model.capabilities.logprobs is False
    with pytest.raises(CapabilityError):
        await model.generate(asked(logprobs=20))
    with pytest.raises(CapabilityError):
        await model.choices(ChoicesRequest(messages=CHAT, choices={"yes": ("yes",)}))
    assert len(server.requests) == 2  # a harmless one confirms it
    await model.generate(asked())


@pytest.mark.parametrize("name", ["openai/gpt-6-luna", "openai/gpt-4.1"])
async def test_a_table_of_abilities_is_a_first_guess_for_a_model_that_thinks(name: str) -> None:
    """Those of today give log-probabilities only while they do not think."""
    server = Server(lambda _: ANSWER, name)
    server.capabilities = Capabilities(logprobs=True, choices=True)
    shown = adapted(server).capabilities
    known = None if name.startswith("openai/gpt-6") else True
    assert (shown.logprobs, shown.choices) == (known, known)


@pytest.mark.parametrize(
    ("wished", "levels", "sent"),
    [
        ("none", ("minimal", "low", "medium", "high"), "minimal"),
        ("max", ("none", "low", "medium", "high", "xhigh"), "xhigh"),
        ("minimal", ("none", "low"), "low"),
        ("high", ("low",), "low"),
    ],
)
async def test_the_nearest_level_of_effort_is_sent_and_reported(
    wished: Effort, levels: tuple[Effort, ...], sent: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = refused("effort", "reasoning_effort", values=levels)
    server = Server(lambda request: ANSWER if request.effort in levels else error)
    model = adapted(server, effort=wished)
    await model.generate(asked())
    assert [request.effort for request in server.sent] == [wished, sent]
    assert model.adaptation.differences == (f"sent-effort:{sent}",)
    assert f"takes no effort {wished}, but" in caplog.text
    assert f"{sent} is sent" in caplog.text


async def test_the_next_level_is_tried_where_a_refusal_lists_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = refused("effort", "reasoning_effort")
    server = Server(lambda request: ANSWER if request.effort == "high" else error)
    model = adapted(server, effort="max")
    await model.generate(asked())
    await model.generate(asked())
    assert [request.effort for request in server.sent] == ["max", "xhigh", "high", "high"]
    assert model.adaptation.differences == ("sent-effort:high",)
    assert "takes no effort max; xhigh is sent" in caplog.text


@pytest.mark.parametrize("shown", ["", "It could be a 2"])
async def test_a_model_that_thinks_is_given_tokens_for_it_from_its_second_answer_on(
    shown: str,
) -> None:
    """Servers without a parser of thoughts show what was thought so far as the answer."""
    cut = CUT.model_copy(update={"samples": (Sample(text=shown, finish_reason="length"),)})
    server = Server(lambda request: cut if (request.max_tokens or 0) < 900 else ANSWER)
    model = adapted(server)
    answers = await asyncio.gather(*(model.generate(asked(draw=draw)) for draw in range(50)))
    assert {answer.samples[0].text for answer in answers} == {"4"}
    assert len(server.sent) == 51
    assert {request.max_tokens for request in server.sent} == {16, 16 + ALLOWANCES[0]}
    assert sum(answer.usage.completion_tokens for answer in answers) == 16 + 50


async def test_a_model_that_rambles_is_asked_once_with_more_tokens_and_no_more() -> None:
    server = Server(lambda _: Response(samples=(Sample(text="Well, ", finish_reason="length"),)))
    model = adapted(server)
    await asyncio.gather(*(model.generate(asked(draw=draw)) for draw in range(50)))
    assert len(server.sent) == 51
    assert [r.max_tokens for r in server.sent if r.allowance] == [16 + ALLOWANCES[0]]


async def test_the_cost_of_cut_answers_counts_if_a_later_attempt_fails() -> None:
    server = Server(lambda r: ContentRefused("flagged") if r.allowance else CUT)
    with pytest.raises(ContentRefused) as caught:
        await adapted(server).generate(asked())
    assert caught.value.usage == CUT.usage


async def test_a_thought_without_end_is_not_an_answer_however_many_tokens_it_gets() -> None:
    server = Server(lambda _: CUT)
    with pytest.raises(AnswerUnfinished, match="set effort=low") as caught:
        await adapted(server).generate(asked())
    allowed = [request.max_tokens for request in server.sent]
    assert allowed == [16, *(16 + allowance for allowance in ALLOWANCES)]
    assert caught.value.usage is not None
    assert caught.value.usage.completion_tokens == 16 * len(allowed)


async def test_a_400_that_says_that_the_thought_took_all_tokens_is_a_cut_answer() -> None:
    server = Server(
        lambda r: ANSWER if r.max_tokens and r.max_tokens > 900 else refused("room", "max_tokens")
    )
    await adapted(server).generate(asked())
    assert len(server.sent) == 2


@pytest.mark.parametrize(
    ("error", "most"),
    [
        (refused("range", "max_tokens", limit=2000), 2000),
        (ContextTooLong("the context has 2048 tokens"), 16 + ALLOWANCES[0] // 4),
    ],
)
async def test_tokens_for_a_thought_obey_what_the_server_names_and_the_context(
    error: RequestRefused, most: int
) -> None:
    def reply(request: Request) -> Any:
        tokens = request.max_tokens or 0
        return error if tokens > 2000 else CUT if tokens < 900 else ANSWER

    server = Server(reply)
    await adapted(server).generate(asked())
    assert (server.sent[-1].max_tokens, server.sent[-1].allowance) == (most, most - 16)


async def test_a_context_that_was_exceeded_is_not_by_later_requests_as_long() -> None:
    """Each was refused once."""
    error = ContextTooLong("the context has 2048 tokens")
    server = Server(lambda r: error if r.allowance > 2000 else ANSWER, "direct/o4-mini")
    model = adapted(server)
    for longer in ("", "", "?"):
        words = ChatMessage(role="user", content=f"Rate it.{longer}")
        await model.generate(Request(messages=(words,), max_tokens=16))
    await model.generate(
        Request(messages=(ChatMessage(role="user", content="Rate"),), max_tokens=16)
    )
    few, many = ALLOWANCES[0] // 4, ALLOWANCES[0]
    assert [r.allowance for r in server.sent] == [many, few, few, few, many, few]


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({"max_tokens": 16}, lambda r: ContextTooLong("") if r.allowance > 2000 else None),
        ({"max_tokens": 16}, lambda r: (
            refused("range", "max_tokens", limit=16) if r.max_tokens > 16 else None)),
        ({}, lambda r: None),
    ],
    ids=["context", "maximum", "no limit"],
)  # fmt: skip
@pytest.mark.parametrize("shown", ["", "It is a"])
@pytest.mark.parametrize("name", ["direct/judge", "direct/o4-mini"])
async def test_an_answer_that_stays_cut_is_not_requested_for_ever(
    name: str, shown: str, fields: Any, limit: Callable[[Sent], Exception | None]
) -> None:
    """Each attempt is paid for; some went on until the run was stopped."""
    cut = CUT.model_copy(update={"samples": (Sample(text=shown, finish_reason="length"),)})
    server = Server(lambda r: limit(r) or cut, name)
    request = Request(messages=CHAT, **fields)
    if shown:
        assert (await adapted(server).generate(request)).samples[0].text == shown
    else:
        with pytest.raises(AnswerUnfinished, match=r"spent all (\d+ tokens|tokens that) .*thought"):
            await adapted(server).generate(request)
    assert len(server.sent) <= 6


@pytest.mark.parametrize(
    ("name", "temperature", "thinks"),
    [
        ("direct/gpt-4.1-mini", 0.0, False),
        ("direct/gpt-5-mini", None, True),
        ("direct/gpt-5-chat", 0.0, False),
        ("direct/gpt-5.2", 0.0, False),
        ("direct/gpt-6-sol", None, True),
        ("direct/o3-mini", None, True),
        ("anthropic/claude-sonnet-4-5", 0.0, False),
        ("anthropic/claude-opus-4-8", None, True),
        ("anthropic/claude-sonnet-5", None, True),
        ("gemini/gemini-3-pro", None, True),
        ("gemini/gemini-2.5-flash", 0.0, False),
        ("direct/qwen3-32b", None, True),
        ("direct/qwen3-30b-a3b-instruct-2507", 0.0, False),
        ("direct/microsoft/Phi-4-reasoning-plus", None, True),
        ("direct/anthropic/claude-3.7-sonnet:thinking", None, True),
        ("direct/grok-4-fast-non-reasoning", 0.0, False),
        ("direct/Kimi-K2-Instruct", 0.0, False),
        ("direct/llama-3.3-70b", 0.0, False),
    ],
)
async def test_names_are_a_first_guess(name: str, temperature: float | None, thinks: bool) -> None:
    server = Server(lambda _: ANSWER, name)
    await adapted(server).generate(asked())
    assert server.sent[0].temperature == temperature
    assert bool(server.sent[0].allowance) == thinks


@given(
    st.lists(
        st.sampled_from(["temperature", "top_p", "seed", "stop", "max_tokens", "system"]),
        unique=True,
    )
)
def test_whatever_a_server_refuses_the_rest_is_sent_as_it_was(refusals: list[str]) -> None:
    errors = {
        "max_tokens": refused("rename", "max_tokens"),
        "system": refused("drop", "system"),
    }

    def has(request: Request, name: str) -> bool:
        if name == "system":
            return any(m.role == "system" for m in request.messages)
        if name == "max_tokens":
            return request.cap_field == "max_tokens"
        return getattr(request, name) not in (None, (), 1.0)

    def reply(request: Request) -> Any:
        for name in refusals:
            if has(request, name):
                return errors.get(name) or refused("drop", name)
        return ANSWER

    server = Server(reply)
    request = asked(temperature=0.5, top_p=0.5, seed=7, stop=("x",))
    if len(refusals) > 5:
        with pytest.raises(RequestRefused):
            asyncio.run(adapted(server).generate(request))
        return
    asyncio.run(adapted(server).generate(request))
    sent = server.sent[-1]
    for name in ("temperature", "top_p", "seed", "stop", "system"):
        assert has(sent, name) == (name not in refusals)
    assert len(server.sent) == 1 + len(refusals)


async def test_models_of_this_process_are_asked_as_they_are() -> None:
    model = ScriptedModel(lambda _: "4", capabilities=Capabilities(n=True))
    wrapped = AdaptingModel(model, Adaptation(model))
    request = asked()
    await wrapped.generate(request)
    assert model.requests == [request]


async def test_a_model_that_only_switches_its_thoughts_off_or_on() -> None:
    """A level of effort that it does not know means that it thinks as it does by default."""
    error = refused("effort", "reasoning_effort", values=("none", "default"))
    server = Server(lambda r: error if r.thinking_fields else ANSWER)
    model = adapted(server, effort="medium")
    await model.generate(asked())
    assert server.sent[-1].effort is None
    assert model.adaptation.differences == ("sent-effort:default",)


@pytest.mark.parametrize("name", ["thinking", "reasoning", "thinking_token_budget"])
async def test_a_budget_of_thoughts_obeys_what_the_server_names(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Under each of its names; a level that replaces the typed one is reported."""
    error = refused("range", name, limit=1024)
    server = Server(lambda r: ANSWER if (r.thinking_tokens or 0) >= 1024 else error)
    model = adapted(server, thinking_tokens=100)
    await model.generate(asked())
    assert server.sent[-1].thinking_tokens == 1024
    assert server.sent[-1].max_tokens == 16 + 1024
    assert "takes thinking_tokens from 1024; 1024 is sent" in caplog.text
    assert model.adaptation.differences == ("sent-thinking_tokens:1024",)


async def test_a_number_of_the_user_that_is_too_large_says_nothing_of_smaller_ones() -> None:
    server = takes("direct/judge", lambda r: (r.temperature or 0) <= 1,
                   refused("drop", "temperature"))  # fmt: skip
    with pytest.raises(CapabilityError, match=r"refuses temperature=1\.5"):
        await adapted(server, temperature=1.5).generate(asked())
    await adapted(server, temperature=0.9).generate(asked())


ONE = Capabilities(n=False)


def drawing(**more: object) -> ScriptedModel:
    return ScriptedModel(lambda request: f"draw {request.draw}", capabilities=ONE, **more)


async def test_each_sample_is_asked_by_itself():
    model = drawing(price=(1.0, 1.0))
    one = OneSamplePerRequest(model)
    assert one.capabilities.n is True
    response = await one.generate(Request(prompt="x", n=4, draw=2))
    assert [s.text for s in response.samples] == [f"draw {2000 + i}" for i in range(4)]
    assert [r.n for r in model.requests] == [1] * 4
    assert response.usage.calls == 4
    assert response.usage.cost == pytest.approx(4 * (1 + 4) / 1e6, rel=0.5)
    with pytest.raises(errors.CapabilityError, match="1000"):  # the numbers would collide
        await one.generate(Request(prompt="x", n=1001))


@pytest.mark.parametrize("n", [True, None])
async def test_a_model_that_gives_several_or_may_is_left_alone(n):
    model = ScriptedModel(["same"], capabilities=Capabilities(n=n))
    one = OneSamplePerRequest(model)
    assert len((await one.generate(Request(prompt="x", n=3))).samples) == 3
    assert model.requests == [Request(prompt="x", n=3)]
    assert one.capabilities.n is n


async def test_the_samples_are_asked_at_once_and_a_failure_cancels_the_rest():
    cancelled = 0

    async def reply(request):
        nonlocal cancelled
        if request.draw == 1:
            return errors.ServerFailed("no")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled += 1
            raise

    with pytest.raises(errors.ServerFailed, match="no"):
        await OneSamplePerRequest(ScriptedModel(reply, capabilities=ONE)).generate(
            Request(prompt="x", n=3)
        )
    assert cancelled == 2


MIXTURES = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 12)),
    min_size=2,
    max_size=6,
    unique_by=lambda a: a[0],
)


@given(asked=MIXTURES)
async def test_no_two_samples_of_different_draws_share_a_number(asked):
    model = drawing()
    for draw, n in asked:
        await OneSamplePerRequest(model).generate(Request(prompt="x", n=n, draw=draw))
    draws = [r.draw for r in model.requests]
    assert len(draws) == len(set(draws)) == sum(n for _, n in asked)


VAGUE = RequestRefused("the server answered 400: bad request")
VAGUE.is_vague = True
FULL = {
    "temperature": 0.5,
    "top_p": 0.5,
    "seed": 7,
    "stop": ("x",),
    "json_schema": {"type": "object"},
}


def refuses_in_vague_words(name: str) -> Server:
    def is_there(request: Request) -> bool:
        if name == "system":
            return any(message.role == "system" for message in request.messages)
        return getattr(request, name) not in (None, (), 1.0)

    return Server(lambda request: VAGUE if is_there(request) else ANSWER)


@pytest.mark.parametrize("name", [*FULL, "system"])
async def test_a_parameter_that_no_word_names_is_found_by_probes(name: str) -> None:
    """Three harmless questions at most, once; what was found is left out from then on."""
    server = refuses_in_vague_words(name)
    model = adapted(server)
    assert await model.generate(asked(**FULL))
    assert model.adaptation.learned.unsent == ({"json_schema": "json_schema"}.get(name, name),)
    assert len(server.sent) <= 1 + 3 + 1
    assert all(PROBE in request.messages[-1].content for request in server.sent[1:-1])
    before = len(server.sent)
    await model.generate(asked(**FULL))
    assert len(server.sent) == before + 1


async def test_a_text_that_is_refused_in_vague_words_costs_no_parameter() -> None:
    """Without what the probes found it is refused again: everything is sent with other texts."""
    server = Server(lambda r: VAGUE if "Rate it." in r.messages[-1].content else ANSWER)
    model = adapted(server)
    with pytest.raises(RequestRefused, match="bad request"):
        await model.generate(asked(**FULL))
    assert len(server.sent) <= 1 + 3 + 1
    before = len(server.sent)
    with pytest.raises(RequestRefused):
        await model.generate(asked(**FULL))
    assert len(server.sent) == before + 1
    assert (model.adaptation.learned.unsent, model.adaptation.differences) == ((), ())
    other = Request(messages=(ChatMessage(role="user", content="Judge."),), max_tokens=16, **FULL)
    await model.generate(other)
    assert (server.sent[-1].temperature, server.sent[-1].seed) == (0.5, 7)


@pytest.mark.parametrize("name", ["temperature", "top_p", "seed"])
async def test_a_setting_that_no_word_names_is_named_and_never_left_out(name: str) -> None:
    server = refuses_in_vague_words(name)
    model = adapted(server, **{name: FULL[name]})
    with pytest.raises(CapabilityError, match=f"refuses {name}={FULL[name]}; leave it out"):
        await model.generate(asked(**FULL))
    assert len(server.sent) <= 1 + 3 + 2
    assert (model.adaptation.learned.unsent, model.adaptation.differences) == ((), ())


@pytest.mark.parametrize("fields", [{}, {"temperature": 0.5}, FULL])
async def test_a_text_that_is_refused_in_vague_words_blames_no_setting(
    fields: dict[str, Any],
) -> None:
    server = Server(lambda r: VAGUE if "Rate it." in r.messages[-1].content else ANSWER)
    model = adapted(server, seed=7)
    with pytest.raises(RequestRefused, match="bad request"):
        await model.generate(asked(**fields))
    assert len(server.sent) <= 1 + 3 + 2
    await model.generate(Request(messages=(ChatMessage(role="user", content="Judge."),)))
    assert server.sent[-1].seed == 7


async def test_a_server_that_refuses_everything_is_probed_once() -> None:
    server = Server(lambda _: VAGUE)
    model = adapted(server)
    for _ in range(3):
        with pytest.raises(RequestRefused):
            await model.generate(asked(**FULL))
    assert model.adaptation.learned.unsent == ()
    assert len(server.sent) <= 3 + 3 + 1

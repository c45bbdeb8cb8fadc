"""One battery for every backend: what is true of a model whichever way it is asked."""

from __future__ import annotations

import contextlib
import math
import socket
import time
import traceback
from collections.abc import AsyncIterator, Callable
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from tests.responses_server import serve_responses
from textassay.runtime import errors
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.backends.endpoint import Endpoint
from textassay.runtime.backends.litellm import LiteLLMModel, load_litellm
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.model import (
    ChatMessage,
    ChoicesRequest,
    ContinuationRequest,
    Model,
    Request,
    Response,
    Sample,
    Scoring,
    TokenLogprob,
)

pytestmark = pytest.mark.asyncio

KEY = "sk-a-Key-that-nobody-may-see-0123456789"
CHAT = (
    ChatMessage(role="system", content="You rate."),
    ChatMessage(role="user", content="Rate this text."),
)
SCHEMA = {"type": "object", "properties": {"rating": {"type": "integer"}}, "required": ["rating"]}

Backend = Callable[..., Model]
NETWORKED = {
    "direct": lambda url, **more: DirectModel("direct/judge", api_base=url, api_key=KEY, **more),
    "litellm-openai": lambda url, **more: LiteLLMModel(
        "openai/judge", api_base=url, api_key=KEY, **more
    ),
    "litellm-vllm": lambda url, **more: LiteLLMModel(
        "hosted_vllm/judge", api_base=url, api_key=KEY, **more
    ),
    "responses": lambda url, **more: DirectModel(
        "responses/judge", api_base=url, api_key=KEY, responses=True, **more
    ),
}


@pytest.fixture(scope="module", autouse=True)
def _litellm_is_imported() -> None:
    """The import takes seconds; do it once, outside of any event loop."""
    load_litellm()


@contextlib.asynccontextmanager
async def connecting(name: str) -> AsyncIterator[Backend]:
    """What makes models of a backend, which are closed at the end."""
    async with contextlib.AsyncExitStack() as stack:
        front = ""
        if name == "responses":
            front = await stack.enter_async_context(serve_responses())

        def build(url: str, **more: object) -> Model:
            if front:  # the same server, in front of which that API stands
                url = f"{front}/{urlsplit(url).port}/v1"
            model = NETWORKED[name](url, **more)
            stack.push_async_callback(model.aclose)
            return model

        yield build


@pytest_asyncio.fixture(params=NETWORKED)
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
    """Every backend that asks a server."""
    async with connecting(request.param) as build:
        yield build


@pytest_asyncio.fixture(params=[name for name in NETWORKED if name != "responses"])
async def connect_chat(request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
    """Those that ask for completions, of chats and prompts."""
    async with connecting(request.param) as build:
        yield build


def chat(**fields: object) -> Request:
    return Request(messages=CHAT, **fields)


async def failure(model: Model, request: Request) -> errors.TextassayError:
    """The error of a request that has to fail, checked for the key."""
    with pytest.raises(errors.TextassayError) as caught:
        await model.generate(request)
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert KEY not in shown
    assert KEY[3:20] not in shown
    assert str(caught.value).isprintable()
    return caught.value


async def test_an_answer_has_text_usage_and_the_name_of_the_model(connect, mock_server):
    """A plain question is answered, counted and attributed."""
    server = await mock_server()
    response = await connect(server.url).generate(chat())
    assert [s.text.startswith("Rating: ") for s in response.samples] == [True]
    assert response.samples[0].finish_reason == "stop"
    assert response.usage.calls == 1
    assert response.usage.prompt_tokens > 5
    assert response.usage.completion_tokens > 0
    assert response.usage.cost is None
    assert response.model == "judge"


async def test_an_answer_is_asked_for_once(connect, mock_server):
    """No backend retries by itself."""
    server = await mock_server(p500=1)
    await failure(connect(server.url), chat())
    assert server.counters.requests == 1


async def test_the_price_gives_the_cost(connect, mock_server):
    """Cost is tokens times the price per million."""
    server = await mock_server()
    usage = (await connect(server.url, price=(2.0, 8.0)).generate(chat())).usage
    assert usage.cost == pytest.approx(
        (2 * usage.prompt_tokens + 8 * usage.completion_tokens) / 1e6
    )


async def test_n_samples_come_in_one_request(connect_chat, mock_server):
    """n is sent to the server."""
    server = await mock_server()
    response = await connect_chat(server.url).generate(chat(n=5, temperature=1.0))
    assert len(response.samples) == 5
    assert len({s.text for s in response.samples}) > 1
    assert server.counters.requests == 1


async def test_seed_and_draw_make_answers_repeatable(connect_chat, mock_server):
    """The same draw gives the same answer, another draw another request."""
    server = await mock_server(reply=lambda body, draw: f"seed {body['seed']}")
    model = connect_chat(server.url)
    texts = [
        (await model.generate(chat(seed=7, draw=d, temperature=1.0))).samples[0].text
        for d in (0, 0, 3)
    ]
    assert texts == ["seed 7", "seed 7", "seed 10"]


async def test_fewer_samples_than_asked_for_are_an_answer(connect_chat, mock_server):
    """At least one sample is enough."""
    server = await mock_server(only_one=True)
    assert len((await connect_chat(server.url).generate(chat(n=4))).samples) == 1


async def test_log_probabilities_of_sampled_tokens(connect, mock_server):
    """Tokens join to the text; alternatives are sorted and hold no more than the whole
    probability."""
    server = await mock_server()
    (sample,) = (await connect(server.url).generate(chat(logprobs=5))).samples
    assert sample.logprobs is not None
    assert "".join(t.token for t in sample.logprobs) == sample.text
    for token in sample.logprobs:
        assert len(token.top) == 5
        assert [lp for _, lp in token.top] == sorted((lp for _, lp in token.top), reverse=True)
        assert math.fsum(math.exp(lp) for _, lp in token.top) <= 1 + 1e-9
        assert dict(token.top)[token.token] == token.logprob


async def test_no_log_probabilities_where_none_were_asked_for(connect, mock_server):
    """Log-probabilities are None, not empty, without being asked for."""
    server = await mock_server()
    assert (await connect(server.url).generate(chat())).samples[0].logprobs is None


async def test_missing_log_probabilities_name_the_way_out(connect, mock_server):
    """A server that leaves them out in silence: n=20."""
    server = await mock_server(omit_logprobs=True)
    error = await failure(connect(server.url), chat(logprobs=5))
    assert type(error) is errors.NoLogprobs
    assert "n=20" in str(error)


async def test_refused_log_probabilities_are_a_refusal_like_any_other(connect, mock_server):
    """What is done without them is not for a backend to decide."""
    server = await mock_server(refuse_logprobs=True)
    error = await failure(connect(server.url), chat(logprobs=5))
    assert type(error) is errors.RequestRefused
    assert error.refusal == errors.Refusal("drop", "logprobs")


async def test_sampling_settings_reach_the_server(connect_chat, mock_server):
    """What a request says is what the server reads."""
    seen = []
    server = await mock_server(reply=lambda body, draw: seen.append(body) or "ok")
    await connect_chat(server.url).generate(
        chat(temperature=0.5, top_p=0.9, max_tokens=17, stop=("\n\n", "END"), json_schema=SCHEMA)
    )
    (body,) = seen
    due = {
        "model": "judge",
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 17,
        "stop": ["\n\n", "END"],
    }
    assert {k: body.get(k) for k in due} == due
    assert body["messages"] == [{"role": m.role, "content": m.content} for m in CHAT]
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert "seed" not in body
    assert "dry_run_answer" not in body


async def test_plain_prompts_go_to_completions(connect_chat, mock_server):
    """A prompt is completed, with log-probabilities in the older format."""
    server = await mock_server()
    response = await connect_chat(server.url).generate(
        Request(prompt="The text is", n=2, logprobs=3)
    )
    assert len(response.samples) == 2
    assert response.samples[0].logprobs is not None
    assert "".join(t.token for t in response.samples[0].logprobs) == response.samples[0].text
    assert {len(t.top) for t in response.samples[0].logprobs} == {3}


async def test_choices_are_read_from_the_first_token(connect, mock_server):
    """Reported labels have their probability, others None; together they stay within 1."""
    server = await mock_server()
    model = connect(server.url)
    assert isinstance(model, Scoring)
    answer = await model.choices(
        ChoicesRequest(
            messages=CHAT, choices={"yes": ("yes", "Yes"), "no": ("no", "No"), "q": ("Q",)}
        )
    )
    assert answer.logprobs["q"] is None
    assert 0 < answer.mass < 1
    alone = await model.choices(ChoicesRequest(messages=CHAT, choices={"yes": ("Yes",)}))
    assert alone.logprobs["yes"] < answer.logprobs["yes"]


async def test_a_continuation_has_the_probabilities_of_its_tokens(connect_chat, mock_server):
    """The tokens are exactly those of the continuation."""
    server = await mock_server()
    model = connect_chat(server.url)
    answer = await model.continuation(
        ContinuationRequest(prompt="It rained,", continuation=" so we stayed at home.")
    )
    assert "".join(t.token for t in answer.tokens) == " so we stayed at home."
    assert answer.logprob == pytest.approx(math.fsum(t.logprob for t in answer.tokens))
    assert answer.logprob < 0


async def test_a_continuation_works_where_one_token_must_be_sampled(connect_chat, mock_server):
    """A server that refuses max_tokens=0 is asked for one token, which is left out."""
    server = await mock_server(refuse_zero_tokens=True)
    answer = await connect_chat(server.url).continuation(
        ContinuationRequest(prompt="It rained,", continuation=" so what?")
    )
    assert "".join(t.token for t in answer.tokens) == " so what?"


async def test_a_server_that_does_not_echo_cannot_tell_continuations(connect_chat, mock_server):
    """Never a number for a text the server did not score."""
    server = await mock_server(ignore_echo=True)
    with pytest.raises(errors.CapabilityError, match="echo"):
        await connect_chat(server.url).continuation(
            ContinuationRequest(prompt="It rained,", continuation=" so what?")
        )


async def test_a_chat_has_no_continuation(connect, mock_server):
    """A chat cannot be continued by a given text."""
    server = await mock_server()
    with pytest.raises(errors.CapabilityError, match="plain prompt"):
        await connect(server.url).continuation(
            ContinuationRequest(messages=CHAT, continuation=" x")
        )


STATUSES = [
    (401, "invalid_api_key the key {key} is wrong", errors.AuthenticationFailed),
    (403, "permission_denied you may not use this model", errors.AuthenticationFailed),
    (404, "model_not_found no such model", errors.ModelNotFound),
    (429, "rate_limit_exceeded slow down", errors.RateLimited),
    (429, "insufficient_quota you exceeded your current quota", errors.QuotaExhausted),
    (402, "payment_required insufficient balance", errors.QuotaExhausted),
    (400, "context_length_exceeded maximum context length is 4096 tokens", errors.ContextTooLong),
    (400, "content_filter blocked by our content management policy", errors.ContentRefused),
    (400, "invalid_value temperature must be below 2", errors.RequestRefused),
    (422, "unprocessable unknown field", errors.RequestRefused),
    (500, "internal_error {key} made us fail", errors.ServerFailed),
    (502, "bad_gateway upstream is gone", errors.ServerFailed),
    (503, "overloaded come back later", errors.ServerFailed),
]


@pytest.mark.parametrize(("status", "error", "kind"), STATUSES)
async def test_every_status_has_its_error(connect, mock_server, status, error, kind):
    """The kind of error depends on what the server says, not on the way it is asked."""
    server = await mock_server(p500=1, status=status, error=error)
    found = await failure(connect(server.url), chat())
    assert type(found) is kind, repr(found)
    if kind in (errors.RateLimited, errors.ServerFailed):
        assert found.retry_after == 1.0
    if kind is errors.ServerFailed:
        assert found.status == status


@pytest.mark.parametrize(
    ("style", "expected"),
    [("seconds", 2.5), ("ms", 2.5), ("date", 3.0), ("text", 2.5), ("none", None)],
)
async def test_every_form_of_retry_after_is_understood(connect, mock_server, style, expected):
    """Seconds, milliseconds, a date, or words in the message."""
    server = await mock_server(p429=1, retry_after=2.5, retry_after_style=style)
    began = time.monotonic()
    error = await failure(connect(server.url), chat())
    took = time.monotonic() - began
    assert type(error) is errors.RateLimited
    if style == "date":
        # a date has whole seconds, and what has passed since it was written counts
        assert expected - 0.8 - took <= error.retry_after <= expected + 0.8
    else:
        assert error.retry_after == (expected and pytest.approx(expected))


@pytest.mark.parametrize("style", ["truncated", "html", "empty", "no_choices", "null_content"])
async def test_a_broken_body_is_malformed(connect, mock_server, style):
    """A 200 that is no answer may be asked again."""
    server = await mock_server(p_broken=1, broken_style=style)
    assert type(await failure(connect(server.url), chat())) is errors.MalformedResponse


async def test_a_filtered_answer_is_refused_content(connect, mock_server):
    """Nothing is left after the filter: refused, not malformed."""
    server = await mock_server(p_filter=1)
    assert type(await failure(connect(server.url), chat())) is errors.ContentRefused


async def test_a_dropped_connection(connect, mock_server):
    """Closed without an answer."""
    server = await mock_server(p_drop=1)
    assert type(await failure(connect(server.url), chat())) is errors.ConnectionFailed


async def test_a_refused_connection(connect_chat):
    """Nothing listens at the address, which the message names."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        error = await failure(connect_chat(f"http://127.0.0.1:{port}/v1"), chat())
    assert type(error) is errors.NothingListening
    assert str(port) in str(error)


async def test_the_wrong_key_is_told_without_the_key(connect, mock_server):
    """The server echoes the key; the message does not."""
    server = await mock_server(require_key="another-key")
    error = await failure(connect(server.url), chat())
    assert type(error) is errors.AuthenticationFailed
    assert "[key]" in str(error)


async def test_an_unknown_model_is_fatal(connect, mock_server):
    """The run stops rather than fails example by example."""
    server = await mock_server(models="other")
    assert type(await failure(connect(server.url), chat())) is errors.ModelNotFound


async def test_a_prompt_beyond_the_context(connect, mock_server):
    """Too long is about this request only."""
    server = await mock_server(context=3)
    error = await failure(connect(server.url), chat())
    assert type(error) is errors.ContextTooLong
    assert not error.stops_run


async def test_identity_has_no_key(connect_chat):
    """What goes into caches and manifests never holds a key or a password."""
    own_header = Endpoint(key_header="X-Key")
    model = connect_chat("http://user:secret-password@127.0.0.1:8000/v1", endpoint=own_header)
    assert KEY not in str(model.identity)
    assert "secret-password" not in str(model.identity)
    assert "127.0.0.1:8000" in str(model.identity)
    assert KEY not in repr(model)


async def test_a_closed_model_says_so(connect, mock_server):
    """Closing twice is fine, asking afterwards is not."""
    server = await mock_server()
    model = connect(server.url)
    await model.generate(chat())
    await model.aclose()
    await model.aclose()
    with pytest.raises(errors.ModelClosed):
        await model.generate(chat())


async def test_a_second_model_works_after_the_first_was_closed(connect, mock_server):
    """Closing one model leaves nothing broken for the next one in the same loop, nor for one that
    is still open."""
    server = await mock_server()
    first, other = connect(server.url), connect(server.url)
    await other.generate(chat())
    await first.generate(chat())
    await first.aclose()
    assert (await other.generate(chat())).samples
    await other.aclose()
    assert (await connect(server.url).generate(chat())).samples


async def test_a_script_behaves_like_the_others():
    """The scripted model gives n samples, usage, errors, choices, continuations, and can be
    closed."""
    model = ScriptedModel(
        lambda request: f"Rating: {request.draw}",
        choices=lambda request: {"yes": -0.1, "no": None},
        continuation=lambda request: [TokenLogprob(token=request.continuation, logprob=-1.0)],
    )
    assert isinstance(model, Model)
    assert isinstance(model, Scoring)
    response = await model.generate(chat(n=3, temperature=1.0))
    assert response == Response(
        samples=tuple(Sample(text=f"Rating: {i}") for i in range(3)),
        usage=response.usage,
        model="scripted",
    )
    assert response.usage.calls == 1
    assert response.usage.prompt_tokens > 0
    assert (
        await model.choices(ChoicesRequest(messages=CHAT, choices={"yes": ("Yes",), "no": ("No",)}))
    ).logprobs == {"yes": -0.1, "no": None}
    assert (
        await model.continuation(ContinuationRequest(prompt="a", continuation=" b"))
    ).logprob == -1.0
    await model.aclose()
    await model.aclose()
    with pytest.raises(errors.ModelClosed):
        await model.generate(chat())

"""OpenAI's Responses API: what is sent, what its answers mean, and when it is used."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from tests.responses_server import serve_responses
from textassay.runtime import errors
from textassay.runtime.api import connect
from textassay.runtime.backends import responses_format
from textassay.runtime.backends.by_name import open_backend
from textassay.runtime.backends.direct import DirectModel
from textassay.runtime.calls.call import Posting
from textassay.runtime.model import ChatMessage, ContinuationRequest, Function, Request, Sample
from textassay.runtime.settings import Settings

ASK = Request(
    messages=(
        ChatMessage(role="system", content="Be strict."),
        ChatMessage(role="user", content="Rate it."),
    ),
    temperature=None,
)
SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}


def test_the_body_of_a_request() -> None:
    """The fields have other names and places than those of chats."""
    body = responses_format.request_fields(
        ASK.model_copy(
            update={
                "temperature": 0.5,
                "top_p": 0.9,
                "max_tokens": 200,
                "effort": "low",
                "json_schema": SCHEMA,
                "logprobs": 5,
                "extra": {"reasoning": {"summary": "auto"}, "store": True},
            }
        )
    )
    assert body == {
        "input": [
            {"role": "system", "content": "Be strict."},
            {"role": "user", "content": "Rate it."},
        ],
        "store": True,
        "temperature": 0.5,
        "top_p": 0.9,
        "max_output_tokens": 200,
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {
            "format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}
        },
        "top_logprobs": 5,
        "include": ["message.output_text.logprobs"],
    }


@pytest.mark.parametrize(("room", "sent"), [(1, 16), (16, 16), (17, 17)])
def test_fewer_than_16_tokens_are_never_allowed(room: int, sent: int) -> None:
    """The API refuses them."""
    body = responses_format.request_fields(ASK.model_copy(update={"max_tokens": room}))
    assert body["max_output_tokens"] == sent
    assert responses_format.request_fields(ASK).keys() == {"input", "store"}


LOOK = Function(name="look", description="Look it up.", parameters={"type": "object"})


@pytest.mark.parametrize(
    ("fields", "name"),
    [({"seed": 3}, "seed"), ({"stop": ("END",)}, "stop"), ({"functions": (LOOK,)}, "functions")],
)
def test_fields_that_the_api_lacks_are_refused_as_by_a_server(
    fields: dict[str, Any], name: str
) -> None:
    """By name, so that the request can be sent without it."""
    with pytest.raises(errors.RequestRefused) as caught:
        responses_format.request_fields(ASK.model_copy(update=fields))
    assert caught.value.refusal == errors.Refusal("drop", name)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"messages": (), "prompt": "Rate it."}, "takes chats only"),
        ({"thinking_tokens": 100}, "no number of thinking tokens"),
        ({"effort": "none"}, "no effort none"),
    ],
)
def test_a_missing_part_without_a_substitute_is_refused(
    fields: dict[str, Any], message: str
) -> None:
    switched = Posting(thinking_fields=("chat_template_kwargs",) if "effort" in fields else ())
    with pytest.raises(errors.CapabilityError, match=message):
        responses_format.request_fields(ASK.model_copy(update=fields), switched)


def test_a_number_of_thinking_tokens_is_sent_to_a_server_that_takes_one() -> None:
    """As OpenRouter does."""
    request = ASK.model_copy(update={"thinking_tokens": 100})
    posting = Posting(thinking_fields=("reasoning",))
    assert responses_format.request_fields(request, posting)["reasoning"] == {"max_tokens": 100}


def answer(*output: Any, status: str = "completed", reason: str | None = None) -> dict[str, Any]:
    return {
        "status": status,
        "incomplete_details": reason and {"reason": reason},
        "output": list(output),
        "usage": {
            "input_tokens": 90,
            "output_tokens": 16,
            "output_tokens_details": {"reasoning_tokens": 16 if reason else 0},
        },
    }


def message(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": list(parts), **more}


FOUR = {"type": "output_text", "text": "4"}
SUMMARY = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "maybe 2"}]}
HIDDEN = {"type": "reasoning", "summary": []}
CUT = {"status": "incomplete", "reason": "max_output_tokens"}
# fmt: off
ANSWERS = {
    "text": (answer(message(FOUR)), Sample(text="4")),
    "parts": (answer(message(FOUR, FOUR)), Sample(text="44")),
    "a summary": (answer(SUMMARY, message(FOUR)), Sample(text="4", thought="maybe 2")),
    "the thought itself": (
        answer({"type": "reasoning",
                "content": [{"type": "reasoning_text", "text": "maybe 2"}]}, message(FOUR)),
        Sample(text="4", thought="maybe 2")),
    "a comment before": (
        answer(message({"type": "output_text", "text": "maybe 2"}, phase="commentary"),
               message(FOUR)),
        Sample(text="4", thought="maybe 2")),
    "R03": (answer(HIDDEN, **CUT), Sample(text="", finish_reason="length")),
    "cut": (answer(message(FOUR), **CUT), Sample(text="4", finish_reason="length")),
    "filtered": (answer(message(FOUR), status="incomplete", reason="content_filter"),
                 Sample(text="4", finish_reason="filtered")),
    "ended in thought": (answer(HIDDEN), Sample(text="", finish_reason="length")),
}
# fmt: on


@pytest.mark.parametrize(("payload", "sample"), ANSWERS.values(), ids=ANSWERS)
def test_what_answers_mean(payload: dict[str, Any], sample: Sample) -> None:
    response = responses_format.read_response(payload, ASK, (1.0, 2.0))
    assert response.samples == (sample,)
    assert response.usage.cost == pytest.approx((90 + 2 * 16) / 1e6)


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (answer(message({"type": "refusal", "refusal": "I cannot."})), errors.ContentRefused),
        (answer(status="incomplete", reason="content_filter"), errors.ContentRefused),
        (answer(), errors.MalformedResponse),
        *(
            (answer(message(FOUR), status=status), errors.MalformedResponse)
            for status in ("queued", "in_progress", "cancelled", "incomplete")
        ),
        (answer(4), errors.MalformedResponse),
        (answer(message(4)), errors.MalformedResponse),
        (answer() | {"output": None}, errors.MalformedResponse),
        (answer() | {"error": {"code": "server_error", "message": "x"}}, errors.MalformedResponse),
        ([], errors.MalformedResponse),
        (None, errors.MalformedResponse),
    ],
)
def test_what_is_not_an_answer_is_an_error(payload: Any, error: type[errors.ModelError]) -> None:
    """With what it cost."""
    with pytest.raises(error) as caught:
        responses_format.read_response(payload, ASK, None)
    assert caught.value.usage is not None
    assert caught.value.usage.calls == 1


def test_log_probabilities_are_asked_for_and_may_be_missing() -> None:
    request = ASK.model_copy(update={"logprobs": 1})
    token = {"token": "4", "logprob": -0.5, "top_logprobs": [{"token": "4", "logprob": -0.5}]}
    payload = answer(HIDDEN, message(FOUR | {"logprobs": [token]}))
    (sample,) = responses_format.read_response(payload, request, None).samples
    assert [(t.token, t.logprob) for t in sample.logprobs or ()] == [("4", -0.5)]
    with pytest.raises(errors.CapabilityError, match="n=20"):
        responses_format.read_response(answer(message(FOUR)), request, None)


# --- over the network ---------------------------------------------------------------------------


@pytest_asyncio.fixture
async def front(mock_server: Any) -> AsyncIterator[str]:
    """The address of a server that has no other API."""
    server = await mock_server(reply=lambda body, draw: f"Rating: {1 + draw}")
    async with serve_responses(thought="hm") as address:
        yield f"{address}/{urlsplit(server.url).port}/v1"


async def test_a_model_by_its_name(front: str, tmp_path: Any) -> None:
    """Samples are asked for one by one, and a seed that a method wants is left out."""
    async with connect("responses/judge", api_base=front, cache=tmp_path) as model:
        assert model.identity["api"] == "responses"
        request = ASK.model_copy(update={"n": 3, "temperature": 1.0, "seed": 7})
        response = await model.generate(request)
        again = await model.generate(request)
    assert len(response.samples) == 3
    assert {sample.thought for sample in response.samples} == {"hm"}
    assert response.usage.calls == 3
    assert response.usage.reasoning_tokens == 6
    assert (again.samples, again.usage.calls) == (response.samples, 0)


async def test_a_server_may_say_that_it_has_no_other_api(front: str, tmp_path: Any) -> None:
    """The client asks again in the same call, and in that way from then on."""
    async with connect("direct/judge", api_base=front, attempts=1, cache=tmp_path) as model:
        for draw in (0, 1):
            response = await model.generate(ASK.model_copy(update={"draw": draw}))
            assert response.samples[0].thought == "hm"
            assert response.usage.calls == 1
        assert not model.failures


async def test_plain_prompts_and_given_texts_have_no_other_api(front: str) -> None:
    switched = DirectModel("direct/judge", api_base=front)
    with pytest.raises(errors.RequestRefused, match="v1/responses"):
        await switched.generate(Request(prompt="Rate it."))
    await switched.generate(ASK)
    model = open_backend("responses/judge", Settings(api_base=front))
    for asked in (switched, model):
        with pytest.raises(errors.CapabilityError, match="takes chats only"):
            await asked.generate(Request(prompt="Rate it."))
        with pytest.raises(errors.CapabilityError, match="not a chat"):
            await asked.continuation(ContinuationRequest(prompt="a", continuation=" b"))
        await asked.aclose()


def test_a_name_needs_an_address() -> None:
    with pytest.raises(errors.ConfigurationError, match="api_base"):
        open_backend("responses/judge", Settings())

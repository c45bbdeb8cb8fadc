"""Decision models on the wire: both forms, providers' manners, and every way to answer wrongly."""

from __future__ import annotations

import math
import re
import ssl
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from tests.decision_server import Decisions, serve_decisions, shares_of
from tests.loopback import listening, make_certificate, tunneling
from textassay.runtime import errors
from textassay.runtime.backends.by_name import decides
from textassay.runtime.backends.decisions import (
    DecisionModel,
    family_of,
    key_variables,
    known_price,
    request_fields,
)
from textassay.runtime.backends.endpoint import Endpoint
from textassay.runtime.backends.litellm import LiteLLMModel, load_litellm
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.model import ChatMessage, Request
from textassay.runtime.questions import DecisionRequest, DecisionResponse, NamedText, Question
from textassay.testing import MODEL_CHECKS, typed_questions_get_probabilities

FINE = Question.yes_no("Is it fine?")
LABELS = Question.choice("Which?", {"a": "the first", "b": "", "c": "the last"})
LEVELS = Question.rating("How clear?", {"1": "not at all", "2": "in parts", "3": "clear"})
ASKED = DecisionRequest(
    texts=(NamedText(name="summary", text="It rained."),), questions=(FINE, LABELS, LEVELS)
)
NAMES = {"openai": "decisions/judge", "systemone": "systemone/judge"}
Json = dict[str, Any]


async def answers_of(
    server: Decisions, form: str, request: DecisionRequest = ASKED
) -> DecisionResponse:
    async with serve_decisions(server) as address:
        model = DecisionModel(NAMES[form], api_base=address)
        try:
            return await model.decide(request)
        finally:
            await model.aclose()


@pytest.mark.parametrize("form", NAMES)
async def test_probabilities_arrive_as_they_were_sent(form):
    server = Decisions()
    response = await answers_of(server, form)
    body = server.requests[0]
    material = body["input"] if form == "openai" else body["state"]
    for question, answer in zip(ASKED.questions, response.answers, strict=True):
        options = [*question.names] if question.kind != "rating" else ["0", "1", "2"]
        expected = shares_of(f"{material}()", {"instructions": question.text}, options)
        assert answer.outcome == "scored"
        assert list(answer.probabilities.values()) == pytest.approx(expected, abs=1e-15)
        if question.kind == "rating":
            assert answer.score == pytest.approx(expected[1] + 2 * expected[2])
    assert response.usage.calls == 1
    assert response.usage.prompt_tokens > 0
    assert response.way.facts == "how:decision|joint"  # nothing is promised of this server


def test_a_request_holds_only_what_both_forms_know():
    two = ASKED.model_copy(
        update={
            "texts": (NamedText(name="article", text='A "b".'), *ASKED.texts),
            "questions": (
                Question.yes_no("Is it fine?", yes="no fault", no="a fault"),
                LABELS,
                LEVELS,
            ),
        }
    )
    assert request_fields(two, "openai") == {
        "input": '{"article": "A \\"b\\".", "summary": "It rained."}',
        "questions": [
            {"name": "q1", "type": "predicate",
             "instructions": "Is it fine?\nYes: no fault\nNo: a fault"},
            {"name": "q2", "type": "choice", "instructions": "Which?",
             "choices": [{"value": "a", "description": "the first"}, {"value": "b"},
                         {"value": "c", "description": "the last"}]},
            {"name": "q3", "type": "score", "instructions": "How clear?",
             "levels": [{"label": "1", "description": "not at all"},
                        {"label": "2", "description": "in parts"},
                        {"label": "3", "description": "clear"}]},
        ],
    }  # fmt: skip
    assert request_fields(two, "systemone") == {
        "state": {"article": 'A "b".', "summary": "It rained."},
        "questions": {
            "q1": {"type": "noul", "instructions": "Is it fine?",
                   "criteria": {"true": "no fault", "false": "a fault"}},
            "q2": {"type": "choice", "instructions": "Which?",
                   "criteria": {"a": "the first", "b": None, "c": "the last"}},
            "q3": {"type": "score", "instructions": "How clear?",
                   "criteria": ["not at all", "in parts", "clear"]},
        },
    }  # fmt: skip
    assert request_fields(ASKED, "openai")["input"] == "It rained."
    assert request_fields(ASKED, "systemone")["state"] == "It rained."


def _first(payload: Json) -> Json:
    answers = payload["answers"]
    first: Json = answers[0] if isinstance(answers, list) else answers["q1"]
    return first


def _set_first(value: Any) -> Callable[[Json], None]:
    def spoil(payload: Json) -> None:
        first = _first(payload)
        first["probability" if "probability" in first else "noul"] = value

    return spoil


def _drop_first(payload: Json) -> None:
    if isinstance(payload["answers"], list):
        payload["answers"] = [None, *payload["answers"][1:]]
    else:
        del payload["answers"]["q1"]


def _rename_first(payload: Json) -> None:
    if isinstance(payload["answers"], list):
        payload["answers"][0]["name"] = "q1_"
    else:
        payload["answers"]["q1_"] = payload["answers"].pop("q1")


def _third_side(payload: Json) -> None:
    _first(payload)["probabilities"] = {"yes": 0.3, "no": 0.5, "unknown": 0.2}


def _other_kind(payload: Json) -> None:
    other = (
        payload["answers"][1] if isinstance(payload["answers"], list) else payload["answers"]["q2"]
    )
    _first(payload).update({k: v for k, v in other.items() if k != "name"})


@pytest.mark.parametrize("form", NAMES)
@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (_set_first(math.nan), "MalformedProbabilities"),
        (_set_first("0.5"), "MalformedProbabilities"),
        (_set_first(None), "MalformedProbabilities"),
        (_set_first(1.2), "MalformedProbabilities"),
        (_drop_first, "MissingAnswer"),
        (_rename_first, ("OtherAnswer", "MissingAnswer")),
        (_other_kind, "MalformedProbabilities"),
        (_third_side, "MalformedProbabilities"),
    ],
    ids=["nan", "text", "null", "above 1", "missing", "renamed", "another kind", "unknown"],
)
async def test_a_wrong_answer_is_not_a_number_and_leaves_the_others(form, spoil, problem):
    response = await answers_of(Decisions(spoil=spoil), form)
    first, *others = response.answers
    assert first.outcome == "invalid"
    assert first.problem is not None
    assert first.problem.type in problem
    assert not first.probabilities
    assert [answer.outcome for answer in others] == ["scored", "scored"]


async def test_reordered_answers_are_matched_by_their_names():
    """Positions count in one form, where two answers of a kind could stand for each other."""

    def reverse(payload: Json) -> None:
        answers = payload["answers"]
        payload["answers"] = (
            answers[::-1] if isinstance(answers, list) else dict(reversed(answers.items()))
        )

    plain = await answers_of(Decisions(), "systemone")
    assert (await answers_of(Decisions(spoil=reverse), "systemone")).answers == plain.answers
    listed = await answers_of(Decisions(spoil=reverse), "openai")
    assert [answer.outcome for answer in listed.answers] == ["invalid", "scored", "invalid"]


async def test_unrequested_answers_are_noted():
    def add(payload: Json) -> None:
        answers, extra = payload["answers"], {"type": "predicate", "probability": 0.5, "noul": 0.5}
        if isinstance(answers, list):
            answers.append({**extra, "name": "q9"})
        else:
            answers["q9"] = extra

    for form in NAMES:
        first = (await answers_of(Decisions(spoil=add), form)).answers[0]
        assert first.outcome == "scored"
        assert "not asked" in first.notes[-1]["text"]


async def test_a_refused_question_abstains():
    server = Decisions(refuse=frozenset({"Which?"}))
    outcomes = [a.outcome for a in (await answers_of(server, "openai")).answers]
    assert outcomes == ["scored", "abstained", "scored"]
    # that form has no refusals: a provider leaves out what it does not answer
    outcomes = [a.outcome for a in (await answers_of(server, "systemone")).answers]
    assert outcomes == ["scored", "invalid", "scored"]


@pytest.mark.parametrize("place", range(3))
async def test_a_refusal_without_a_name_abstains_as_well(place):
    def refuse(payload: Json) -> None:
        payload["answers"][place] = {"type": "refusal"}

    answers = (await answers_of(Decisions(spoil=refuse), "openai")).answers
    expected = ["scored"] * 3
    expected[place] = "abstained"
    assert [answer.outcome for answer in answers] == expected


@pytest.mark.parametrize(
    "sides",
    [
        {"yes": 0.3, "no": 0.7},
        {"true": 0.3, "False": 0.7},
        {"yes": 0.3, "no": 0.7, "unknown": 0.0},
    ],
    ids=str,
)
async def test_the_two_sides_of_yes_and_no_may_be_sent_as_well(sides):
    def add(payload: Json) -> None:
        _first(payload)["probabilities"] = sides

    answers = (await answers_of(Decisions(spoil=add), "systemone")).answers
    assert [answer.outcome for answer in answers] == ["scored"] * 3


@pytest.mark.parametrize("form", NAMES)
@pytest.mark.parametrize("body", [b"", b"<html>504</html>", b'{"answers": ', b'{"model": "m"}'])
async def test_a_body_without_answers_is_an_error(form, body):
    with pytest.raises(errors.MalformedResponse):
        await answers_of(Decisions(spoil=lambda _: body), form)


async def test_an_answer_without_usage_counts_with_an_unknown_cost():
    response = await answers_of(Decisions(spoil=lambda p: p.pop("usage") and None), "openai")
    assert response.answers[0].outcome == "scored"
    assert response.usage.cost is None


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"detail": {"error_type": "max_tokens_exceeded"}}, errors.ContextTooLong),
        (413, {}, errors.ContextTooLong),
        (403, {"detail": {"error_type": "authentication_error", "message": "no key"}},
         errors.AuthenticationFailed),
        (401, {"detail": {"error_type": "authentication_error", "message": "bad key"}},
         errors.AuthenticationFailed),
        (422, {"detail": [{"loc": ["body", "questions"], "msg": "Field required",
                           "type": "missing"}]}, errors.RequestRefused),
        (429, {"error": {"message": "slow down"}}, errors.RateLimited),
        (529, {"detail": {"error_type": "overloaded_error", "message": "x"}},
         errors.ServerFailed),
        (200, {"error": {"code": 503, "message": "loading"}}, errors.ServerFailed),
        (200, {"error": {"code": "loading", "message": "x"}}, errors.ServerFailed),
        (200, {"error": {"code": "bad_request", "message": "x"}}, errors.RequestRefused),
    ],
)  # fmt: skip
async def test_refusals_of_providers_have_the_class_that_says_what_to_do(status, body, kind):
    async def answer(_: web.Request) -> web.Response:
        return web.json_response(body, status=status, headers={"Retry-After": "2"})

    async with listening(answer) as address:
        model = DecisionModel("systemone/jev-latest", api_base=f"{address}/v1")
        with pytest.raises(errors.ModelError) as caught:
            await model.decide(ASKED)
        await model.aclose()
    assert type(caught.value) is kind
    wait = None if status == 200 else 2
    assert getattr(caught.value, "retry_after", wait) == wait


@pytest.mark.parametrize(
    ("name", "base", "path", "form"),
    [
        ("decisions/gpt-6-luna", "/v1", "/v1/decisions", "input"),
        ("systemone/jev-latest", "/v1", "/v1/systemone", "state"),
        ("decisions/pplx-decider-latest", "/v1", "/v1/decisions", "state"),
        ("systemone/lev", "/h/serving-endpoints", "/h/serving-endpoints/lev/invocations", "state"),
        ("systemone/clef", "/a/ai/run", "/a/ai/run/clef", "state"),
        ("decisions/typesafe/jev-1.13", "/api/alpha", "/api/alpha/decisions", "state"),
        ("decisions/gemini-decision-1", "/v1beta", "/v1beta/decisions", "input"),
    ],
)
async def test_providers_are_asked_in_their_form_at_their_path(name, base, path, form):
    seen: list[tuple[str, Json]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.path, await request.json()))
        return web.json_response({"result": {"answers": {"q1": {"type": "noul", "noul": 0.5}}}})

    async with listening(answer) as address:
        model = DecisionModel(name, api_base=address + base)
        response = await model.decide(ASKED.with_questions([FINE]))
        await model.aclose()
    assert seen[0][0] == path
    assert form in seen[0][1]
    assert response.answers[0].p_yes == 0.5


@pytest.mark.parametrize(
    ("name", "base", "variable"),
    [
        ("systemone/jev-latest", "https://api.typesafe.ai/v1", "TYPESAFE_API_KEY"),
        ("decisions/gpt-6-luna", "https://eu.api.openai.com/v1", "OPENAI_API_KEY"),
        ("systemone/m", "https://HOST.cloud.databricks.com/serving-endpoints", "DATABRICKS_TOKEN"),
        ("systemone/m", "https://x.azuredatabricks.net/serving-endpoints", "DATABRICKS_TOKEN"),
        ("systemone/decision", "https://api.parallel.ai/v1", "PARALLEL_API_KEY"),
        ("systemone/jev-latest", "https://gateway.example/typesafe/v1", ""),
        ("systemone/jev-latest", "https://typesafe.ai.example/v1", ""),
        ("systemone/jev-latest", "https://nottypesafe.ai/v1", ""),
        ("systemone/jev-latest", "https://example/?to=api.typesafe.ai", ""),
        ("decisions/gpt-6-luna", "https://example/api.openai.com/v1", ""),
        ("decisions/gpt-6-luna", "https://api.openai.com@example/v1", ""),
        ("systemone/m", "https://example/serving-endpoints", ""),
        ("systemone/clef", "https://example/ai/run", ""),
        ("systemone/m", "https://example/api/alpha", ""),
    ],
)  # fmt: skip
def test_a_provider_s_key_belongs_to_its_own_hosts(name, base, variable):
    model = name.partition("/")[2]
    assert key_variables(family_of(base, model), base)[:1] == ((variable,) if variable else ())


async def test_a_path_with_a_provider_s_name_gets_no_key(monkeypatch):
    for variable in ("TYPESAFE_API_KEY", "OPENAI_API_KEY", "PARALLEL_API_KEY", "DATABRICKS_TOKEN"):
        monkeypatch.setenv(variable, "a-key")
    server = Decisions()
    async with serve_decisions(server) as address:
        for name, path in (
            ("decisions/gpt-6-luna", "/v1"),
            ("systemone/jev-latest", "/typesafe/v1"),
            ("decisions/decision", "/parallel/v1"),
            ("systemone/m", "/serving-endpoints"),
        ):
            model = DecisionModel(name, api_base=address.replace("/v1", path))
            await model.decide(ASKED)
            await model.aclose()
    assert len(server.headers) == 4
    assert not any("a-key" in str(headers) for headers in server.headers)


async def test_a_given_key_has_the_header_of_the_provider():
    server = Decisions()
    async with serve_decisions(server) as address:
        base = address.replace("/v1", "/parallel/v1")
        model = DecisionModel("decisions/decision", api_base=base, api_key="a-key")
        await model.decide(ASKED)
        await model.aclose()
    assert server.headers[0]["x-api-key"] == "a-key"
    assert "Authorization" not in server.headers[0]


def test_prices_of_hosted_models_are_litellms():
    jev = family_of("https://api.typesafe.ai/v1", "jev-latest")
    assert known_price(jev, "jev-latest") == (0.042, 0.0, 0.042)
    openai = family_of("https://api.openai.com/v1", "gpt-6-luna")
    assert known_price(openai, "gpt-6-luna") == (0.1, 0.0, 0.1)
    assert known_price(family_of("http://127.0.0.1:8000/v1", "nimble"), "nimble") is None
    databricks = family_of("https://h/serving-endpoints", "databricks-openjev-qwen35-4b")
    assert known_price(databricks, "databricks-openjev-qwen35-4b") is None


async def test_a_decision_model_writes_nothing():
    model = DecisionModel("systemone/jev-latest", api_base="http://127.0.0.1:9/v1")
    with pytest.raises(errors.CapabilityError, match="writes no text"):
        await model.generate(Request(messages=(ChatMessage(role="user", content="Hi"),)))


@pytest.mark.parametrize(
    ("name", "writes"),
    [
        ("openai/gpt-6-luna", True),
        ("typesafe/jev-latest", False),
        ("perplexity/pplx-decider-v9", False),
        ("typesafe/lynx-1", False),
        ("strands_decider/a-deployment", False),
        ("openrouter/typesafe/jev-1.13", False),
        ("openrouter/cloudflare/clef", False),
        ("hosted_vllm/bespokelabs/Bespoke-Nimble-9B", False),
        ("databricks/databricks-typesafeai-jev-1-14-0", False),
    ],
)
def test_a_model_of_litellms_table_that_chats_too_is_not_a_decision_model(name, writes):
    """By its mode, which is `evaluation` of decision models; or by its name if it is not there."""
    load_litellm()
    able = LiteLLMModel(name).capabilities
    assert (able.decide, able.writes, able.only_decides) == (True, writes, not writes)
    assert decides(name) == (not writes)


@pytest.mark.parametrize(
    "name",
    ["perplexity/sonar-ultra-9", "openrouter/openai/gpt-7", "hosted_vllm/judge", "openai/gpt-9",
     "databricks/my-endpoint", "cloudflare/@cf/meta/llama-9", "anthropic/claude-9"],
)  # fmt: skip
def test_a_chat_model_that_litellms_table_lacks_is_no_decision_model(name):
    """Even at a provider that answers typed questions with other models."""
    load_litellm()
    assert not LiteLLMModel(name).capabilities.decide
    assert not decides(name)


def test_only_the_maker_of_a_model_promises_that_its_questions_are_independent():
    load_litellm()
    able = [
        LiteLLMModel(name).capabilities.independent_questions
        for name in ("typesafe/jev-latest", "openrouter/typesafe/jev-1.13")
    ]
    assert able == [True, False]


@pytest.mark.parametrize(
    ("name", "address", "reason"),
    [
        ("strands_decider/a-decider", None, "needs the server's address: api_base="),
        ("databricks/databricks-openjev-qwen35-4b", None, "needs the server's address"),
        ("fireworks_ai/accounts/fireworks/routers/rune", None, "use systemone/accounts"),
    ],
)  # fmt: skip
async def test_a_decision_model_that_cannot_be_asked_says_why(name, address, reason, monkeypatch):
    for variable in ("STRANDS_DECIDER_API_BASE", "DATABRICKS_API_BASE"):
        monkeypatch.delenv(variable, raising=False)
    model = LiteLLMModel(name, api_base=address)
    with pytest.raises(errors.ConfigurationError, match=reason):
        await model.decide(ASKED)
    await model.aclose()


LITELLM_NAMES = {
    "openai/gpt-6-luna": "", "typesafe/jev-latest": "", "perplexity/pplx-decider-latest": "",
    "hosted_vllm/judge": "", "databricks/judge": "/serving-endpoints", "cloudflare/clef": "/ai/run",
    "openrouter/typesafe/jev-1.13": "/api", "azure_ai/Microsoft-Decision-1": "",
    "strands_decider/strands-decider-2B": "",
}  # fmt: skip
"""Names of each provider, the first in OpenAI's form, with the path of their addresses."""


async def ask_twice(
    name: str, server: Decisions, request: DecisionRequest = ASKED
) -> tuple[DecisionResponse, list[Json | None], list[tuple[str, str | None]]]:
    """Ask ourselves and by litellm's own function.

    Returns our answers, litellm's to the same questions, and the path and key of both requests.
    """
    form = "openai" if name.startswith("openai/") else "systemone"
    sent: list[tuple[str, str | None]] = []

    async def answer(asked: web.Request) -> web.StreamResponse:
        sent.append((asked.path, asked.headers.get("Authorization")))
        return await server.answer(asked)

    litellm = load_litellm()
    function = litellm.adecisions if form == "openai" else litellm.asystemone
    async with listening(answer) as address:
        place = {"api_base": f"{address}{LITELLM_NAMES[name]}", "api_key": "a-key"}
        model = LiteLLMModel(name, **place)
        ours = await model.decide(request)
        theirs = await function(model=name, **place, **request_fields(request, form))
        await model.aclose()
    answers = theirs.model_dump()["answers"]
    if isinstance(answers, dict):
        answers = [answers.get(f"q{place}") for place in range(1, len(request.questions) + 1)]
    return ours, answers, sent


def numbers_of(answer: Json | None) -> list[float] | None:
    """Return the probabilities of an answer in either form; `None` without one."""
    shares = (answer or {}).get("probabilities")
    if shares is None:
        yes = [p for key in ("probability", "noul") if (p := (answer or {}).get(key)) is not None]
        return yes or None
    return [*shares.values()] if isinstance(shares, dict) else [s["probability"] for s in shares]


@pytest.mark.parametrize("name", LITELLM_NAMES)
async def test_litellm_s_own_functions_ask_and_answer_the_same(name):
    server = Decisions()
    ours, theirs, sent = await ask_twice(name, server)
    assert server.requests[0] == server.requests[1]
    assert sent == [(sent[0][0], "Bearer a-key")] * 2
    shares = [[*answer.probabilities.values()] for answer in ours.answers]
    assert [shares[0][:1], *shares[1:]] == [numbers_of(answer) for answer in theirs]
    assert ours.answers[2].score == theirs[2]["score"]
    assert ours.usage.cost is not None or not name.startswith(("openai/", "typesafe/"))


def _improbable_level(change: Callable[[Any], None]) -> Callable[[Json], None]:
    """Change the highest level, whose probability is so low that the sum does not show it."""

    def spoil(payload: Json) -> None:
        answers = payload["answers"]
        rating = answers[-1] if isinstance(answers, list) else answers["q3"]
        shares, rating["score"] = rating["probabilities"], 0.0
        for place, p in enumerate((1.0, 0.0, 0.0)):
            if isinstance(shares, list):
                shares[place]["probability"] = p
            else:
                shares[str(place)] = p
        change(shares)

    return spoil


def _drop_last(some: Any) -> None:
    some.pop() if isinstance(some, list) else some.popitem()


def _write_last_level(shares: Any) -> None:
    if isinstance(shares, list):
        shares[-1]["probability"] = "0.0"
    else:
        shares["2"] = "0.0"


@pytest.mark.parametrize(
    ("spoil", "place", "reason", "theirs"),
    [
        (_improbable_level(_drop_last), 2, "not of the options asked", [1.0, 0.0, 0.0]),
        (_improbable_level(_write_last_level), 2, "'0.0' was sent", [1.0, 0.0, 0.0]),
        (_set_first(math.nan), 0, "nan", [math.nan]),
        (_set_first(1.2), 0, "1.2", [1.2]),
        (lambda payload: _drop_last(payload["answers"]), 2, "the server sent no answer", None),
    ],
    ids=["level dropped", "text", "nan", "above 1", "answer dropped"],
)
@pytest.mark.parametrize("name", ["openai/gpt-6-luna", "typesafe/jev-latest"])
async def test_what_litellm_s_own_functions_pass_on_is_invalid_with_a_reason(
    name, spoil, place, reason, theirs
):
    ours, answers, _ = await ask_twice(name, Decisions(spoil=spoil))
    assert ours.answers[place].outcome == "invalid"
    assert reason in ours.answers[place].problem.message
    assert numbers_of(answers[place]) == pytest.approx(theirs, nan_ok=True)


async def test_litellm_s_own_function_swaps_reordered_answers():
    three = ASKED.with_questions([Question.yes_no(f"Is it fine {place}?") for place in range(3)])
    right, _, _ = await ask_twice("openai/gpt-6-luna", Decisions(), three)
    spoilt = Decisions(spoil=lambda payload: payload["answers"].reverse())
    ours, theirs, _ = await ask_twice("openai/gpt-6-luna", spoilt, three)
    assert [answer.outcome for answer in ours.answers] == ["invalid", "scored", "invalid"]
    assert "names the question 'q3', not q1" in ours.answers[0].problem.message
    swapped = [[answer.p_yes] for answer in reversed(right.answers)]
    assert [numbers_of(answer) for answer in theirs] == swapped


ARN = "arn:aws:bedrock-agentcore:us-east-1:123456789012:runtime/a_decider"
AWS_HOST = "bedrock-agentcore.us-east-1.amazonaws.com"


def is_signed(request: web.Request, body: bytes) -> bool:
    """Whether AWS's library signs a request in the same way with the right secret."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    *_, names, signature = re.split("SignedHeaders=|, Signature=", request.headers["Authorization"])
    headers = {name: request.headers[name] for name in names.split(";")}
    again = AWSRequest("POST", f"https://{AWS_HOST}{request.raw_path}", headers, body)
    again.context["timestamp"] = headers["x-amz-date"]
    signer = SigV4Auth(Credentials("an-id", "a-secret"), "bedrock-agentcore", "us-east-1")
    text = signer.string_to_sign(again, signer.canonical_request(again))
    return signature == signer.signature(text, again)


@pytest.mark.parametrize(
    ("environment", "fails"),
    [
        ({"AWS_ACCESS_KEY_ID": "an-id", "AWS_SECRET_ACCESS_KEY": "a-secret"}, ""),
        ({"AWS_ACCESS_KEY_ID": "an-id", "AWS_SECRET_ACCESS_KEY": "another"},
         "signed with credentials of AWS"),
        ({}, "no signature of AWS: “Unable to locate credentials”"),
        ({"STRANDS_DECIDER_API_KEY": "a-token"}, ""),
    ],
    ids=["credentials", "wrong secret", "nothing", "token"],
)  # fmt: skip
async def test_requests_to_aws_are_signed(environment, fails, monkeypatch, tmp_path):
    for variable in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE_NAME"):
        monkeypatch.delenv(f"AWS_{variable}", raising=False)
    for variable in ("CONFIG_FILE", "SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(f"AWS_{variable}", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    server = Decisions()

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.headers["X-Amzn-Bedrock-AgentCore-Runtime-Session-Id"]
        is_accepted = request.headers["Authorization"] == "Bearer a-token"
        if is_accepted or is_signed(request, await request.read()):
            return await server.answer(request)
        return web.json_response({"message": "The signature does not match."}, status=403)

    certificate = make_certificate(tmp_path, AWS_HOST)
    async with tunneling(answer, certificate) as proxy:
        endpoint = Endpoint(proxy=proxy, tls=ssl.create_default_context(cafile=certificate))
        model = LiteLLMModel("strands_decider/a-decider", api_base=ARN, endpoint=endpoint)
        if fails:
            with pytest.raises(errors.AuthenticationFailed, match=fails):
                await model.decide(ASKED)
        else:
            response = await model.decide(ASKED)
            assert [answer.outcome for answer in response.answers] == ["scored"] * 3
            expected = {"model": "a-decider", **request_fields(ASKED, "systemone")}
            assert server.requests == [expected]
        await model.aclose()


@pytest.mark.parametrize("check", MODEL_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", [*NAMES.values(), "systemone/jev-latest"])
async def test_decision_models_pass_the_battery(name, check):
    async with serve_decisions(Decisions()) as address:
        await check(lambda: DecisionModel(name, api_base=address))


async def test_a_script_decides_as_models_do():
    def even(request: DecisionRequest) -> list[dict[str, float]]:
        return [dict.fromkeys(q.names, 1 / len(q.names)) for q in request.questions]

    await typed_questions_get_probabilities(lambda: ScriptedModel(decide=even))

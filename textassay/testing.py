"""Support for the tests of packages that build on textassay.

A model that answers from a script, and checks that every model must pass.

    @pytest.mark.asyncio
    @pytest.mark.parametrize("check", textassay.testing.MODEL_CHECKS)
    async def test_my_model(check):
        await check(lambda: MyModel("my/model"))

`ScriptedModel` needs no network and records its requests. Each check makes a model of its own, asks
it a few short questions and closes it; it raises `AssertionError` with the violated rule.
Every built-in backend passes the checks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.base import Usage
from textassay.runtime.calls.call import deciding
from textassay.runtime.errors import CapabilityError, ModelClosed
from textassay.runtime.model import (
    Capabilities,
    ChatMessage,
    ChoicesRequest,
    ContinuationRequest,
    Deciding,
    Model,
    Request,
    Response,
    Scoring,
    TokenLogprob,
)
from textassay.runtime.questions import (
    DecisionRequest,
    DecisionResponse,
    NamedText,
    Question,
    distribution,
)

__all__ = ["MODEL_CHECKS", "MakeModel", "ModelCheck", "ScriptedModel", "check_model"]

MakeModel = Callable[[], Model]
"""Returns a new model, ready to be asked."""


ModelCheck = Callable[[MakeModel], Awaitable[None]]

QUESTION = (ChatMessage(role="user", content="Is water wet? Answer with yes or no."),)
TEXTS = (NamedText(name="text", text="It rained all day, and the river rose."),)
QUESTIONS = (
    Question.yes_no("Did it rain?"),
    Question.choice("What rose?", {"river": "a stream", "sun": "", "price": "what things cost"}),
    Question.rating("How wet is it?", {"1": "dry", "2": "damp", "3": "wet"}),
)
PROMPT = "The colors of the rainbow are red, orange, yellow, green,"


@asynccontextmanager
async def _open_model(make: MakeModel) -> AsyncIterator[Model]:
    model = make()
    try:
        # local models are read into memory first: their identity depends on their files
        if opening := getattr(model, "open", None):
            await opening()
        yield model
    finally:
        await model.aclose()


async def _ask(model: Model, **fields: Any) -> Response:
    """Ask as a chat, or by a plain prompt if the model takes no chats."""
    # few tokens: the battery also runs against local models and paid servers
    fields = {"max_tokens": 8, **fields}
    try:
        return await model.generate(Request(messages=QUESTION, **fields))
    except CapabilityError:
        return await model.generate(Request(prompt=PROMPT, **fields))


async def _get_answer(model: Model) -> Response | DecisionResponse:
    """Ask a decision model a typed question, any other for a text."""
    if not model.capabilities.only_decides:
        return await _ask(model)
    return await deciding(model).decide(DecisionRequest(texts=TEXTS, questions=QUESTIONS))


async def _is_mute(model: Model) -> bool:
    """Return whether a model answers typed questions and writes no text."""
    if not model.capabilities.only_decides:
        return False
    try:
        await _ask(model)
    except CapabilityError:
        return True
    return False


async def has_the_protocol(make: MakeModel) -> None:
    """A model has all parts of `Model`, and its name is the one that people type."""
    async with _open_model(make) as model:
        assert isinstance(model, Model), "it is missing a part of textassay's Model protocol"
        assert model.name, "name must be a non-empty string"
        assert isinstance(model.capabilities, Capabilities), "capabilities must be Capabilities"


async def identity_is_json_and_stays(make: MakeModel) -> None:
    """The identity names stored answers: equal for equal models, before and after asking."""
    async with _open_model(make) as model, _open_model(make) as other:
        before = json.dumps(model.identity, sort_keys=True, allow_nan=False)
        same = json.dumps(other.identity, sort_keys=True, allow_nan=False)
        assert same == before, "two equal models must have one identity"
        await _get_answer(model)
        after = json.dumps(model.identity, sort_keys=True, allow_nan=False)
        assert after == before, "the identity must not change while the model is used"


async def an_answer_has_text_and_usage(make: MakeModel) -> None:
    """One sample was asked for, so one comes, and it counts as a call."""
    async with _open_model(make) as model:
        if await _is_mute(model):
            return
        response = await _ask(model)
    assert isinstance(response, Response), "generate must return a Response"
    assert len(response.samples) == 1, "one sample was asked for"
    assert isinstance(response.usage, Usage), "usage must be a Usage"
    assert response.usage.calls == 1, "an answered request counts as one call"


async def never_more_samples_than_asked_for(make: MakeModel) -> None:
    """A model that supports several samples gives as many as asked for, any other at least one."""
    async with _open_model(make) as model:
        if await _is_mute(model):
            return
        count = len((await _ask(model, n=3, temperature=1.0)).samples)
        several = model.capabilities.n
    assert 1 <= count <= 3, f"3 samples were asked for, {count} came"
    assert not several or count == 3, f"capabilities.n is set, but {count} of 3 samples came"


async def equal_seeds_give_equal_answers(make: MakeModel) -> None:
    """Equal seeds give equal answers if `capabilities.seed` says so; the draw is added to it."""
    async with _open_model(make) as model:
        if not model.capabilities.seed:
            return
        texts = [
            (await _ask(model, temperature=1.0, seed=seed, draw=draw)).samples[0].text
            for seed, draw in ((7, 0), (7, 0), (5, 2))
        ]
    assert texts[0] == texts[1], "capabilities.seed is set, but equal seeds gave different answers"
    assert texts[0] == texts[2], "a request with draw d is sampled with the seed plus d"


async def log_probabilities_come_or_are_refused(make: MakeModel) -> None:
    """A model sends log-probabilities or raises `CapabilityError`, and never leaves them out."""
    async with _open_model(make) as model:
        able = model.capabilities.logprobs
        try:
            response = await _ask(model, logprobs=3)
        except CapabilityError:
            assert not able, "capabilities.logprobs is set, but they were refused"
            return
    for sample in response.samples:
        logprobs = sample.logprobs
        # a silent gap would turn an expected rating into a guess; a model that does not say
        # whether it can may leave them out
        assert logprobs is not None or able is not True, "log-probabilities were left out silently"
        _check_log_probabilities(logprobs or ())


async def choices_are_probabilities(make: MakeModel) -> None:
    """Every label has a log-probability or `None`, and the probabilities add up to at most 1."""
    labels = {"yes": ("yes", "Yes"), "no": ("no", "No")}
    async with _open_model(make) as model:
        if not model.capabilities.choices:
            return
        assert isinstance(model, Scoring), "capabilities.choices is set, but there is no choices()"
        try:
            response = await model.choices(ChoicesRequest(messages=QUESTION, choices=labels))
        except CapabilityError:
            response = await model.choices(ChoicesRequest(prompt=PROMPT, choices=labels))
    assert set(response.logprobs) == set(labels), "one entry for each label"
    logprobs = [logprob for logprob in response.logprobs.values() if logprob is not None]
    assert all(logprob <= 1e-6 for logprob in logprobs), "a log-probability is above 0"
    assert response.mass <= 1 + 1e-6, "the choices together are more than certain"


async def a_continuation_is_scored_token_by_token(make: MakeModel) -> None:
    """The tokens are exactly the tokens of the given text."""
    text = " blue, indigo and violet."
    async with _open_model(make) as model:
        if not model.capabilities.continuation:
            return
        assert isinstance(model, Scoring), (
            "capabilities.continuation is set, without continuation()"
        )
        response = await model.continuation(ContinuationRequest(prompt=PROMPT, continuation=text))
    assert "".join(token.token for token in response.tokens) == text, "tokens must spell the text"
    _check_log_probabilities(response.tokens)


def _check_log_probabilities(tokens: tuple[TokenLogprob, ...]) -> None:
    assert all(token.logprob <= 1e-6 for token in tokens), "a log-probability is above 0"


async def typed_questions_get_probabilities(make: MakeModel) -> None:
    """Each question has one answer, in order, with a probability for every option."""
    async with _open_model(make) as model:
        if not model.capabilities.decide:
            return
        assert isinstance(model, Deciding), "capabilities.decide is set, but there is no decide()"
        response = await model.decide(DecisionRequest(texts=TEXTS, questions=QUESTIONS))
        single = await model.decide(DecisionRequest(texts=TEXTS, questions=QUESTIONS[-1:]))
        independent = model.capabilities.independent_questions
    assert isinstance(response, DecisionResponse), "decide must return a DecisionResponse"
    assert response.way.how == "decision", "a decision model's answers must have how='decision'"
    assert response.way.joint is not independent, "the way must say what capabilities promise"
    assert response.usage.calls == 1, "a request is one call, however many questions it has"
    assert len(response.answers) == len(QUESTIONS), "one answer for each question"
    for question, answer in zip(QUESTIONS, response.answers, strict=True):
        if answer.problem is not None:
            assert not answer.probabilities, "answers that are not scored have no probabilities"
            continue
        assert tuple(answer.probabilities) == question.names, "options as they were asked, in order"
        assert (answer.score is not None) == (question.kind == "rating"), "ratings have a score"
        checked = distribution(question, answer.probabilities)
        assert checked.problem is None, f"{question.text}: {checked.problem}"
    assert len(single.answers) == 1, "one answer for one question"


async def many_requests_at_once_get_their_own_answers(make: MakeModel) -> None:
    """Requests in flight together do not disturb each other."""
    async with _open_model(make) as model:
        name = "draw" if model.capabilities.seed is False else "seed"
        responses = await asyncio.gather(
            *(
                _get_answer(model) if model.capabilities.only_decides else _ask(model, **{name: i})
                for i in range(20)
            )
        )
    assert all(response.usage.calls == 1 for response in responses), "each answer is one call"


async def cancelling_leaves_it_usable(make: MakeModel) -> None:
    """A request that is cancelled ends at once, and the next one is answered."""
    async with _open_model(make) as model:
        task = asyncio.create_task(_get_answer(model))
        # one turn of the loop, so that the request has begun and is not cancelled before it starts
        await asyncio.sleep(0)
        task.cancel()
        async with asyncio.timeout(10):
            await asyncio.gather(task, return_exceptions=True)
        assert (await _get_answer(model)).usage.calls, "a model must be usable after a cancellation"


async def closed_means_closed(make: MakeModel) -> None:
    """Closing twice is safe, and a closed model says that it is closed."""
    model = make()
    await _get_answer(model)
    await model.aclose()
    await model.aclose()
    try:
        await _get_answer(model)
    except ModelClosed:
        return
    raise AssertionError("a model that was closed must raise ModelClosed when it is asked")


MODEL_CHECKS: tuple[ModelCheck, ...] = (
    has_the_protocol,
    identity_is_json_and_stays,
    an_answer_has_text_and_usage,
    never_more_samples_than_asked_for,
    equal_seeds_give_equal_answers,
    log_probabilities_come_or_are_refused,
    choices_are_probabilities,
    a_continuation_is_scored_token_by_token,
    typed_questions_get_probabilities,
    many_requests_at_once_get_their_own_answers,
    cancelling_leaves_it_usable,
    closed_means_closed,
)
"""All checks, in an order that suits the development of a new model."""


async def check_model(make: MakeModel) -> None:
    """Run all of `MODEL_CHECKS` on a model.

    Raises:
        AssertionError: The model violates a rule of the protocol.
    """
    for check in MODEL_CHECKS:
        await check(make)

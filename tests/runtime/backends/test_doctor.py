"""The doctor shows a model's real abilities, and finds models whose log-probabilities do not line
up."""

from __future__ import annotations

import importlib.util
import json

import pytest

from tests.gguf_fixture import Shape, write_model
from textassay.cli.commands.doctor import DoctorFinding, examine, plain_text
from textassay.runtime.backends.local.llamacpp import LlamaCppModel
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.calls.adaptation import Adaptation, AdaptingModel
from textassay.runtime.errors import (
    AuthenticationFailed,
    CapabilityError,
    ModelNotFound,
    PathNotFound,
    RequestRefused,
    ServerFailed,
)
from textassay.runtime.model import (
    Capabilities,
    ContinuationRequest,
    Request,
    Response,
    Sample,
    TokenLogprob,
)
from textassay.runtime.questions import DecisionRequest, refused_answer

needs_llama = pytest.mark.skipif(
    importlib.util.find_spec("llama_cpp") is None, reason="llama-cpp-python is missing"
)

TWO = (
    TokenLogprob(token=" blue", logprob=-0.5, top=((" blue", -0.5), (" red", -1.5))),
    TokenLogprob(token=",", logprob=-0.1),
)


def adapted(model):
    return AdaptingModel(model, Adaptation(model))


def by_ability(findings: list[DoctorFinding]) -> dict[str, str]:
    return {finding.ability: finding.verdict for finding in findings}


def answer(request: Request) -> Sample:
    """Answers as a good server would, seeds and schemas included."""
    if request.json_schema is not None:
        return Sample(text=json.dumps({"rating": 2}))
    return Sample(
        text=" blue," if not request.temperature else f"{request.seed} {request.draw}",
        logprobs=TWO[: request.max_tokens],
    )


def scripted(continuation: object) -> AdaptingModel:
    known = Capabilities(n=True, continuation=True)
    return adapted(ScriptedModel(answer, capabilities=known, continuation=continuation))


async def test_a_sound_model_is_found_sound():
    """Every ability of a server that does what it says is found."""
    findings = await examine(scripted(lambda request: TWO))
    found = by_ability(findings)
    assert found.pop("thinks") == "no"
    assert set(found.values()) == {"yes"}
    text = plain_text("what direct/judge can do:", findings)
    assert text.count("\n") == len(findings)
    assert "what direct/judge can do:" in text


def decision_model(answers: object) -> AdaptingModel:
    return adapted(ScriptedModel(decide=answers))


def spread_evenly(request: DecisionRequest) -> list[object]:
    return [dict.fromkeys(one.names, 1 / len(one.names)) for one in request.questions]


async def test_a_decision_model_is_asked_typed_questions_alone():
    [finding] = await examine(decision_model(spread_evenly))
    assert (finding.ability, finding.verdict) == ("decide", "yes")
    assert "influence each other" in finding.detail


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("fault", [{"nobody asked": 1.0}, refused_answer("it refuses")], ids=str)
async def test_a_question_without_an_answer_is_named(place, fault):
    """Each kind is asked once, and a fault of one does not affect the others."""

    def spoiled(request: DecisionRequest) -> list[object]:
        answers = spread_evenly(request)
        answers[place] = fault
        return answers

    [finding] = await examine(decision_model(spoiled))
    assert finding.verdict == "wrong"
    assert finding.detail.startswith(("yes_no", "choice", "rating")[place] + ": ")
    assert ";" not in finding.detail


async def test_log_probabilities_that_are_one_place_off_are_found():
    """An echo that reports the neighbour's log-probabilities is wrong, not able."""
    shifted = (
        TWO[0].model_copy(update={"logprob": -7.0}),
        TWO[1].model_copy(update={"logprob": -0.5}),
    )
    assert by_ability(await examine(scripted(lambda request: shifted)))["continuation"] == "wrong"


async def test_without_sampled_log_probabilities_the_greedy_token_must_be_likeliest():
    """The second check works on servers that send log-probabilities of given text only."""

    def bare(request: Request) -> Sample:
        return Sample(text=answer(request).text)

    for likeliest, verdict in ((" blue,", "yes"), (" zebra", "wrong")):

        def tell(request: ContinuationRequest, best: str = likeliest) -> tuple[TokenLogprob, ...]:
            return (TokenLogprob(token="x", logprob=-0.5 if request.continuation == best else -9),)

        model = ScriptedModel(bare, capabilities=Capabilities(continuation=True), continuation=tell)
        found = by_ability(await examine(adapted(model)))
        assert found["continuation"] == verdict
        assert found["logprobs"] == "no"


async def test_a_missing_ability_is_named_and_a_broken_probe_is_unknown():
    """No scoring, one sample for two, prose for JSON, a server that fails once in a while."""

    def poor(request: Request) -> Response:
        if request.draw:
            raise ServerFailed("overloaded")
        return Response(samples=(Sample(text="sure!"),))

    model = ScriptedModel(poor, capabilities=Capabilities(continuation=False))
    findings = await examine(adapted(model))
    found = by_ability(findings)
    assert found["continuation"] == found["n"] == found["logprobs"] == "no"
    assert found["json_schema"] == "wrong"
    assert found["seed"] == "unknown"
    assert "llamacpp/PATH.gguf" in next(f.detail for f in findings if f.ability == "continuation")


async def test_samples_that_are_always_equal_show_nothing_of_seeds():
    found = await examine(adapted(ScriptedModel(lambda request: "sure!")))
    assert by_ability(found)["seed"] == by_ability(found)["temperature"] == "unknown"


@pytest.mark.parametrize("kind", [AuthenticationFailed, ModelNotFound, PathNotFound])
async def test_a_wrong_key_or_address_is_not_a_finding(kind):
    """What every request would meet is raised."""

    def locked(request: object) -> Response:
        raise kind("it is wrong")

    for model in (adapted(ScriptedModel(locked)), decision_model(locked)):
        with pytest.raises(kind):
            await examine(model)


async def test_a_server_without_the_address_of_plain_prompts_takes_chats_only():
    def chats(request: Request) -> Sample:
        if request.messages:
            return answer(request)
        raise PathNotFound("404")

    found = by_ability(await examine(adapted(ScriptedModel(chats))))
    assert (found["chat"], found["prompt"]) == ("yes", "no")


def chats_only(reply: object) -> AdaptingModel:
    """A model as through litellm, which takes no plain prompts."""

    def answer(request: Request) -> object:
        if request.messages:
            return reply
        raise CapabilityError("takes chats only")

    return adapted(ScriptedModel(answer))


async def test_a_wrong_key_is_not_a_finding_of_a_model_that_takes_chats_only():
    with pytest.raises(AuthenticationFailed):
        await examine(chats_only(AuthenticationFailed("the key is wrong")))


async def test_a_chat_model_is_asked_five_questions():
    """Enough for all its abilities: one of the five shows that it takes no plain prompts."""

    def reply(request: Request) -> Sample:
        if request.prompt is not None:
            raise RequestRefused("this is a chat model")
        if request.json_schema is not None:
            return answer(request)
        tokens = TWO[:1] if request.logprobs else None
        return Sample(text=f"{request.seed} {request.draw}", logprobs=tokens)

    model = ScriptedModel(reply, capabilities=Capabilities(n=True, continuation=True))
    found = by_ability(await examine(adapted(model)))
    assert len(model.requests) == 5
    assert {ability for ability, verdict in found.items() if verdict != "yes"} == {
        "thinks", "prompt", "continuation",
    }  # fmt: skip


class OneSample(ScriptedModel):
    async def generate(self, request: Request) -> Response:
        if request.n > 1:
            raise CapabilityError("one sample only")
        return await super().generate(request)


async def test_a_model_without_n_has_its_seed_tested_with_single_samples():
    """Its refusal of several samples is a finding on `n` alone."""
    model = OneSample(lambda request: f"{request.seed} {request.draw}")
    found = by_ability(await examine(adapted(model)))
    assert (found["n"], found["temperature"], found["seed"]) == ("no", "yes", "yes")


async def test_refused_parameters_are_reported():
    """Not that it takes no plain prompts, which says nothing of the chats."""
    findings = await examine(chats_only(RequestRefused("too many messages")))
    assert {f.detail for f in findings if f.ability in ("n", "seed")} == {"too many messages"}


@needs_llama
@pytest.mark.parametrize("template", [True, False])
async def test_a_local_model_can_everything(tmp_path, template):
    """The local backend passes every probe, with a chat template and without."""
    shape = (
        Shape(bos=True, dtype="f32")
        if template
        else Shape(bos=True, dtype="f32", chat_template=None)
    )
    file = write_model(tmp_path / "model.gguf", shape)
    async with LlamaCppModel(
        "llamacpp/model.gguf", file.path, n_gpu_layers=0, threads=1, n_ctx=512
    ) as model:
        found = by_ability(await examine(adapted(model)))
    found.pop("thinks", None)
    assert found.pop("chat") == ("yes" if template else "no")
    assert set(found.values()) == {"yes"}

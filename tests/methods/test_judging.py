"""G-Eval and LLMScore as a run uses them: built by name, run as graphs, on prompts that name the
right aspect."""

import math
import re
from collections import Counter
from itertools import product
from typing import Any

import pytest

import textassay
from tests.dry_answers import DryAnswers
from tests.methods.judging import judged, scores_of
from textassay.methods import METHODS, Method, build
from textassay.methods.library import tasks
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import CapabilityError, ConfigurationError, ServerFailed, UnknownName
from textassay.runtime.messages import Example, Failure, Score
from textassay.runtime.model import Capabilities, Sample, TokenLogprob
from textassay.tools import tool

EXAMPLE = Example(
    id="x",
    output="Right, the cat sat.",
    source="A: cat?\nB: A cat sat on a mat.",
    context="Cats sit.",
)
JUDGES = ("g-eval", "llm-score", "llm-score-cot")
ALIKE: dict[str, list[dict[str, Any]]] = {
    "coascore": [{}, {"n_aspects": 5}, {"variant": "no-scores"}, {"variant": "random"},
                 {"variant": "inter"}],
    "decomp-eval": [{}, {"instruction": False}, {"subquestions": False}, {"ask": "plain"},
                    {"subquestions": "parallel"}, {"question_first": True}, {"reading": "logprob"}],
    "fusion-eval": [{}, {"plan": "none"}, {"plan": "summeval"}, {"fusion": "avg"},
                    {"fusion": "llmsel"}, {"fusion": "llmsel", "plan": "summeval"},
                    {"temperature": 0.5}],
    "gptscore": [{}, {"instruction": False}, {"weights": "sum"}, {"direction": "ref-hypo"},
                 {"over_references": "max"}, {"combine": ["COH"]}, {"scored": "yes"},
                 {"pmi": True}],
    "hd-eval": [{}, {"output": "nodes"}, {"tree": "model"}, {"tree": "model", "depth": 3},
                {"tree": "model", "children": 5}],
    "llm-score": [{}, {"form": "stars"}, {"seed": 7}, {"temperature": 0.5}],
}  # fmt: skip
"""Ways to judge whose scores are not comparable, by method."""


def measured(*names):
    """Tools that find everything half good."""
    return [tool(name=n, description=n, scale=(0, 1))(lambda example: 0.5) for n in names]


NO_JSON = Capabilities(n=True, logprobs=True, json_schema=False)


def judge(request):
    if request.text.endswith("Evaluation Steps:"):
        return "1. Read it.\n2. Rate it.\n\nExample:\nSource: ..."
    top = (("1", math.log(0.75)), ("0", math.log(0.25)))
    return Sample(text="1", logprobs=(TokenLogprob(token="1", logprob=top[0][1], top=top),))


def scripted(replies=judge, **fields):
    return ScriptedModel(replies, capabilities=NO_JSON, **fields)


def rated(model):
    return [r for r in model.requests if not r.text.endswith("Evaluation Steps:")]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_one(name):
    method = build(name, scripted(), task="summarization", aspects=["fluency"])
    assert isinstance(method, Method)
    assert (method.name, method.task) == (name, "summarization")
    assert [aspect.name for aspect in method.aspects] == ["fluency"]
    assert method.signature.startswith(f"method:{name}|model:scripted|")
    assert method.describe()["options"]["prompt_layout"] == "paper"


def names_it_most(prompt, judged, aspects):
    """Whether a prompt names the judged aspect more often than any other."""
    words = prompt.replace(EXAMPLE.source, "").replace(EXAMPLE.output, "")
    named = Counter({a.name: len(re.findall(rf"\b{a.name[:-2]}", words, re.I)) for a in aspects})
    (first, most), *rest = named.most_common(2)
    return first == judged.name and (not rest or rest[0][1] < most)


@pytest.mark.parametrize("form", ["number", "letters", "stars"])
@pytest.mark.parametrize("name", [*JUDGES, "coascore", "hd-eval"])
async def test_every_task_form_and_layout_is_asked_for_so_that_dry_run_answers_can_be_read(
    name, form
):
    """A prompt names the aspect that it is about, and holds the text."""
    for task in ("summarization", "dialogue", "data-to-text", "translation", "general"):
        for layout in ("paper", "shared-prefix"):
            model = DryAnswers(capabilities=NO_JSON)
            options = {"form": form, "prompt_layout": layout, "parse_retries": 0}
            options |= {"n": 2} if name == "g-eval" else {}
            method = build(name, model, task=task, options=options)
            scores = await scores_of(method, EXAMPLE)
            assert [score.outcome for score in scores] == ["scored"] * len(method.aspects)
            assert all(request.max_tokens for request in model.requests)
            if name in JUDGES:
                prompts = [request.text for request in rated(model)]
                assert all(EXAMPLE.output in prompt for prompt in prompts)
                for prompt, judged in zip(prompts, method.aspects, strict=True):
                    assert names_it_most(prompt, judged, method.aspects), (task, layout, judged)


async def test_g_eval_writes_steps_once_an_aspect_and_puts_them_into_every_form():
    model = scripted()
    method = build("g-eval", model, task="dialogue", aspects=["groundedness", "understandability"])
    for number in range(3):
        example = EXAMPLE.model_copy(update={"id": str(number), "output": f"Text {number}"})
        scores = await scores_of(method, example)
        assert [s.aspect for s in scores] == ["groundedness", "understandability"]
        assert {(s.how, s.outcome) for s in scores} == {("logprob", "scored")}
        assert scores[0].value == pytest.approx(0.75)
    asked_for_steps = [r for r in model.requests if r.text.endswith("Evaluation Steps:")]
    assert len(asked_for_steps) == 2
    assert all(r.temperature == 0 for r in asked_for_steps)
    for request in rated(model):
        assert "Evaluation Steps:\n\n1. Read it.\n2. Rate it.\n\nExample:" in request.text


async def test_g_eval_samples_at_temperature_one_where_several_are_asked_for():
    model = scripted()
    [score] = await judged("g-eval", model, EXAMPLE, "dialogue", ["groundedness"], n=20)
    assert (score.how, score.samples, score.value) == ("sampled", 20, 1)
    [request] = rated(model)
    assert (request.n, request.temperature, request.logprobs) == (20, 1.0, None)


def test_g_eval_names_the_way_out_where_a_model_has_no_token_probabilities():
    model = ScriptedModel([], capabilities=Capabilities(logprobs=False))
    with pytest.raises(CapabilityError, match="n=20"):
        build("g-eval", model, task="summarization", options={"reading": "logprob"})
    method = build("g-eval", model, task="summarization")
    assert (method.how, "|how:auto|" in method.signature) == ("sampled", True)
    assert build("g-eval", model, task="summarization", options={"n": 20}).how == "sampled"


async def test_g_eval_takes_steps_from_the_tasks_file_where_asked_to():
    model = scripted()
    method = build(
        "g-eval", model, task="summarization", aspects=["coherence"], options={"steps": "task"}
    )
    await scores_of(method, EXAMPLE)
    assert len(model.requests) == 1
    assert "1. Read the news article carefully" in model.requests[0].text
    assert method.signature != build("g-eval", model, task="summarization").signature
    with pytest.raises(ConfigurationError, match="no steps for naturalness"):
        build("g-eval", model, task="dialogue", options={"steps": "task"})


async def test_a_step_writer_that_fails_takes_down_its_own_aspect_only():
    def one_fails(request):
        fails = request.text.endswith("Evaluation Steps:") and "Groundedness" in request.text
        return ServerFailed("down") if fails else judge(request)

    aspects = ["groundedness", "understandability"]
    model = scripted(one_fails)
    first, second = await judged("g-eval", model, EXAMPLE, "dialogue", aspects)
    assert isinstance(first, Failure)
    assert (first.node, first.type) == ("steps", "ServerFailed")
    assert isinstance(second, Score)


async def test_llm_score_with_chain_of_thought_ends_in_the_papers_words():
    model = scripted(["It flows. Final score: 4"])
    [score] = await judged("llm-score-cot", model, EXAMPLE, "summarization", ["coherence"])
    assert score.value == 4
    assert model.requests[0].text.endswith("Let's think step by step:")
    assert model.requests[0].temperature == 0


async def test_a_prompt_file_of_the_users_own(tmp_path):
    path = tmp_path / "mine.jinja"
    path.write_text(
        '{# ours #}Rate {{ aspect.name }}:\n{% include "_material.jinja" %}', encoding="utf-8"
    )
    model = scripted(["3"])
    options = {"prompt": str(path)}
    method = build("llm-score", model, task="summarization", aspects=["coherence"], options=options)
    [score] = await scores_of(method, EXAMPLE)
    assert score.value == 3
    assert model.requests[0].text.startswith("Rate coherence:\nSource Text:")
    assert method.signature != build("llm-score", model, task="summarization").signature


@pytest.mark.parametrize("name", ALIKE)
def test_signatures_distinguish_incomparable_scores(name):
    fusion = name == "fusion-eval"
    tools = measured("nli", "bleurt", "sum_bleurt") if fusion else ()
    every = {"task": "summarization", "tools": tools}
    ways = [*ALIKE[name], {"prompt_layout": "shared-prefix"}]
    signatures = [build(name, scripted(), options=way, **every).signature for way in ways]
    signatures.append(build(name, scripted(name="other"), **every).signature)
    if fusion:
        signatures.append(build(name, scripted(), task="summarization", tools=tools[:2]).signature)
    if name in ("coascore", "fusion-eval"):  # a second model has a role
        models = {"": scripted(), "decomposer": scripted(name="b"), "planner": scripted(name="b")}
        signatures.append(build(name, models, **every).signature)
    assert len(set(signatures)) == len(signatures)


@pytest.mark.parametrize("name", METHODS)
async def test_an_empty_output_abstains_and_is_never_judged(name):
    """What is written once a run, such as steps, may be."""
    model = DryAnswers(capabilities=NO_JSON, choices={}, continuation={})
    tools = measured("a") if "fusion" in name else ()
    example = Example(id="e", output="  \n", source="s", meta={"output_b": "x"})
    scores = await judged(name, model, example, "summarization", tools=tools)
    assert {(s.outcome, s.error.type) for s in scores} == {("abstained", "EmptyOutput")}
    assert not [request for request in model.requests if "<source-" in request.text]


@pytest.mark.parametrize("name", [*JUDGES, "coascore", "hd-eval", "fusion-eval"])
async def test_the_shared_prefix_lasts_to_the_end_of_the_texts(name):
    for task in ("summarization", "dialogue"):
        model = DryAnswers(capabilities=NO_JSON)
        options = {"prompt_layout": "shared-prefix", **({"n": 2} if name == "g-eval" else {})}
        tools = measured("a") if "fusion" in name else ()
        await judged(name, model, EXAMPLE, task, tools=tools, **options)
        texts = [request.text for request in model.requests if EXAMPLE.output in request.text]
        end = texts[0].index("The texts between these tags")
        assert len({text[:end] for text in texts}) == 1
        assert EXAMPLE.output in texts[0][:end]


def test_models_are_chosen_by_role():
    strict, cheap = scripted(name="strict"), scripted(name="cheap")
    method = build("g-eval", {"scorer": strict, "steps": cheap}, task="summarization")
    assert "|model:strict|" in method.signature
    assert "|model:cheap|" in build("llm-score", {"": cheap}).signature
    with pytest.raises(ConfigurationError, match=r"role 'scorer'.*model"):
        build("llm-score", {"planner": cheap})


def test_unknown_names_and_values_are_refused_with_what_exists():
    with pytest.raises(UnknownName, match=r"unknown method 'x'; known: .*g-eval, .*llm-score"):
        build("x", scripted())
    for options, problem in (
        ({"temprature": 1}, r"unknown option 'temprature'; .*known: .*temperature"),
        ({"form": "numbers"}, r"option form: .*'numbers'"),
        ({"n": 0}, "option n: "),
    ):
        with pytest.raises(ConfigurationError, match=problem):
            build("llm-score", scripted(), options=options)
    assert build("llm-score", scripted()).task == tasks.DEFAULT == "general"


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("llm-score", "Rate the overall quality of the response."),
        ("llm-score-cot", "Think about the overall quality of the response step by step."),
        ("jury", "rate the response on one aspect: overall quality."),
        ("coascore", "name 10 aspects that are relevant to overall quality"),
        ("coascore", "rate the overall quality of the response."),
        ("hd-eval", "I would like to to evaluate its overall quality: "),
        ("hd-eval", "using the metric overall quality."),
        ("pairwise", "Which of the two is better in overall quality?"),
    ],
)
async def test_overall_is_a_noun_where_a_sentence_names_it(method, sentence):
    """Scores keep the aspect's own name."""
    model = DryAnswers(capabilities=NO_JSON)
    example = EXAMPLE.model_copy(update={"meta": {"output_b": "Yes."}})
    [score] = await judged(method, model, example, "dialogue", ["overall"])
    assert score.aspect == "overall"
    texts = [request.text for request in model.requests]
    assert any(sentence in text for text in texts)
    bare = re.compile(
        r"the overall of|aspect: overall\.|metric overall\.|in overall\?|to overall[, ]and"
    )
    assert not any(bare.search(text) for text in texts)


@pytest.mark.parametrize("method", METHODS)
async def test_a_setting_that_changes_every_request_is_in_the_signature(method):
    address = "http://127.0.0.1:9/v1"
    async with textassay.connect("direct/judge", api_base=address, effort="high") as model:
        built = build(method, model, task="summarization")
    assert "|effort:high|" in built.signature


async def test_claims_has_the_settings_of_both_its_models_in_the_signature():
    address, signatures = "http://127.0.0.1:9/v1", set[str]()
    levels: tuple[dict[str, Any], ...] = ({}, {"effort": "low"}, {"effort": "high"})
    for one, other in product(levels, repeat=2):
        async with (
            textassay.connect("direct/judge", api_base=address, **one) as judge,
            textassay.connect("direct/judge", api_base=address, **other) as splitter,
        ):
            models = {"scorer": judge, "splitter": splitter}
            signatures.add(build("claims", models, task="summarization").signature)
    assert len(signatures) == 9

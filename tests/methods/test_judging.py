"""G-Eval and LLMScore as a run uses them: built by name, run as graphs, on prompts that name the
right aspect."""

import math
import re
from collections import Counter

import pytest

from textassay.methods import METHODS, Method, RatingOptions, build
from textassay.methods.library import tasks
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import CapabilityError, ConfigurationError, ServerFailed, UnknownName
from textassay.runtime.messages import Assignment, Example, Failure, Score
from textassay.runtime.model import Capabilities, Sample, TokenLogprob

EXAMPLE = Example(
    id="x",
    output="Right, the cat sat.",
    source="A: cat?\nB: A cat sat on a mat.",
    context="Cats sit.",
)
JUDGES = ("g-eval", "llm-score", "llm-score-cot")
NO_JSON = Capabilities(n=True, logprobs=True, json_schema=False)


RATING = [name for name, method in METHODS.items() if issubclass(method.Options, RatingOptions)]
"""Methods whose judge writes a rating."""


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


@pytest.mark.asyncio
@pytest.mark.parametrize("layout", ["paper", "shared-prefix"])
@pytest.mark.parametrize("form", ["number", "letters", "stars"])
@pytest.mark.parametrize(
    "task", ["summarization", "dialogue", "data-to-text", "translation", "general"]
)
@pytest.mark.parametrize("name", JUDGES)
async def test_a_prompt_names_the_judged_aspect_more_often_than_any_other(name, task, form, layout):
    model = scripted()
    options = {"form": form, "prompt_layout": layout} | (
        {"n": 2} if name == "g-eval" else {"parse_retries": 0}
    )
    method = build(name, model, task=task, options=options)
    await method.graph.run(Assignment(example=EXAMPLE, aspects=method.aspects))
    prompts = [r.text.replace(EXAMPLE.source, "").replace(EXAMPLE.output, "") for r in rated(model)]
    assert len(prompts) == len(method.aspects)
    for prompt, judged in zip(prompts, method.aspects, strict=True):
        named = Counter(
            {a.name: len(re.findall(rf"\b{a.name[:-2]}", prompt, re.I)) for a in method.aspects}
        )
        (first, most), *rest = named.most_common(2)
        assert first == judged.name, (judged.name, named)
        assert not rest or rest[0][1] < most


@pytest.mark.asyncio
@pytest.mark.parametrize("name", JUDGES)
async def test_the_shared_prefix_lasts_to_the_end_of_the_texts(name):
    model = scripted()
    method = build(
        name, model, task="summarization", options={"prompt_layout": "shared-prefix", "n": 2}
    )
    await method.graph.run(Assignment(example=EXAMPLE, aspects=method.aspects))
    one, two = (request.text for request in rated(model)[:2])
    end = one.index("The texts between these tags")
    assert one[:end] == two[:end]
    assert EXAMPLE.output in one[:end]


@pytest.mark.asyncio
async def test_g_eval_writes_steps_once_an_aspect_and_puts_them_into_every_form():
    model = scripted()
    method = build("g-eval", model, task="dialogue", aspects=["groundedness", "understandability"])
    for number in range(3):
        example = EXAMPLE.model_copy(update={"id": str(number), "output": f"Text {number}"})
        scores = await method.graph.run(Assignment(example=example, aspects=method.aspects))
        assert [(s.aspect, s.how, s.outcome) for s in scores] == [
            ("groundedness", "logprob", "scored"),
            ("understandability", "logprob", "scored"),
        ]
        assert scores[0].value == pytest.approx(0.75)
    asked_for_steps = [r for r in model.requests if r.text.endswith("Evaluation Steps:")]
    assert len(asked_for_steps) == 2
    assert all(r.temperature == 0 for r in asked_for_steps)
    for request in rated(model):
        assert "Evaluation Steps:\n\n1. Read it.\n2. Rate it.\n\nExample:" in request.text


@pytest.mark.asyncio
async def test_g_eval_samples_at_temperature_one_where_several_are_asked_for():
    model = scripted()
    method = build("g-eval", model, task="dialogue", aspects=["groundedness"], options={"n": 20})
    [score] = await method.graph.run(Assignment(example=EXAMPLE, aspects=method.aspects))
    assert (score.how, score.samples, score.value) == ("sampled", 20, 1)
    assert (rated(model)[0].n, rated(model)[0].temperature, rated(model)[0].logprobs) == (
        20,
        1.0,
        None,
    )


def test_g_eval_names_the_way_out_where_a_model_has_no_token_probabilities():
    model = ScriptedModel([], capabilities=Capabilities(logprobs=False))
    with pytest.raises(CapabilityError, match="n=20"):
        build("g-eval", model, task="summarization", options={"reading": "logprob"})
    method = build("g-eval", model, task="summarization")
    assert (method.how, "|how:auto|" in method.signature) == ("sampled", True)
    assert build("g-eval", model, task="summarization", options={"n": 20}).how == "sampled"


@pytest.mark.asyncio
async def test_g_eval_takes_steps_from_the_tasks_file_where_asked_to():
    model = scripted()
    method = build(
        "g-eval", model, task="summarization", aspects=["coherence"], options={"steps": "task"}
    )
    await method.graph.run(Assignment(example=EXAMPLE, aspects=method.aspects))
    assert len(model.requests) == 1
    assert "1. Read the news article carefully" in model.requests[0].text
    assert method.signature != build("g-eval", model, task="summarization").signature
    with pytest.raises(ConfigurationError, match="no steps for naturalness"):
        build("g-eval", model, task="dialogue", options={"steps": "task"})


@pytest.mark.asyncio
async def test_a_step_writer_that_fails_takes_down_its_own_aspect_only():
    def one_fails(request):
        wants_steps = request.text.endswith("Evaluation Steps:")
        return (
            ServerFailed("down")
            if wants_steps and "Groundedness" in request.text
            else judge(request)
        )

    method = build(
        "g-eval",
        scripted(one_fails),
        task="dialogue",
        aspects=["groundedness", "understandability"],
    )
    first, second = await method.graph.run(Assignment(example=EXAMPLE, aspects=method.aspects))
    assert isinstance(first, Failure)
    assert (first.node, first.type) == ("steps", "ServerFailed")
    assert isinstance(second, Score)


@pytest.mark.asyncio
async def test_llm_score_with_chain_of_thought_ends_in_the_papers_words():
    model = scripted(["It flows. Final score: 4"])
    method = build("llm-score-cot", model, task="summarization", aspects=["coherence"])
    [score] = await method.graph.run(Assignment(example=EXAMPLE, aspects=method.aspects))
    assert score.value == 4
    assert model.requests[0].text.endswith("Let's think step by step:")
    assert model.requests[0].temperature == 0


@pytest.mark.asyncio
async def test_a_prompt_file_of_the_users_own(tmp_path):
    path = tmp_path / "mine.jinja"
    path.write_text(
        '{# ours #}Rate {{ aspect.name }}:\n{% include "_material.jinja" %}', encoding="utf-8"
    )
    model = scripted(["3"])
    method = build(
        "llm-score",
        model,
        task="summarization",
        aspects=["coherence"],
        options={"prompt": str(path)},
    )
    [score] = await method.graph.run(Assignment(example=EXAMPLE, aspects=method.aspects))
    assert score.value == 3
    assert model.requests[0].text.startswith("Rate coherence:\nSource Text:")
    assert method.signature != build("llm-score", model, task="summarization").signature


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
    with pytest.raises(UnknownName, match=r"unknown option 'temprature'; .*known: .*temperature"):
        build("llm-score", scripted(), options={"temprature": 1})
    with pytest.raises(ConfigurationError, match=r"option form: .*'numbers'"):
        build("llm-score", scripted(), options={"form": "numbers"})
    with pytest.raises(ConfigurationError, match="option n: "):
        build("llm-score", scripted(), options={"n": 0})


def test_without_a_task_the_general_one_is_judged():
    assert build("llm-score", scripted()).task == tasks.DEFAULT == "general"


@pytest.mark.asyncio
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
    model = scripted(lambda request: request.dry_run_answer)
    built = build(method, model, task="dialogue", aspects=["overall"])
    example = EXAMPLE.model_copy(update={"meta": {"output_b": "Yes."}})
    [score] = await built.graph.run(Assignment(example=example, aspects=built.aspects))
    assert score.aspect == "overall"
    texts = [request.text for request in model.requests]
    assert any(sentence in text for text in texts)
    bare = re.compile(
        r"the overall of|aspect: overall\.|metric overall\.|in overall\?|to overall[, ]and"
    )
    assert not any(bare.search(text) for text in texts)

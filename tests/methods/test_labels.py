"""Judges that give labels, from a task's file to what is said of their agreement with people."""

import json
import math

import pytest

from textassay import Assignment, Example, ScriptedModel, evaluate
from textassay.meta import agreement_table
from textassay.methods import build
from textassay.methods.library import tasks
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.model import Capabilities, Response, Sample, TokenLogprob

TASK = """
name = "support"
intro = "You will be given an answer of a support agent."
output_name = "Answer"
[[aspects]]
name = "right"
definition = "whether the answer is right."
labels = {pass = "all of it is right", fail = "something is wrong"}
[[aspects]]
name = "tone"
definition = "how polite it is."
labels = {rude = "it insults", plain = "neither", kind = "it is friendly"}
ordered = true
"""
EXAMPLE = Example(id="x", output="Press the red button.")
OF_RATINGS = ["llm-score-cot", "checklist", "coascore", "hd-eval", "claims", "pairwise"]
PLAIN = Capabilities(json_schema=False, logprobs=True)


@pytest.fixture
def task(tmp_path):
    path = tmp_path / "support.toml"
    path.write_text(TASK, encoding="utf-8")
    return str(path)


async def scores(method, model, task, **options):
    built = build(method, model, task=task, **options)
    return await built.graph.run(Assignment(example=EXAMPLE, aspects=built.aspects))


def test_labels_make_the_scale_and_fail_is_below_pass(task):
    right, tone = tasks.load(task).aspects
    assert (list(right.labels), right.scale) == (["fail", "pass"], (0, 1))
    assert (list(tone.labels), tone.scale, tone.ordered) == (
        ["rude", "plain", "kind"],
        (0, 2),
        True,
    )


@pytest.mark.asyncio
async def test_a_judge_chooses_a_label_by_its_definition(task):
    model = ScriptedModel(
        ["It is right.\nAnswer: B", "It is short.\nAnswer: A"], capabilities=PLAIN
    )
    right, tone = await scores("llm-score", model, task)
    assert (right.value, tone.value) == (1, 0)
    assert (right.evidence[0], tone.evidence[0]) == ({"text": "pass"}, {"text": "rude"})
    asked = [request.text for request in model.requests]
    assert "A. fail: something is wrong\nB. pass: all of it is right" in asked[0]
    assert "C. kind: it is friendly" in asked[1]


@pytest.mark.asyncio
async def test_a_model_that_follows_schemas_may_only_give_letters_of_labels(task):
    model = ScriptedModel(
        lambda request: '{"reason": "So.", "score": "B"}',
        capabilities=Capabilities(json_schema=True),
    )
    right, tone = await scores("llm-score", model, task)
    assert (right.value, tone.value) == (1, 1)
    schemas = [request.json_schema["properties"]["score"]["enum"] for request in model.requests]
    assert schemas == [["A", "B"], ["A", "B", "C"]]


@pytest.mark.asyncio
@pytest.mark.parametrize("answer", ["Pass", "1", "Answer: D", "It passes, and then it fails."])
async def test_an_answer_that_is_no_letter_of_a_label_is_asked_for_again(task, answer):
    model = ScriptedModel([answer, "Answer: A"], capabilities=PLAIN)
    (right,) = await scores("llm-score", model, task, aspects=["right"])
    assert (right.value, len(model.requests)) == (0, 2)
    assert "A, B" in model.requests[1].text


@pytest.mark.asyncio
async def test_g_eval_weighs_labels_by_their_probabilities(task):
    tops = {"B": math.log(0.75), "A": math.log(0.25)}
    token = TokenLogprob(token="B", logprob=tops["B"], top=tuple(tops.items()))
    model = ScriptedModel(
        lambda request: Response(samples=(Sample(text="B", logprobs=(token,)),)),
        capabilities=PLAIN,
    )
    (right,) = await scores(
        "g-eval", model, task, aspects=["right"], options={"steps": "none", "reading": "logprob"}
    )
    assert right.value == pytest.approx(0.75)
    assert right.evidence == (
        {"text": "fail", "probability": 0.25},
        {"text": "pass", "probability": 0.75},
    )


@pytest.mark.parametrize("method", OF_RATINGS)
def test_methods_that_give_ratings_refuse_labels(task, method):
    with pytest.raises(ConfigurationError, match="'right' has labels"):
        build(method, ScriptedModel("3"), task=task)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("ordered = true", "ordered = true\nscale = [1, 5]", "a scale or labels, not both"),
        ('{rude = "it insults", plain = "neither", kind', "{kind", "at least two labels"),
        ("plain =", "RUDE =", "differ by more than their case"),
    ],
)
def test_labels_that_cannot_be_are_refused(task, tmp_path, old, new, problem):
    (tmp_path / "support.toml").write_text(TASK.replace(old, new), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=problem):
        tasks.load(task)


@pytest.mark.asyncio
async def test_a_run_remembers_its_labels_and_reads_those_of_people(task, tmp_path):
    rows = [
        {"id": f"r{at}", "output": f"text {at}", "human": {"right": right, "tone": tone}}
        for at, (right, tone) in enumerate([("pass", "kind"), ("fail", "rude"), ("pass", "plain")])
    ]
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    model = ScriptedModel(lambda request: "It is so.\nAnswer: B", capabilities=PLAIN)
    run = await evaluate(data, method="llm-score", model=model, task=task, out=tmp_path / "run")
    right, tone = agreement_table(tmp_path / "run", data).labels
    assert right.agreement.labels == ("fail", "pass")
    assert right.agreement.confusion == ((0, 1), (0, 2))
    assert tone.agreement.confusion == ((0, 1, 0), (0, 1, 0), (0, 1, 0))
    assert tone.agreement.ordered
    assert [example.human["tone"] for example in run.examples()] == [2, 0, 1]

"""Stress runs on decision models: order of questions and options, alone and together."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest

from benchmarks.planted_judges import texts
from textassay.evaluation.request import RunRequest
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.model import Capabilities
from textassay.runtime.settings import Settings
from textassay.stress import StressPlan, StressRun
from textassay.stress.verdicts import gate

LABELS = """
name = "note"
intro = "You will be given a note."
[[aspects]]
name = "risk"
definition = "how risky it is."
labels = {low = "", medium = "", high = ""}
ordered = true
"""


def lean(*parts: object) -> float:
    """Return a number from 0 to 1 that follows from the parts."""
    return hashlib.sha256(repr(parts).encode()).digest()[0] / 255


def distribution(question: Any, level: float) -> dict[str, float]:
    """Return the probability of each option, the nearer to a level the likelier."""
    weights = {name: 1 / (0.2 + abs(i / (len(question.names) - 1) - level))
               for i, name in enumerate(sorted(question.names, key=ORDER.index))}  # fmt: skip
    total = sum(weights.values())
    return {name: weights[name] / total for name in question.names}


ORDER = ["1", "2", "3", "4", "5", "low", "medium", "high"]


def independent(request: Any) -> list[dict[str, float]]:
    text = request.texts[-1].text
    return [distribution(q, lean(text, q.text)) for q in request.questions]


def leaks(request: Any) -> list[dict[str, float]]:
    """Answers higher, the more questions there are."""
    text, others = request.texts[-1].text, len(request.questions) - 1
    return [distribution(q, 0.5 * lean(text, q.text) + 0.15 * others) for q in request.questions]


def favors_the_first_question(request: Any) -> list[dict[str, float]]:
    text = request.texts[-1].text
    return [
        distribution(q, 0.5 * lean(text, q.text) + 0.5 * (place == 0))
        for place, q in enumerate(request.questions)
    ]


def favors_the_first_option(request: Any) -> list[dict[str, float]]:
    given = independent(request)
    return [
        {name: 0.4 * p + 0.6 * (name == q.names[0]) for name, p in one.items()}
        for q, one in zip(request.questions, given, strict=True)
    ]


async def verdicts(judge: Any, task: str = "summarization", **fields: Any) -> dict[str, set[str]]:
    """Return the verdicts of each test over the aspects."""
    request = RunRequest(method="decide", task=task, settings=Settings(cache=False), **fields)
    plan = StressPlan(request=request, tests=("position",))
    model = ScriptedModel(decide=judge)
    result = await StressRun(plan, examples=texts(24), models={"": model}).run()
    found: dict[str, set[str]] = {}
    for row in result.rows:
        found.setdefault(row.test, set()).add(row.verdict)
    return found


@pytest.mark.parametrize(
    ("judge", "failing"),
    [
        (independent, set()),
        (leaks, {"alone"}),
        (favors_the_first_question, {"alone", "question-order"}),
    ],
)
async def test_questions_that_influence_each_other_are_found(judge, failing):
    found = await verdicts(judge)
    assert set(found) == {"repeat", "question-order", "alone"}
    assert {test for test, verdict in found.items() if "fails" in verdict} == failing
    if not failing:
        assert set.union(*found.values()) == {"holds"}


def leaks_little(request: Any) -> list[dict[str, float]]:
    text, others = request.texts[-1].text, sorted(q.text for q in request.questions)
    return [
        distribution(q, 0.98 * lean(text, q.text) + 0.02 * lean(text, *others))
        for q in request.questions
    ]


@pytest.mark.parametrize(("margin", "verdict"), [(None, "holds"), (0.2, "holds"), (0.001, "fails")])
@pytest.mark.parametrize(("judge", "is_said"), [(independent, False), (leaks_little, True)])
async def test_influence_is_named_whatever_the_margin_and_fails_above_it(
    judge, is_said, margin, verdict
):
    request = RunRequest(method="decide", task="summarization", settings=Settings(cache=False))
    plan = StressPlan(request=request, tests=("alone",), margin=margin)
    model = ScriptedModel(decide=judge)
    result = await StressRun(plan, examples=texts(24), models={"": model}).run()
    alone = {row.verdict for row in result.rows if row.test == "alone"}
    assert alone == {verdict if is_said else "holds"}
    assert gate(result.rows) == (verdict if is_said else "holds")
    [table] = result.tables()
    assert any("influence each other" in note.text for note in table.notes) == is_said
    assert set(result.as_dict()["influence"]) == ({"alone"} if is_said else set())


@pytest.mark.parametrize(
    ("judge", "verdict"), [(independent, "holds"), (favors_the_first_option, "fails")]
)
async def test_a_model_that_favors_the_first_option_of_a_choice_is_found(judge, verdict, tmp_path):
    path = tmp_path / "note.toml"
    path.write_text(LABELS, encoding="utf-8")
    found = await verdicts(judge, str(path))
    assert found["label-order"] == {verdict}
    assert set(found) == {"repeat", "label-order"}  # a single question has no order


def placed(prompt: str) -> dict[str, tuple[int, str]]:
    """Return place and text of each question in the prompt of all, by its name."""
    found = re.findall(r"(?ms)^(q\d+): (.*?)$", prompt)
    return {name: (place, words) for place, (name, words) in enumerate(found)}


def in_json(lean_to: Any) -> ScriptedModel:
    """A chat model that rates all questions in one object, by their places and words."""

    def write(request: Any) -> str:
        prompt = request.messages[-1].content
        rated = {}
        for name, (place, words) in placed(prompt).items():
            levels = request.json_schema["properties"][name]["enum"]
            level = lean_to(prompt.split("q1:")[0], words, place, len(levels))
            rated[name] = levels[round(level * (len(levels) - 1))]
        return json.dumps(rated)

    able = Capabilities(logprobs=False, choices=False, json_schema=True, thinks=False)
    return ScriptedModel(write, capabilities=able)


@pytest.mark.parametrize("method", ["decide", "llm-score", "hd-eval"])
@pytest.mark.parametrize(
    ("lean_to", "failing"),
    [
        (lambda text, words, place, count: lean(text, words), set()),
        (lambda text, words, place, count: 0.5 * lean(text, words) + 0.5 * (place == 0),
         {"alone", "question-order"}),
    ],
)  # fmt: skip
async def test_the_order_and_number_of_questions_in_one_json_object_are_tested(
    method, lean_to, failing
):
    options = {} if method == "decide" else {"profile": "typed"}
    request = RunRequest(
        method=method, task="summarization", options=options, settings=Settings(cache=False)
    )
    plan = StressPlan(request=request, tests=("position",))
    result = await StressRun(plan, examples=texts(24), models={"": in_json(lean_to)}).run()
    assert {row.test for row in result.rows} == {"repeat", "question-order", "alone"}
    failed = {row.test for row in result.rows if "fails" in row.verdict}
    assert failed == failing
    if not failing:
        assert {row.verdict for row in result.rows} == {"holds"}

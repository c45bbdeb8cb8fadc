"""Criteria of a row, judged by `checklist`: verdicts, points, prerequisites and what is missing."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import document, rows_of, served, textassay, write_lines
from tests.methods import judging
from textassay import Example, Score, ScriptedModel, evaluate
from textassay.methods import build
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.model import Capabilities, Request, Response, Sample

RUBRIC = [
    {"criterion": "Advises to call an ambulance", "points": 6},
    {"criterion": "Names the hotline", "points": 4, "tags": ["axis:accuracy"],
     "prerequisites": [0]},
    {"criterion": "Advises to wait", "points": -5, "tags": ["axis:accuracy"]},
]  # fmt: skip
EXAMPLE = Example(
    id="x", source="My chest hurts.", output="Call an ambulance at once.", rubric=RUBRIC
)
QUOTE = "Call an ambulance"
LINE = re.compile(r"(?m)^(\d+)\. (.+)$")
Said = dict[str, str | tuple[str, str] | None]


def saying(said: Said, **options: Any) -> ScriptedModel:
    """Return a judge that answers by words of the criterion; `None` leaves a criterion out."""

    def reply(request: Request) -> str:
        answers = []
        for number, criterion in LINE.findall(request.text):
            given = next(answer for words, answer in said.items() if words in criterion)
            if given is not None:
                answer, quote = given if isinstance(given, tuple) else (given, QUOTE)
                answers.append(
                    {"number": int(number), "reason": "So.", "quote": quote, "answer": answer}
                )
        return json.dumps({"answers": answers})

    return ScriptedModel(reply, **options)


async def judged(model: ScriptedModel, example: Example = EXAMPLE, **options: Any) -> Score:
    [score] = await judging.judged("checklist", model, example, checklist="rubric", **options)
    assert isinstance(score, Score)
    return score


@pytest.mark.parametrize(("calls", "asked"), [("each", 3), ("joint", 1)])
async def test_a_score_is_the_share_of_points_and_shows_every_criterion(
    calls: str, asked: int
) -> None:
    """In one request each, or in one for all; points are not shown to the judge."""
    model = saying({"ambulance": "yes", "hotline": ("no", ""), "wait": ("no", "")})
    score = await judged(model, calls=calls)
    assert (score.aspect, score.value, score.scale) == ("rubric", 0.6, (0, 1))
    assert score.usage.calls == len(model.requests) == asked
    assert score.evidence[0] == {
        "text": "Advises to call an ambulance", "criterion": "0", "points": 6.0, "answer": "yes",
        "met": True, "value": 1.0, "outcome": "scored", "reason": "So.", "quote": QUOTE,
        "found_in": "output",
    }  # fmt: skip
    assert score.evidence[1]["tags"] == ["axis:accuracy"]
    assert score.evidence[-1] == {"text": "6 of 10 points"}
    assert "6" not in "".join(one[1] for one in LINE.findall(model.requests[0].text))


@pytest.mark.parametrize(
    ("said", "options", "value"),
    [
        ({"ambulance": "yes", "": "yes"}, {}, 0.5),
        ({"wait": "yes", "": "no"}, {}, 0.0),
        ({"wait": "yes", "": "no"}, {"total": "raw"}, -0.5),
        ({"ambulance": "no", "hotline": "yes", "wait": "no"}, {}, 0.0),
        ({"ambulance": "yes", "hotline": None, "wait": "no"}, {"required": 0.6}, 1.0),
    ],
)
async def test_faults_prerequisites_and_what_may_be_missing(
    said: Said, options: dict[str, Any], value: float
) -> None:
    """Points below zero count against; a criterion counts only with those it depends on."""
    score = await judged(saying(said), calls="joint", parse_retries=0, **options)
    assert score.value == pytest.approx(value)
    assert score.scale == (None if "total" in options else (0, 1))


async def test_a_prerequisite_that_is_not_met_is_named() -> None:
    """The verdict of its own is kept, as people are asked for that."""
    score = await judged(saying({"ambulance": "no", "hotline": "yes", "wait": "no"}))
    hotline = score.evidence[1]
    assert (hotline["met"], hotline["value"], hotline["prerequisites not met"]) == (True, 0.0, "0")


@pytest.mark.parametrize(
    ("said", "outcome", "kind"),
    [
        (None, "invalid", "NoAnswerFound"),
        (("yes", "He has a cough"), "abstained", "QuoteNotFound"),
        ("unsure", "abstained", "Unsure"),
    ],
)
async def test_a_missing_verdict_leaves_no_score_and_says_between_what(
    said: Any, outcome: str, kind: str
) -> None:
    """Never a number; the hotline's four points may be there or not."""
    score = await judged(saying({"hotline": said, "ambulance": "yes", "wait": "no"}), calls="joint")
    assert (score.value, score.outcome, score.error and score.error.type) == (None, outcome, kind)
    assert score.error is not None
    assert score.error.message == (
        "1 of 3 criteria have no verdict: 1; the total is between 0.6 and 1"
    )
    assert score.evidence[1]["met"] is None


async def test_only_what_an_answer_leaves_out_is_asked_for_again() -> None:
    """By itself, and under a number of its own."""
    replies = iter(
        [
            '{"answers": [{"number": 1, "quote": "Call an ambulance", "answer": "yes"},'
            ' {"number": 3, "quote": "", "answer": "no"}]}',
            '{"answers": [{"number": 1, "quote": "", "answer": "no"}]}',
        ]
    )
    model = ScriptedModel(lambda request: next(replies))
    score = await judged(model, calls="joint")
    assert (score.value, score.usage.calls) == (0.6, 2)
    assert LINE.findall(model.requests[1].text) == [("1", "Names the hotline")]


async def test_answers_under_unknown_numbers_are_asked_for_again() -> None:
    """Their reasons may sound as if the judge declined."""
    answer = '{"number": 7, "quote": "", "answer": "no", "reason": "I cannot find it in the text."}'
    replies = iter([answer, '{"number": 1, "quote": "", "answer": "no"}'])
    model = ScriptedModel(lambda request: next(replies))
    example = EXAMPLE.model_copy(update={"rubric": Example(output="", rubric=["a"]).rubric})
    score = await judged(model, example, calls="joint")
    assert (score.value, score.usage.calls) == (0.0, 2)


@pytest.mark.parametrize(
    ("text", "verdicts"),
    [
        ('[{"number": 2, "answer": "no"}, {"number": 1, "answer": "yes"}]', [True, False]),
        ('{"1": {"answer": "yes"}, "2": {"answer": "no"}}', [True, False]),
        ('{"number": 1, "answer": true}\n{"number": 2, "verdict": "No."}', [True, False]),
        ('{"answers": [{"number": 1, "answer": "yes"}, {"number": 1, "answer": "no"}]}',
         [None, None]),
        ('{"answers": [{"number": 1, "answer": "yes", "answer": "no"},'
         ' {"number": 2, "answer": "no"}]}', [None, False]),
        ('[{"answer": "yes"}, {"answer": "no"}]', [None, None]),
        ('[{"number": 3, "answer": "yes"}, {"number": 2, "answer": "no"}]', [None, False]),
        ("Yes to all.", [None, None]),
    ],
)  # fmt: skip
async def test_answers_are_read_by_their_numbers(text: str, verdicts: list[bool | None]) -> None:
    """Never by their places; an answer that contradicts itself is unusable."""
    example = EXAMPLE.model_copy(update={"rubric": Example(output="", rubric=["a", "b"]).rubric})
    score = await judged(ScriptedModel([text]), example, calls="joint", parse_retries=0)
    assert [piece["met"] for piece in score.evidence[:2]] == verdicts


async def test_p_yes_needs_no_words() -> None:
    """The score is the expected share of the points, also of those that depend on others."""
    model = ScriptedModel(
        choices=lambda request: (
            {"yes": -0.1, "no": -2.4}
            if "ambulance" in request.text.rpartition("meet the criterion: ")[2]
            else {"yes": -2.4, "no": -0.1}
        )
    )
    score = await judged(model, answers="p-yes")
    chances = [piece["p_yes"] for piece in score.evidence[: len(RUBRIC)]]
    own = {one.id: p for one, p in zip(EXAMPLE.rubric, chances, strict=True)}
    expected = sum(
        one.points * math.prod(own[id_] for id_ in (one.id, *one.prerequisites))
        for one in EXAMPLE.rubric
    )
    possible = sum(one.points for one in EXAMPLE.rubric if one.points > 0)
    assert score.value == pytest.approx(expected / possible)
    assert "points expected; 6 with" in score.evidence[len(RUBRIC)]["text"]
    assert "|points:expected|" in score.signature
    assert score.evidence[0]["p_yes"] == pytest.approx(0.909, abs=1e-3)
    assert "Does this text meet the criterion: " in model.requests[0].text


async def test_a_model_that_follows_schemas_is_asked_by_one() -> None:
    model = saying({"": "yes"}, capabilities=Capabilities(json_schema=True))
    await judged(model, calls="joint")
    assert [*model.requests[0].json_schema["properties"]] == ["answers"]


async def test_rows_without_what_is_judged_abstain() -> None:
    """A row without a rubric among others that have one, and an empty text."""
    bare = EXAMPLE.model_copy(update={"rubric": ()})
    empty = EXAMPLE.model_copy(update={"output": " "})
    found = [await judged(saying({"": "yes"}), one) for one in (bare, empty)]
    assert [(s.outcome, s.error and s.error.type) for s in found] == [
        ("abstained", "MissingRubric"),
        ("abstained", "EmptyOutput"),
    ]


async def test_a_request_that_fails_is_an_error_of_the_whole() -> None:
    """So that a resumed run asks again; with one request each, the others are kept as evidence."""

    def reply(request: Request) -> Response:
        if "hotline" in request.text:
            raise ConnectionError("gone")
        answer = '{"answers": [{"number": 1, "quote": "", "answer": "no"}]}'
        return Response(samples=(Sample(text=answer),))

    score = await judged(ScriptedModel(reply))
    assert (score.outcome, score.evidence[0]["met"]) == ("error", False)


async def test_an_aspect_s_questions_are_asked_at_once_as_checkeval_does() -> None:
    """One request for each aspect, and the same scores as by questions."""
    model = saying({"": "yes"})
    asked = ("checklist", model, EXAMPLE, "summarization")
    scores = await judging.judged(*asked, calls="joint")
    assert [score.value for score in scores] == [1.0] * 4
    assert len(model.requests) == 4
    scores = await judging.judged(*asked, calls="joint", output="questions")
    assert [score.value for score in scores] == [1.0] * 15


@pytest.mark.parametrize(
    ("options", "aspects", "problem"),
    [
        ({"checklist": "rubric", "output": "questions"}, None, "output=questions has no effect"),
        ({"checklist": "rubric"}, ["fluency", "overall"], "a rubric gives one score, and fluency"),
        ({"calls": "joint", "answers": "p-yes"}, None, "calls=joint needs written answers"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    options: dict[str, Any], aspects: list[str] | None, problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        build("checklist", saying({}), task="general", aspects=aspects, options=options)


@pytest.mark.parametrize("method", ["llm-score", "g-eval", "claims", "jury", "checklist"])
async def test_a_rubric_that_is_not_read_is_refused(method: str) -> None:
    """By every method that asks about texts; nothing was asked."""
    model = saying({"": "yes"})
    other = saying({}, name="other")
    models: Any = {"juror1": model, "juror2": other} if method == "jury" else model
    row = {"output": "x", "source": "y", "rubric": ["a"]}
    with pytest.raises(ConfigurationError, match=r"1 of 1 examples of list have a rubric, which"):
        await evaluate([row], method=method, task="general", aspects=["consistency"], model=models)
    assert not model.requests


async def test_the_method_of_rubrics_refuses_data_without_any() -> None:
    with pytest.raises(ConfigurationError, match="list has no rubrics"):
        await evaluate([{"output": "x"}], method="checklist", model=saying({}),
                       options={"checklist": "rubric"})  # fmt: skip


async def test_tools_and_own_graphs_take_rows_with_rubrics() -> None:
    """A tool measures the text; a graph sees the whole example."""
    rows = [{"output": "One two.", "references": ["One two."], "rubric": ["a"]}]
    run = await evaluate(rows, method="tools", tools=["rougeL"])
    assert [score.value for score in run.scores] == [1.0]


def test_a_run_over_rubrics_is_scored_and_held_against_people(tmp_path: Path) -> None:
    """From the data to the agreement with people, criterion by criterion and by tag."""
    rows = [
        {**EXAMPLE.model_dump(include={"source", "output"}), "id": f"x{at}",
         "rubric": [{**one, "human": bool((at + place) % 2)} for place, one in enumerate(RUBRIC)]}
        for at in range(8)
    ]  # fmt: skip
    data, out = write_lines(tmp_path / "data.jsonl", rows), tmp_path / "run"
    with served() as server:
        textassay(
            "score", data, "--method", "checklist", "--set", "checklist=rubric", "--set",
            "calls=joint", "--model", "direct/mock", "--api-base", server.url, "--out", out,
        ).ok()  # fmt: skip
    found = document("agreement", out, "--bootstrap", 50)
    counts = {row["aspect"]: row["n"] for row in found["rows"]}
    assert counts == {"criteria": 24, "criteria: axis:accuracy": 16}
    labels = {row["aspect"]: row for row in found["labels"]}
    said = {s["id"]: [piece["met"] for piece in s["evidence"][:3]] for s in rows_of(out)}
    right = sum(
        met == bool((at + place) % 2) for at in range(8) for place, met in enumerate(said[f"x{at}"])
    )
    assert labels["criteria"]["measures"]["accuracy"]["value"] == pytest.approx(right / 24)
    assert labels["criteria"]["groups"] == 8  # criteria of one text are of one source


async def test_a_thought_about_many_criteria_is_shown_once() -> None:
    sample = Sample(
        text='{"answers": [{"number": 1, "quote": "", "answer": "no"},'
        ' {"number": 2, "quote": "", "answer": "no"}, {"number": 3, "quote": "", "answer": "no"}]}',
        thought="Let me see.",
    )
    model = ScriptedModel(lambda request: Response(samples=(sample,)))
    score = await judged(model, calls="joint")
    assert [piece.get("thought") for piece in score.evidence] == ["Let me see.", None, None, None]

"""AVG and LLMSel by hand: every scorer on 0-1, the plan's choice, and what is done about gaps."""

import pytest

from textassay.agents.planner import Assistant, RefusedPlan
from textassay.agents.tool_average import ToolAverage
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Aspect, Example, Failure, Plan, Score, ScoreError, Usage

EXAMPLE = Example(id="x", output="A text.")
COHERENCE = Aspect(name="coherence", definition="d")
FLUENCY = Aspect(name="fluency", definition="d", scale=(1.0, 3.0))
TOOLS = (
    Assistant(name="nli", description="d", scale=(0.0, 1.0)),
    Assistant(name="bleu", description="d", scale=(0.0, 100.0)),
    Assistant(name="repetition", description="d", scale=(0.0, 1.0), higher_is_better=False),
)
PLAN = Plan(assistants={"coherence": ("bleu", "repetition"), "fluency": ()}, steps=("Rate.",))

pytestmark = pytest.mark.asyncio


def of(tool, value, scale=(0.0, 1.0)):
    return Score(id="x", aspect=tool, value=value, scale=scale, how="tool", usage=Usage(calls=1))


def gap(tool, outcome="abstained"):
    error = ScoreError(type="MissingSource", message="none")
    return Score(id="x", aspect=tool, outcome=outcome, how="tool", error=error)


SCORES = [of("nli", 0.9), of("bleu", 30.0, (0.0, 100.0)), of("repetition", 0.1)]


async def test_avg_maps_every_tool_to_0_1_and_turns_round_what_is_better_low():
    score = await ToolAverage(TOOLS, signature="s")(EXAMPLE, COHERENCE, SCORES)
    assert score.value == pytest.approx((0.9 + 0.3 + 0.9) / 3)
    assert (score.aspect, score.scale, score.how, score.signature) == (
        "coherence",
        (0, 1),
        "fused",
        "s",
    )
    assert score.usage == Usage()
    assert [item["mapped"] for item in score.evidence] == pytest.approx([0.9, 0.3, 0.9])
    assert [item["value"] for item in score.evidence] == [0.9, 30, 0.1]


async def test_llmsel_averages_what_the_plan_names_for_the_aspect():
    score = await ToolAverage(TOOLS)(EXAMPLE, COHERENCE, SCORES, PLAN)
    assert score.value == pytest.approx(0.6)
    assert [(item["text"], item["selected"]) for item in score.evidence] == [
        ("nli", False),
        ("bleu", True),
        ("repetition", True),
    ]


async def test_llmsel_abstains_where_the_plan_names_no_tool_even_with_a_direct_judgement():
    score = await ToolAverage(TOOLS)(
        EXAMPLE, FLUENCY, SCORES, PLAN, direct=of("fluency", 2.0, (1.0, 3.0))
    )
    assert (score.value, score.outcome, score.error.type) == (None, "abstained", "NoToolSelected")
    assert score.error.message == "the plan names no assistant evaluator for fluency"


async def test_a_direct_judgement_counts_as_one_more_scorer_on_0_1():
    direct = of("fluency", 2.5, (1.0, 3.0)).model_copy(
        update={"usage": Usage(calls=1, prompt_tokens=9)}
    )
    score = await ToolAverage(TOOLS)(EXAMPLE, FLUENCY, SCORES, direct=direct)
    assert score.value == pytest.approx((0.9 + 0.3 + 0.9 + 0.75) / 4)
    assert score.usage == direct.usage
    assert score.evidence[-1]["text"] == "direct"
    assert score.evidence[-1]["mapped"] == 0.75


async def test_a_tool_that_abstains_is_left_out_and_too_many_leave_no_mean():
    one = await ToolAverage(TOOLS)(EXAMPLE, COHERENCE, [gap("nli"), *SCORES[1:]])
    assert one.value == pytest.approx(0.6)
    assert one.evidence[0]["problem"] == "MissingSource: none"
    two = await ToolAverage(TOOLS)(EXAMPLE, COHERENCE, [gap("nli"), gap("bleu"), SCORES[2]])
    assert (two.outcome, two.error.type) == ("abstained", "MissingSource")


async def test_what_failed_makes_an_error_only_where_it_counts():
    broken = [gap("nli", "error"), *SCORES[1:]]
    assert (await ToolAverage(TOOLS)(EXAMPLE, COHERENCE, broken)).outcome == "error"
    assert (await ToolAverage(TOOLS)(EXAMPLE, COHERENCE, broken, PLAN)).value == pytest.approx(0.6)
    failure = Failure(node="direct", type="ServerFailed", message="down")
    score = await ToolAverage(TOOLS)(EXAMPLE, COHERENCE, SCORES, direct=failure)
    assert (score.outcome, score.error.type) == ("error", "ServerFailed")


async def test_an_unbounded_tool_needs_a_range_and_is_held_to_it():
    bleurt = Assistant(name="bleurt", description="d")
    with pytest.raises(ConfigurationError, match=r"'ranges': \{'bleurt': \[0, 1\]"):
        ToolAverage((bleurt,))
    average = ToolAverage((bleurt,), {"bleurt": (0.0, 1.0)})
    for value, mapped in [(-0.2, 0.0), (0.4, 0.4), (1.1, 1.0)]:
        assert (await average(EXAMPLE, COHERENCE, [of("bleurt", value, None)])).value == mapped


async def test_an_aspect_that_is_better_low_keeps_its_direction():
    toxicity = Aspect(name="toxicity", definition="d", higher_is_better=False)
    score = await ToolAverage(TOOLS[:1])(EXAMPLE, toxicity, SCORES[:1])
    assert score.value == pytest.approx(0.1)


async def test_an_empty_output_and_a_refused_plan_have_no_mean():
    empty = await ToolAverage(TOOLS)(EXAMPLE.model_copy(update={"output": ""}), COHERENCE, SCORES)
    assert (empty.outcome, empty.error.type) == ("abstained", "EmptyOutput")
    refused = await ToolAverage(TOOLS)(
        EXAMPLE, COHERENCE, SCORES, RefusedPlan(problem="p", text="t")
    )
    assert (refused.outcome, refused.error.type, refused.evidence) == (
        "invalid",
        "PlanRefused",
        ({"text": "t"},),
    )

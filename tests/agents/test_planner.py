"""The planner: one question, one repair, then a plan or a refusal with the raw answer."""

import pytest

from textassay.agents.ask import Ask
from textassay.agents.planner import Assistant, Planner, RefusedPlan
from textassay.methods.library import tasks
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import ContentRefused, ServerFailed
from textassay.runtime.messages import Plan
from textassay.runtime.model import Sample

TASK = tasks.load("summarization", ["coherence", "consistency"])
TOOLS = (
    Assistant(name="nli", description="Whether the source entails the output.", scale=(0.0, 1.0)),
    Assistant(name="ter", description="Edits.", higher_is_better=False),
)
GOOD = (
    "Assistant evaluators:\n- Coherence: none\n- Consistency: nli\n\nSteps:\n1. Read both.\n"
    "2. Rate."
)
UNKNOWN = GOOD.replace("none", "rouge")

pytestmark = pytest.mark.asyncio


def planner(model, task=TASK, tools=TOOLS, **fields):
    return Planner(Ask(model, "fusion_eval_plan", task, max_tokens=1024, **fields), tools)


async def test_the_plan_and_what_the_model_is_told():
    model = ScriptedModel([GOOD])
    plan = await planner(model, TASK, TOOLS)()
    assert plan == Plan(
        assistants={"coherence": (), "consistency": ("nli",)},
        steps=("Read both.", "Rate."),
        text=GOOD,
    )
    [request] = model.requests
    assert (request.temperature, request.n) == (0, 1)
    assert "- Consistency (1-5): the factual alignment" in request.text
    assert (
        "1. nli: Whether the source entails the output. (Range: 0 to 1, higher is better.)"
        in request.text
    )
    assert "2. ter: Edits. (Range: no fixed ends, lower is better.)" in request.text
    assert "fluency" not in request.text.lower()


@pytest.mark.parametrize("bad", [UNKNOWN, "Der Plan: erst lesen, dann bewerten.", "Rating: 4", ""])
async def test_an_unusable_plan_is_asked_for_again_with_what_is_wrong(bad):
    model = ScriptedModel([bad, GOOD])
    plan = await planner(model, TASK, TOOLS)()
    assert isinstance(plan, Plan)
    assert plan.assistants["consistency"] == ("nli",)
    first, again = model.requests
    assert [message.role for message in again.messages] == ["user", "assistant", "user"]
    assert again.messages[0] == first.messages[0]
    assert again.messages[1].content == (bad or "(nothing)")
    said = again.messages[2].content
    assert (
        "The criteria are: coherence, consistency. The assistant evaluators are: nli, ter." in said
    )
    assert (
        "- It names the assistant evaluator 'rouge' for coherence, which does not exist." in said
    ) == (bad == UNKNOWN)


async def test_a_plan_that_stays_unusable_is_refused_with_its_words():
    model = ScriptedModel([GOOD.replace("nli", "bertscore"), UNKNOWN])
    refused = await planner(model, TASK, TOOLS)()
    assert isinstance(refused, RefusedPlan)
    assert (
        refused.problem
        == "the plan names the assistant evaluator 'rouge' for coherence, which does not exist"
    )
    assert refused.text == UNKNOWN
    assert len(model.requests) == 2


async def test_a_plan_that_is_cut_gets_more_room():
    model = ScriptedModel([Sample(text=GOOD[:-8], finish_reason="length"), GOOD])
    assert isinstance(await planner(model, TASK, TOOLS)(), Plan)
    assert [request.max_tokens for request in model.requests] == [1024, 4096]
    endless = ScriptedModel(lambda request: Sample(text=GOOD, finish_reason="length"))
    refused = await planner(endless, TASK, TOOLS)()
    assert refused.problem == "the plan does not come to an end"
    assert len(endless.requests) == 4


async def test_failures_and_filters_pass_through():
    with pytest.raises(ServerFailed):
        await planner(ScriptedModel([ServerFailed("down")]), TASK, TOOLS)()
    with pytest.raises(ContentRefused):
        await planner(ScriptedModel([Sample(text="", finish_reason="filtered")]), TASK, TOOLS)()


async def test_the_overall_aspect_needs_no_line_of_its_own():
    dialogue = tasks.load("dialogue", ["naturalness", "overall"])
    plan = await planner(ScriptedModel(["- Naturalness: nli\nSteps:\n1. Rate."]), dialogue, TOOLS)()
    assert plan.assistants == {"naturalness": ("nli",), "overall": ()}
    alone = tasks.load("dialogue", ["overall"])
    plan = await planner(ScriptedModel(["- Overall: nli\nSteps:\n1. Rate."]), alone, TOOLS)()
    assert plan.assistants == {"overall": ("nli",)}


async def test_the_dry_run_answer_of_every_request_is_a_usable_plan():
    model = ScriptedModel([GOOD])
    await planner(model, TASK, TOOLS)()
    assert isinstance(
        await planner(ScriptedModel([model.requests[0].dry_run_answer]), TASK, TOOLS)(), Plan
    )


async def test_the_digest_tells_plans_apart():
    model = ScriptedModel([])
    digests = {
        planner(model, TASK, TOOLS).digest,
        planner(model, TASK, TOOLS[:1]).digest,
        planner(ScriptedModel([], name="other"), TASK, TOOLS).digest,
        planner(model, tasks.load("summarization", ["coherence"]), TOOLS).digest,
        planner(model, TASK, TOOLS, seed=1).digest,
    }
    assert len(digests) == 5

"""Fusion: the plan, the judge that fuses scores of tools, and their averages, all by hand."""

import pytest

from tests.dry_answers import DryAnswers
from textassay.agents.ask import Ask
from textassay.agents.fusion import (
    AssistantDescription,
    LLMFuser,
    Planner,
    RefusedPlan,
    ToolAverage,
)
from textassay.methods.library import tasks
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.base import ScoreError, Usage
from textassay.runtime.errors import ConfigurationError, ContentRefused, ServerFailed, UnknownName
from textassay.runtime.messages import Aspect, Example, Failure, Plan, Score
from textassay.runtime.model import Response, Sample

SUMMARIES = tasks.load("summarization", ["coherence", "consistency"])
PLANNED = (
    AssistantDescription(
        name="nli", description="Whether the source entails the output.", scale=(0.0, 1.0)
    ),
    AssistantDescription(name="ter", description="Edits.", higher_is_better=False),
)
GOOD = (
    "Assistant evaluators:\n- Coherence: none\n- Consistency: nli\n\nSteps:\n1. Read both.\n"
    "2. Rate."
)
UNKNOWN = GOOD.replace("none", "rouge")


def planner(model, task=SUMMARIES, tools=PLANNED, **fields):
    return Planner(Ask(model, "fusion_eval_plan", task, max_tokens=1024, **fields), tools)


async def test_the_plan_and_the_prompt_of_the_model():
    model = ScriptedModel([GOOD])
    plan = await planner(model)()
    assert plan == Plan(
        assistants={"coherence": (), "consistency": ("nli",)},
        steps=("Read both.", "Rate."),
        text=GOOD,
    )
    [request] = model.requests
    assert (request.temperature, request.n) == (0, 1)
    for words in (
        "- Consistency (1-5): the factual alignment",
        "1. nli: Whether the source entails the output. (Range: 0 to 1, higher is better.)",
        "2. ter: Edits. (Range: no fixed ends, lower is better.)",
    ):
        assert words in request.text
    assert "fluency" not in request.text.lower()


@pytest.mark.parametrize("bad", [UNKNOWN, "Der Plan: erst lesen, dann bewerten.", "Rating: 4", ""])
async def test_an_unusable_plan_is_asked_for_again_with_what_is_wrong(bad):
    model = ScriptedModel([bad, GOOD])
    plan = await planner(model)()
    assert isinstance(plan, Plan)
    assert plan.assistants["consistency"] == ("nli",)
    first, again = model.requests
    assert [message.role for message in again.messages] == ["user", "assistant", "user"]
    assert again.messages[0] == first.messages[0]
    assert again.messages[1].content == (bad or "(nothing)")
    said = again.messages[2].content
    known = "The criteria are: coherence, consistency. The assistant evaluators are: nli, ter."
    unknown = "- It names the assistant evaluator 'rouge' for coherence, which does not exist."
    assert (known in said, unknown in said) == (True, bad == UNKNOWN)


async def test_a_plan_that_stays_unusable_is_refused_with_its_words():
    model = ScriptedModel([GOOD.replace("nli", "bertscore"), UNKNOWN])
    refused = await planner(model)()
    problem = "the plan names the assistant evaluator 'rouge' for coherence, which does not exist"
    assert refused == RefusedPlan(problem=problem, text=UNKNOWN)
    assert len(model.requests) == 2


async def test_a_plan_that_is_cut_gets_more_room():
    model = ScriptedModel([Sample(text=GOOD[:-8], finish_reason="length"), GOOD])
    assert isinstance(await planner(model)(), Plan)
    assert [request.max_tokens for request in model.requests] == [1024, 4096]
    endless = ScriptedModel(lambda request: Sample(text=GOOD, finish_reason="length"))
    refused = await planner(endless)()
    assert refused.problem == "the plan does not come to an end"
    assert len(endless.requests) == 4


async def test_failures_and_filters_pass_through():
    filtered = Sample(text="", finish_reason="filtered")
    for reply, error in ((ServerFailed("down"), ServerFailed), (filtered, ContentRefused)):
        with pytest.raises(error):
            await planner(ScriptedModel([reply]))()


async def test_the_overall_aspect_needs_no_line_of_its_own():
    dialogue = tasks.load("dialogue", ["naturalness", "overall"])
    model = ScriptedModel(["- Naturalness: nli\nSteps:\n1. Rate."])
    plan = await planner(model, dialogue, PLANNED)()
    assert plan.assistants == {"naturalness": ("nli",), "overall": ()}
    alone = tasks.load("dialogue", ["overall"])
    plan = await planner(ScriptedModel(["- Overall: nli\nSteps:\n1. Rate."]), alone, PLANNED)()
    assert plan.assistants == {"overall": ("nli",)}


async def test_the_dry_run_answer_of_every_request_is_a_usable_plan():
    assert isinstance(await planner(DryAnswers())(), Plan)


async def test_the_digest_distinguishes_plans():
    model = ScriptedModel([])
    digests = {
        planner(model).digest,
        planner(model, SUMMARIES, PLANNED[:1]).digest,
        planner(ScriptedModel([], name="other")).digest,
        planner(model, tasks.load("summarization", ["coherence"]), PLANNED).digest,
        planner(model, SUMMARIES, PLANNED, seed=1).digest,
    }
    assert len(digests) == 5


TASK = tasks.load("dialogue", ["coherence", "groundedness", "overall"])
TALK = Example(id="x", output="Right.", source="A: Cats?\nB: Yes.", context="Cats sit.")
JUDGING = (
    AssistantDescription(name="nli", description="Entailment.", scale=(0.0, 1.0)),
    AssistantDescription(name="lm_prob", description="Likelihood.", scale=(0.0, 1.0)),
)


def of(tool, value, scale=(0.0, 1.0)):
    return Score(id="x", aspect=tool, value=value, scale=scale, how="tool", usage=Usage(calls=1))


def gap(tool, outcome="abstained", kind="MissingSource"):
    error = ScoreError(type=kind, message="none")
    return Score(id="x", aspect=tool, outcome=outcome, how="tool", error=error)


NLI, GONE = of("nli", 0.91234567), gap("lm_prob")
PLAN = Plan(
    assistants={"coherence": (), "groundedness": ("nli",), "overall": ()}, steps=("Read.", "Rate.")
)


def asked(model, task=TASK, **fields):
    return Ask(model, "fusion_eval", task, **{"n": 8, "temperature": 0.1, **fields})


def fuser(model, **fields):
    asking = {
        name: fields.pop(name) for name in ("n", "temperature", "seed", "layout") if name in fields
    }
    return LLMFuser(asked(model, **asking), JUDGING, **fields)


async def fused(model, plan=PLAN, example=TALK, aspects=TASK.aspects, **fields):
    return await fuser(model, **fields)(example, aspects, [NLI, GONE], plan)


ANSWER = """Criteria's Scores and Explanations:

Coherence
Score: {} Explanation: It follows on.

Groundedness
Score: {} Explanation: It says 1 thing of 2.

Evaluation Summary:
Overall Score: {} Explanation: Short but fine."""


async def test_the_prompt_has_criteria_tools_plan_and_scores_in_the_papers_order():
    model = ScriptedModel([ANSWER.format(2, 1, 4)])
    await fused(model)
    prompt = model.requests[0].text
    order = [
        "You are an evaluation agent.",
        "Coherence (1-3, Any Floating Value): ",
        "Overall (1-5, Any Floating Value): ",
        "Two assistant evaluators are provided.",
        "1. nli: Entailment. (Range: 0 to 1, higher is better.)",
        "Use these evaluators as supplementary tools for your judgement",
        "- Manual Evaluation for Coherence",
        "- Use nli for Groundedness.",
        "1. Read.\n2. Rate.",
        "**Input Template**:",
        "**Output Template**:",
        "Groundedness\nScore: [Your evaluation] Explanation: [Your explanation on evaluation]",
        "Evaluation Summary:\nOverall Score: [Your evaluation]",
        "**Input Example**:",
        "A: Cats?\nB: Yes.",
        "Right.",
        "nli Score:\n\n0.9123\n",
        "lm_prob Score:\n\nmissing (MissingSource)\n",
        "Evaluation (please follow Output Template and provide the evaluation result):",
    ]
    places = [prompt.index(part) for part in order]
    assert places == sorted(places)
    assert prompt.endswith(order[-1])


async def test_a_plan_in_its_own_words_stays_unchanged_and_no_plan_leaves_nothing():
    words = "**Plan**: read {{ task }} closely & rate."
    model = ScriptedModel(lambda request: ANSWER.format(2, 1, 4))
    await fused(model, PLAN.model_copy(update={"steps": (), "text": words}))
    await fused(model, None)
    with_plan, without = (request.text for request in model.requests)
    assert words in with_plan
    assert "Plan" not in without


async def test_evidence_holds_the_tools_scores_and_the_samples():
    [_, groundedness, _] = await fused(ScriptedModel([ANSWER.format(2, 1, 4)]))
    nli, lm_prob, *explanations, samples = groundedness.evidence
    known = {"text": "nli", "value": NLI.value, "outcome": "scored", "scale": [0, 1]}
    assert nli == {**known, "selected": True}
    found = (lm_prob["value"], lm_prob["problem"], lm_prob["selected"])
    assert found == (None, "MissingSource: none", False)
    assert samples == {"text": "8 of 8 samples usable", "ratings": [1.0] * 8}
    assert all(explanation["text"] for explanation in explanations)


async def test_an_aspect_that_is_left_out_takes_no_other_aspects_rating():
    said = "Coherence\nScore: 2\n\nEvaluation Summary:\nOverall Score: 4\n\nCharm\nScore: 3"
    coherence, groundedness, overall = await fused(ScriptedModel([said]))
    assert (coherence.value, overall.value) == (2, 4)
    assert (groundedness.outcome, groundedness.error.type) == ("invalid", "NoScoreFound")
    assert groundedness.samples == 0
    assert repr(said)[:40] in groundedness.error.message
    # unrequested ratings are reported once, with their number
    told = {"text": "Charm: Score: 3", "problem": "it was not requested", "samples": 8}
    assert coherence.evidence[-1] == told
    assert "Charm" not in str(overall.evidence)


async def test_a_volunteered_overall_rating_is_not_the_last_aspects():
    task = tasks.load("dialogue", ["coherence", "groundedness"])
    said = "Coherence\nScore: 2\n\nGroundedness\n(cannot tell)\n\n"
    said += "Evaluation Summary:\nOverall Score: 1"
    model = ScriptedModel([said])
    judge = LLMFuser(asked(model, task), JUDGING)
    coherence, groundedness = await judge(TALK, task.aspects, [NLI, GONE])
    assert coherence.value == 2
    assert groundedness.value is None
    assert "Evaluation Summary" not in model.requests[0].text


async def test_some_samples_without_a_rating_are_left_out_and_counted():
    replies = [ANSWER.format(2, 1, 4), ANSWER.format(9, 0, 2)]
    model = ScriptedModel(lambda request: replies[request.draw % 2])
    coherence, groundedness, _ = await fused(model)
    assert (coherence.value, coherence.samples) == (2, 4)
    summary = {"text": "4 of 8 samples usable", "ratings": [2.0] * 4, "unusable": {"OffScale": 4}}
    assert summary in coherence.evidence
    assert (groundedness.value, groundedness.samples) == (0.5, 8)


async def test_a_single_sample_that_leaves_something_out_is_asked_for_again():
    model = ScriptedModel(["Coherence\nScore: 2", ANSWER.format(3, 1, 4)])
    coherence, groundedness, _ = await fused(model, n=1, temperature=0.0)
    assert (coherence.value, coherence.how, coherence.samples) == (2, "text", None)
    assert groundedness.value == 1
    assert {"text": "Coherence\nScore: 2", "problem": "NoScoreFound"} in groundedness.evidence
    first, reminder = [turn.content for turn in model.requests[1].messages[-2:]]
    assert first == "Coherence\nScore: 2"
    assert reminder == "Reply with the ratings alone, in the form that I asked for."


async def test_a_judge_that_declines_abstains():
    scores = await fused(ScriptedModel(["I'm sorry, I cannot rate this."]))
    assert {(score.outcome, score.error.type) for score in scores} == {("abstained", "Declined")}


async def test_answers_that_are_all_cut_get_more_room_and_lose_their_last_line():
    cut = Sample(text="Coherence\nScore: 2\nGroundedness\nScore: 0", finish_reason="length")
    model = ScriptedModel([cut, cut])
    coherence, groundedness, _ = await fused(model)
    assert [request.max_tokens for request in model.requests] == [608, 2432]
    assert coherence.value == 2
    assert groundedness.value is None


async def test_a_filtered_answer_is_refused_unless_it_is_complete():
    whole = Sample(text=ANSWER.format(2, 1, 4), finish_reason="filtered")
    assert (await fused(ScriptedModel([whole])))[0].value == 2
    with pytest.raises(ContentRefused):
        await fused(ScriptedModel([Sample(text="Coherence\nScore: 2", finish_reason="filtered")]))


async def test_nothing_is_asked_where_there_is_no_text_no_plan_or_a_tool_failed():
    model = ScriptedModel([])
    empty = await fused(model, example=TALK.model_copy(update={"output": " \n"}))
    assert {(score.outcome, score.error.type) for score in empty} == {("abstained", "EmptyOutput")}
    refused = await fused(model, RefusedPlan(problem="the plan names 'x'", text="- Coherence: x"))
    assert {(score.outcome, score.error.type) for score in refused} == {("invalid", "PlanRefused")}
    assert refused[0].evidence == ({"text": "- Coherence: x"},)
    broken = gap("nli", "error", "ValueError")
    failed = await fuser(model)(TALK, TASK.aspects, [broken, GONE], PLAN)
    assert {(score.outcome, score.error.type) for score in failed} == {("error", "ValueError")}
    assert failed[0].error.message == "the assistant evaluator nli failed: none"
    assert model.requests == []


async def test_the_judge_is_asked_about_all_aspects_whichever_are_wanted():
    model = ScriptedModel(lambda request: ANSWER.format(2, 1, 4))
    [overall] = await fused(model, aspects=TASK.aspects[2:])
    assert (overall.aspect, overall.value) == ("overall", 4)
    await fused(model)
    assert model.requests[0].messages == model.requests[1].messages
    with pytest.raises(UnknownName, match="charm"):
        await fused(model, aspects=(Aspect(name="charm", definition="d"),))


async def test_the_dry_run_answer_is_a_usable_answer():
    scores = await fused(DryAnswers())
    assert [score.value for score in scores] == [2, 0.5, 3]


async def test_signatures_distinguish_tools_and_sampling():
    model = ScriptedModel([])
    other = JUDGING[0].model_copy(update={"signature": "tool:nli|model:other"})
    fusers = [fuser(model), fuser(model, n=4), fuser(model, variant="plan"),
              LLMFuser(asked(model), (other, JUDGING[1]))]  # fmt: skip
    assert len({one.signature for one in fusers}) == len(fusers)


@pytest.mark.parametrize("n", [1, 8])
async def test_a_source_that_was_cut_is_reported_in_every_score(n):
    def reply(_):
        return Response(samples=(Sample(text=ANSWER.format(2, 0.5, 4)),), truncated_tokens=7)

    model = ScriptedModel(reply)
    scores = await fused(model, n=n)
    assert {request.truncatable for request in model.requests} == {TALK.source}
    assert [score.evidence[-1]["truncated_tokens"] for score in scores] == [7, 7, 7]


EXAMPLE = Example(id="x", output="A text.")
COHERENCE = Aspect(name="coherence", definition="d")
FLUENCY = Aspect(name="fluency", definition="d", scale=(1.0, 3.0))
AVERAGED = (
    AssistantDescription(name="nli", description="d", scale=(0.0, 1.0)),
    AssistantDescription(name="bleu", description="d", scale=(0.0, 100.0)),
    AssistantDescription(
        name="repetition", description="d", scale=(0.0, 1.0), higher_is_better=False
    ),
)
CHOICE = Plan(assistants={"coherence": ("bleu", "repetition"), "fluency": ()}, steps=("Rate.",))


SCORES = [of("nli", 0.9), of("bleu", 30.0, (0.0, 100.0)), of("repetition", 0.1)]


async def test_avg_maps_every_tool_to_0_1_and_turns_round_what_is_better_low():
    score = await ToolAverage(AVERAGED, signature="s")(EXAMPLE, COHERENCE, SCORES)
    assert score.value == pytest.approx((0.9 + 0.3 + 0.9) / 3)
    assert (score.aspect, score.scale, score.signature) == ("coherence", (0, 1), "s")
    assert score.usage == Usage()
    assert [item["mapped"] for item in score.evidence] == pytest.approx([0.9, 0.3, 0.9])
    assert [item["value"] for item in score.evidence] == [0.9, 30, 0.1]


async def test_llmsel_averages_what_the_plan_names_for_the_aspect():
    score = await ToolAverage(AVERAGED)(EXAMPLE, COHERENCE, SCORES, CHOICE)
    assert score.value == pytest.approx(0.6)
    selected = [(item["text"], item["selected"]) for item in score.evidence]
    assert selected == [("nli", False), ("bleu", True), ("repetition", True)]
    # where the plan names no tool it abstains, even with a direct judgment
    direct = of("fluency", 2.0, (1.0, 3.0))
    score = await ToolAverage(AVERAGED)(EXAMPLE, FLUENCY, SCORES, CHOICE, direct=direct)
    assert (score.value, score.outcome, score.error.type) == (None, "abstained", "NoToolSelected")
    assert score.error.message == "the plan names no assistant evaluator for fluency"


async def test_a_tool_that_abstains_is_left_out_and_too_many_leave_no_mean():
    one = await ToolAverage(AVERAGED)(EXAMPLE, COHERENCE, [gap("nli"), *SCORES[1:]])
    assert one.value == pytest.approx(0.6)
    assert one.evidence[0]["problem"] == "MissingSource: none"
    two = await ToolAverage(AVERAGED)(EXAMPLE, COHERENCE, [gap("nli"), gap("bleu"), SCORES[2]])
    assert (two.outcome, two.error.type) == ("abstained", "MissingSource")


async def test_a_failure_makes_an_error_only_where_it_counts():
    broken = [gap("nli", "error"), *SCORES[1:]]
    average = ToolAverage(AVERAGED)
    assert (await average(EXAMPLE, COHERENCE, broken)).outcome == "error"
    assert (await average(EXAMPLE, COHERENCE, broken, CHOICE)).value == pytest.approx(0.6)
    failure = Failure(node="direct", type="ServerFailed", message="down")
    score = await average(EXAMPLE, COHERENCE, SCORES, direct=failure)
    assert (score.outcome, score.error.type) == ("error", "ServerFailed")


async def test_an_unbounded_tool_needs_a_range_and_is_held_to_it():
    bleurt = AssistantDescription(name="bleurt", description="d")
    with pytest.raises(ConfigurationError, match=r"'ranges': \{'bleurt': \[0, 1\]"):
        ToolAverage((bleurt,))
    average = ToolAverage((bleurt,), {"bleurt": (0.0, 1.0)})
    for value, mapped in [(-0.2, 0.0), (0.4, 0.4), (1.1, 1.0)]:
        assert (await average(EXAMPLE, COHERENCE, [of("bleurt", value, None)])).value == mapped


async def test_an_aspect_that_is_better_low_keeps_its_direction():
    toxicity = Aspect(name="toxicity", definition="d", higher_is_better=False)
    score = await ToolAverage(AVERAGED[:1])(EXAMPLE, toxicity, SCORES[:1])
    assert score.value == pytest.approx(0.1)


async def test_an_empty_output_and_a_refused_plan_have_no_mean():
    bare = EXAMPLE.model_copy(update={"output": ""})
    empty = await ToolAverage(AVERAGED)(bare, COHERENCE, SCORES)
    assert (empty.outcome, empty.error.type) == ("abstained", "EmptyOutput")
    plan = RefusedPlan(problem="p", text="t")
    refused = await ToolAverage(AVERAGED)(EXAMPLE, COHERENCE, SCORES, plan)
    assert (refused.outcome, refused.error.type) == ("invalid", "PlanRefused")
    assert refused.evidence == ({"text": "t"},)

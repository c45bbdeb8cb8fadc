"""The judge that fuses: every aspect in one answer, samples averaged, gaps and failures told for
what they are."""

import pytest

from textassay.agents.ask import Ask
from textassay.agents.llm_fuser import LLMFuser
from textassay.agents.planner import Assistant, RefusedPlan
from textassay.methods.library import tasks
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import ContentRefused, UnknownName
from textassay.runtime.messages import Aspect, Example, Plan, Score, ScoreError
from textassay.runtime.model import Response, Sample

TASK = tasks.load("dialogue", ["coherence", "groundedness", "overall"])
EXAMPLE = Example(id="x", output="Right.", source="A: Cats?\nB: Yes.", context="Cats sit.")
TOOLS = (
    Assistant(name="nli", description="Entailment.", scale=(0.0, 1.0)),
    Assistant(name="lm_prob", description="Likelihood.", scale=(0.0, 1.0)),
)
NLI = Score(id="x", aspect="nli", value=0.91234567, scale=(0.0, 1.0), how="tool")
GONE = Score(
    id="x",
    aspect="lm_prob",
    outcome="abstained",
    how="tool",
    error=ScoreError(type="MissingSource", message="none"),
)
PLAN = Plan(
    assistants={"coherence": (), "groundedness": ("nli",), "overall": ()}, steps=("Read.", "Rate.")
)
ANSWER = """Criteria's Scores and Explanations:

Coherence
Score: {} Explanation: It follows on.

Groundedness
Score: {} Explanation: It says 1 thing of 2.

Evaluation Summary:
Overall Score: {} Explanation: Short but fine."""

pytestmark = pytest.mark.asyncio


def asked(model, task=TASK, **fields):
    return Ask(model, "fusion_eval", task, **{"n": 8, "temperature": 0.1, **fields})


def fuser(model, **fields):
    asking = {
        name: fields.pop(name) for name in ("temperature", "seed", "layout") if name in fields
    }
    return LLMFuser(asked(model, n=fields.pop("n", 8), **asking), TOOLS, **fields)


async def fused(model, plan=PLAN, example=EXAMPLE, aspects=TASK.aspects, **fields):
    return await fuser(model, **fields)(example, aspects, [NLI, GONE], plan)


async def test_eight_samples_are_averaged_for_each_aspect():
    model = ScriptedModel(lambda request: ANSWER.format(2 + request.draw % 2 / 2, 0.5, 4))
    coherence, groundedness, overall = await fused(model)
    assert [score.aspect for score in (coherence, groundedness, overall)] == [
        "coherence",
        "groundedness",
        "overall",
    ]
    assert (coherence.value, coherence.samples, coherence.spread, coherence.how) == (
        2.25,
        8,
        0.25,
        "sampled",
    )
    assert (groundedness.value, groundedness.scale, groundedness.spread) == (0.5, (0, 1), 0)
    assert (overall.value, overall.scale) == (4, (1, 5))
    assert coherence.explanation == "It follows on."
    assert groundedness.explanation == "It says 1 thing of 2."
    assert overall.explanation == "Short but fine."
    [request] = model.requests
    assert (request.n, request.temperature) == (8, 0.1)


async def test_the_prompt_tells_criteria_tools_plan_and_scores_in_the_papers_order():
    model = ScriptedModel([ANSWER.format(2, 1, 4)])
    await fused(model)
    prompt = model.requests[0].text
    order = [
        "You are an evaluation agent.",
        "Coherence (1-3, Any Floating Value): ",
        "Overall (1-5, Any Floating Value): ",
        "2 assistant evaluators are provided.",
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


async def test_a_plan_in_its_own_words_stands_as_it_is_and_no_plan_leaves_nothing():
    words = "**Plan**: read {{ task }} closely & rate."
    model = ScriptedModel(lambda request: ANSWER.format(2, 1, 4))
    await fused(model, PLAN.model_copy(update={"steps": (), "text": words}))
    await fused(model, None)
    with_plan, without = (request.text for request in model.requests)
    assert words in with_plan
    assert "Plan" not in without


async def test_texts_come_first_in_a_shared_prefix():
    model = ScriptedModel(lambda request: ANSWER.format(2, 1, 4))
    await fused(model, layout="shared-prefix")
    await fused(model, None, layout="shared-prefix")
    one, two = (request.text for request in model.requests)
    end = one.index("You are an evaluation agent.")
    assert one[:end] == two[:end]
    assert "Right." in one[:end]
    assert "0.9123" in one[:end]
    assert one.count("Right.") == 1


async def test_evidence_holds_the_tools_scores_and_the_samples():
    [_, groundedness, _] = await fused(ScriptedModel([ANSWER.format(2, 1, 4)]))
    nli, lm_prob, *explanations, samples = groundedness.evidence
    assert nli == {
        "text": "nli",
        "value": NLI.value,
        "outcome": "scored",
        "scale": [0, 1],
        "selected": True,
    }
    assert lm_prob["value"] is None
    assert lm_prob["problem"] == "MissingSource: none"
    assert lm_prob["selected"] is False
    assert samples == {"text": "8 of 8 samples usable", "ratings": [1.0] * 8}
    assert all(explanation["text"] for explanation in explanations)


async def test_an_aspect_that_is_left_out_takes_no_other_aspects_rating():
    said = "Coherence\nScore: 2\n\nEvaluation Summary:\nOverall Score: 4\n\nCharm\nScore: 3"
    coherence, groundedness, overall = await fused(ScriptedModel([said]))
    assert (coherence.value, overall.value) == (2, 4)
    assert (groundedness.outcome, groundedness.error.type, groundedness.samples) == (
        "invalid",
        "NoScoreFound",
        0,
    )
    assert repr(said)[:40] in groundedness.error.message
    assert coherence.evidence[-1]["text"] == "Charm: Score: 3"


async def test_ratings_that_nobody_asked_for_are_told_once_with_their_number():
    said = ANSWER.format(2, 1, 4) + "\n\nCharm: 3"
    coherence, groundedness, _ = await fused(ScriptedModel([said]))
    assert coherence.evidence[-1] == {
        "text": "Charm: 3",
        "problem": "it was not requested",
        "samples": 8,
    }
    assert "Charm" not in str(groundedness.evidence)


async def test_a_volunteered_overall_rating_is_not_the_last_aspects():
    task = tasks.load("dialogue", ["coherence", "groundedness"])
    said = (
        "Coherence\nScore: 2\n\nGroundedness\n(cannot tell)\n\nEvaluation Summary:\n"
        "Overall Score: 1"
    )
    model = ScriptedModel([said])
    coherence, groundedness = await LLMFuser(asked(model, task), TOOLS)(
        EXAMPLE, task.aspects, [NLI, GONE]
    )
    assert coherence.value == 2
    assert groundedness.value is None
    assert "Evaluation Summary" not in model.requests[0].text


async def test_some_samples_without_a_rating_are_left_out_and_counted():
    replies = [ANSWER.format(2, 1, 4), ANSWER.format(9, 0, 2)]
    coherence, groundedness, _ = await fused(
        ScriptedModel(lambda request: replies[request.draw % 2])
    )
    assert (coherence.value, coherence.samples) == (2, 4)
    assert {
        "text": "4 of 8 samples usable",
        "ratings": [2.0] * 4,
        "unusable": {"OffScale": 4},
    } in coherence.evidence
    assert (groundedness.value, groundedness.samples) == (0.5, 8)


async def test_servers_that_give_one_sample_are_asked_until_there_are_enough():
    def one(request):
        from textassay.runtime.model import Response

        return Response(samples=(Sample(text=ANSWER.format(2, 1, 4)),))

    model = ScriptedModel(one)
    scores = await fused(model, n=3)
    assert scores[0].samples == 3
    assert [(request.n, request.draw) for request in model.requests] == [(3, 0), (1, 1), (1, 2)]


async def test_a_single_sample_that_leaves_something_out_is_asked_for_again():
    model = ScriptedModel(["Coherence\nScore: 2", ANSWER.format(3, 1, 4)])
    coherence, groundedness, _ = await fused(model, n=1, temperature=0.0)
    assert (coherence.value, coherence.how, coherence.samples) == (2, "text", None)
    assert groundedness.value == 1
    assert {"text": "Coherence\nScore: 2", "problem": "NoScoreFound"} in groundedness.evidence
    turns = [turn.content for turn in model.requests[1].messages[-2:]]
    assert turns == [
        "Coherence\nScore: 2",
        "Reply with the ratings alone, in the form that I asked for.",
    ]


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
    empty = await fused(model, example=EXAMPLE.model_copy(update={"output": " \n"}))
    assert {(score.outcome, score.error.type) for score in empty} == {("abstained", "EmptyOutput")}
    refused = await fused(model, RefusedPlan(problem="the plan names 'x'", text="- Coherence: x"))
    assert {(score.outcome, score.error.type) for score in refused} == {("invalid", "PlanRefused")}
    assert refused[0].evidence == ({"text": "- Coherence: x"},)
    broken = Score(
        id="x",
        aspect="nli",
        outcome="error",
        how="tool",
        error=ScoreError(type="ValueError", message="bad"),
    )
    failed = await fuser(model)(EXAMPLE, TASK.aspects, [broken, GONE], PLAN)
    assert {(score.outcome, score.error.type) for score in failed} == {("error", "ValueError")}
    assert failed[0].error.message == "the assistant evaluator nli failed: bad"
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
    model = ScriptedModel([ANSWER.format(2, 1, 4)])
    await fused(model)
    scores = await fused(ScriptedModel([model.requests[0].dry_run_answer]))
    assert [score.value for score in scores] == [2, 0.5, 3]


async def test_signatures_tell_tools_plans_and_sampling_apart():
    model = ScriptedModel([])
    other = Assistant(
        name="nli", description="Entailment.", scale=(0.0, 1.0), signature="tool:nli|model:other"
    )
    signatures = {
        fuser(model).signature,
        fuser(model, n=4).signature,
        fuser(model, temperature=0.5).signature,
        fuser(model, variant="plan").signature,
        LLMFuser(asked(model), (other, TOOLS[1])).signature,
        LLMFuser(asked(model, tasks.load("dialogue", ["coherence"])), TOOLS).signature,
    }
    assert len(signatures) == 6
    assert all(text.startswith("method:fusion-eval|model:scripted|") for text in signatures)


@pytest.mark.parametrize("n", [1, 8])
async def test_a_source_that_was_cut_is_told_in_every_score(n):
    def reply(_):
        return Response(samples=(Sample(text=ANSWER.format(2, 0.5, 4)),), truncated_tokens=7)

    model = ScriptedModel(reply)
    scores = await fused(model, n=n)
    assert {request.truncatable for request in model.requests} == {EXAMPLE.source}
    assert [score.evidence[-1]["truncated_tokens"] for score in scores] == [7, 7, 7]

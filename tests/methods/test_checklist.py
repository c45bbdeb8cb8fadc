"""The checklist: published questions, answers with quotations that are looked up, P(yes), weights,
a lock."""

import asyncio
import json
import math

import pytest

from tests.methods.judging import judged, scores_of
from textassay.methods import build
from textassay.methods.checklist import ChecklistOptions, write_checklist
from textassay.methods.library import tasks, trees
from textassay.prompts import CHECKLISTS
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import ConfigurationError, MalformedResponse
from textassay.runtime.messages import Assignment, Example

EXAMPLE = Example(
    id="x", source="The cat sat on the mat. It slept all day.", output="The cat slept all day."
)
FILE = """
[[aspects]]
name = "coherence"

[[aspects]]
name = "Order"
parent = "coherence"
question = "Is it in order?"

[[aspects]]
name = "Jumps"
parent = "coherence"
question = "Does it jump?"
higher_is_better = false

[[aspects]]
name = "Focus"
parent = "coherence"
question = "Has it a focus?"
"""


@pytest.fixture
def file(tmp_path):
    """A checklist of three questions, of which one is better answered with no."""
    path = tmp_path / "checklist.toml"
    path.write_text(FILE, encoding="utf-8")
    return str(path)


def saying(table, quote="The cat slept all day"):
    """A judge that answers by words of the question, with a quotation."""

    def reply(request):
        answer = next(answer for words, answer in table.items() if words in request.text)
        said, cited = answer if isinstance(answer, tuple) else (answer, quote)
        return json.dumps({"quote": cited, "answer": said})

    return ScriptedModel(reply)


async def run(model, file, **options):
    return await judged("checklist", model, EXAMPLE, "summarization", checklist=file, **options)


async def test_answers_with_true_quotations_are_averaged_and_a_bad_yes_counts_as_no(file):
    [score] = await run(saying({"order": "yes", "jump": "yes", "focus": "yes"}), file)
    assert (score.value, score.scale, score.how) == (pytest.approx(2 / 3), (0, 1), "fused")
    assert [piece["answer"] for piece in score.evidence] == ["yes"] * 3
    assert {piece["found_in"] for piece in score.evidence} == {"output"}
    assert score.evidence[0]["text"] == "Is it in order?"
    assert score.usage.calls == 3


async def test_an_answer_with_a_made_up_quotation_is_abstained_and_counted(file):
    made_up = ("yes", "The dog slept all day")
    [score] = await run(saying({"order": made_up, "jump": "no", "focus": "no"}), file)
    assert score.value == pytest.approx(1 / 2)
    assert score.evidence[0]["outcome"] == "abstained"
    assert "QuoteNotFound" in score.evidence[0]["problem"]
    assert score.evidence[-1] == {"text": "1 of 3 questions abstained", "abstained": 1}


async def test_without_enough_answers_there_is_no_score(file):
    [score] = await run(saying({"": "yes"}, quote="Never said at all"), file)
    assert (score.value, score.outcome, score.error.type) == (None, "abstained", "QuoteNotFound")


async def test_a_source_may_be_quoted_and_the_question_may_not(file):
    table = {"order": ("yes", "sat on the mat"), "jump": ("no", "Does it jump?"), "focus": "unsure"}
    order, jump, focus = await run(saying(table), file, output="questions")
    found_in = order.evidence[0]["found_in"]
    assert (order.aspect, order.value, found_in) == ("coherence/order", 1, "source")
    assert (jump.outcome, jump.error.type) == ("abstained", "QuoteNotFound")
    assert (focus.outcome, focus.error.type) == ("abstained", "Unsure")


async def test_answers_in_lines_are_read_and_prose_is_asked_for_again(file):
    model = ScriptedModel(["Hm.", "Quote: The cat slept all day.\nAnswer: **Yes**"])
    options = {"checklist": file, "output": "questions"}
    method = build("checklist", model, task="summarization", options=options)
    [score] = await method.graph.run(Assignment(example=EXAMPLE, aspects=method.aspects[:1]))
    assert (score.value, score.usage.calls) == (1, 2)
    assert model.requests[1].messages[-1].content == "Reply with the JSON object alone."


async def test_p_yes_needs_no_quotation(file):
    def choices(request):
        share = 0.9 if "order" in request.text else 0.4
        return {"yes": math.log(share), "no": math.log(1 - share)}

    [score] = await run(ScriptedModel(choices=choices), file, answers="p-yes")
    assert score.value == pytest.approx((0.9 + 0.6 + 0.4) / 3)
    assert score.evidence[0]["p_yes"] == pytest.approx(0.9)


async def test_the_model_writes_the_questions_once():
    def reply(request):
        if "Write a checklist" in request.text:
            return "1. Order: Is it in order?\n2. Remark: this is none.\n3. Focus: Has it a focus?"
        return '{"quote": "The cat slept all day", "answer": "yes"}'

    model = ScriptedModel(reply)
    method = build("checklist", model, task="summarization", aspects=["coherence"],
                   options={"checklist": "model"})  # fmt: skip
    [first], [second] = await asyncio.gather(scores_of(method, EXAMPLE), scores_of(method, EXAMPLE))
    assert first.value == second.value == 1
    assert first.evidence[-1]["problem"] == "no question"
    assert sum("Write a checklist" in request.text for request in model.requests) == 1
    task = tasks.load("summarization", ["fluency"])
    grown = await write_checklist(model, task, ChecklistOptions())
    asked = [leaf.question for leaf in grown.tree.leaves]
    assert asked == ["Is it in order?", "Has it a focus?"]
    with pytest.raises(MalformedResponse, match="wrote none"):
        await write_checklist(ScriptedModel(["1. A: no question."]), task)


@pytest.mark.parametrize("name", CHECKLISTS)
async def test_published_questions_load_for_their_task(name):
    """CheckEval's are all there."""
    task = tasks.load(name.removesuffix("-all"))
    tree = trees.load_checklist(name, task)
    assert {root.name for root in tree.roots} == {aspect.name for aspect in task.aspects}
    assert all(leaf.question.endswith("?") and leaf.scale == (0, 1) for leaf in tree.leaves)
    counts = {"summarization": 15, "summarization-all": 122}
    assert len(tree.leaves) == counts.get(name, len(tree.leaves))


async def test_a_leaf_without_a_question_is_an_error(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text('[[aspects]]\nname = "coherence"\n', encoding="utf-8")
    with pytest.raises(ConfigurationError, match="'coherence' has no questions below it"):
        trees.load_checklist(str(path), tasks.load("summarization"))

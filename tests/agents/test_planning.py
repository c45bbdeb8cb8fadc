"""What a model writes before anything is judged: parts of a criterion, and evaluation steps."""

import pytest

from tests.dry_answers import DryAnswers
from textassay.agents.ask import Ask
from textassay.agents.planning import Decomposer, StepsWriter, grow
from textassay.methods.library import tasks
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import ConfigurationError, ContentRefused, MalformedResponse
from textassay.runtime.model import Sample

TASK = tasks.load("summarization", ["coherence"])
COHERENCE = TASK.aspects[0]
FIVE = "\n".join(f"{i}. Part {i}: what part {i} is." for i in range(1, 6))


def decomposer(replies, **fields):
    model = ScriptedModel(replies)
    ask = Ask(model, fields.pop("prompt", "coascore_aspects"), TASK, seed=fields.pop("seed", None))
    return model, Decomposer(ask, **{"count": 5, **fields})


async def test_parts_are_below_the_criterion_and_on_its_scale():
    model, agent = decomposer([FIVE])
    target = COHERENCE.model_copy(update={"scale": (1.0, 3.0)})
    found = await agent(target)
    assert found.of == target
    assert [(a.id, a.definition, a.scale) for a in found.aspects][:2] == [
        ("coherence/part-1", "what part 1 is.", (1, 3)),
        ("coherence/part-2", "what part 2 is.", (1, 3)),
    ]
    assert found.notes == ()
    [request] = model.requests
    assert (request.temperature, request.n) == (0, 1)
    assert "exactly 5 lines" in request.text
    assert COHERENCE.definition in request.text


async def test_the_dry_run_answer_lists_as_many_parts_as_are_wanted():
    agent = Decomposer(Ask(DryAnswers(), "coascore_aspects", TASK), count=5)
    assert len((await agent(COHERENCE)).aspects) == 5


async def test_too_many_are_cut_and_kept_as_surplus():
    _, agent = decomposer([FIVE], count=3)
    found = await agent(COHERENCE)
    assert [aspect.name for aspect in found.aspects] == ["Part 1", "Part 2", "Part 3"]
    assert [note["problem"] for note in found.notes] == ["surplus", "surplus"]
    model, agent = decomposer(["1. One: a."])  # fewer parts than at most are fine
    assert (len((await agent(COHERENCE)).aspects), len(model.requests)) == (1, 1)


async def test_too_few_are_asked_for_again_with_what_is_wrong():
    short = "1. Part 1: one.\n2. Part 1: one again.\n3. Coherence: itself."
    model, agent = decomposer([short, FIVE], exact=True)
    found = await agent(COHERENCE)
    assert len(found.aspects) == 5
    assert found.notes == ({"text": short, "problem": "1 of 5 usable"},)
    again = model.requests[1].messages
    assert [message.role for message in again] == ["user", "assistant", "user"]
    assert again[1].content == short
    assert "only 1 of the entries" in again[2].content
    assert "exactly 5" in again[2].content


async def test_what_is_still_too_short_is_taken_and_noted():
    _, agent = decomposer(["1. One: a.\n2. Two: b.", "1. One: a."], exact=True)
    found = await agent(COHERENCE)
    assert [aspect.name for aspect in found.aspects] == ["One", "Two"]
    assert [note["problem"] for note in found.notes] == ["2 of 5 usable", "1 of 5 usable"]


@pytest.mark.parametrize(
    "prose", ["It depends on order and on tone. Many things matter.", "", "[]"]
)
async def test_no_list_is_asked_for_once_more_and_then_an_error_that_quotes_it(prose):
    model, agent = decomposer([prose, prose])
    with pytest.raises(
        MalformedResponse, match=r"divide 'coherence' into criteria but returned no list; it said: "
    ) as error:
        await agent(COHERENCE)
    assert prose[:40] in str(error.value)
    assert len(model.requests) == 2
    assert "no list of named criteria" in model.requests[1].messages[-1].content


async def test_a_cut_answer_is_asked_for_with_more_room():
    model, agent = decomposer([Sample(text="1. One: a.\n2. Tw", finish_reason="length"), FIVE])
    assert len((await agent(COHERENCE)).aspects) == 5
    assert model.requests[1].max_tokens == 4 * model.requests[0].max_tokens


async def test_the_last_entry_of_an_answer_without_an_end_is_not_trusted():
    cut = Sample(text="1. One: a.\n2. Two: b.\n3. Three: half a defin", finish_reason="length")
    _, agent = decomposer([cut, cut])
    found = await agent(COHERENCE)
    assert [aspect.name for aspect in found.aspects] == ["One", "Two"]
    assert found.notes == ({"text": "Three: half a defin", "problem": "cut off"},)


async def test_a_filtered_answer_is_refused():
    _, agent = decomposer([Sample(text="1. One: a.", finish_reason="filtered")])
    with pytest.raises(ContentRefused):
        await agent(COHERENCE)


async def test_a_tree_grows_layer_by_layer_and_is_listed_depth_first():
    def parts(request):
        return "1. Left: l.\n2. Right: r.\n3. Left: again."

    model, agent = decomposer(parts, count=2)
    grown = await grow(agent, (COHERENCE,), 3)
    below = ["", "/left", "/left/right", "/right", "/right/left"]
    assert [aspect.id for aspect in grown.tree] == [f"coherence{end}" for end in below]
    assert len(model.requests) == 3
    under = {"coherence", "coherence/left", "coherence/right"}
    assert {note["under"] for note in grown.notes} == under
    assert (await grow(agent, (COHERENCE,), 1)).tree.aspects == (COHERENCE,)
    with pytest.raises(ConfigurationError, match="at least 1 layer"):
        await grow(agent, (COHERENCE,), 0)
    with pytest.raises(ConfigurationError, match="at least 1 part, not 0"):
        decomposer(parts, count=0)
    assert len(model.requests) == 3


async def test_the_digest_covers_everything_that_shapes_the_parts():
    _, one = decomposer([], count=5)
    _, two = decomposer([], count=10)
    assert one.digest != two.digest
    assert one.digest == decomposer([], count=5)[1].digest


SUMMARIES = tasks.load("summarization")


def writer(model, **fields):
    return StepsWriter(Ask(model, "g_eval_steps", SUMMARIES, **fields))


async def test_text_after_the_steps_is_left_out():
    model = ScriptedModel(
        ["1. Read.\n2. Rate.\n\n**Evaluation Form (scores ONLY):**\n- Coherence: 5"]
    )
    assert (await writer(model)(SUMMARIES.aspects[0])) == "1. Read.\n2. Rate."


async def test_steps_that_are_cut_are_asked_for_with_more_room():
    model = ScriptedModel([Sample(text="1. Re", finish_reason="length"), "1. Read."])
    assert (await writer(model, max_tokens=8)(SUMMARIES.aspects[0])) == "1. Read."
    assert [request.max_tokens for request in model.requests] == [8, 32]


@pytest.mark.parametrize("reply", ["", Sample(text="1. R", finish_reason="length")])
async def test_no_steps_are_an_error(reply):
    with pytest.raises(MalformedResponse, match="steps to judge 'coherence'"):
        await writer(ScriptedModel([reply, reply]))(SUMMARIES.aspects[0])

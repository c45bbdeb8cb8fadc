"""Evaluation steps: written once, without what models add after them."""

import pytest

from textassay.agents.ask import Ask
from textassay.agents.steps import StepsWriter
from textassay.methods.library import tasks
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import MalformedResponse
from textassay.runtime.model import Sample

TASK = tasks.load("summarization")

pytestmark = pytest.mark.asyncio


def writer(model, **fields):
    return StepsWriter(Ask(model, "g_eval_steps", TASK, **fields))


async def test_what_a_model_adds_after_the_steps_is_left_out():
    model = ScriptedModel(
        ["1. Read.\n2. Rate.\n\n**Evaluation Form (scores ONLY):**\n- Coherence: 5"]
    )
    assert (await writer(model)(TASK.aspects[0])).text == "1. Read.\n2. Rate."


async def test_steps_that_are_cut_are_asked_for_with_more_room():
    model = ScriptedModel([Sample(text="1. Re", finish_reason="length"), "1. Read."])
    assert (await writer(model, max_tokens=8)(TASK.aspects[0])).text == "1. Read."
    assert [request.max_tokens for request in model.requests] == [8, 32]


@pytest.mark.parametrize("reply", ["", Sample(text="1. R", finish_reason="length")])
async def test_no_steps_are_an_error(reply):
    with pytest.raises(MalformedResponse, match="steps to judge 'coherence'"):
        await writer(ScriptedModel([reply, reply]))(TASK.aspects[0])

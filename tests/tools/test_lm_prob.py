"""LM probability over a scripted model."""

import math

import pytest

from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import CapabilityError, ConfigurationError
from textassay.runtime.messages import Example, Usage
from textassay.runtime.model import ContinuationResponse, TokenLogprob
from textassay.tools import LMProb


def model(logprobs, **more):
    """A model that gives these log-probabilities to whatever it is asked."""
    tokens = tuple(TokenLogprob(token="x", logprob=p) for p in logprobs)
    return ScriptedModel(
        continuation=lambda request: ContinuationResponse(
            tokens=tokens, usage=Usage(calls=1, prompt_tokens=9), **more
        )
    )


@pytest.mark.asyncio
async def test_value_is_the_geometric_mean_of_the_tokens_probabilities():
    """So a longer output is not less likely for being long."""
    found = await LMProb(connected=model([-1.0, -3.0])).score(Example(output="a b", source="s"))
    assert found.value == pytest.approx(math.exp(-2))
    assert (found.scale, found.how, found.usage.calls) == ((0, 1), "tool", 1)
    assert "over 2 tokens" in found.explanation


@pytest.mark.asyncio
async def test_the_prompt_holds_fact_and_conversation_and_the_output_follows():
    """As in the paper, and a place holder inside a text is text."""
    connected = model([-1.0])
    tool = LMProb(connected=connected, template="Talk:\n{premise}\nReply: ")
    await tool.score(Example(output=" jazz? ", source="shall {premise} go", context="a fact"))
    (request,) = connected.requests
    assert request.prompt == "Talk:\na fact\nshall {premise} go\nReply: "
    assert request.continuation == "jazz?"


@pytest.mark.asyncio
async def test_what_was_cut_off_is_told_and_marked():
    """A premise that did not fit makes another measurement."""
    example = Example(output="a", source="s")
    whole = await LMProb(connected=model([-1.0])).score(example)
    cut = await LMProb(connected=model([-1.0], truncated_tokens=7)).score(example)
    assert "7 tokens of the premise were left out" in cut.explanation
    assert cut.signature != whole.signature


@pytest.mark.asyncio
async def test_unconditional_probability_needs_no_source():
    """Otherwise a source is needed."""
    lacking = await LMProb(connected=model([-1.0])).score(Example(output="a"))
    assert (lacking.outcome, lacking.error.type) == ("abstained", "MissingSource")
    free = LMProb(connected=model([-1.0]), template="Text: ", unconditional=True)
    assert (await free.score(Example(output="a"))).value == pytest.approx(math.exp(-1))


@pytest.mark.asyncio
async def test_models_that_cannot_or_are_not_named_are_refused():
    """Both would hit every example."""
    with pytest.raises(CapabilityError, match="does not report the log-probability"):
        await LMProb(connected=ScriptedModel(["x"])).score(Example(output="a", source="s"))
    with pytest.raises(ConfigurationError, match="lm_prob needs a model"):
        await LMProb().score(Example(output="a", source="s"))
    with pytest.raises(ConfigurationError, match="not both"):
        LMProb(model="direct/x", connected=model([-1.0]))


@pytest.mark.asyncio
async def test_a_lent_model_is_not_closed():
    """It belongs to the run."""
    lent = model([-1.0])
    tool = LMProb(connected=lent)
    await tool.aclose()
    assert (await LMProb(connected=lent).score(Example(output="a", source="s"))).outcome == "scored"

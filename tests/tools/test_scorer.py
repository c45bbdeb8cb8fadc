"""A set of tools as one scorer, tools made of functions, and the guide's example of one."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest

from examples import own_tool
from textassay.runtime.errors import ConfigurationError, TimedOut
from textassay.runtime.messages import Example
from textassay.tools import KINDS, Abstention, Length, Measurement, Rouge, Tool, ToolScorer, tool


@tool(description="Share of vowels.", scale=(0, 1))
def vowels(example):
    return sum(c in "aeiou" for c in example.output) / len(example.output)


@tool(description="Always fails.")
async def failing(example):
    raise TimedOut("the model did not answer")


@tool(description="Has a mistake in it.")
def mistaken(example):
    return 1 / 0


@tool(description="Wrong about its scale.", scale=(0, 1))
def overshooting(example):
    return 7.0


@tool(description="Declines.", needs=("context",))
async def declining(example):
    return Abstention(type="NotMine", message="no opinion")


async def test_scores_come_in_the_order_of_the_tools():
    async with ToolScorer([Length(), vowels, Rouge()]) as scorer:
        scores = await scorer.score(Example(id="x", output="aabb", references=("aabb",)))
    assert [(s.aspect, s.value, s.how, s.id) for s in scores] == [
        ("length", 1, "tool", "x"),
        ("vowels", 0.5, "tool", "x"),
        ("rougeL", 1, "tool", "x"),
    ]
    assert scorer.names == ("length", "vowels", "rougeL")
    with pytest.raises(ConfigurationError, match="no tools"):
        ToolScorer([])
    with pytest.raises(ConfigurationError, match="share a name"):
        ToolScorer([Length(), Length(unit="tokens")])


async def test_function_tools_abstain_and_mark_what_does_not_compare():
    """A missing input abstains by itself; parts of a measurement join the signature."""

    @tool(description="Marked.")
    def marked(example):
        return Measurement(value=1, signature_parts={"against": example.system or "none"})

    one, two = [await marked.score(Example(output="a", system=s)) for s in ("x", "y")]
    assert one.signature != two.signature
    assert "against:x" in one.signature
    assert isinstance(vowels, Tool)
    assert isinstance(Length(), Tool)
    assert vowels.rename("other").name == "other"
    for context, reason in ((None, "MissingContext"), ("c", "NotMine")):
        found = await declining.score(Example(output="a", context=context))
        assert (found.outcome, found.error.type) == ("abstained", reason)


async def test_a_failing_tool_is_an_error_of_its_own_score():
    scorer = ToolScorer([failing, mistaken, overshooting, Length()])
    scores = await scorer.score(Example(output="two words"))
    assert [(s.outcome, s.value, s.error and s.error.type) for s in scores] == [
        ("error", None, "TimedOut"),
        ("error", None, "ZeroDivisionError"),
        ("error", None, "ValueError"),
        ("scored", 2, None),
    ]
    assert "off its own scale" in scores[2].error.message


async def test_an_error_that_would_hit_every_example_stops_the_run():

    @tool(description="Cannot work.")
    def unusable(example):
        raise ConfigurationError("install something")

    for tools in ([unusable], [unusable, Length()]):
        with pytest.raises(ConfigurationError, match="install something"):
            await ToolScorer(tools).score(Example(output="a"))


async def test_cancelling_reaches_every_tool():
    begun, ended = asyncio.Event(), []

    @tool(description="Waits.")
    async def waiting(example):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)
        return 0.0

    task = asyncio.create_task(ToolScorer([waiting, Length()]).score(Example(output="a")))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "tools.md").read_text(encoding="utf-8")


def test_the_example_runs_and_prints_what_it_should(capsys):
    """Faithful, invented, and without a source."""
    asyncio.run(own_tool.main())
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert [rest for _, tool, rest in lines if tool == "numbers_kept"] == [
        "1.00",
        "0.50",
        "abstained: MissingSource",
    ]
    assert len(lines) == 9


def test_the_guide_shows_the_example_and_every_kind():
    for line in inspect.getsource(own_tool.numbers_kept.function).splitlines():
        if '"""' not in line:
            assert line in GUIDE
    for kind in KINDS:
        assert f"`{kind}`" in GUIDE

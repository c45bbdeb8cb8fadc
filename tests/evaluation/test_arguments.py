"""Arguments of the public functions: shown, checked, and never without effect."""

from __future__ import annotations

import inspect

import pytest

import textassay
from tests.cli.harness import served
from textassay import connect, evaluate, evaluate_sync, stream
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.settings import Settings

ROWS = [{"id": f"x{i}", "output": f"Text {i}."} for i in range(3)]
DOORS = (evaluate, evaluate_sync, stream)


def judge():
    """A model that always gives a 4, and counts."""
    return ScriptedModel(lambda request: "Rating: 4")


def test_every_parameter_is_shown_and_documented():
    """What a notebook shows for Shift-Tab."""
    for door in DOORS:
        names = list(inspect.signature(door).parameters)
        assert names[:4] == ["examples", "method", "model", "task"]
        own = [name for name in inspect.signature(evaluate).parameters if name != "progress"]
        assert [name for name in names if name != "progress"] == own
    for name in inspect.signature(evaluate).parameters:
        assert f"\n        {name}: " in inspect.getsource(inspect.unwrap(evaluate)), name
    shown = inspect.signature(connect).parameters
    assert set(shown) == {"model", "settings", "budget", *Settings.model_fields}
    assert all(f"\n    {name}: " in connect.__doc__ for name in Settings.model_fields)
    assert "**overrides" not in connect.__doc__
    assert shown["rpm"].default is None
    assert shown["concurrency"].default == 64


def test_the_async_doors_stay_what_they_are():
    """Frameworks look at the kind of a function."""
    assert inspect.iscoroutinefunction(evaluate)
    assert not inspect.iscoroutinefunction(evaluate_sync)


@pytest.mark.asyncio
async def test_an_unknown_keyword_is_refused_with_the_nearest_name():
    """Nothing is asked; it is a TypeError, as Python's own would be."""
    model = judge()
    expected = {"method": "llm-score", "model": model, "apsects": ["coherence"]}
    with pytest.raises(
        UnknownName, match="unknown parameter of evaluate 'apsects'; did you mean 'aspects'"
    ):
        await evaluate(ROWS, **expected)
    with pytest.raises(TypeError, match="did you mean 'aspects'"):
        evaluate_sync(ROWS, **expected)
    with pytest.raises(TypeError, match="unknown parameter of stream"):
        stream(ROWS, **expected)
    with pytest.raises(UnknownName, match="parameter of evaluate 'max_cost'"):
        await evaluate(ROWS, method="llm-score", model=model, max_cost=0.001)
    assert model.requests == []


def test_connect_refuses_an_unknown_setting():
    """With the nearest name."""
    with pytest.raises(UnknownName, match="did you mean 'max_cost'"):
        connect("direct/x", api_base="http://127.0.0.1:9/v1", max_cots=1)


def test_settings_beside_a_connected_model_are_refused():
    """They would not be heeded: the model has its own; the cache is the run's."""
    with served() as server:

        async def judged(**more):
            async with connect("direct/mock", api_base=server.url) as model:
                return await evaluate(
                    ROWS, method="llm-score", aspects="fluency", model=model, **more
                )

        import asyncio

        with pytest.raises(
            ConfigurationError, match=r"max_cost=\.\.\., rpm=\.\.\. to textassay.connect"
        ):
            asyncio.run(judged(settings=Settings(max_cost=0.0001, rpm=1)))
        assert server.counters.requests == 0
        assert len(asyncio.run(judged(settings=Settings(no_cache=True))).scores) == 3


@pytest.mark.asyncio
async def test_a_bare_model_may_be_asked_at_a_concurrency():
    """It has no limiter, so that the setting is the number of examples in progress; other settings
    are refused."""
    expected = {"method": "llm-score", "aspects": "fluency", "model": judge()}
    assert len((await evaluate(ROWS, settings=Settings(concurrency=2), **expected)).scores) == 3
    with pytest.raises(ConfigurationError, match="no effect"):
        await evaluate(ROWS, settings=Settings(attempts=2), **expected)


@pytest.mark.asyncio
async def test_resume_without_a_folder_is_refused():
    """There is nothing to continue."""
    with pytest.raises(ConfigurationError, match="resume="):
        await evaluate(ROWS, method="llm-score", model=judge(), resume=True)


@pytest.mark.asyncio
async def test_one_name_is_one_aspect_and_one_tool():
    """Text is not taken for a list of letters."""
    run = await evaluate(ROWS, method="llm-score", model=judge(), aspects="coherence")
    assert {score.aspect for score in run} == {"coherence"}
    tools = await evaluate([{"output": "a b", "references": ["a b"]}], method="tools", tools="chrf")
    assert {score.aspect for score in tools} == {"chrf"}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("expected", "guess"),
    [
        ({"method": "llm_score"}, "llm-score"),
        ({"method": "geval"}, "g-eval"),
        ({"method": "llm-score", "task": "sumarization"}, "summarization"),
        ({"method": "llm-score", "task": "summarization", "aspects": "coherance"}, "coherence"),
        ({"method": "g-eval", "options": {"temprature": 1.0}}, "temperature"),
    ],
)
async def test_near_names_are_suggested(expected, guess):
    """Of methods, tasks, aspects and options."""
    with pytest.raises(UnknownName, match=f"did you mean '{guess}'"):
        await textassay.evaluate(ROWS, model=judge(), **expected)


@pytest.mark.asyncio
async def test_progress_can_be_watched(capsys):
    """By a function, to the last state; as a line; and not at all, as in a pipe."""
    seen = []
    expected = {"method": "llm-score", "aspects": "coherence"}
    await evaluate(ROWS, model=judge(), progress=seen.append, **expected)
    assert (seen[-1].done, seen[-1].total) == (3, 3)
    await evaluate(ROWS, model=judge(), **expected)
    assert capsys.readouterr().err == ""
    await evaluate(ROWS, model=judge(), progress=True, **expected)
    assert "3/3" in capsys.readouterr().err


@pytest.mark.asyncio
async def test_a_fault_of_the_watcher_is_not_hidden():
    """The run is finished first."""
    with pytest.raises(ZeroDivisionError):
        await evaluate(ROWS, method="llm-score", model=judge(), progress=lambda now: 1 / 0)

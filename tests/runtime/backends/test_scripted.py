"""Models that answer from a script, and those that another package makes of a name."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from textassay import connect
from textassay.runtime import errors
from textassay.runtime.backends.by_name import backend_points
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.base import Usage
from textassay.runtime.model import (
    ChoicesRequest,
    ContinuationRequest,
    Request,
    Response,
    Sample,
    TokenLogprob,
)
from textassay.runtime.settings import Settings

ASK = Request(prompt="How many?")
CHOICES = ChoicesRequest(prompt="x", choices={"y": ("y",), "n": ("n",)})
TEXT = ContinuationRequest(prompt="x", continuation=" y")


async def test_replies_come_in_turn_until_they_run_out():
    """Texts, samples, responses and errors; a script that is too short is its author's mistake."""
    whole = Response(samples=(Sample(text="c"),), usage=Usage(calls=7))
    cut = Sample(text="b", finish_reason="length")
    model = ScriptedModel(["a", cut, whole, errors.TimedOut("late")], name="judge")
    assert (await model.generate(ASK)).samples == (Sample(text="a"),)
    assert (await model.generate(ASK.model_copy(update={"n": 3}))).samples == (cut,) * 3
    assert await model.generate(ASK) is whole
    with pytest.raises(errors.TimedOut, match="late"):
        await model.generate(ASK)
    with pytest.raises(errors.ConfigurationError, match="'judge' has no reply left for request 5"):
        await model.generate(ASK)


async def test_a_function_is_called_for_every_draw():
    """It sees the draw, and may be async."""

    async def reply(request: Request) -> str:
        await asyncio.sleep(0)
        return f"{request.n}:{request.draw}"

    response = await ScriptedModel(reply).generate(Request(prompt="x", n=3, draw=10))
    assert [s.text for s in response.samples] == ["1:10", "1:11", "1:12"]


async def test_it_answers_all_kinds_of_requests_and_keeps_them():
    model = ScriptedModel(
        ["a"],
        choices=lambda request: {"y": -0.5, "n": None},
        continuation=lambda request: [TokenLogprob(token=request.continuation, logprob=-1.0)],
    )
    await model.generate(ASK)
    assert (await model.choices(CHOICES)).logprobs == {"y": -0.5, "n": None}
    assert (await model.continuation(TEXT)).logprob == -1.0
    assert model.requests == [ASK, CHOICES, TEXT]
    failing = ScriptedModel(continuation=lambda request: errors.TimedOut("no"))
    with pytest.raises(errors.TimedOut):
        await failing.continuation(TEXT)


async def test_usage_is_estimated_and_priced():
    """Tokens of prompt and samples, at the given price."""
    model = ScriptedModel(["four short words here"], price=(1e6, 1e6))
    usage = (await model.generate(Request(prompt="Hi.", n=2))).usage
    assert (usage.calls, usage.completion_tokens) == (1, 2 * 4)
    assert usage.cost == usage.prompt_tokens + usage.completion_tokens


async def test_abilities_follow_the_script():
    """What no function was given for, it cannot do."""
    model = ScriptedModel(["a"])
    assert (model.capabilities.choices, model.capabilities.continuation) == (False, False)
    with pytest.raises(errors.CapabilityError):
        await model.choices(CHOICES)
    with pytest.raises(errors.CapabilityError):
        await model.continuation(TEXT)


MODULE = """
from textassay.runtime.backends.scripted import ScriptedModel

def make(name, settings):
    return ScriptedModel(lambda request: f"{name} {settings.timeout:g}", name=name)

def broken(name, settings):
    raise KeyError("no such house")

def nothing(name, settings):
    return object()
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution with three backends on the path."""
    (tmp_path / "house_models.py").write_text(MODULE)
    info = tmp_path / "house_models-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house-models\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(
        "[textassay.models]\n"
        "house = house_models:make\n"
        "broken = house_models:broken\n"
        "nothing = house_models:nothing\n"
        "absent = house_models_absent:make\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("house_models", None)


async def test_a_prefix_of_another_package_opens_its_model(installed):
    """The callable gets the whole name and the settings."""
    assert {"house", "broken", "nothing", "absent"} <= set(backend_points())
    async with connect("house/judge-1", settings=Settings(timeout=7)) as model:
        response = await model.generate(Request(prompt="Rate."))
    assert model.name == "house/judge-1"
    assert response.samples[0].text == "house/judge-1 7"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "broken/x",
            "'broken/x' of house-models cannot be made by 'house_models:broken': KeyError",
        ),
        ("absent/x", "house-models cannot be made by 'house_models_absent:make': ModuleNotFound"),
        ("nothing/x", "is not a model: it has no name"),
    ],
)
async def test_a_backend_that_fails_is_named_with_its_package(installed, name, said):
    """The user learns which package to turn to."""
    with pytest.raises(errors.ConfigurationError, match=said):
        async with connect(name):
            pass

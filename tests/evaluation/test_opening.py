"""What a run needs is opened once, whoever needs it."""

from contextlib import AsyncExitStack

import pytest

from textassay.evaluation.opening import open_models, open_store, open_tools
from textassay.evaluation.request import RunRequest
from textassay.evaluation.session import open_session
from textassay.methods import METHODS
from textassay.methods.llm_score import LLMScore
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.settings import Settings
from textassay.tools.overlap import Rouge

pytestmark = pytest.mark.asyncio

ADDRESS = "http://127.0.0.1:9/v1"


async def test_a_session_builds_its_method_once_and_with_the_models_that_it_counts(
    tmp_path, monkeypatch
):
    built = []

    class Counted(LLMScore):
        def prepare(self):
            built.append(self)

    monkeypatch.setitem(METHODS, "counted", Counted)
    judge = ScriptedModel(lambda request: "4")
    request = RunRequest(
        method="counted", aspects=("coherence",), models={"": judge.name}, out=tmp_path / "run"
    )
    async with open_session([{"output": "A text."}], request, models={"": judge}) as session:
        assert built == [session.method]
        assert session.method.scorer.ask.model is session.models[""]
        assert [score.value async for score in session.engine.scores()] == [4.0]
        assert session.usage.calls == 1
    assert (tmp_path / "run" / "answers").is_dir()


async def test_roles_share_a_model_unless_their_settings_differ():
    settings = Settings(api_base=ADDRESS, roles={"planner": {"concurrency": 2}})
    names = dict.fromkeys(("", "scorer", "planner"), "direct/m")
    async with AsyncExitStack() as stack:
        models = await open_models(names, settings, stack)
        assert models[""] is models["scorer"]
        assert models["planner"] is not models["scorer"]
        assert models["planner"].settings.concurrency == 2
        assert models["planner"].budget is models["scorer"].budget


async def test_a_budget_needs_the_price_of_every_model_that_is_opened():
    settings = Settings(api_base=ADDRESS, max_cost=1.0)
    async with AsyncExitStack() as stack:
        with pytest.raises(ConfigurationError, match="price of 'direct/m' is not known"):
            await open_models({"": "direct/m"}, settings, stack)


async def test_a_named_cache_takes_the_place_of_the_default_and_none_can_be_wanted(tmp_path):
    named = Settings(cache=tmp_path / "named")
    async with AsyncExitStack() as stack:
        assert (await open_store(named, tmp_path / "own", stack)).place == tmp_path / "named"
        assert (await open_store(Settings(), tmp_path / "own", stack)).place == tmp_path / "own"
        assert await open_store(Settings(no_cache=True), tmp_path / "other", stack) is None
        assert await open_store(Settings(), None, stack) is None
    assert not (tmp_path / "other").exists()


async def test_tools_that_the_caller_made_stay_open():
    closed = []

    class Own(Rouge):
        async def aclose(self):
            closed.append(self.name)

    own = Own("rouge1")
    async with AsyncExitStack() as stack:
        tools = open_tools("fusion-eval", [own, "bleu"], {}, stack)
        assert tools[0] is own
        assert tools[1].name == "bleu"
    assert not closed

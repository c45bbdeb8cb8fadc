"""A session: what is read back from a manifest, opened once, and left in progress at the end."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.virtual_time import run_virtual
from textassay import evaluate
from textassay.agents.prompt_template import TaskNeed
from textassay.evaluation.engine import GRACE_SECONDS, EvaluationEngine, unmet_needs
from textassay.evaluation.opening import open_models, open_store, open_tools
from textassay.evaluation.request import RunRequest, Shard, request_from_manifest
from textassay.evaluation.session import open_session
from textassay.evaluation.sources import LocalSource
from textassay.methods import METHODS, build
from textassay.methods.llm_score import LLMScore
from textassay.methods.method import MethodTraits, traits_of
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.data.dataset import DataInfo, Examples
from textassay.runtime.errors import (
    AuthenticationFailed,
    CapabilityError,
    ConfigurationError,
    RunFolderError,
)
from textassay.runtime.graph import Graph, Node
from textassay.runtime.messages import Aspect, Assignment, Example, Score
from textassay.runtime.model import Capabilities
from textassay.runtime.settings import Settings
from textassay.tools.surface import Rouge


@pytest.mark.parametrize(("total", "count"), [(10, 3), (2, 5), (1, 1), (100, 7)])
def test_shards_cover_the_data_once_and_evenly(total, count):
    """Every example in one shard, and no shard longer than another by more than one."""
    bounds = [Shard(number, count).bounds(total) for number in range(1, count + 1)]
    assert [i for start, stop in bounds for i in range(start, stop)] == list(range(total))
    sizes = [stop - start for start, stop in bounds]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("tools", [["bleu"], [{"name": "bleu"}], "bleu", {"bleu": 1}, 3])
def test_what_a_method_of_another_package_calls_tools_is_its_own(tools: object) -> None:
    """A description is any JSON: it neither stops a resume nor names assistant evaluators."""
    manifest = {
        "spec": {"method": "ours", "task": "summarization"},
        "method": {"name": "ours", "tools": tools},
    }
    assert request_from_manifest(manifest).tools == ()


@pytest.mark.parametrize("field", [{"settings": {}}, {"out": "elsewhere"}, {"resume": True}])
def test_a_manifest_does_not_say_how_its_request_is_carried_out(field: dict[str, object]) -> None:
    """Headers and addresses are never taken from a run folder."""
    with pytest.raises(RunFolderError, match=f"unexpected {next(iter(field))}"):
        request_from_manifest({"spec": {"method": "llm-score", **field}})


ADDRESS = "http://127.0.0.1:9/v1"


async def test_a_session_builds_its_method_once_with_models_that_it_counts(tmp_path, monkeypatch):
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
        assert await open_store(Settings(cache=False), tmp_path / "other", stack) is None
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


class ForeignMethod:
    """What a method of another package needs to have."""

    name, task, how, signature = "foreign", None, "text", "method:foreign"
    aspects = (Aspect(name="fluency", definition="Reads well."),)

    def __init__(self) -> None:
        node = Node("scores", self._score, assignment="input")
        self.graph = Graph(self.name, input=Assignment, nodes=[node], output="scores")

    async def _score(self, assignment: Assignment) -> list[Score]:
        return [Score(id=assignment.example.id, aspect="fluency", value=3.0, signature="s")]

    def describe(self) -> dict[str, object]:
        return {"name": self.name}


PICTURE = Example(id="a", output="A cat.", images=["https://example.org/cat.png"])


async def test_a_method_without_traits_takes_any_data() -> None:
    assert traits_of(ForeignMethod()) == MethodTraits()
    run = await evaluate([PICTURE], method=ForeignMethod())
    assert [score.value for score in run] == [3.0]


async def test_the_traits_of_a_foreign_method_count() -> None:
    def refuse(info: DataInfo) -> None:
        raise ConfigurationError(f"{info.count} is not enough")

    class Blind(ForeignMethod):
        traits = MethodTraits(shows_images=False)

    class Demanding(ForeignMethod):
        traits = MethodTraits(check_data=refuse, needs={"fluency": (TaskNeed.CONTEXT,)})

    with pytest.raises(CapabilityError, match="the method foreign accepts only texts"):
        await evaluate([PICTURE], method=Blind())
    with pytest.raises(ConfigurationError, match="1 is not enough"):
        await evaluate([PICTURE], method=Demanding())
    Demanding.traits = replace(Demanding.traits, check_data=MethodTraits().check_data)
    run = await evaluate([PICTURE], method=Demanding())
    assert [(score.outcome, score.value) for score in run] == [("abstained", None)]
    # another package may write plain text; previews of prompts give what it wrote
    method, plain = Demanding(), {"fluency": ("context",)}
    [score] = unmet_needs(
        Assignment(example=PICTURE, aspects=method.aspects), method, plain
    ).values()  # type: ignore[arg-type]
    assert score.error is not None
    assert score.error.type == "MissingContext"


def test_built_in_methods_state_their_traits() -> None:
    """What a method asks in turn, does not show, or reads, as its options have it."""
    judge = ScriptedModel(capabilities=Capabilities(logprobs=True, continuation=True))
    agent = build("agent-judge", judge, task="summarization", options={"max_steps": 7}).traits
    assert (agent.shows_source, agent.shows_images, agent.most_calls) == (False, False, 7)
    assert "up to 7 times in turn" in (agent.chain or "")
    likely = build("gptscore", judge, task="summarization").traits
    assert (likely.likelihoods_of, likely.shows_images) == (judge, False)
    rating = build("llm-score", judge, task="summarization").traits
    assert (rating.shows_source, rating.chain, rating.probabilities) == (True, None, None)


EXAMPLES = [Example(id=name, output="Text.") for name in ("refused", "slow", "quick")]


def engine(slow: float, ended: list[str]) -> EvaluationEngine:
    """Return an engine whose model refuses the first example, while the second takes `slow` s."""

    async def judge(assignment: Assignment) -> list[Score]:
        name = assignment.example.id
        if name == "refused":
            await asyncio.sleep(1)
            raise AuthenticationFailed("the key is wrong")
        try:
            await asyncio.sleep(slow if name == "slow" else 2)
        finally:
            ended.append(name)
        return [Score(id=name, aspect="fluency", value=3.0, signature="s")]

    method = SimpleNamespace(
        name="own",
        how="text",
        signature="s",
        aspects=(Aspect(name="fluency", definition="Reads well."),),
        graph=SimpleNamespace(run=judge),
    )
    data = Examples(EXAMPLES)
    return EvaluationEngine(LocalSource(data, data.check()), method, workers=3)  # type: ignore[arg-type]


async def shown(engine: EvaluationEngine) -> tuple[list[str], BaseException | None, float]:
    """Return the ids of the scores, what ended the run, and its seconds."""
    loop = asyncio.get_running_loop()
    began, seen, error = loop.time(), [], None
    try:
        async for score in engine.scores():
            seen.append(score.id)  # noqa: PERF401  # a comprehension loses them when it raises
    except AuthenticationFailed as caught:
        error = caught
    return seen, error, loop.time() - began


@pytest.mark.parametrize(("slow", "finished"), [(10.0, True), (10_000.0, False)])
def test_examples_in_progress_get_some_time(slow: float, finished: bool) -> None:
    """What ends within the grace period is a score; what does not is given up, without a score."""
    ended: list[str] = []
    seen, error, seconds = run_virtual(shown(engine(slow, ended)))
    assert seen == (["quick", "slow"] if finished else ["quick"])
    assert ended == ["quick", "slow"]
    assert isinstance(error, AuthenticationFailed)
    assert seconds == pytest.approx(slow if finished else 1 + GRACE_SECONDS)


def test_a_cancellation_by_the_caller_stays_one() -> None:
    """Canceled within the grace period, the run ends at once and leaves no timer behind."""

    async def main() -> None:
        ended: list[str] = []
        run = asyncio.create_task(shown(engine(10_000.0, ended)))
        await asyncio.sleep(5)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert ended == ["quick", "slow"]
        await asyncio.sleep(2 * GRACE_SECONDS)

    run_virtual(main())

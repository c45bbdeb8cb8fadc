"""Fusion-Eval by hand: a plan once, tools and one answer an example, ratings averaged; and its
baselines."""

import json
import math
import sys

import numpy as np
import pytest

from tests.cli.harness import write_lines
from textassay.agents.fusion import Planner
from textassay.methods import build
from textassay.methods.fusion_eval import planner_of
from textassay.methods.library import plans, tasks
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import (
    CapabilityError,
    ConfigurationError,
    DataError,
    ServerFailed,
    UnknownName,
)
from textassay.runtime.messages import Assignment, Example, Failure, Plan
from textassay.runtime.model import Capabilities, Sample, TokenLogprob
from textassay.tools import Abstention, tool
from textassay.tools.registry import has_extra

EXAMPLE = Example(id="x", output="The cat sat.", source="A cat sat on a mat.")
PLAN = """Assistant evaluators:
- Coherence: sum_bleurt
- Consistency: NLI, BLEURT
- Fluency: none
- Relevance: BLEURT, SUM_BLEURT

Steps:
1. Read the news article and the summary.
2. Rate each criterion."""
ANSWER = """Criteria's Scores and Explanations:

Coherence
Score: {0} Explanation: It follows on.

Consistency
Score: 4.5 Explanation: NLI is high.

Fluency
Score: 5 Explanation: No faults.

Relevance
Score: 3 Explanation: Half of it.

Evaluation Summary:
Overall Score: 4.1 Explanation: A good summary."""


def measured(name, value, **fields):
    """A tool that gives one value for every example, counted."""

    @tool(name=name, description=f"What {name} measures.", **{"scale": (0.0, 1.0), **fields})
    async def measure(example):
        calls.append(name)
        if isinstance(value, Exception):
            raise value
        return value

    calls = measure.calls = []
    return measure


def the_papers_tools():
    return [measured("nli", 0.9), measured("bleurt", 0.6), measured("sum_bleurt", 0.3)]


def is_plan(request):
    return "Write a plan for the evaluation." in request.text


def judge(plan=PLAN, **fields):
    """Plan, and eight ratings of coherence that are 3 and 4 in turn."""
    said = iter([plan] if isinstance(plan, str) else plan)

    def reply(request):
        return next(said) if is_plan(request) else ANSWER.format(3 + request.draw % 2)

    return ScriptedModel(reply, name="judge", **fields)


def fusion(model, tools=None, task="summarization", aspects=None, **options):
    given = the_papers_tools() if tools is None else tools
    return build("fusion-eval", model, task=task, aspects=aspects, options=options, tools=given)


async def scored(method, example=EXAMPLE, aspects=None):
    return await method.graph.run(Assignment(example=example, aspects=aspects or method.aspects))


async def test_one_example_by_hand():
    model, tools = judge(), the_papers_tools()
    scores = await scored(fusion(model, tools))
    assert {score.aspect: score.value for score in scores} == {
        "coherence": 3.5, "consistency": 4.5, "fluency": 5, "relevance": 3, "overall": 4.1,
    }  # fmt: skip
    coherence = scores[0]
    assert (coherence.samples, coherence.spread, coherence.scale) == (8, 0.5, (1, 5))
    assert coherence.how == "sampled"
    explained = ["It follows on.", "NLI is high.", "No faults.", "Half of it.", "A good summary."]
    assert [score.explanation for score in scores] == explained
    explained = [one["explains_sample"] for one in coherence.evidence if "explains_sample" in one]
    assert explained == list(range(8))  # every sample's own words are kept
    selected = {item["text"]: item.get("selected") for item in coherence.evidence[:3]}
    assert selected == {"nli": False, "bleurt": False, "sum_bleurt": True}
    plan, answer = model.requests
    assert (plan.n, plan.temperature) == (1, 0)
    assert (answer.n, answer.temperature) == (8, 0.1)
    assert "nli Score:\n\n0.9\n\nbleurt Score:\n\n0.6\n\nsum_bleurt Score:\n\n0.3\n" in answer.text
    assert "- Use nli & bleurt for Consistency.\n- Manual Evaluation for Fluency" in answer.text
    assert "Steps:\n\n1. Read the news article and the summary.\n2. Rate each" in answer.text
    assert EXAMPLE.source not in plan.text
    assert [len(item.calls) for item in tools] == [1, 1, 1]


async def test_the_plan_is_written_once_by_its_own_model_kept_and_each_example_asked_once():
    planner, scorer = judge(), judge()
    method = fusion({"planner": planner, "scorer": scorer})
    assert method.artifacts() == {}
    for number in range(3):
        await scored(
            method, EXAMPLE.model_copy(update={"id": str(number), "output": f"Text {number}"})
        )
    assert [is_plan(request) for request in planner.requests] == [True]
    assert [is_plan(request) for request in scorer.requests] == [False] * 3
    assert '"consistency" = ["nli", "bleurt"]' in method.artifacts()["plan.toml"]


async def test_the_papers_own_plan_is_in_the_prompt_word_for_word():
    model = judge()
    method = fusion(model, plan="summeval")
    scores = await scored(method)
    assert [score.value for score in scores] == [3.5, 4.5, 5, 3, 4.1]
    [request] = model.requests
    tools = ["nli", "bleurt", "sum_bleurt"]
    assert plans.load("summeval", tasks.load("summarization"), tools).text in request.text
    assert method.describe()["plan"] is not None
    with pytest.raises(UnknownName, match=r"summeval\.toml.*'sum_bleurt'.* known: nli, bleurt"):
        fusion(model, the_papers_tools()[:2], plan="summeval")
    alone = judge()
    scores = await scored(fusion(alone, plan="none"))
    assert (scores[0].value, "selected" in scores[0].evidence[0]) == (3.5, False)
    [request] = alone.requests
    assert "Plan Using" not in request.text


async def test_the_dialogue_tasks_own_overall_aspect_is_the_overall_score():
    said = "Coherence\nScore: 2\n\nEvaluation Summary:\nOverall Score: 4 Explanation: Fine."
    model = ScriptedModel([said])
    method = fusion(model, task="dialogue", aspects=["overall", "coherence"], plan="none")
    assert [aspect.name for aspect in method.aspects] == ["overall", "coherence"]
    assert [score.value for score in await scored(method)] == [4, 2]


async def test_an_overall_score_comes_with_a_whole_task_or_where_it_is_wanted():
    def names(**fields):
        return [aspect.name for aspect in fusion(judge(), **fields).aspects]

    assert names()[-1] == "overall"
    assert names(aspects=["fluency", "coherence"]) == ["fluency", "coherence"]
    assert names(aspects=["fluency"], overall=True) == ["fluency", "overall"]
    assert names(overall=False) == ["coherence", "consistency", "fluency", "relevance"]
    assert names(fusion="avg") == ["coherence", "consistency", "fluency", "relevance"]


@pytest.mark.parametrize("parse_retries", [0, 1, 3])
async def test_a_plan_that_stays_unusable_is_refused_for_all_examples(parse_retries):
    model = judge(["Zuerst lese ich den Artikel."] * parse_retries + ["Dann bewerte ich."])
    method = fusion(model, parse_retries=parse_retries)
    for _ in range(2):
        scores = await scored(method)
        assert {(one.outcome, one.error.type) for one in scores} == {("invalid", "PlanRefused")}
        assert scores[0].evidence == ({"text": "Dann bewerte ich."},)
    assert len(model.requests) == parse_retries + 1
    assert method.artifacts() == {}


async def test_a_planner_that_cannot_be_asked_is_asked_again_for_the_next_example():
    model = judge([ServerFailed("down"), PLAN])
    method = fusion(model)
    failure = await scored(method)
    assert isinstance(failure, Failure)
    assert (failure.node, failure.type) == ("plan", "ServerFailed")
    assert (await scored(method))[0].value == 3.5


async def test_a_tool_that_abstains_is_reported_as_missing_and_one_that_fails_makes_errors():
    gone = Abstention(type="MissingReferences", message="there are none")
    model = judge()
    scores = await scored(fusion(model, [*the_papers_tools()[:2], measured("sum_bleurt", gone)]))
    assert scores[0].value == 3.5
    assert "sum_bleurt Score:\n\nmissing (MissingReferences)\n" in model.requests[-1].text
    assert scores[0].evidence[2]["problem"] == "MissingReferences: there are none"
    model = judge()
    broken = measured("sum_bleurt", ZeroDivisionError("no words"))
    failed = await scored(fusion(model, [*the_papers_tools()[:2], broken]))
    assert {(one.outcome, one.error.type) for one in failed} == {("error", "ZeroDivisionError")}
    assert [is_plan(request) for request in model.requests] == [True]


async def test_a_plan_is_written_saved_edited_and_used(tmp_path):
    tools, path = the_papers_tools(), tmp_path / "plan.toml"
    planner = planner_of(judge(), tasks.load("summarization"), tools)
    assert isinstance(planner, Planner)
    plan = await planner()
    assert isinstance(plan, Plan)
    plans.save(plan, path)
    path.write_text(
        path.read_text().replace('"fluency" = []', '"fluency" = ["nli"]'), encoding="utf-8"
    )
    model = judge()
    scores = await scored(fusion(model, tools, plan=str(path)))
    assert [is_plan(request) for request in model.requests] == [False]
    assert "- Use nli for Fluency." in model.requests[0].text
    assert scores[2].evidence[0]["selected"] is True


async def test_avg_and_llmsel_over_the_tools_alone():
    avg = fusion({}, fusion="avg")
    assert avg.how == "fused"
    for score in await scored(avg):
        assert (score.value, score.scale, score.how) == (pytest.approx(0.6), (0, 1), "fused")
    model = judge()
    for method in (fusion(model, fusion="llmsel"), fusion({}, fusion="llmsel", plan="summeval")):
        coherence, consistency, fluency, relevance = await scored(method)
        values = [one.value for one in (coherence, consistency, relevance)]
        assert values == pytest.approx([0.3, 0.75, 0.45])
        assert (fluency.outcome, fluency.error.type) == ("abstained", "NoToolSelected")
    assert len(model.requests) == 1


async def test_avg_and_llmsel_with_g_eval_as_the_direct_evaluator():
    top = (("4", math.log(0.5)), ("2", math.log(0.5)))
    rated = Sample(text="4", logprobs=(TokenLogprob(token="4", logprob=top[0][1], top=top),))

    def reply(request):
        if is_plan(request):
            return PLAN
        return "1. Read." if request.text.endswith("Evaluation Steps:") else rated

    model = ScriptedModel(
        reply, capabilities=Capabilities(n=True, logprobs=True, json_schema=False)
    )
    method = fusion(model, fusion="avg", direct=True, n=1)
    for score in await scored(method):  # G-Eval gives 3 on 1-5, which is 0.5
        assert score.value == pytest.approx((0.9 + 0.6 + 0.3 + 0.5) / 4)
        assert score.usage.calls == 1
        assert score.evidence[-1].items() >= {"text": "direct", "value": 3, "mapped": 0.5}.items()
    assert len(model.requests) == 8
    llmsel = await scored(fusion(model, fusion="llmsel", direct=True, n=1))
    selected = {score.aspect: score for score in llmsel}
    assert selected["coherence"].value == pytest.approx((0.3 + 0.5) / 2)
    assert selected["fluency"].outcome == "abstained"
    assert method.signature != fusion(model, fusion="avg").signature
    without = ScriptedModel([], capabilities=Capabilities(logprobs=False))
    with pytest.raises(CapabilityError, match="n=20"):
        fusion(without, fusion="avg", direct=True, n=1)


async def test_a_direct_evaluator_that_fails_takes_down_its_own_aspect_only():
    def reply(request):
        if request.text.endswith("Evaluation Steps:"):
            return ServerFailed("down") if "Fluency" in request.text else "1. Read."
        return "4"

    scores = await scored(fusion(ScriptedModel(reply), fusion="avg", direct=True))
    assert [score.outcome for score in scores] == ["scored", "scored", "error", "scored"]
    assert scores[2].error.type == "ServerFailed"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"direct": True}, "direct=True has no effect"),
        ({"fusion": "llmsel", "plan": "none"}, "cannot be combined with plan=none"),
        ({"form": "letters"}, "unknown option 'form'"),
        ({"ranges": {"rouge": [0, 1]}}, "'rouge', which is not among tools="),
        ({"ranges": {"nli": [0]}}, "option ranges"),
        ({"tools": ["nly"]}, "unknown tool 'nly'"),
        ({"fusion": "corrw"}, r"rated examples: .*'ratings': 'FILE'"),
        ({"fusion": "avg", "ratings": "x.jsonl"}, "ratings=x.jsonl has no effect"),
    ],
)
async def test_options_that_do_not_fit_together_are_refused(options, problem):
    with pytest.raises(ConfigurationError, match=problem):
        fusion(judge(), **options)


async def test_a_method_without_tools_takes_none():
    with pytest.raises(
        ConfigurationError, match="g-eval takes no tools; those that do: claims, fusion-eval, tools"
    ):
        build("g-eval", judge(), tools=["rougeL"])


async def test_the_default_tools_are_those_that_are_installed(monkeypatch):
    """Without the extra all of them are lexical."""
    lexical = ["rougeL", "chrf", "coverage", "repetition"]
    monkeypatch.setitem(sys.modules, "wordllama", None)  # what Python does for a missing module
    method = build("fusion-eval", judge(), task="summarization")
    assert [item["name"] for item in method.describe()["tools"]] == lexical
    monkeypatch.undo()
    if not has_extra("static"):
        pytest.skip("the extra static is not installed")
    method = build("fusion-eval", judge(), task="summarization")
    assert [item["name"] for item in method.describe()["tools"]] == [*lexical, "embedding"]


async def test_a_half_installed_extra_counts_as_not_installed(tmp_path, monkeypatch):
    """A package without its vectors would fail only when the run begins."""
    (tmp_path / "wordllama").mkdir()
    (tmp_path / "wordllama" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "wordllama", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert not has_extra("static")
    method = build("fusion-eval", judge(), task="summarization")
    assert "embedding" not in [item["name"] for item in method.describe()["tools"]]


def by_length(name, sign=1, **fields):
    """A tool whose value follows the number of words of the output."""

    @tool(name=name, description=f"What {name} measures.", scale=(0.0, 10.0), **fields)
    async def measure(example):
        words = len(example.output.split())
        return float(words if sign > 0 else 10 - words)

    return measure


def noisy(name, values):
    """A tool that knows the values of single texts."""

    @tool(name=name, description=f"What {name} measures.", scale=(0.0, 1.0))
    async def measure(example):
        return values[example.output]

    return measure


RATED = [("a", 1.0, 0.3), ("a b", 2.0, 0.1), ("a b c", 3.0, 0.9), ("a b c d", 5.0, 0.6)]
"""Output, people's rating, and what a weak tool says."""


@pytest.fixture
def rated(tmp_path):
    rows = [
        {"id": str(at), "output": text, "human": {"coherence": value, "fluency": value}}
        for at, (text, value, _) in enumerate(RATED)
    ]
    return str(write_lines(tmp_path / "rated.jsonl", rows))


def corrw(model, rated, tools, **options):
    aspects = ["coherence", "fluency"]
    return fusion(model, tools, aspects=aspects, fusion="corrw", ratings=rated, **options)


async def test_corrw_weighs_tools_by_their_correlation_with_people(rated):
    """By hand: numpy's correlations; a tool that falls as ratings rise is turned round."""
    weak = noisy("weak", {text: value for text, _, value in RATED} | {"a b c d e f": 0.2})
    tools = [by_length("long"), by_length("short", sign=-1), weak]
    method = corrw({}, rated, tools)
    [score, _] = await scored(method, EXAMPLE.model_copy(update={"output": "a b c d e f"}))
    ratings = [rating for _, rating, _ in RATED]
    lengths = np.corrcoef([1, 2, 3, 4], ratings)[0, 1]
    weak_r = np.corrcoef([value for *_, value in RATED], ratings)[0, 1]
    assert [piece["correlation"] for piece in score.evidence] == pytest.approx(
        [lengths, -lengths, weak_r]
    )
    # 6 of 10 words; 4 of 10 turned round; 0.2
    expected = (lengths * 0.6 + lengths * 0.6 + weak_r * 0.2) / (2 * lengths + weak_r)
    assert score.value == pytest.approx(expected)
    shown = json.loads(method.artifacts()["weights.json"])
    assert shown["aspects"]["coherence"]["rated"] == 4
    assert shown["aspects"]["coherence"]["correlations"]["long"] == pytest.approx(lengths)


async def test_corrw_weighs_the_direct_evaluator_too_and_learns_once(rated):
    """It judges the rated examples once; a scorer that says always the same weighs nothing."""
    said = {text: str(1 + len(text.split())) for text, *_ in RATED}

    def reply(request):
        if request.text.endswith("Evaluation Steps:"):
            return "1. Read."
        return next((said[text] for text in sorted(said, key=len, reverse=True)
                     if f"\n{text}\n" in request.text), "4")  # fmt: skip

    model = ScriptedModel(reply)
    method = corrw(model, rated, [measured("flat", 0.9)], direct=True, n=2)
    for number in range(3):
        scores = await scored(method, EXAMPLE.model_copy(update={"output": f"Text {number}."}))
        for score in scores:  # 4 on 1-5
            assert score.value == pytest.approx(0.75)
            assert score.evidence[0]["correlation"] is None
    # steps of two aspects, four rated examples and three others on two aspects
    assert len(model.requests) == 2 + 2 * 4 + 2 * 3


async def test_corrw_names_the_rated_example_on_which_a_scorer_fails(rated):
    """There are as many failures as rated examples: the id says which one to look at."""

    @tool(name="fragile", description="Fails on a text.", scale=(0.0, 1.0))
    async def fragile(example):
        if example.output == "a b c":
            raise OSError("no room left")
        return 0.5

    with pytest.raises(DataError, match=r"fragile failed on the rated example '2': .*no room left"):
        await scored(corrw({}, rated, [by_length("long"), fragile]))

    def reply(request):
        if "\na b c\n" in request.text:
            raise OSError("no room left")
        return "1. Read." if request.text.endswith("Evaluation Steps:") else "4"

    method = corrw(ScriptedModel(reply), rated, [by_length("long")], direct=True, n=2)
    with pytest.raises(DataError, match="the direct evaluator failed on the rated example '2'"):
        await scored(method)


async def test_corrw_says_what_it_needs(rated, tmp_path):
    """Ratings; of every aspect; that vary with a scorer. Other ratings are another signature."""
    with pytest.raises(
        ConfigurationError, match=r"needs ratings of 'consistency'.* rates coherence"
    ):
        fusion({}, fusion="corrw", ratings=rated)
    with pytest.raises(DataError, match="no scorer varies with the ratings of coherence: nli"):
        await scored(corrw({}, rated, the_papers_tools()))
    row = {"output": "a", "human": {"coherence": 1, "fluency": 1}}
    other = write_lines(tmp_path / "other.jsonl", [{"id": str(n), **row} for n in range(2)])
    with pytest.raises(DataError, match="2 examples are rated on coherence; at least 3"):
        await scored(corrw({}, str(other), [by_length("long")]))
    signatures = {corrw({}, path, [by_length("long")]).signature for path in (rated, str(other))}
    assert len(signatures) == 2

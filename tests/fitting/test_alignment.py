"""Iterative alignment with a scripted judge: what is expanded, given trees, and resuming."""

import asyncio
import json
import subprocess
import sys

import numpy as np
import pytest

from tests.fitting.made_texts import Planted, rows_of
from textassay import evaluate
from textassay.fitting.api import alignment_of, fit_sync
from textassay.fitting.feature_table import split_table
from textassay.fitting.importance import importance_over_folds, saliency_over_folds
from textassay.fitting.learn import Fitter
from textassay.fitting.read_table import read_table
from textassay.fitting.report import report_text
from textassay.fitting.request import FitFromScores, FitTree
from textassay.learning import Aggregator, folds
from textassay.methods import build
from textassay.methods.library import tasks, trees
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import (
    AuthenticationFailed,
    ConfigurationError,
    ContentRefused,
    DataError,
    RunFolderError,
    UnknownName,
)
from textassay.runtime.messages import Assignment, Example

FILE = """
format = 1
aspects = [
  { name = "coherence", definition = "how well it holds together." },
  { name = "Order", parent = "coherence", definition = "how good its order is." },
  { name = "Opening", parent = "Order", definition = "how good its opening is." },
  { name = "Titles", parent = "Order", definition = "how good its titles are." },
  { name = "Focus", parent = "coherence", definition = "how good its focus is." },
  { name = "Aim", parent = "Focus", definition = "how good its aim is." },
]
"""


def alignment(planted, out, *, model=None, **order):
    fields = {"keep": 2, "aggregator": ("ridge",), "task": "summarization", **order}
    request = FitTree(model=model or planted.model(), out=out, **fields)
    return alignment_of(request, planted.rows)


async def fitted(planted, out, **order):
    found = await alignment(planted, out, **order).run()
    found.save(out)
    return found


def expanded(layer):
    return {row["criterion"] for row in layer["importance"] if row["expanded"]}


async def test_the_informative_branch_is_expanded_and_every_layer_adds(tmp_path):
    planted = Planted()
    found = await fitted(planted, tmp_path / "ev", report="full")
    first, second, third = found.report["alignment"]
    assert [row["id"] for row in first["criteria"]] == ["coherence", "fluency"]
    assert len(second["criteria"]) == 8
    assert [expanded(layer) for layer in (first, second, third)] == [
        {"coherence", "fluency"}, {"coherence/order", "fluency/grammar"}, set()
    ]  # fmt: skip
    assert len(third["criteria"]) == 8
    assert [one["features"] for one in (first, second, third)] == [2, 10, 18]
    assert sorted(planted.asked_for_parts) == ["Grammar", "Order", "coherence", "fluency"]
    steps = [layer["agreement"]["pearson"] for layer in (first, second, third)]
    assert steps[0] + 0.1 < steps[1]
    assert steps[1] + 0.05 < steps[2]
    assert steps[2] == pytest.approx(found.report["held_out"]["mean"]["evaluator"]["pearson"])
    assert {row["criterion"] for row in third["importance"][:3]} == {
        "coherence/order/opening", "coherence/order/ending", "fluency/grammar/tense"
    }  # fmt: skip
    table = {row["without"]: row["pearson"] for row in found.report["ablations"]}
    assert list(table) == ["nothing", "layer 3", "layer 2, 3", "layer 1, 2, 3", "aggregator"]
    assert table["nothing"] > table["layer 3"] > table["layer 2, 3"]
    assert table["nothing"] > table["aggregator"] + 0.1
    shown = report_text(json.loads(json.dumps(found.report)))
    assert "layer 2: 8 criteria, aggregator ridge" in shown
    assert "coherence/order" in shown


async def test_the_evaluator_scores_new_texts_with_its_tree(tmp_path):
    planted, out = Planted(60), tmp_path / "ev"
    found = await fitted(planted, out)
    run = await evaluate(planted.rows[:40], method=str(out), model=planted.model())
    scores = run.scores
    assert {s.aspect for s in scores} == {"coherence", "fluency"}
    assert {(s.outcome, s.how, s.scale) for s in scores} == {("scored", "fused", (1, 5))}
    assert sum(score.usage.calls for score in scores) == 40 * len(found.evaluator.features)
    for score in scores:
        shown = {one["text"]: one for one in score.evidence}
        assert shown["coherence/order/opening"]["value"] in (1, 2, 3, 4, 5)
        contributions = [one["contribution"] for one in score.evidence]
        assert sum(contributions) == pytest.approx(score.value, abs=1e-9)


def built_elsewhere(folder):
    """What a new process says when it builds the evaluator; prompts are read once a process."""
    code = (
        "import sys; from textassay.methods import build; from "
        "textassay.runtime.backends.scripted import ScriptedModel; build(sys.argv[1], "
        "ScriptedModel([]))"
    )
    command = [sys.executable, "-c", code, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


async def test_another_model_or_prompt_is_refused_unless_allowed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    planted, out, prompt = Planted(60), tmp_path / "ev", tmp_path / "own.jinja"
    words = (
        "Rate on the following metric:\n\n{{ aspect.name }}: {{ aspect.definition }}\n\n"
        "{% include '_material.jinja' %}"
    )
    prompt.write_text(words)
    await fitted(planted, out, layers=1, options={"prompt": "own.jinja"})
    monkeypatch.chdir("/")
    await evaluate(planted.rows[:2], method=str(out), model=planted.model())
    other = planted.model("another")
    with pytest.raises(ConfigurationError, match="the model changed from 'scripted' to 'another'"):
        await evaluate(planted.rows[:4], method=str(out), model=other)
    options = {"allow_change": True}
    run = await evaluate(planted.rows[:4], method=str(out), model=other, options=options)
    assert {s.outcome for s in run} == {"scored"}
    assert built_elsewhere(out) == ""
    prompt.write_text(words + " Be strict.")
    assert "the prompt's digest changed from" in built_elsewhere(out)


async def test_a_stopped_alignment_goes_on_and_asks_nothing_twice(tmp_path):
    planted, whole = Planted(60), Planted(60)
    complete = await fitted(whole, tmp_path / "whole")
    calls, answered = 0, []

    def breaks(request):
        nonlocal calls
        calls += 1
        if calls > 250:
            return AuthenticationFailed("the key was withdrawn")
        answered.append(request.text)
        return planted.answer(request)

    broken = ScriptedModel(breaks, name="scripted")
    with pytest.raises(AuthenticationFailed):
        await alignment(planted, tmp_path / "ev", model=broken).run()
    assert not (tmp_path / "ev" / "evaluator.json").exists()
    with pytest.raises(RunFolderError, match="another alignment: its growth is"):
        await alignment(planted, tmp_path / "ev", keep=3).run()

    def continues(request):
        answered.append(request.text)
        return planted.answer(request)

    found = await fitted(planted, tmp_path / "ev", model=ScriptedModel(continues, name="scripted"))
    assert len(answered) == len(set(answered)) == 60 * 18 + 4
    assert found.report["held_out"] == complete.report["held_out"]
    assert found.evaluator.aggregator == complete.evaluator.aggregator
    with pytest.raises(RunFolderError, match="already contains an evaluator"):
        await fitted(planted, tmp_path / "ev")


async def test_two_cannot_write_to_one_folder_at_once(tmp_path):
    """They would pay for the same ratings twice; which of them is first does not matter."""
    planted = Planted(60)
    both = [alignment(planted, tmp_path / "ev").run() for _ in range(2)]
    found = await asyncio.gather(*both, return_exceptions=True)
    refused = [one for one in found if isinstance(one, RunFolderError)]
    assert len(refused) == 1
    assert "is in use by another process" in str(refused[0])
    assert len([one for one in found if not isinstance(one, BaseException)]) == 1


async def test_a_folder_edited_by_hand_is_refused(tmp_path):
    """What an alignment goes on from: its order, and the parts of its criteria."""
    planted, out = Planted(60), tmp_path / "ev"
    calls = 0

    def breaks(request):
        nonlocal calls
        calls += 1
        return AuthenticationFailed("no") if calls > 60 * 2 + 10 else planted.answer(request)

    with pytest.raises(AuthenticationFailed):
        await alignment(planted, out, model=ScriptedModel(breaks, name="scripted")).run()
    parts = out / "layers" / "2.json"
    good = json.loads(parts.read_text())
    for content, message in (
        (
            json.dumps(good[::-1]),
            "the parts of fluency, coherence, but coherence, fluency are to be decomposed",
        ),
        (json.dumps([{"of": 3}]), "(?s)cannot be read.*delete it to ask for the parts again"),
        ("[", "cannot be read"),
    ):
        parts.write_text(content)
        with pytest.raises(RunFolderError, match=message):
            await alignment(planted, out).run()
    (out / "fit.json").write_text("{")
    with pytest.raises(RunFolderError, match=r"fit\.json cannot be read"):
        await alignment(planted, out).run()


async def test_a_criterion_that_the_judge_never_rates_is_named_with_what_is_kept(tmp_path):
    planted = Planted(60)

    def silent(request):
        return "I cannot say." if "Focus:" in request.text else planted.answer(request)

    order = alignment(planted, tmp_path / "ev", model=ScriptedModel(silent, name="scripted"))
    with pytest.raises(DataError, match="no usable rating on any row to learn from") as raised:
        await order.run()
    assert any(str(tmp_path / "ev" / "layers") in note for note in raised.value.__notes__)


async def test_a_damaged_file_of_ratings_is_not_taken_for_a_failure_to_learn(tmp_path):
    planted, out = Planted(60), tmp_path / "ev"
    await alignment(planted, out).run()
    scores = out / "layers" / "2" / "scores.jsonl"
    scores.write_bytes(b'{"id": 3}\n' + scores.read_bytes())
    with pytest.raises(DataError, match=r"scores\.jsonl:1") as raised:
        await alignment(planted, out).run()
    assert not getattr(raised.value, "__notes__", [])


async def test_a_dry_run_counts_every_call_and_asks_none(tmp_path):
    planted = Planted(60)
    model = planted.model()
    usage = await alignment(planted, None, model=model).dry_run()
    assert model.requests == []
    assert usage.calls == 60 * (2 + 8 + 8) + 2 + 2
    assert list(tmp_path.iterdir()) == []


async def test_ratings_that_are_missing_are_gaps(tmp_path):
    planted = Planted(60)

    def silent_at_times(request):
        is_silent = "text 7." in request.text and "Order:" in request.text
        return "I cannot say." if is_silent else planted.answer(request)

    model = ScriptedModel(silent_at_times, name="scripted")
    order = alignment(planted, tmp_path / "ev", model=model)
    found = await order.run()
    assert sum(order.unscored.values()) == 1
    assert found.report["unscored"] == order.unscored
    assert found.report["data"]["left_out"] == 0


async def test_a_rating_that_could_not_be_asked_for_makes_the_scores_errors(tmp_path):
    planted, out = Planted(60), tmp_path / "ev"
    await fitted(planted, out, layers=1)
    model = ScriptedModel(lambda request: ContentRefused("filtered"), name="scripted")
    method = build(str(out), model)
    scores = await method.graph.run(
        Assignment(example=Example(id="x", output="text 1."), aspects=method.aspects)
    )
    assert [(s.outcome, s.value, s.error.type) for s in scores] == [
        ("error", None, "ContentRefused")
    ] * 2


def test_rated_aspects_must_be_defined_somewhere(tmp_path):
    planted = Planted(60)
    for row in planted.rows:
        row["human"] = {"wit": row["human"]["fluency"]}
    with pytest.raises(ConfigurationError, match="no task defines the aspects that people rated"):
        alignment(planted, tmp_path / "ev", task=None)


@pytest.mark.parametrize(
    ("last", "without"), [((28, 29), ()), ((29,), ()), *(((0, at), (at,)) for at in (14, 21))]
)
def test_folds_whose_ratings_are_equal_do_not_stop_an_alignment(last, without):
    """In all folds but one no rating differs, or without a fold none does."""
    rng = np.random.default_rng(0)
    good, low = rng.normal(size=30), [at in last for at in range(30)]
    rows = [
        {"id": f"r{at}", "output": "x", "group": f"g{at // 2}",
         "human": {"coherence": float(np.clip(3 + good[at], 1, 5)), "consistency": 5.0 - low[at]}}
        for at in range(30)
    ]  # fmt: skip
    people = read_table(Examples(rows), aspects=None)
    noise = rng.normal(size=30)
    table = people.with_features(
        {
            name: {f"r{at}": float(values[at]) for at in range(30) if at not in without}
            for name, values in (("coherence", good), ("consistency", noise))
        }
    )
    fitter = Fitter({"coherence": (1, 5), "consistency": (1, 5)}, 0, 1)
    found = importance_over_folds("ridge", table, fitter)
    assert found.mean.shape == (2, 2)
    assert found.ranking()[0][0] == "coherence"
    assert found.overall_interval()[0, 0] > 0 > found.interval()[1, 0, 0]
    sizes = saliency_over_folds("ridge", table, fitter)
    assert sizes["coherence"] > sizes["consistency"] >= 0


@pytest.fixture
def tree(tmp_path):
    path = tmp_path / "tree.toml"
    path.write_text(FILE)
    return str(path)


def ids(layers):
    return [[row["id"] for row in layer["criteria"]] for layer in layers]


async def test_a_given_tree_is_learned_on_and_never_grown(tmp_path, tree):
    """All of it; with a limit on what is kept, the branch that matters."""
    planted = Planted(120)
    model = planted.model()
    counted = await alignment(planted, None, model=model, tree=tree).dry_run()
    order = alignment(planted, tmp_path / "whole", model=model, tree=tree)
    found = await order.run()
    layers = found.report["alignment"]
    order_and_focus = ["coherence/order", "coherence/focus"]
    below = [f"coherence/order/{name}" for name in ("opening", "titles")]
    assert ids(layers) == [["coherence"], order_and_focus, [*below, "coherence/focus/aim"]]
    assert planted.asked_for_parts == []
    assert len(model.requests) == counted.calls == 120 * 6
    assert [a.name for a in found.evaluator.aspects] == ["coherence", "fluency"]
    pruned = alignment(planted, tmp_path / "kept", tree=tree, keep=1, saliency="shapley")
    layers = (await pruned.run()).report["alignment"]
    assert ids(layers)[2] == below


async def test_a_published_tree_is_that_of_the_rated_aspects(tmp_path):
    planted = Planted(60)
    found = await alignment(planted, tmp_path / "ev", tree="published", layers=2).run()
    published = trees.load("summarization", tasks.load("summarization"))
    below = {node.id for node in published if node.id.count("/") < 2}
    expected = {name for name in below if name.partition("/")[0] in ("coherence", "fluency")}
    assert set(found.evaluator.features) == expected
    assert planted.asked_for_parts == []


@pytest.mark.parametrize(
    ("task", "tree", "error", "message"),
    [
        ("summarization", "grown", UnknownName, "unknown tree 'grown'"),
        ("translation", "published", ConfigurationError, "no tree is published .*'translation'"),
    ],
)
def test_a_tree_that_is_not_there_is_refused_before_anything_is_asked(task, tree, error, message):
    planted = Planted(60)
    for row in planted.rows:
        row["human"] = {"overall": row["human"]["fluency"], "fluency": row["human"]["fluency"]}
    with pytest.raises(error, match=message):
        alignment(planted, None, task=task, tree=tree)


def coin(planted):
    """A judge whose ratings of parts are noise."""

    def answer(request):
        if "on the following metric:" in request.text and not any(
            f"metric:\n\n{root}: " in request.text for root in ("coherence", "fluency")
        ):
            return str(np.random.default_rng([2, *request.text.encode()]).integers(1, 6))
        return planted.answer(request)

    return ScriptedModel(answer, name="scripted")


async def test_chance_does_not_prune_unless_asked_to(tmp_path):
    """The tree stops where no criterion's importance differs from 0; keeping all goes on."""
    planted = Planted(120)

    async def aligned(folder, **growth):
        order = {"keep": 1, "children": 2, **growth}
        return (
            await alignment(planted, tmp_path / folder, model=coin(planted), **order).run()
        ).report

    stopped = await aligned("stop")
    assert [layer["is_noise"] for layer in stopped["alignment"]] == [False, True]
    assert not any(row["expanded"] for row in stopped["alignment"][1]["importance"])
    assert "layer 2: no criterion has an importance" in stopped["warnings"][0]
    assert "the tree stops at this layer" in report_text(stopped)
    pruned = await aligned("prune", noise="prune")
    assert len(pruned["alignment"]) == 3
    assert "pruned anyway" in pruned["warnings"][0]
    everything = await aligned("all", keep=4)
    assert (len(everything["alignment"]), everything["warnings"]) == (3, [])


def table(rows=120):
    return read_table(Examples(rows_of(rows)), patterns=("*",))


def test_shapley_saliency_is_the_mean_size_of_contributions():
    """Of a linear aggregator: |weight * (value - mean)|, of rows that it has not seen."""
    people = table()
    scales = dict.fromkeys(people.aspects, (0.0, 10.0))
    fitter = Fitter(scales, seed=0, threads=1)
    found = saliency_over_folds("ridge", people, fitter)
    fold = folds(people.groups, 2, seed=0)
    sizes = []
    for number in (0, 1):
        rows, rest = people.rows(fold == number), people.rows(fold != number)
        aggregator: Aggregator = fitter.fit("ridge", rest)
        values = aggregator.contributions(rows.features, systems=rows.systems).values
        sizes.append(np.abs(values).mean(axis=0) / np.std(people.human, axis=0)[:, None])
    assert list(found.values()) == pytest.approx(np.mean(sizes, axis=(0, 1)).tolist())
    by_size = sorted(found, key=lambda name: -found[name])[:3]
    by_error = [name for name, _ in importance_over_folds("ridge", people, fitter).ranking()][:3]
    assert set(by_size) == set(by_error)


def test_held_out_rows_stay_the_same_whatever_share_is_learned_from():
    people = table(240)
    sides = [
        split_table(people, FitFromScores(train_fraction=f, test_fraction=0.3))
        for f in (0.1, 0.4, 0.7)
    ]
    held_out = [part.test.ids for part in sides]
    assert held_out[0] == held_out[1] == held_out[2]
    assert len(held_out[0]) == pytest.approx(0.3 * 240, abs=6)
    learned = [set(part.train.ids) for part in sides]
    assert learned[0] < learned[1] < learned[2]
    assert not learned[2] & set(held_out[0])
    alone = split_table(people, FitFromScores(test_fraction=0.3))
    assert alone.test.ids == held_out[0]
    assert len(alone.train.ids) + len(alone.test.ids) == 240
    with pytest.raises(ConfigurationError, match=r"80% of the rows .* and 30% to hold out"):
        split_table(people, FitFromScores(train_fraction=0.8, test_fraction=0.3))


def test_layers_are_taken_away_from_recorded_ratings_of_a_tree_too():
    """A judge's name before a slash is not a layer; curves average over five samples."""
    rows = rows_of(120)
    for row in rows:
        given = list(row["metrics"].values())
        names = ("clarity", "charm", "charm/wit", "charm/wit/puns", "clarity/order", "gpt/charm")
        row["metrics"] = dict(zip(names, given, strict=False))
    how = {"aggregator": "ridge", "report": "full", "repeats": 5}
    report = fit_sync(rows, features=("*",), **how).report
    assert [row["without"] for row in report["ablations"]] == [
        "nothing", "layer 3", "layer 2, 3", "layer 1, 2, 3", "aggregator"
    ]  # fmt: skip
    kept = [row["pearson"] for row in report["ablations"]]
    assert len(set(kept)) == len(kept)
    assert report["data_efficiency"][3]["ridge"]["seeds"] == 5
    last = report["criteria_efficiency"][-1]
    assert (last["count"], last["samples"]) == (6, 5)
    assert last["sd"]["pearson"] > 0


@pytest.mark.parametrize(
    ("shares", "shipped", "held_out"),
    [((None, None), 120, 60), ((0.5, None), 60, 60), ((0.25, 0.25), 30, 30)],
)
async def test_what_is_shipped_learns_from_all_rows_unless_a_part_is_held_out(
    shares, shipped, held_out, tmp_path
):
    """Rows of neither share are not rated."""
    fractions = dict(zip(("train_fraction", "test_fraction"), shares, strict=True))
    planted = Planted(120)
    model = planted.model()
    order = alignment(planted, tmp_path / "ev", model=model, layers=1, **fractions)
    found = await order.run()
    aspects = found.evaluator.aggregator["aspects"]
    assert {aspect["notes"]["rows"] for aspect in aspects} == {shipped}
    assert found.report["held_out"]["aspects"]["fluency"]["n"] == held_out
    assert ("learned from all 120 rows" in found.text) == (shares[0] is None)
    rated = shipped if shares[0] is None else shipped + held_out
    assert len(model.requests) == rated * 2

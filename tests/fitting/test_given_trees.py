"""Alignment on a given tree, what chance would choose, and what figures are averaged over."""

import numpy as np
import pytest

from tests.fitting.judge import Planted
from tests.fitting.making import rows_of
from tests.fitting.test_alignment import alignment
from textassay.fitting.alignment import Growth
from textassay.fitting.fit_from_scores import fit_recorded
from textassay.fitting.importance import importance_over_folds, saliency_over_folds
from textassay.fitting.learn import Fitter, Learning, split
from textassay.fitting.report import report_text
from textassay.fitting.table import read_table
from textassay.learning import Aggregator, folds
from textassay.methods.library import tasks, trees
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, UnknownName

RIDGE = Learning(aggregators=("ridge",))
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


@pytest.fixture
def tree(tmp_path):
    path = tmp_path / "tree.toml"
    path.write_text(FILE)
    return str(path)


def ids(layers):
    return [[row["id"] for row in layer["criteria"]] for layer in layers]


@pytest.mark.asyncio
async def test_a_given_tree_is_learnt_on_and_never_grown(tmp_path, tree):
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
    pruned = alignment(planted, tmp_path / "kept", tree=tree, growth=Growth(keep=1), learning=RIDGE)
    layers = (await pruned.run()).report["alignment"]
    assert ids(layers)[2] == below


@pytest.mark.asyncio
async def test_a_published_tree_is_that_of_the_rated_aspects(tmp_path):
    planted = Planted(60)
    found = await alignment(
        planted, tmp_path / "ev", tree="published", growth=Growth(layers=2), learning=RIDGE
    ).run()
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


@pytest.mark.asyncio
async def test_chance_does_not_prune_unless_asked_to(tmp_path):
    """The tree stops where no criterion's importance can be told from 0; keeping all goes on."""
    planted = Planted(120)

    async def aligned(folder, **growth):
        order = {"growth": Growth(**{"keep": 1, "children": 2, **growth}), "learning": RIDGE}
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


@pytest.mark.asyncio
async def test_criteria_may_be_ranked_by_shapley_values(tmp_path):
    planted = Planted(120)
    growth = Growth(keep=2, saliency="shapley")
    found = (await alignment(planted, tmp_path / "ev", growth=growth).run()).report
    second = found["alignment"][1]["importance"]
    assert {row["criterion"] for row in second if row["expanded"]} == {
        "coherence/order", "fluency/grammar"
    }  # fmt: skip
    assert all(row["importance"] >= 0 for row in second)


def test_held_out_rows_stay_the_same_whatever_share_is_learnt_from():
    people = table(240)
    sides = [split(people, Learning(train_fraction=f, test_fraction=0.3)) for f in (0.1, 0.4, 0.7)]
    held_out = [part.test.ids for part in sides]
    assert held_out[0] == held_out[1] == held_out[2]
    assert len(held_out[0]) == pytest.approx(0.3 * 240, abs=6)
    learnt = [set(part.train.ids) for part in sides]
    assert learnt[0] < learnt[1] < learnt[2]
    assert not learnt[2] & set(held_out[0])
    alone = split(people, Learning(test_fraction=0.3))
    assert alone.test.ids == held_out[0]
    assert len(alone.train.ids) + len(alone.test.ids) == 240
    with pytest.raises(ConfigurationError, match=r"80% of the rows .* and 30% to hold out"):
        split(people, Learning(train_fraction=0.8, test_fraction=0.3))


@pytest.mark.asyncio
@pytest.mark.parametrize(("fraction", "shipped"), [(None, 120), (0.5, 60)])
async def test_what_is_shipped_learns_from_all_rows_unless_a_part_is_held_out(
    fraction, shipped, tmp_path
):
    learning = Learning(aggregators=("ridge",), train_fraction=fraction)
    found = await alignment(
        Planted(120), tmp_path / "ev", growth=Growth(layers=1), learning=learning
    ).run()
    aspects = found.evaluator.aggregator["aspects"]
    assert {aspect["notes"]["rows"] for aspect in aspects} == {shipped}
    assert found.report["held_out"]["aspects"]["fluency"]["n"] == 60
    assert ("learned once more, from all 120 rows" in found.text) == (fraction is None)


@pytest.mark.asyncio
async def test_rows_of_neither_share_are_not_rated(tmp_path):
    planted = Planted(120)
    model = planted.model()
    learning = Learning(aggregators=("ridge",), train_fraction=0.25, test_fraction=0.25)
    order = alignment(
        planted, tmp_path / "ev", model=model, growth=Growth(layers=1), learning=learning
    )
    report = (await order.run()).report
    assert report["split"]["train"]["rows"] + report["split"]["held_out"]["rows"] == 60
    assert len(model.requests) == 60 * 2


def test_layers_are_taken_away_from_recorded_ratings_of_a_tree_too():
    """Names tell the tree; a judge's name before a slash is no layer."""
    rows = rows_of(120)
    for row in rows:
        given = list(row["metrics"].values())
        names = ("clarity", "charm", "charm/wit", "charm/wit/puns", "clarity/order", "gpt/charm")
        row["metrics"] = dict(zip(names, given, strict=False))
    report = fit_recorded(
        Examples(rows), features=("*",), learning=Learning(aggregators=("ridge",), depth="full")
    ).report
    assert [row["without"] for row in report["ablations"]] == [
        "nothing", "layer 3", "layer 2, 3", "layer 1, 2, 3", "aggregator"
    ]  # fmt: skip
    kept = [row["pearson"] for row in report["ablations"]]
    assert len(set(kept)) == len(kept)


def test_curves_average_over_as_many_samples_as_asked():
    """HD-Eval's figures 4 and 5 take five."""
    learning = Learning(aggregators=("ridge",), depth="full", repeats=5)
    report = fit_recorded(Examples(rows_of(120)), features=("*",), learning=learning).report
    assert report["data_efficiency"][3]["ridge"]["seeds"] == 5
    last = report["criteria_efficiency"][-1]
    assert (last["count"], last["samples"]) == (8, 5)
    assert last["sd"]["pearson"] > 0

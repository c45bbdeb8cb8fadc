"""Choices of a cross-fitted report rest on the errors of its own folds, and flatter nothing."""

import numpy as np
import pytest

from textassay.fitting.fit_from_scores import read_recorded
from textassay.fitting.learn import Choice, Fitter, Unseen, cross_fit
from textassay.meta import pearson
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import DataError

RIVALS = ("linear", "ridge", "tree")


def learned(
    names: tuple[str, ...], signal: float, seed: int = 0, threads: int = 1
) -> tuple[Choice, Unseen]:
    """Cross-fit aggregators on 60 rows of 20 sources, four features that follow the ratings."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=60)
    features = signal * quality[:, None] + rng.normal(size=(60, 4))
    rows = [
        {"id": str(i), "output": "-", "group": str(i // 3), "human": {"q": quality[i]},
         "metrics": {f"f{k}": value for k, value in enumerate(features[i])}}
        for i in range(60)
    ]  # fmt: skip
    table = read_recorded(Examples(rows), features=("f*",)).table
    return cross_fit(names, table, Fitter({"q": (-5.0, 5.0)}, 0, threads), lambda _: None)


def figure(unseen: Unseen) -> float:
    return pearson(unseen.by_evaluator()[:, 0], unseen.rows.human[:, 0]) or 0.0


@pytest.mark.parametrize("names", [RIVALS, ("auto",)])
def test_choosing_where_nothing_can_be_learned_finds_nothing(names):
    """The best of three over all folds, chosen with all errors in view, would be above 0."""
    seeds = range(6 if len(names) > 1 else 3)
    assert np.mean([figure(learned(names, 0.0, seed)[1]) for seed in seeds]) < 0.05


def test_the_error_of_what_is_shipped_is_that_of_the_report():
    """The weights of a fold come from fewer errors than those of what is shipped."""
    choice, unseen = learned(("auto",), 1.0)
    notes = choice.aggregator.notes_["q"]
    human = unseen.rows.human[:, 0]
    told = np.mean((unseen.by_evaluator()[:, 0] - human) ** 2) / human.var()
    assert notes["held_out_error"]["blend"] == pytest.approx(told, rel=0.1)
    for fold in unseen.repeats[0]:
        weights = fold.choice.aggregator.notes_["q"]["weights"]
        assert sum(weights.values()) == pytest.approx(1.0)
        assert weights != notes["weights"]


def test_the_result_does_not_depend_on_threads():
    one, two = (learned(("auto", "ridge"), 1.0, threads=threads) for threads in (1, 2))
    assert one[0].as_dict() == two[0].as_dict()
    assert np.array_equal(one[1].by_evaluator(), two[1].by_evaluator())


def test_what_cannot_be_learned_without_a_fold_is_not_chosen():
    """Features fall as the ratings rise, so non-negative weights are all 0."""
    choice, unseen = learned(("nnls", "ridge"), -2.0)
    assert choice.chosen == "ridge"
    assert "nnls" in choice.failed
    assert {fold.choice.chosen for fold in unseen.repeats[0]} == {"ridge"}
    with pytest.raises(DataError, match="every feature the weight 0"):
        learned(("nnls",), -2.0)

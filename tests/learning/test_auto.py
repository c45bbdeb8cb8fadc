"""How `auto` chooses."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

from benchmarks.learning_data import SETS, read
from benchmarks.learning_recorded import best_single, learnt, measured
from benchmarks.learning_table import mean_r
from tests.benchmark_data import FOLDER, benchmark
from tests.learning.planted import planted
from textassay.learning import Aggregator
from textassay.learning.learners import CANDIDATES
from textassay.runtime.errors import DataError

SEEDS = 3  # `python -m benchmarks.learning_recorded` takes five


@cache
def recorded(name):
    """Recorded judges' scores, ratings and groups of one benchmark."""
    benchmark(SETS[name].path)
    return read(FOLDER, SETS[name])


def over_seeds(name, predict_of, fraction):
    """Return r and rho of the held-out rows, averaged over the aspects, for each seed of the
    split."""
    data = recorded(name)
    return measured(data, predict_of(data), fraction, SEEDS).mean(axis=1)


def auto(data):
    return learnt(data, "auto")


def average(data):
    return learnt(data, "avg")


def test_members_are_weighted_by_their_errors_on_groups_that_are_left_out():
    x, y, groups = planted(240)
    notes = Aggregator("auto").fit(x, y[:, 0], groups=groups).notes_["aspect_0"]
    weights, errors = notes["weights"], notes["held_out_error"]
    assert sum(weights.values()) == pytest.approx(1)
    assert min(weights.values()) >= 0.01
    order = sorted(weights, key=lambda name: errors[name])
    assert order == sorted(weights, key=lambda name: -weights[name])
    ratio = weights[order[1]] / weights[order[0]]
    excess = errors[order[1]] / errors[order[0]] - 1
    assert ratio == pytest.approx(np.exp(-40 / 5 * excess))  # of 40 groups
    left_out = set(errors) - set(weights) - {"blend"}
    assert all(errors[name] > errors[order[0]] for name in left_out)
    assert errors["blend"] < np.mean([errors[name] for name in weights])
    assert set(errors) == {*CANDIDATES, "blend"}
    assert all(0 < error < 1.2 for error in errors.values())
    assert notes["failed"] == {}


def test_a_feature_far_better_than_many_others_decides_alone_where_rows_are_few():
    rng = np.random.default_rng(4)
    y = rng.normal(size=40)
    x = np.column_stack([y + 0.3 * rng.normal(size=40), rng.normal(size=(40, 30))])
    notes = Aggregator("auto").fit(x, y).notes_["aspect_0"]
    assert max(notes["weights"], key=notes["weights"].get) == "single"


def test_metrics_that_fall_as_quality_rises_are_blended_no_worse_than_by_ridge():
    """Newsroom with 42 rows; `benchmarks.learning_table` has all data sets and sizes."""
    ours = over_seeds("newsroom", auto, 0.1)
    regression = over_seeds("newsroom", lambda data: learnt(data, "ridge"), 0.1)
    assert (ours - regression)[:, 0].mean() > -0.01


def test_from_25_rows_neither_ridge_nor_the_best_single_metric_is_ahead_beyond_noise():
    """BAGEL's quality, whose metrics say next to nothing: five draws of whole sources."""
    data = recorded("bagel")
    at = data.aspects.index("quality")
    data = replace(data, human=data.human[:, [at]], aspects=["quality"])
    arms = {"auto": auto(data), "ridge": learnt(data, "ridge"), "best single": best_single(data)}
    found = {
        name: np.array([mean_r(data, predict, 25, seed) for seed in range(5)])
        for name, predict in arms.items()
    }
    for name in ("ridge", "best single"):
        behind = found[name] - found["auto"]
        low = behind.mean() - stats.t.ppf(0.975, 4) * stats.sem(behind)
        assert low < 0, name
        assert behind.mean() < 0.05, name


def test_a_clearly_better_single_one_beats_the_blend():
    """Without noise and with straight lines trees only add error."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    notes = Aggregator("auto").fit(x, x @ [1, -2, 3, 1]).notes_["aspect_0"]
    assert notes["chosen"] == "ridge"


def test_candidates_that_cannot_learn_are_named():
    x, y, groups = planted(100)
    falling = -x[:, [0, 2]]
    notes = Aggregator("auto").fit(falling, y[:, 0], groups=groups).notes_["aspect_0"]
    assert set(notes["failed"]) == {"nnls"}
    assert "none rises" in notes["failed"]["nnls"]
    assert "nnls" not in {*notes["held_out_error"], *notes["weights"]}


def test_why_no_candidate_can_learn_is_told_for_each():
    """Five rows of one source and one of another: a fold is learned from a single row."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 3))
    with pytest.raises(DataError, match=r"ridge: .* 2 groups, not 1.*forest: .* 2 rows"):
        Aggregator("auto").fit(x, x[:, 0], groups=[0] * 5 + [1])


def test_groups_are_never_split_between_learning_and_choosing():
    """A feature that only names the source is worthless for new sources; grouped folds see that."""
    rng = np.random.default_rng(0)
    groups = np.arange(300) // 10
    source = rng.normal(size=30)
    x = np.column_stack([np.repeat(np.arange(30.0), 10), rng.normal(size=300)])
    y = source[groups] + 0.1 * rng.normal(size=300)
    grouped = Aggregator("auto").fit(x, y, groups=groups).notes_["aspect_0"]["held_out_error"]
    by_row = Aggregator("auto").fit(x, y).notes_["aspect_0"]["held_out_error"]
    assert by_row["forest"] < 0.6
    assert grouped["forest"] > 0.9


LEAST = {"summeval": (0.61, 0.52), "topical-chat": (0.66, 0.66)}
"""Pearson and Spearman that half of the rows are enough for; the best single judge has .53/.48 and
.58/.59."""


@pytest.mark.parametrize("name", LEAST)
def test_recorded_judges_together_beat_the_best_single_one_with_every_seed(name):
    """Half the documents or dialogues for training, as HD-Eval's tables have it, but never split
    between both sides."""
    ours = over_seeds(name, auto, 0.5)
    assert (ours.mean(axis=0) >= LEAST[name]).all()
    assert (ours > over_seeds(name, best_single, 0.5)).all()


@pytest.mark.parametrize("name", LEAST)
def test_with_a_quarter_of_the_data_no_seed_is_worse_than_averaging(name):
    ours, averages = over_seeds(name, auto, 0.25), over_seeds(name, average, 0.25)
    assert (ours >= averages - 0.01).all()

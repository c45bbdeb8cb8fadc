"""How `auto` chooses."""

from functools import cache

import numpy as np
import pytest

from benchmarks.learning_data import SETS, read
from benchmarks.learning_recorded import best_single, learnt, measured
from tests.benchmark_data import FOLDER, benchmark
from tests.learning.planted import planted
from textassay.learning import Aggregator

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


def test_few_rows_or_groups_leave_trees_out():
    for n, per_group in ((50, 1), (300, 100)):
        x, y, groups = planted(n, per_group=per_group)
        notes = Aggregator("auto").fit(x, y[:, 0], groups=groups).notes_["aspect_0"]
        assert not {"forest", "lightgbm"} & set(notes["held_out_error"])
        assert "60 rows" in notes["few_rows"]


def test_the_choice_is_told_with_every_error():
    x, y, groups = planted(240)
    notes = Aggregator("auto").fit(x, y[:, 0], groups=groups).notes_["aspect_0"]
    assert set(notes["held_out_error"]) == {
        "avg",
        "corrw",
        "nnls",
        "ridge",
        "forest",
        "lightgbm",
        "blend",
    }
    assert all(0 < error < 1.2 for error in notes["held_out_error"].values())
    assert notes["failed"] == {}


def test_a_clearly_better_single_one_beats_the_blend():
    """Without noise and with straight lines trees only add error."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    notes = Aggregator("auto").fit(x, x @ [1, -2, 3, 1]).notes_["aspect_0"]
    assert notes["chosen"] == "ridge"


def test_candidates_that_cannot_learn_are_named():
    x, y, groups = planted(100)
    notes = Aggregator("auto").fit(-x, y[:, 0], groups=groups).notes_["aspect_0"]
    assert set(notes["failed"]) >= {"avg"}
    assert "does not rise" in notes["failed"]["avg"]
    assert "avg" not in notes["held_out_error"]


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


def test_the_recorded_judges_are_those_that_were_named():
    assert recorded("summeval").features.shape == (1200, 36)
    assert recorded("topical-chat").features.shape == (360, 34)

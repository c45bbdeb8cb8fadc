"""How `auto` chooses."""

import numpy as np

from tests.benchmark_data import benchmark
from tests.learning.planted import planted
from textassay.learning import Aggregator, group_codes, split_rows


def judged(name, prefixes, aspects):
    """Recorded judges' scores, ratings, groups and the features' names of one benchmark."""
    rows = benchmark(name)
    names = sorted({metric for row in rows for metric in row["metrics"] if metric.startswith(prefixes)})
    rows = [row for row in rows if sum(row["metrics"].get(metric) is not None for metric in names) > len(names) / 2]
    if "summeval" in name:
        rows = [row for row in rows if "gpt-4-0314/rts/coherence" in row["metrics"]]
    x = np.array([[row["metrics"].get(metric) for metric in names] for row in rows], float)
    y = np.array([[row["human"][aspect] for aspect in aspects] for row in rows], float)
    return x, y, group_codes(row["group"] for row in rows), names


def mean_r(predicted, human):
    return np.mean([np.corrcoef(p, h)[0, 1] for p, h in zip(predicted.T, human.T, strict=True)])


def test_few_rows_or_groups_leave_trees_out():
    for n, per_group in ((50, 1), (300, 100)):
        x, y, groups = planted(n, per_group=per_group)
        notes = Aggregator("auto").fit(x, y[:, 0], groups=groups).notes_["aspect_0"]
        assert not {"forest", "lightgbm"} & set(notes["held_out_error"])
        assert "60 rows" in notes["few_rows"]


def test_the_choice_is_told_with_every_error():
    x, y, groups = planted(240)
    notes = Aggregator("auto").fit(x, y[:, 0], groups=groups).notes_["aspect_0"]
    assert set(notes["held_out_error"]) == {"avg", "corrw", "nnls", "ridge", "forest", "lightgbm", "blend"}
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


def test_summeval_judges_together_beat_the_best_single_judge():
    """Half the documents for training: 36 recorded features; the best single judge has .51, plain averaging .50."""
    aspects = ["coherence", "consistency", "fluency", "relevance"]
    x, y, groups, names = judged("summeval/summeval.jsonl.gz", ("gpt-", "llama-"), aspects)
    assert x.shape == (1200, 36)
    train = split_rows(groups, 0.5, seed=0)
    aggregator = Aggregator("auto").fit(
        x[train], y[train], groups=groups[train], feature_names=names, target_names=aspects
    )
    gpt4 = x[:, [names.index(f"gpt-4-0314/rts/{aspect}") for aspect in aspects]]
    ours = mean_r(aggregator.predict(x[~train]), y[~train])
    assert ours > mean_r(gpt4[~train], y[~train]) + 0.06
    assert ours > 0.59


def test_topical_chat_with_a_quarter_of_the_data_is_no_worse_than_averaging():
    aspects = ["naturalness", "coherence", "engagingness", "groundedness"]
    x, y, groups, names = judged("topical_chat/topical_chat.jsonl", ("gpt-", "unieval"), aspects)
    assert x.shape == (360, 34)
    train = split_rows(groups, 0.25, seed=0)
    named = {"groups": groups[train], "feature_names": names, "target_names": aspects}
    auto, avg = (Aggregator(name).fit(x[train], y[train], **named).predict(x[~train]) for name in ("auto", "avg"))
    assert mean_r(auto, y[~train]) > mean_r(avg, y[~train]) - 0.01

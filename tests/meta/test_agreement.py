"""Tests of the difference between two sets of scores."""

import math

import numpy as np
import pytest

from tests.benchmark_data import benchmark
from textassay import meta
from textassay.runtime.errors import ConfigurationError, DataError


def test_williams_gives_steigers_example():
    """Steiger (1980), case A: n = 103, r = .4 and .5, r between the two .1: t(100) = -.89, p =
    .37."""
    found = meta.williams(0.4, 0.5, 0.1, 103)
    assert (round(found.t, 2), found.df) == (-0.89, 100)
    assert round(found.p, 2) == 0.37


def test_williams_by_hand():
    """r = .8 and .6, r between .5, n = 12: K = 1 - .64 - .36 - .25 + .48 = .23, r-bar squared .49.

    t = .2 * sqrt(11 * 1.5 / (2 * (11 / 9) * .23 + .49 * .125)) = 1.02689...
    """
    found = meta.williams(0.8, 0.6, 0.5, 12)
    assert found.t == pytest.approx(0.2 * math.sqrt(16.5 / (22 / 9 * 0.23 + 0.06125)), abs=1e-12)
    assert found.df == 9
    assert meta.williams(0.6, 0.8, 0.5, 12).t == pytest.approx(-found.t)


def test_williams_is_undefined_for_equal_scores_and_few_points():
    assert meta.williams(0.5, 0.5, 1.0, 50) is None
    assert meta.williams(0.5, 0.6, 0.1, 3) is None
    with pytest.raises(DataError, match="between -1 and 1"):
        meta.williams(1.5, 0.5, 0.1, 20)


def test_a_better_judge_is_found_and_sides_are_symmetric():
    rng = np.random.default_rng(0)
    human = rng.normal(size=300)
    good, bad = human + rng.normal(size=300), human + 4 * rng.normal(size=300)
    groups = np.arange(300) // 5
    found = meta.compare(good, bad, human, groups=groups, bootstrap=500)
    back = meta.compare(bad, good, human, groups=groups, bootstrap=500)
    for name in ("pearson", "spearman", "kendall"):
        one, other = getattr(found, name), getattr(back, name)
        assert one.difference == one.a - one.b > 0
        assert one.ci[0] > 0
        assert one.p == pytest.approx(2 / 501)
        assert (other.difference, other.p) == (-one.difference, one.p)
        assert other.ci == pytest.approx((-one.ci[1], -one.ci[0]))
    assert found.pearson.williams is None  # rows share groups
    alone = meta.compare(good, bad, human, bootstrap=50)
    assert alone.pearson.williams.p < 1e-6
    assert alone.spearman.williams is None


def test_equal_judges_are_rarely_told_apart():
    """Under no difference about one in twenty tests says otherwise."""
    said = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        human = rng.normal(size=100)
        a, b = human + rng.normal(size=(2, 100))
        said += meta.compare(a, b, human, bootstrap=200, seed=seed).kendall.p < 0.05
    assert said <= 9


def test_equal_judges_of_clustered_rows_are_rarely_told_apart():
    """Documents that both judges misread alike: rows taken as independent find a difference in a
    third."""
    by_groups = by_rows = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        shared = rng.normal(size=(3, 12, 1))
        human, a, b = shared * 1.5 + rng.normal(size=(3, 12, 12)) * 0.6
        a, b = a + human * 0.5, b + human * 0.5
        groups = np.repeat(np.arange(12), 12)
        flat = [side.ravel() for side in (a, b, human)]
        by_groups += meta.compare(*flat, groups=groups, bootstrap=150, seed=seed).pearson.p < 0.05
        by_rows += meta.compare(*flat, bootstrap=20, seed=seed).pearson.williams.p < 0.05
    assert by_groups <= 12
    assert by_rows >= 30


def test_the_same_scores_do_not_differ():
    x, y = [1, 2, 3, 4, 5], [1, 3, 2, 5, 4]
    found = meta.compare(x, x, y, bootstrap=100)
    assert (found.pearson.difference, found.pearson.p, found.pearson.williams) == (0, 1, None)


def test_the_same_scores_in_another_unit_do_not_differ():
    """Their coefficients differ in the last bits, and so do those of every resample."""
    rng = np.random.default_rng(0)
    human, scores = rng.normal(size=(2, 40))
    other = 0.37 * scores + 1 / 3
    assert meta.pearson(scores, human) != meta.pearson(other, human)
    found = meta.compare(scores, other, human, bootstrap=200)
    for difference in (found.pearson, found.spearman, found.kendall):
        assert (difference.difference, difference.ci, difference.p) == (0.0, (0.0, 0.0), 1.0)


def test_only_rows_with_both_scores_count():
    found = meta.compare([1, None, 3, 4, 5], [2, 3, None, 5, 4], [1, 2, 3, 5, None], bootstrap=20)
    assert found.n == 2


def test_a_constant_side_is_undefined():
    found = meta.compare([1, 1, 1], [1, 2, 3], [1, 2, 3], bootstrap=20)
    assert (found.pearson.a, found.pearson.b, found.pearson.difference, found.pearson.p) == (
        None,
        1,
        None,
        None,
    )


def test_no_resamples_is_refused():
    with pytest.raises(ConfigurationError, match="at least 1"):
        meta.compare([1, 2], [2, 1], [1, 2], bootstrap=0)
    with pytest.raises(DataError, match="equally long"):
        meta.compare([1, 2], [2, 1, 3], [1, 2])


def test_gpt4_beats_llama_on_summeval_at_every_level():
    rows = [
        row
        for row in benchmark("summeval/summeval.jsonl.gz")
        if "gpt-4-0314/rts/fluency" in row["metrics"]
    ]
    gpt4, llama = (
        [row["metrics"].get(f"{judge}/rts/fluency") for row in rows]
        for judge in ("gpt-4-0314", "llama-2-7b-chat-hf")
    )
    human = [row["human"]["fluency"] for row in rows]
    groups, systems = [row["group"] for row in rows], [row["system"] for row in rows]
    for level in ("dataset", "group", "system"):
        found = meta.compare(
            gpt4, llama, human, groups=groups, systems=systems, level=level, bootstrap=300
        )
        low, high = found.spearman.ci
        assert low < found.spearman.difference < high
        assert low > 0 or level == "system"  # twelve systems leave it open
        assert (found.pearson.williams is None) == (level != "system")

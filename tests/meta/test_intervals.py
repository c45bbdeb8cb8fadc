"""Intervals by resampling groups."""

import numpy as np
import pytest

from textassay import meta
from textassay.meta.correlation import kendall, pair_up, pearson, spearman
from textassay.meta.intervals import coefficient_interval, draw_counts, resampled

LEVELS = ["dataset", "group", "system"]


def panel(seed, *, documents=20, systems=5, signal=1.0, decimals=None):
    """Scores and ratings of every system on every document, where documents differ in how hard they
    are."""
    rng = np.random.default_rng(seed)
    hard, good = rng.normal(size=documents)[:, None], np.linspace(-0.7, 0.7, systems)[None, :]
    human = hard + good + rng.normal(size=(documents, systems))
    scores = signal * human + hard + rng.normal(size=human.shape)
    groups = np.repeat(np.arange(documents), systems)
    names = np.tile(np.arange(systems), documents)
    if decimals is not None:
        scores, human = np.round(scores, decimals), np.round(human, decimals)
    return scores.ravel(), human.ravel(), groups, names


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("decimals", [0, None])
def test_a_resample_equals_the_coefficient_of_its_rows(level, decimals):
    """The weighted form against plainly repeating the drawn documents' rows."""
    scores, human, groups, systems = panel(1, documents=12, decimals=decimals)
    pairs = pair_up(scores, human, groups=groups, systems=systems)
    values = resampled(pairs, level, resamples=15, seed=4)
    counts = draw_counts(12, 15, np.random.default_rng(4))
    for column in range(15):
        drawn = np.repeat(np.arange(12), counts[:, column].astype(int))
        rows = np.concatenate([np.flatnonzero(groups == g) for g in drawn])
        copy = np.repeat(np.arange(12), 5)  # a document drawn twice is two documents
        point = meta.correlate(
            scores[rows], human[rows], groups=copy, systems=systems[rows], level=level
        )
        for name in ("pearson", "spearman", "kendall"):
            expected = getattr(point, name)
            got = values[name][column]
            assert np.isnan(got) if expected is None else got == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("level", LEVELS)
def test_a_seed_fixes_the_interval(level):
    scores, human, groups, systems = panel(2)

    def interval(seed):
        found = meta.correlate(
            scores, human, groups=groups, systems=systems, level=level, bootstrap=200, seed=seed
        )
        return found.ci

    assert interval(7) == interval(7)
    assert (interval(7) != interval(8)) == (level == "dataset")  # the others need no resamples
    if level == "system":  # of five systems
        assert set(interval(7).values()) == {None}
        return
    for name, (low, high) in interval(7).items():
        point = getattr(
            meta.correlate(scores, human, groups=groups, systems=systems, level=level), name
        )
        assert low <= point <= high


@pytest.mark.parametrize("level", ["dataset", "group"])
def test_intervals_cover_the_truth(level):
    """Over 120 simulated data sets a 95 % interval holds the long-run value in 88 to 99 % of
    them."""
    truth = meta.correlate(
        *panel(999, documents=20_000)[:2], groups=panel(999, documents=20_000)[2], level=level
    )
    hits = dict.fromkeys(("pearson", "spearman", "kendall"), 0)
    for seed in range(120):
        scores, human, groups, _ = panel(seed, documents=40)
        found = meta.correlate(scores, human, groups=groups, level=level, bootstrap=300, seed=seed)
        for name in hits:
            low, high = found.ci[name]
            hits[name] += low <= getattr(truth, name) <= high
    assert all(0.88 <= count / 120 <= 0.99 for count in hits.values()), hits


def test_rows_of_one_source_are_drawn_together():
    """Repeating rows within a document adds no evidence: only an interval over rows would
    shrink."""
    rng = np.random.default_rng(5)
    human = rng.normal(size=30)
    scores = human + rng.normal(size=30)
    x, y, groups = (np.repeat(side, 20) for side in (scores, human, np.arange(30)))

    def width(**arguments):
        low, high = meta.correlate(x, y, bootstrap=500, **arguments).ci["pearson"]
        return high - low

    low, high = meta.correlate(scores, human, bootstrap=500).ci["pearson"]
    assert width(groups=groups) == pytest.approx(high - low, rel=1e-9)
    assert width() < 0.4 * width(groups=groups)


def test_too_few_groups_or_systems_have_no_interval_and_say_so():
    """Below these numbers simulated intervals do not hold what they promise."""
    found = meta.correlate([1, 2, 3], [1, 3, 2], groups=["a"] * 3, bootstrap=100)
    assert found.pearson == pytest.approx(0.5)
    assert found.ci == {"pearson": None, "spearman": None, "kendall": None}
    assert found.note == "no interval: needs at least 5 groups, found 1"
    scores, human, groups, systems = panel(2, documents=4, systems=5)
    for level, says in (
        ("dataset", "5 groups, found 4"),
        ("group", "15 groups with a coefficient, found 4"),
        ("system", "10 systems, found 5"),
    ):
        found = meta.correlate(
            scores, human, groups=groups, systems=systems, level=level, bootstrap=50
        )
        assert set(found.ci.values()) == {None}
        assert says in found.note


def test_systems_that_differ_by_chance_alone_have_no_interval():
    rng = np.random.default_rng(1)
    scores, human = rng.normal(size=(2, 400))
    found = meta.correlate(
        scores,
        human,
        groups=np.arange(400) // 10,
        systems=np.arange(400) % 10,
        level="system",
        bootstrap=1,
    )
    assert set(found.ci.values()) == {None}
    assert "by chance" in found.note


def test_an_interval_needs_half_the_resamples():
    assert coefficient_interval(0.9, np.array([1.0, np.nan, np.nan]), 20) is None
    low, high = coefficient_interval(0.5, np.array([0.4, 0.6, 0.5, np.nan]), 20)
    assert -1 < low < 0.5 < high < 1


def test_weights_far_apart_stay_exact():
    """A resample without the one huge score still has the right Pearson coefficient."""
    rng = np.random.default_rng(0)
    scores = np.append(rng.normal(size=30), 1e9)
    human = np.append(rng.normal(size=30), 0)
    values = resampled(pair_up(scores, human), "dataset", resamples=60, seed=1)["pearson"]
    counts = draw_counts(31, 60, np.random.default_rng(1)).astype(int)
    for column in np.flatnonzero(counts[-1] == 0):
        rows = np.repeat(np.arange(31), counts[:, column])
        assert values[column] == pytest.approx(pearson(scores[rows], human[rows]), abs=1e-6)
    assert spearman(scores, human) is not None
    assert kendall(scores, human) is not None

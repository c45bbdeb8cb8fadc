"""PPI++ and Rogan-Gladen are those of reference packages; systems that nobody rated are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.calibration.columns import columns_of
from textassay.calibration import Estimates, Scales, estimate_means
from textassay.calibration.correction import (
    correct_mean,
    power_tuned,
    rated_range,
    rogan_gladen,
)
from textassay.runtime.errors import UnknownName

ROWS = np.arange(60)
SCORES = 1 + (ROWS * 7 % 11) * 0.4
RATINGS = 1 + ((ROWS * 7 % 11) * 0.35 + (ROWS * 5 % 7) * 0.2)
RATED = np.where(ROWS < 20, RATINGS, np.nan)


def test_point_and_weight_are_those_of_ppi_python_and_truescore():
    """Golden numbers of ppi-python 0.2.3 and truescore 0.7.4 for independent rows, to 1e-9."""
    found = correct_mean(SCORES, RATED, ROWS)
    assert found.corrected.value == pytest.approx(3.3623281288486275, abs=1e-9)
    assert found.weight == pytest.approx(0.5332589835518214, abs=1e-9)
    assert power_tuned(RATINGS[:20], SCORES[:20], SCORES[20:]) == found.weight
    # theirs has no correction of degrees of freedom for the judged part
    assert found.corrected.variance**0.5 == pytest.approx(0.1592768816302735, rel=0.01)


def test_reference_packages_agree_where_they_are_installed():
    """The packages themselves, on random cases."""
    reference = pytest.importorskip("truescore.correct")
    rng = np.random.default_rng(0)
    for _ in range(5):
        scores = rng.normal(size=200)
        ratings = scores * 0.6 + rng.normal(size=200)
        shown = reference.ppi_estimate(scores, ratings[:50], np.arange(50))
        rated = np.where(np.arange(200) < 50, ratings, np.nan)
        found = correct_mean(scores, rated, np.arange(200))
        assert found.corrected.value == pytest.approx(shown.point, abs=1e-9)
        assert found.weight == pytest.approx(shown.lambda_, abs=1e-9)


def test_points_are_those_of_ppi_python_where_it_is_installed():
    """The package itself, on random cases, with its own tuned weight."""
    reference = pytest.importorskip("ppi_py")
    rng = np.random.default_rng(1)
    for size in (20, 50, 150):
        scores = rng.normal(size=200)
        ratings = scores * 0.6 + rng.normal(size=200)
        point = reference.ppi_mean_pointestimate(ratings[:size], scores[:size], scores[size:])
        found = correct_mean(
            scores, np.where(np.arange(200) < size, ratings, np.nan), np.arange(200)
        )
        assert found.corrected.value == pytest.approx(float(point[0]), abs=1e-9)


def test_rogan_gladen_is_that_of_truescore():
    """The point is truescore's; the variance has both samples and their overlap."""
    said = (np.arange(80) * 7 % 10 < 6).astype(float)
    true = np.where(np.arange(80) % 5 == 0, 1 - said, said)
    found = rogan_gladen(said, np.where(np.arange(80) < 40, true, np.nan), np.arange(80))
    assert found is not None
    assert found.share.value == pytest.approx(0.4, abs=1e-9)
    assert (found.sensitivity, found.specificity) == (1.0, pytest.approx(2 / 3))
    assert found.usable


def test_rogan_gladen_counts_sources_once():
    """Copies of a source's rows change neither the share of yes nor its interval."""
    said = (np.arange(80) * 7 % 10 < 6).astype(float)
    true = np.where(np.arange(80) % 5 == 0, 1 - said, said)
    rated = np.where(np.arange(80) < 40, true, np.nan)
    once = rogan_gladen(said, rated, np.arange(80))
    times = 1 + np.arange(80) % 4
    copied = rogan_gladen(*(np.repeat(one, times) for one in (said, rated, np.arange(80))))
    assert once is not None
    assert copied is not None
    assert copied.share.value == pytest.approx(once.share.value)
    assert copied.share.variance == pytest.approx(once.share.variance)


def test_errors_too_rare_to_be_seen_are_in_the_interval_of_a_share():
    """40 labels of a judge that hardly errs: the interval holds the share as often as promised."""
    held = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        true = (rng.random(2000) < 0.5).astype(float)
        said = np.where(rng.random(2000) < np.where(true == 1, 0.99, 0.95), true, 1 - true)
        rated = np.where(np.arange(2000) < 40, true, np.nan)
        found = rogan_gladen(said, rated, np.arange(2000))
        assert found is not None
        interval = found.share.estimate(0.95)
        held += interval.low <= 0.5 <= interval.high
    assert held >= 188


def test_a_judge_at_chance_is_not_divided_by():
    """Sensitivity + specificity near 1 makes no estimate of a share."""
    rng = np.random.default_rng(0)
    said, true = (rng.integers(0, 2, 400).astype(float) for _ in range(2))
    found = rogan_gladen(said, np.where(np.arange(400) < 100, true, np.nan), np.arange(400))
    assert found is not None
    assert not found.usable


def test_with_every_row_rated_the_judge_adds_nothing():
    """Where nothing is unrated, PPI buys nothing: weight 0 and the mean of the ratings."""
    found = correct_mean(SCORES, RATINGS, ROWS // 4)
    assert found.weight == 0
    assert found.corrected.value == pytest.approx(RATINGS.mean())
    assert found.worth == 1.0


def test_rows_of_a_source_count_once():
    """Copies of every row within its source change neither the estimate nor its interval."""
    once = correct_mean(SCORES, RATED, ROWS)
    copied = correct_mean(*(np.repeat(one, 5) for one in (SCORES, RATED)), np.repeat(ROWS, 5))
    assert copied.corrected.value == pytest.approx(once.corrected.value)
    assert copied.corrected.variance == pytest.approx(once.corrected.variance)
    independent = correct_mean(*(np.repeat(one, 5) for one in (SCORES, RATED)), np.arange(300))
    assert independent.corrected.variance < once.corrected.variance / 3


@given(st.floats(-3, 3), st.integers(0, 2**32 - 1))
def test_a_constant_added_to_the_judge_changes_nothing(shift, seed):
    """The correction removes any constant bias."""
    order = np.random.default_rng(seed).permutation(60)
    plain = correct_mean(SCORES, RATED, ROWS // 3)
    moved = correct_mean(SCORES[order] + shift, RATED[order], (ROWS // 3)[order])
    assert moved.corrected.value == pytest.approx(plain.corrected.value, abs=1e-9)


def test_sampling_probabilities_undo_how_rows_were_drawn():
    """Rows drawn more often where scores are high bias the plain mean, not the weighted one."""
    rng, errors = np.random.default_rng(1), {"plain": [], "weighted": []}
    for _ in range(200):
        scores = rng.normal(size=400)
        ratings = scores + rng.normal(size=400)
        p = np.where(scores > 0, 0.4, 0.1)
        rated = np.where(rng.random(400) < p, ratings, np.nan)
        for name, drawn in (("plain", None), ("weighted", p)):
            found = correct_mean(scores * 0, rated, np.arange(400), probabilities=drawn)
            errors[name].append(found.corrected.value - ratings.mean())
    assert np.mean(errors["plain"]) > 0.3
    assert abs(np.mean(errors["weighted"])) < 0.03


def test_sources_may_be_rated_in_part():
    """Half the rows of every source: covered as it should be."""
    held = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        groups, quality = np.repeat(np.arange(60), 4), rng.normal(size=240)
        ratings = quality + np.repeat(rng.normal(size=60), 4)
        scores = quality + rng.normal(0, 0.5, 240)
        rated = np.where(rng.random(240) < 0.4, ratings, np.nan)
        shown = correct_mean(scores, rated, groups).corrected.estimate(0.95)
        held += shown.low <= 0 <= shown.high
    assert 0.92 <= held / 200 <= 0.985


UNEVEN = np.repeat(np.arange(8), [1, 1, 2, 3, 5, 8, 16, 24])


def test_a_mean_over_texts_counts_each_text():
    """With sources of unequal size it is another number than the mean over sources."""
    by_text = correct_mean(SCORES, RATINGS, UNEVEN, weight="texts")
    assert by_text.corrected.value == pytest.approx(RATINGS.mean())
    by_source = correct_mean(SCORES, RATINGS, UNEVEN)
    means = [RATINGS[source == UNEVEN].mean() for source in range(8)]
    assert by_source.corrected.value == pytest.approx(np.mean(means))
    assert abs(by_text.corrected.value - by_source.corrected.value) > 0.01


@pytest.mark.parametrize("rated", [RATINGS, np.where(ROWS < 20, RATINGS, np.nan)])
def test_sources_of_equal_size_have_one_mean(rated):
    """Over sources or over texts, with the same interval and weight of the judge."""
    sources, texts = (
        correct_mean(SCORES, rated, ROWS // 4, weight=weight) for weight in ("sources", "texts")
    )
    assert texts.weight == pytest.approx(sources.weight)
    ends = texts.corrected.estimate(0.95).as_dict()
    assert ends == pytest.approx(sources.corrected.estimate(0.95).as_dict())


def test_the_variance_is_that_of_leaving_each_source_out():
    """The jackknife, computed with its definition; t on Kish's number of sources less one."""
    found = correct_mean(SCORES, RATINGS, UNEVEN, weight="texts").corrected
    without = np.array([RATINGS[source != UNEVEN].mean() for source in range(8)])
    assert found.variance == pytest.approx(7 / 8 * ((without - RATINGS.mean()) ** 2).sum())
    sizes = np.bincount(UNEVEN)
    assert found.df == pytest.approx(sizes.sum() ** 2 / (sizes**2).sum() - 1)
    interval = found.estimate(0.95)
    assert interval.half_width > 3 * found.variance**0.5


def test_an_unknown_weight_is_refused():
    with pytest.raises(UnknownName, match="unknown weight 'rows'; known: sources, texts"):
        correct_mean(SCORES, RATED, ROWS, weight="rows")


# How often each judge's score occurs in the arena sample of cje (MIT), 1,000 prompts answered by
# each policy, and of the 480 rated answers of `base` their number and the sum of their ratings.
BASE = {
    0.1: 6, 0.2: 7, 0.3: 3, 0.45: 5, 0.5: 14, 0.55: 16, 0.65: 6, 0.7: 79, 0.75: 2, 0.85: 608,
    0.9: 50, 0.95: 123, 1.0: 81,
}  # fmt: skip
CLONE = {
    0.0: 1, 0.1: 3, 0.2: 6, 0.3: 1, 0.4: 1, 0.45: 7, 0.5: 13, 0.55: 15, 0.65: 3, 0.7: 71, 0.75: 2,
    0.8: 1, 0.85: 588, 0.9: 57, 0.95: 141, 1.0: 90,
}  # fmt: skip
UNHELPFUL = {
    0.0: 7, 0.05: 6, 0.1: 583, 0.15: 64, 0.2: 107, 0.25: 1, 0.3: 4, 0.35: 24, 0.4: 2, 0.45: 35,
    0.5: 7, 0.55: 17, 0.65: 7, 0.7: 38, 0.85: 83, 0.95: 3, 1.0: 12,
}  # fmt: skip
RATED_OF_BASE = {
    0.1: (4, 2.25), 0.2: (5, 0.84), 0.45: (2, 1.11), 0.5: (7, 4.83), 0.55: (4, 2.75),
    0.65: (2, 1.31), 0.7: (41, 23.69), 0.75: (1, 0.92), 0.85: (293, 219.02), 0.9: (29, 23.44),
    0.95: (57, 49.74), 1.0: (35, 32.05),
}  # fmt: skip


def arena(*names: str) -> Estimates:
    counts = {"base": BASE, "clone": CLONE, "unhelpful": UNHELPFUL}
    rng, scores, ratings, groups, systems = np.random.default_rng(0), [], [], [], []
    for name in names:
        values = np.repeat(list(counts[name]), list(counts[name].values()))
        given = np.full(len(values), np.nan)
        for score, (count, total) in RATED_OF_BASE.items() if name == "base" else ():
            given[np.flatnonzero(values == score)[:count]] = total / count
        order = rng.permutation(len(values))
        scores.append(values[order])
        ratings.append(given[order])
        groups.append(np.arange(len(values)))
        systems += [name] * len(values)
    columns = columns_of(
        *(np.concatenate(one) for one in (scores, ratings, groups)), systems=systems, scale=(0, 1)
    )
    return estimate_means(columns, scales=Scales((0.0, 1.0), (0.0, 1.0)), by_system=True)


def test_the_unhelpful_policy_of_a_known_sample_is_refused():
    """Only 1.3 % of its scores lie below the lowest rated one, but two thirds where 4 are rated.

    Its mean would come out as .41; its own 50 ratings, which are not used here, have a mean of
    .16. The others agree with what cje-eval 0.9.3 finds: base .754, clone .764.
    """
    found = {row.system: row for row in arena("base", "clone", "unhelpful").rows}
    unhelpful = found["unhelpful"]
    assert unhelpful.refused is not None
    assert "66% of its scores lie outside 0.2 to 1" in unhelpful.refused
    assert unhelpful.outside == pytest.approx(0.013)
    assert unhelpful.corrected.value is unhelpful.rank is None
    assert found["base"].refused is found["clone"].refused is None
    assert found["base"].corrected.value == pytest.approx(0.754, abs=0.004)
    assert found["clone"].corrected.value == pytest.approx(0.764, abs=0.004)
    # nor is the mean of all, for nothing of the other two was rated
    assert found[None].refused is not None


def test_a_refused_system_is_compared_with_none():
    """And the mean of systems that are alike is not refused for being rated in one of them."""
    pairs = {(one.a, one.b) for one in arena("base", "clone", "unhelpful").differences}
    assert pairs == {("base", "clone")}
    assert all(row.refused is None for row in arena("base", "clone").rows)


@pytest.mark.parametrize("rated", [8, 20, 60, 300])
@pytest.mark.parametrize("digits", [0, 3])
def test_rows_drawn_by_chance_are_seldom_refused(rated, digits):
    """However few were rated, and whether scores are whole numbers or not."""
    refused = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        scores = np.round(np.clip(rng.normal(3.6, 1, 1000), 1, 5), digits)
        range_ = rated_range(rng.choice(scores, rated, replace=False))
        reasons = (
            range_.refusal(range_.outside(scores)),
            range_.refusal_of_few(range_.sparse(scores)),
        )
        refused += any(reasons)
    assert refused <= 0.05 * 200


def test_rows_drawn_less_often_count_for_more():
    """High scores drawn for rating a tenth as often: the share there is that of all rows."""
    scores = np.repeat([3.0, 5.0], [540, 6])
    drawn = np.repeat([0.1, 0.01], [540, 6])
    plain, weighted = rated_range(scores), rated_range(scores, drawn)
    assert plain.ends == weighted.ends == (3.0, 3.0)
    assert plain.by_chance == pytest.approx(6 / 546)
    assert weighted.by_chance == pytest.approx(0.1)

"""Estimates: corrected means, their intervals, refusals, and the ratings that they take."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from tests.estimation.columns import SCALES, columns_of
from textassay.estimation import (
    Columns,
    Estimates,
    MapScales,
    estimate_means,
    next_rows,
    plan_labels,
)
from textassay.estimation.compare_rows import CompareRow, comparison_table
from textassay.estimation.means import (
    compare_rated_with_others,
    correct_mean,
    mean_over_groups,
    power_tuned,
    rated_range,
    rogan_gladen,
)
from textassay.runtime.errors import UnknownName
from textassay.table import Estimate

VALUES = st.lists(st.integers(-40, 40).map(lambda one: one / 8), min_size=2, max_size=30)
ROWS = np.arange(60)
SCORES = 1 + (ROWS * 7 % 11) * 0.4
RATINGS = 1 + ((ROWS * 7 % 11) * 0.35 + (ROWS * 5 % 7) * 0.2)
RATED = np.where(ROWS < 20, RATINGS, np.nan)
UNEVEN = np.repeat(np.arange(8), [1, 1, 2, 3, 5, 8, 16, 24])
VERDICTS = (np.arange(80) * 7 % 10 < 6).astype(float)
TRUE = np.where(np.arange(80) % 5 == 0, 1 - VERDICTS, VERDICTS)


def mean_of(values):
    values = np.asarray(values, float)
    return mean_over_groups(values, np.arange(len(values)), len(values))


def test_symmetric_sources_have_students_interval():
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    low, high = student.interval(0.9, 4, loc=3, scale=np.std(values, ddof=1) / 5**0.5)
    found = mean_of(values).estimate(0.9)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_a_tail_makes_the_interval_longer_on_its_side():
    """And moves the other end only if nothing can lie beyond it."""
    mean = mean_of([5.0] * 17 + [4.0, 3.0, 4.0])
    t = student.interval(0.95, 19, loc=mean.value, scale=mean.variance**0.5)
    plain, one_tailed = mean.estimate(0.95), mean.estimate(0.95, one_tailed=True)
    assert plain.low < t[0]
    assert plain.high == pytest.approx(t[1])
    assert one_tailed.low <= plain.low
    assert mean.value < one_tailed.high < plain.high


@given(VALUES, st.sampled_from([0.8, 0.95, 0.999]))
def test_a_test_finds_what_the_interval_excludes(values, confidence):
    mean = mean_of(values)
    if mean.variance > 0:
        found = mean.estimate(confidence)
        assert (mean.p_value() < 1 - confidence) == (not found.low <= 0 <= found.high)


@given(VALUES, st.booleans())
def test_mirrored_sources_have_the_mirrored_interval(values, one_tailed):
    found, other = (
        mean_of(one).estimate(0.95, one_tailed=one_tailed) for one in (values, np.negative(values))
    )
    assert (found.low, found.high) == pytest.approx((-other.high, -other.low))
    assert found.low <= found.value <= found.high


def test_a_clear_difference_of_few_sources_is_found():
    """A skewness that six sources have by chance does not hide that all differ by much."""
    drawn = np.random.default_rng(0).normal(3, 1, (200, 6))
    assert np.mean([mean_of(row).p_value() < 0.05 for row in drawn]) > 0.95


def test_point_and_weight_are_those_of_ppi_python_and_truescore():
    """Golden numbers of ppi-python 0.2.3 and truescore 0.7.4 for independent rows, to 1e-9."""
    found = correct_mean(SCORES, RATED, ROWS)
    assert found.corrected.value == pytest.approx(3.3623281288486275, abs=1e-9)
    assert found.lambda_ == pytest.approx(0.5332589835518214, abs=1e-9)
    assert power_tuned(RATINGS[:20], SCORES[:20], SCORES[20:]) == found.lambda_
    # theirs has no correction of degrees of freedom for the judged part
    assert found.corrected.variance**0.5 == pytest.approx(0.1592768816302735, rel=0.01)


def test_reference_package_agrees_where_it_is_installed():
    reference = pytest.importorskip("truescore.correct")
    rng = np.random.default_rng(0)
    for _ in range(5):
        scores = rng.normal(size=200)
        ratings = scores * 0.6 + rng.normal(size=200)
        shown = reference.ppi_estimate(scores, ratings[:50], np.arange(50))
        rated = np.where(np.arange(200) < 50, ratings, np.nan)
        found = correct_mean(scores, rated, np.arange(200))
        assert found.corrected.value == pytest.approx(shown.point, abs=1e-9)
        assert found.lambda_ == pytest.approx(shown.lambda_, abs=1e-9)


def test_rogan_gladen_is_that_of_truescore_and_counts_sources_once():
    """The variance has both samples and their overlap; copies of a source's rows change nothing."""
    rated = np.where(np.arange(80) < 40, TRUE, np.nan)
    found = rogan_gladen(VERDICTS, rated, np.arange(80))
    assert found is not None
    assert found.share.value == pytest.approx(0.4, abs=1e-9)
    assert (found.sensitivity, found.specificity) == (1.0, pytest.approx(2 / 3))
    assert found.usable
    times = 1 + np.arange(80) % 4
    copied = rogan_gladen(*(np.repeat(one, times) for one in (VERDICTS, rated, np.arange(80))))
    assert copied is not None
    assert copied.share.value == pytest.approx(found.share.value)
    assert copied.share.variance == pytest.approx(found.share.variance)
    # sensitivity + specificity near 1 makes no estimate of a share
    said, true = np.random.default_rng(0).integers(0, 2, (2, 400)).astype(float)
    chance = rogan_gladen(said, np.where(np.arange(400) < 100, true, np.nan), np.arange(400))
    assert chance is not None
    assert not chance.usable


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


def test_a_mean_is_over_sources_or_texts():
    """With every row rated the judge adds nothing; sizes that differ make two numbers."""
    by_text, by_source = (
        correct_mean(SCORES, RATINGS, UNEVEN, weight=weight) for weight in ("texts", "sources")
    )
    assert (by_text.lambda_, by_text.worth) == (0, 1.0)
    assert by_text.corrected.value == pytest.approx(RATINGS.mean())
    means = [RATINGS[source == UNEVEN].mean() for source in range(8)]
    assert by_source.corrected.value == pytest.approx(np.mean(means))
    assert abs(by_text.corrected.value - by_source.corrected.value) > 0.01
    # the jackknife by its definition; t on Kish's number of sources less one
    found, sizes = by_text.corrected, np.bincount(UNEVEN)
    without = np.array([RATINGS[source != UNEVEN].mean() for source in range(8)])
    assert found.variance == pytest.approx(7 / 8 * ((without - RATINGS.mean()) ** 2).sum())
    assert found.df == pytest.approx(sizes.sum() ** 2 / (sizes**2).sum() - 1)
    assert found.estimate(0.95).half_width > 3 * found.variance**0.5
    with pytest.raises(UnknownName, match="unknown weight 'rows'; known: sources, texts"):
        correct_mean(SCORES, RATED, ROWS, weight="rows")


@pytest.mark.parametrize("rated", [RATINGS, np.where(ROWS < 20, RATINGS, np.nan)])
def test_sources_of_equal_size_have_one_mean(rated):
    sources, texts = (
        correct_mean(SCORES, rated, ROWS // 4, weight=weight) for weight in ("sources", "texts")
    )
    assert texts.lambda_ == pytest.approx(sources.lambda_)
    ends = texts.corrected.estimate(0.95).as_dict()
    assert ends == pytest.approx(sources.corrected.estimate(0.95).as_dict())


def test_rows_of_a_source_count_once():
    once = correct_mean(SCORES, RATED, ROWS)
    copied = correct_mean(*(np.repeat(one, 5) for one in (SCORES, RATED)), np.repeat(ROWS, 5))
    assert copied.corrected.value == pytest.approx(once.corrected.value)
    assert copied.corrected.variance == pytest.approx(once.corrected.variance)
    independent = correct_mean(*(np.repeat(one, 5) for one in (SCORES, RATED)), np.arange(300))
    assert independent.corrected.variance < once.corrected.variance / 3


@given(st.floats(-3, 3), st.integers(0, 2**32 - 1))
def test_a_constant_added_to_the_judge_changes_nothing(shift, seed):
    order = np.random.default_rng(seed).permutation(60)
    plain = correct_mean(SCORES, RATED, ROWS // 3)
    moved = correct_mean(SCORES[order] + shift, RATED[order], (ROWS // 3)[order])
    assert moved.corrected.value == pytest.approx(plain.corrected.value, abs=1e-9)


def test_sampling_probabilities_undo_how_rows_were_drawn():
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
    return estimate_means(columns, scales=MapScales((0.0, 1.0), (0.0, 1.0)), by_system=True)


def test_the_unhelpful_policy_of_a_known_sample_is_refused():
    """Only 1.3 % of its scores lie below the lowest rated one, but two thirds where 4 are rated.

    Its mean would come out as .41; its own 50 ratings, which are not used here, have a mean of
    .16. The others agree with what cje-eval 0.9.3 finds: base .754, clone .764.
    """
    every = arena("base", "clone", "unhelpful")
    found = {row.system: row for row in every.rows}
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
    assert {(one.a, one.b) for one in every.differences} == {("base", "clone")}
    # the mean of systems that are alike is not refused for being rated in one of them
    assert all(row.refused is None for row in arena("base", "clone").rows)


@pytest.mark.parametrize("rated", [8, 20, 60, 300])
@pytest.mark.parametrize("digits", [0, 3])
def test_rows_drawn_by_chance_are_seldom_refused(rated, digits):
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


@pytest.mark.parametrize(
    ("p", "groups", "warned"),
    [(0.03, 12, True), (0.03, 40, False), (0.01, 12, False), (0.2, 12, False)],
)
def test_a_doubtful_p_value_of_few_sources_is_warned_of(p, groups, warned):
    """A tail that few sources do not show raises false alarms just below .05."""
    row = CompareRow(
        aspect="fluency", n=groups, groups=groups, a=4.0, b=3.5,
        difference=Estimate(0.5, 0.1, 0.9), p=p, p_holm=p, wins=9, ties=0, losses=3, unscored=0,
        signatures=("s", "s"), scales=(None, None),
    )  # fmt: skip
    table = comparison_table([row])
    doubts = [note for note in table.notes if "cannot show" in note.text]
    assert [note.warning for note in doubts] == [True] * warned
    both = comparison_table([row, replace(row, aspect="coherence", groups=60)])
    for notes in (table.notes, both.notes):
        rare = [note for note in notes if "may show in none of 12" in note.text]
        assert len(rare) == (groups == 12)


@pytest.mark.parametrize("rated", [5, 10, 30])
@pytest.mark.parametrize("other", [0.03, 0.1, 0.3])
def test_a_random_draw_is_not_suspected_because_its_few_scores_are_equal(rated, other):
    """Nor by the distances from the median, of which most are 0."""
    rng, alarms = np.random.default_rng(1), 0
    for _ in range(300):
        scores = np.where(rng.random(200) < other, rng.integers(1, 5, 200), 5.0)
        is_rated = np.isin(np.arange(200), rng.choice(200, rated, replace=False))
        found = compare_rated_with_others(scores, is_rated, np.arange(200))
        alarms += found is not None and found.p < 0.01
    assert alarms <= 15


def world(sources: int = 60, seed: int = 0, *, even: bool = True) -> Columns:
    """Rated in full; the judge errs by source and by row."""
    rng = np.random.default_rng(seed)
    sizes = np.full(sources, 6) if even else rng.integers(2, 11, sources)
    groups = np.repeat(np.arange(sources), sizes)
    n = len(groups)
    ratings = 3 + rng.normal(0, 0.4, sources)[groups] + rng.normal(0, 0.8, n)
    scores = ratings + rng.normal(0, 0.2, sources)[groups] + rng.normal(0, 0.7, n)
    return columns_of(np.clip(scores, 1, 5), np.clip(np.round(ratings), 1, 5), groups)


def rated_in_part(columns: Columns, share: float, seed: int = 0) -> Columns:
    drawn = np.random.default_rng(seed).random(len(columns.ids)) < share
    return replace(columns, ratings=np.where(drawn, columns.ratings, np.nan))


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("share", [0.15, 0.5, 0.9])
def test_the_half_width_is_that_of_the_estimate(share, even):
    ratios = []
    for seed in range(8):
        columns = rated_in_part(world(seed=seed, even=even), share, seed)
        row = estimate_means(columns, scales=SCALES).rows[0]
        ratios.append(
            plan_labels(columns, 0.1, scales=SCALES).half_width / row.corrected.half_width
        )
    assert np.mean(ratios) == pytest.approx(1, abs=0.06)


def test_as_many_ratings_as_forecast_reach_the_target():
    """Within the precision of 180 pilot ratings."""
    reached = []
    for seed in range(20):
        columns = world(120, seed=seed)
        pilot = rated_in_part(columns, 0.25, seed)
        now = plan_labels(pilot, 1.0, scales=SCALES)
        target = (now.half_width + now.with_all) / 2
        plan = plan_labels(pilot, target, scales=SCALES)
        assert plan.more
        free = np.flatnonzero(np.isnan(pilot.ratings))
        drawn = np.random.default_rng(seed).choice(free, plan.more, replace=False)
        ratings = pilot.ratings.copy()
        ratings[drawn] = columns.ratings[drawn]
        row = estimate_means(replace(pilot, ratings=ratings), scales=SCALES).rows[0]
        reached.append(row.corrected.half_width / target)
    assert np.mean(reached) == pytest.approx(1, abs=0.08)


def test_with_every_row_rated_the_interval_is_that_of_the_ratings():
    columns = world(even=False)
    row = estimate_means(columns, scales=SCALES).rows[0]
    plan = plan_labels(columns, 0.01, scales=SCALES)
    assert plan.half_width == pytest.approx(row.labels_only.half_width, rel=0.1)
    assert plan.half_width == plan.with_all > 0
    assert (plan.rated, plan.more, plan.labels_only) == (plan.n, None, None)


def test_more_ratings_never_widen_the_forecast():
    pilot = rated_in_part(world(seed=3, even=False), 0.2)
    plans = [plan_labels(pilot, target, scales=SCALES) for target in (0.3, 0.2, 0.15, 0.12, 0.1)]
    more = [plan.more for plan in plans if plan.more is not None]
    assert more == sorted(more)
    assert more[0] == 0 < more[-1]
    assert plans[0].half_width > plans[0].with_all


def test_a_second_plan_keeps_the_probabilities_of_the_first():
    """After four draws, rated rows stand for as many rows as there are, of either kind."""
    stand_for = []
    for seed in range(20):
        columns = world(100, seed=seed)
        # the judge does not distinguish texts below 3, so more of them are drawn
        chance = np.random.default_rng(seed).integers(1, 6, len(columns.ids))
        columns = replace(
            columns, ratings=np.where(columns.scores < 3, chance, np.round(columns.scores))
        )
        plan = rated_in_part(columns, 0.1, seed)
        for round_ in range(4):
            rows = {row["id"]: row for row in next_rows(plan, 40, scales=SCALES, seed=round_)}
            known = np.array([id_ in rows for id_ in columns.ids])
            drawn = [rows[id_]["sampling_probability"] if id_ in rows else np.nan
                     for id_ in columns.ids]  # fmt: skip
            plan = replace(
                columns,
                ratings=np.where(known, columns.ratings, np.nan),
                probabilities=np.array(drawn),
            )
        parts = (columns.scores < 3, columns.scores >= 3)
        stand_for.append([np.nansum(1 / plan.probabilities[part]) / part.sum() for part in parts])
    assert np.mean(stand_for, axis=0) == pytest.approx([1, 1], abs=0.03)


@pytest.mark.parametrize("known", [False, True])
def test_a_second_plan_knows_what_is_rated_and_has_no_score(known):
    """It is in the file with its probability, or no estimate could take the ratings again."""
    columns = rated_in_part(world(), 0.3)
    given = np.flatnonzero(columns.rated)
    lost = int(given[0])
    columns.scores[lost] = np.nan
    if known:
        columns = replace(columns, probabilities=np.full(len(columns.ids), 0.25))
    rows = next_rows(columns, 20, scales=SCALES)
    rated = {row["id"]: row["sampling_probability"] for row in rows if row["rated"]}
    assert set(rated) == {columns.ids[at] for at in given}
    assert rated[columns.ids[lost]] == pytest.approx(0.25 if known else 0.3, abs=0.05)


@pytest.mark.parametrize(("falling", "best"), [((), "b"), (("tone",), "a"), (("other",), "b")])
def test_rank_1_is_the_best_system_where_low_is_good_too(falling, best):
    rng = np.random.default_rng(2)
    groups, systems = np.arange(120) // 2, ["a", "b"] * 60
    ratings = np.clip(np.round(2 + 1.5 * (np.arange(120) % 2) + rng.normal(size=120)), 1, 5)
    columns = columns_of(ratings, ratings, groups, systems=systems)
    found = estimate_means(columns, scales=SCALES, by_system=True, lower_is_better=falling)
    ranks = {row.system: row.rank for row in found.rows[1:]}
    assert ranks[best] == (1, 1)
    assert sorted(ranks.values()) == [(1, 1), (2, 2)]

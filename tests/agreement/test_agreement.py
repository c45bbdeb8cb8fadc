"""Agreement at three levels, its intervals, and tests of the difference between two judges."""

import math
from typing import get_args

import numpy as np
import pytest
import scipy.stats

from benchmarks.coverage.agreement import Uneven, World, correlations, equal_judges
from benchmarks.coverage.tally import tally
from tests.benchmark_data import benchmark
from textassay import agreement
from textassay.agreement.correlation import (
    Coefficient,
    kendall,
    pair_up,
    pearson,
    spearman,
    system_means,
)
from textassay.agreement.intervals import (
    chance_covariance,
    coefficient_interval,
    draw_counts,
    resample,
    t_quantile,
)
from textassay.checking.statistics import correlation
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName
from textassay.table import Estimate

LEVELS = ["dataset", "group", "system"]
COEFFICIENTS = get_args(Coefficient)
NOTHING = dict.fromkeys(COEFFICIENTS, ())


def ends(found):
    return {name: one.ends for name, one in found.ci.items()}


def coefficients(found):
    return [getattr(found, name) for name in COEFFICIENTS]


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("df", [1, 1.7, 2, 5.5, 11, 29, 99.9, 1599, 1e5])
def test_quantiles_of_students_t_are_those_of_scipy(df, confidence):
    expected = scipy.stats.t.ppf((1 + confidence) / 2, df)
    assert t_quantile(df, confidence) == pytest.approx(expected, rel=1e-8)


def test_three_levels_by_hand():
    """Two documents by three systems, and a third document on which the judge says 3 to all."""
    scores = [1, 2, 3, 3, 2, 1, 3, 3, 3]
    human = [1, 2, 4, 1, 2, 4, 1, 2, 3]
    groups, systems = list("aaabbbccc"), list("xyzxyzxyz")
    at = {
        level: agreement.correlate(scores, human, groups=groups, systems=systems, level=level)
        for level in LEVELS
    }
    assert (at["group"].groups, at["group"].groups_skipped) == (2, 1)
    assert at["group"].kendall == 0  # +1 in document a, -1 in b, c does not count
    assert at["group"].pearson == pytest.approx(0, abs=1e-15)
    assert at["system"].systems == 3
    assert coefficients(at["system"]) == [None] * 3  # all means of the scores are 7/3
    assert at["dataset"].pearson == pytest.approx(scipy.stats.pearsonr(scores, human).statistic)
    assert (at["dataset"].groups, at["dataset"].groups_skipped, at["dataset"].n) == (3, 0, 9)


def test_rows_without_both_numbers_are_left_out_and_counted():
    """Unscored rows lower the coverage, unrated ones do not; without any row nothing is defined."""
    found = agreement.correlate([1, None, 3, float("nan"), 5, 9], [1, 2, 3, 4, 4, None])
    assert (found.n, found.coverage, found.spearman) == (3, 3 / 5, 1)
    nothing = agreement.correlate([1, 2], [None, None])
    assert (nothing.n, nothing.coverage, *coefficients(nothing)) == (0, None, None, None, None)
    constant = agreement.correlate(
        [1, 1, 2, 2], [1, 2, 1, 2], groups="aabb", level="group", bootstrap=5
    )
    assert (constant.groups, constant.groups_skipped, constant.pearson) == (0, 2, None)
    assert ends(constant) == NOTHING


def test_system_means_do_not_break_ties():
    """A running sum of ten times 0.1 differs from 0.1 in the last digit, and tau changes."""
    scores, human = [0.1] * 10 + [0.1, 0.5], [1.0] * 10 + [2.0, 3.0]
    found = agreement.correlate(scores, human, systems=["a"] * 10 + ["b", "c"], level="system")
    assert found.kendall == pytest.approx(2 / math.sqrt(2 * 3))


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"level": "summary"}, UnknownName, "dataset, group, system"),
        ({"level": "group"}, ConfigurationError, "groups"),
        ({"level": "system"}, ConfigurationError, "systems"),
        ({"level": "system", "systems": [None, None, None]}, ConfigurationError, "none has one"),
        ({"level": "group", "groups": ["a", None, "a"]}, DataError, "row 1"),
        ({"level": "group", "groups": ["a", "a"]}, DataError, "as long as"),
        ({"bootstrap": -1}, ConfigurationError, "at least 1 resample"),
    ],
)
def test_impossible_arguments_say_why(arguments, error, says):
    with pytest.raises(error, match=says):
        agreement.correlate([1, 2, 3], [1, 2, 3], **arguments)


@pytest.mark.parametrize(
    ("aspect", "dataset", "group", "skipped"),
    [
        ("coherence", 0.424, 0.432, 2),
        ("consistency", 0.621, 0.633, 22),
        ("fluency", 0.601, 0.598, 3),
        ("relevance", 0.455, 0.433, 19),
    ],
)
def test_pearson_of_gpt4_on_summeval(aspect, dataset, group, skipped):
    """Recorded scores give their published numbers, at data set and at document level."""
    rows = benchmark("summeval/summeval.jsonl.gz")
    scores = [row["metrics"].get(f"gpt-4-0314/rts/{aspect}") for row in rows]
    human = [row["human"][aspect] for row in rows]
    groups = [row["group"] for row in rows]
    pooled = agreement.correlate(scores, human, groups=groups)
    assert (pooled.n, pooled.coverage) == (1200, 0.75)
    assert pooled.pearson == pytest.approx(dataset, abs=5e-4)
    per_document = agreement.correlate(scores, human, groups=groups, level="group")
    assert per_document.pearson == pytest.approx(group, abs=5e-4)
    assert (per_document.groups, per_document.groups_skipped) == (100 - skipped, skipped)


def test_system_level_tau_is_a_fraction_of_the_pairs():
    """Of 120 pairs of 16 systems, one ties in fluency and one in the overall score.

    So tau-b is k/120 for coherence and k/sqrt(119 * 120) for the two with a tie, with whole k.
    """
    rows = benchmark("summeval/summeval.jsonl.gz")
    systems = [row["system"] for row in rows]
    metric = [row["metrics"]["computed/rouge1_f"] for row in rows]
    aspects = ("coherence", "consistency", "fluency", "relevance")
    tied = math.sqrt(119 * 120)
    for aspect, pairs in (("coherence", 120), ("fluency", tied), ("overall", tied)):
        human = [
            math.fsum(row["human"][name] for name in aspects) / 4
            if aspect == "overall"
            else row["human"][aspect]
            for row in rows
        ]
        tau = agreement.correlate(metric, human, systems=systems, level="system").kendall
        assert tau * pairs == pytest.approx(round(tau * pairs), abs=1e-9)


def test_topical_chat_groundedness_skips_six_dialogues():
    rows = benchmark("topical_chat/topical_chat.jsonl")
    human = [row["human"]["groundedness"] for row in rows]
    noise = np.random.default_rng(0).normal(size=len(rows))
    found = agreement.correlate(noise, human, groups=[row["group"] for row in rows], level="group")
    assert (found.groups, found.groups_skipped) == (54, 6)


def panel(seed, *, documents=20, systems=5, decimals=None):
    """Scores and ratings of every system on every document; documents differ in difficulty."""
    rng = np.random.default_rng(seed)
    hard, good = rng.normal(size=documents)[:, None], np.linspace(-0.7, 0.7, systems)[None, :]
    human = hard + good + rng.normal(size=(documents, systems))
    scores = human + hard + rng.normal(size=human.shape)
    if decimals is not None:
        scores, human = np.round(scores, decimals), np.round(human, decimals)
    groups = np.repeat(np.arange(documents), systems)
    return scores.ravel(), human.ravel(), groups, np.tile(np.arange(systems), documents)


@pytest.mark.parametrize("level", ["dataset", "group"])
@pytest.mark.parametrize("decimals", [0, None])
def test_a_resample_equals_the_coefficient_of_its_rows(level, decimals):
    scores, human, groups, systems = panel(1, documents=12, decimals=decimals)
    pairs = pair_up(scores, human, groups=groups, systems=systems)
    values = resample(pairs, level, resamples=15, seed=4)
    counts = draw_counts(12, 15, np.random.default_rng(4))
    for column in range(15):
        drawn = np.repeat(np.arange(12), counts[:, column].astype(int))
        rows = np.concatenate([np.flatnonzero(groups == g) for g in drawn])
        copy = np.repeat(np.arange(12), 5)  # a document drawn twice is two documents
        point = agreement.correlate(
            scores[rows], human[rows], groups=copy, systems=systems[rows], level=level
        )
        for name in COEFFICIENTS:
            expected = getattr(point, name)
            got = values[name][column]
            assert np.isnan(got) if expected is None else got == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("resamples", [15, 200])
def test_a_seed_fixes_the_interval(level, resamples):
    scores, human, groups, systems = panel(2)

    def found(seed):
        return agreement.correlate(
            scores,
            human,
            groups=groups,
            systems=systems,
            level=level,
            bootstrap=resamples,
            seed=seed,
        )

    first = found(7)
    assert first.ci == found(7).ci
    # of more groups than resamples, at dataset level
    assert (first.ci != found(8).ci) == (level == "dataset" and resamples < len(set(groups)))
    if level == "system":  # of five systems
        assert ends(first) == NOTHING
        return
    for name, (low, high) in ends(first).items():
        assert low <= getattr(first, name) <= high


def test_rows_of_one_source_are_drawn_together():
    rng = np.random.default_rng(5)
    human = rng.normal(size=30)
    scores = human + rng.normal(size=30)
    x, y, groups = (np.repeat(side, 20) for side in (scores, human, np.arange(30)))

    def width(x, y, **arguments):
        low, high = agreement.correlate(x, y, bootstrap=500, **arguments).ci["pearson"].ends
        return high - low

    assert width(x, y, groups=groups) == pytest.approx(width(scores, human), rel=1e-9)
    assert width(x, y) < 0.4 * width(x, y, groups=groups)


@pytest.mark.parametrize(
    ("level", "says"),
    [
        ("dataset", "5 groups, found 4"),
        ("group", "15 groups with a coefficient, found 4"),
        ("system", "6 systems, found 5"),
    ],
)
def test_too_few_groups_or_systems_have_no_interval_and_say_so(level, says):
    """Below these numbers simulated intervals do not hold what they promise."""
    scores, human, groups, systems = panel(2, documents=4, systems=5)
    found = agreement.correlate(
        scores, human, groups=groups, systems=systems, level=level, bootstrap=50
    )
    assert ends(found) == NOTHING
    assert says in found.note


def test_systems_that_differ_by_chance_or_are_two_have_no_interval():
    """Two points lie on a line whatever they are, so not even a coefficient."""
    scores, human = np.random.default_rng(1).normal(size=(2, 400))
    groups, systems = np.arange(400) // 10, np.arange(400) % 10
    found = agreement.correlate(
        scores, human, groups=groups, systems=systems, level="system", bootstrap=1
    )
    assert (ends(found), "by chance" in found.note) == (NOTHING, True)
    systems = list("xy" * 6)
    found = agreement.correlate(range(12), range(12), systems=systems, level="system", bootstrap=10)
    assert coefficients(found) == [None] * 3
    assert "needs at least 3 systems, found 2" in found.note


def test_an_interval_needs_half_the_resamples():
    assert coefficient_interval(0.9, np.array([1.0, np.nan, np.nan]), 20) == Estimate(0.9)
    low, high = coefficient_interval(0.5, np.array([0.4, 0.6, 0.5, np.nan]), 20).ends
    assert -1 < low < 0.5 < high < 1


def test_weights_far_apart_stay_exact():
    rng = np.random.default_rng(0)
    scores = np.append(rng.normal(size=30), 1e9)
    human = np.append(rng.normal(size=30), 0)
    values = resample(pair_up(scores, human), "dataset", resamples=60, seed=1)["pearson"]
    counts = draw_counts(31, 60, np.random.default_rng(1)).astype(int)
    for column in np.flatnonzero(counts[-1] == 0):
        rows = np.repeat(np.arange(31), counts[:, column])
        assert values[column] == pytest.approx(pearson(scores[rows], human[rows]), abs=1e-6)
    assert None not in (spearman(scores, human), kendall(scores, human))


@pytest.mark.parametrize(
    ("level", "documents", "systems"),
    [("dataset", 6, 5), ("dataset", 30, 5), ("group", 30, 8), ("system", 40, 10)],
)
def test_a_95_percent_interval_holds_the_truth(level, documents, systems):
    """Of clustered, skewed ratings; at system level it may hold it more often, never less."""
    found = tally(correlations(World(systems), documents, level, resamples=100), 300)
    for name in COEFFICIENTS:
        assert found[name].draws > 150, name
        assert 0.91 <= found[name].share <= (1.0 if level == "system" else 0.995), name


@pytest.mark.parametrize("groups", [30, 60])
def test_intervals_over_groups_of_two_hold_the_truth(groups):
    """Their coefficients are 1 or -1, and often nearly all 1: a share more than a mean."""
    rng, missed, given = np.random.default_rng(4), 0, 0
    for _ in range(200):
        human = rng.normal(size=2 * groups)
        scores = human + 0.35 * rng.normal(size=2 * groups)
        found = agreement.correlate(
            scores, human, groups=np.arange(2 * groups) // 2, level="group", bootstrap=1
        )
        low, high = found.ci["kendall"].ends
        # two normal differences with correlation 1 / sqrt(1 + .35^2) have equal signs so often
        truth = 2 / math.pi * math.asin(1 / math.sqrt(1 + 0.35**2))
        given, missed = given + 1, missed + (not low <= truth <= high)
    assert given == 200
    assert missed <= 14


@pytest.mark.parametrize("draw", [World(3, alike=3.0), World(4, alike=3.0), Uneven(None)])
def test_intervals_over_groups_in_which_a_judge_nearly_always_agrees_hold_the_truth(draw):
    """Student's t alone holds it in 88 to 93 %, since few groups are drawn that disagree."""
    found = tally(correlations(draw, 45, "group"), 200)
    for name in COEFFICIENTS:
        assert found[name].draws > 150, name
        assert found[name].share >= 0.915, name


@pytest.mark.parametrize(
    ("world", "documents"),
    [(World(6, spread=0.25), 40), (World(10, spread=0.2), 40), (World(16, spread=0.1), 100)],
    ids=["6 systems", "10 systems", "16 systems"],
)
def test_intervals_over_systems_that_hardly_differ_hold_the_truth(world, documents):
    """Noise hides the true coefficient, which is near 1, in most data sets."""
    found = tally(correlations(world, documents, "system"), 150)
    for name in COEFFICIENTS:
        assert 15 < found[name].draws < 75, name
        assert found[name].share >= 0.93, name


def test_agreement_on_single_texts_is_not_taken_for_agreement_on_systems():
    """Judge and people err alike on texts, so their means of systems agree for no other reason."""
    rng = np.random.default_rng(1)
    missed = given = 0
    for _ in range(150):
        alike = rng.normal(size=(40, 10))
        human, judge = (alike + rng.normal(size=10) * 0.2 for _ in range(2))
        found = agreement.correlate(
            judge.ravel(), human.ravel(), groups=np.repeat(np.arange(40), 10),
            systems=np.tile(np.arange(10), 40), level="system", bootstrap=1,
        )  # fmt: skip
        if span := found.ci["pearson"].ends:
            given, missed = given + 1, missed + (not span[0] <= 0 <= span[1])
    assert given > 30
    assert missed <= 0.08 * given


def test_systems_with_texts_of_different_sources_have_noise_in_their_means_too():
    """A source with one text has nothing to take out: all that its text differs by is noise."""
    rng = np.random.default_rng(3)
    scores, human = rng.normal(size=(2, 10, 60))
    systems = np.repeat(np.arange(10), 60)
    for groups in (np.arange(600), None):
        found = agreement.correlate(
            scores.ravel(), human.ravel(), groups=groups, systems=systems, level="system",
            bootstrap=1,
        )  # fmt: skip
        assert (ends(found), "by chance" in found.note) == (NOTHING, True)
    found = agreement.correlate(
        scores[:, :3].ravel(), human[:, :3].ravel(), systems=systems[:30] * 0 + np.arange(30) % 10,
        level="system", bootstrap=1,
    )  # fmt: skip
    assert "40 rows behind the systems, found 30" in found.note


@pytest.mark.parametrize("shared", [False, True], ids=["own sources", "shared sources"])
def test_repeated_texts_of_a_source_are_no_further_sources(shared):
    """Systems that do not differ: their means differ by sources, of which each has five texts."""
    rng, given = np.random.default_rng(5), 0
    sources = 48 if shared else 12
    systems, groups, _ = (one.ravel() for one in np.indices((8, sources, 5)))
    for _ in range(60):
        both = rng.normal(size=(8, sources))[systems, groups]
        scores, human = (both + 0.3 * rng.normal(size=len(both)) for _ in range(2))
        own = groups if shared else groups + sources * systems
        found = agreement.correlate(
            scores, human, groups=own, systems=systems, level="system", bootstrap=1
        )
        given += bool(found.ci["pearson"].ends)
    assert given <= 9


def test_the_noise_of_systems_is_the_variance_of_their_means():
    """Systems answer from 5 to 40 sources that they share in part, up to three times each."""
    rng = np.random.default_rng(6)
    rows = [
        (system, source)
        for system in range(7)
        for source in rng.permutation(40)[: 5 + 5 * system]
        for _ in range(rng.integers(1, 4))
    ]
    systems, groups = np.array(rows).T
    noise, spread = [], []
    for _ in range(600):
        source, cell = rng.normal(size=40), rng.normal(size=(7, 40))
        human = source[groups] + cell[systems, groups] + rng.normal(size=len(rows))
        scores = cell[systems, groups] + rng.normal(size=len(rows))
        pairs = pair_up(scores, human, groups=groups, systems=systems, level="system")
        means = system_means(pairs)
        noise.append(chance_covariance(pairs, *means))
        spread.append(np.cov(*means))
    assert np.mean(noise, axis=0) == pytest.approx(np.mean(spread, axis=0), rel=0.1)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_groups_that_all_agree_have_one_interval_however_they_round(size):
    scores = np.random.default_rng(1).normal(size=20 * size)
    groups = np.arange(20 * size) // size
    for human in (scores, 0.1 * scores + 0.3, 3.7 * scores + 1 / 3):
        found = agreement.correlate(scores, human, groups=groups, level="group", bootstrap=1)
        for name in COEFFICIENTS:
            # Jeffreys' interval of 20 hits of 20
            assert found.ci[name].ends == pytest.approx((2 * 0.88336 - 1, 1), abs=1e-4)


def test_intervals_over_sources_of_one_to_forty_rows_hold_the_truth():
    """Resamples of the sources, with t on their number less one, hold it in 91 % of 500 draws."""
    found = tally(correlations(Uneven(top=0.3), 40), 120)
    for name in COEFFICIENTS:
        assert found[name].draws > 110, name
        assert found[name].share >= 0.915, name


def test_intervals_from_ratings_that_are_mostly_equal_have_a_note():
    """Nine in ten are the top grade; of 12 sources too few have another one."""
    found = tally(correlations(Uneven(top=0.9, heaviest=None), 12), 30)
    for name in COEFFICIENTS:
        assert found[f"{name} warned"].draws > 9 * found[name].draws


@pytest.mark.parametrize(("level", "documents"), [("dataset", 8), ("group", 20), ("system", 30)])
def test_equally_good_judges_are_rarely_distinguished(level, documents):
    found = tally(equal_judges(World(systems=10), documents, level), 200)["spearman alarms"]
    assert found.draws > 180
    assert found.share <= 0.11


def test_williams_gives_steigers_example_and_one_by_hand():
    """Steiger (1980), case A: n = 103, r = .4, .5 and .1 between: t(100) = -.89, p = .37.

    By hand: r = .8 and .6, r between .5, n = 12: K = 1 - .64 - .36 - .25 + .48 = .23, r-bar squared
    .49, t = .2 * sqrt(11 * 1.5 / (2 * (11 / 9) * .23 + .49 * .125)) = 1.02689...
    """
    found = agreement.williams(0.4, 0.5, 0.1, 103)
    assert (round(found.t, 2), found.df, round(found.p, 2)) == (-0.89, 100, 0.37)
    found = agreement.williams(0.8, 0.6, 0.5, 12)
    assert found.t == pytest.approx(0.2 * math.sqrt(16.5 / (22 / 9 * 0.23 + 0.06125)), abs=1e-12)
    assert found.df == 9
    assert agreement.williams(0.6, 0.8, 0.5, 12).t == pytest.approx(-found.t)
    assert agreement.williams(0.5, 0.5, 1.0, 50) is agreement.williams(0.5, 0.6, 0.1, 3) is None
    with pytest.raises(DataError, match="between -1 and 1"):
        agreement.williams(1.5, 0.5, 0.1, 20)


def test_a_better_judge_is_found_and_sides_are_symmetric():
    rng = np.random.default_rng(0)
    human = rng.normal(size=300)
    good, bad = human + rng.normal(size=300), human + 4 * rng.normal(size=300)
    groups = np.arange(300) // 5
    found = agreement.compare(good, bad, human, groups=groups, bootstrap=500)
    back = agreement.compare(bad, good, human, groups=groups, bootstrap=500)
    few = agreement.compare(good, bad, human, groups=groups, bootstrap=50)
    for one, other, drawn in zip(*map(coefficients, (found, back, few)), strict=True):
        assert one.difference.value == one.a - one.b > 0
        assert one.difference.is_above(0)
        assert one.p < 1e-6
        assert drawn.p == pytest.approx(2 / 51)  # fewer resamples than groups show no less
        assert other.difference.value == -one.difference.value
        assert other.p == pytest.approx(one.p)
        low, high = one.difference.ends
        assert other.difference.ends == pytest.approx((-high, -low))
    assert found.pearson.williams is None  # rows share groups
    alone = agreement.compare(good, bad, human, bootstrap=50)
    assert alone.pearson.williams.p < 1e-6
    assert alone.spearman.williams is None


def test_equal_judges_of_clustered_rows_are_rarely_distinguished():
    """Rows of documents that both misread alike, taken as independent, differ in a third."""
    by_groups = by_rows = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        shared = rng.normal(size=(3, 12, 1))
        human, a, b = shared * 1.5 + rng.normal(size=(3, 12, 12)) * 0.6
        a, b = a + human * 0.5, b + human * 0.5
        groups = np.repeat(np.arange(12), 12)
        flat = [side.ravel() for side in (a, b, human)]
        by_groups += (
            agreement.compare(*flat, groups=groups, bootstrap=150, seed=seed).pearson.p < 0.05
        )
        by_rows += agreement.compare(*flat, bootstrap=20, seed=seed).pearson.williams.p < 0.05
    assert by_groups <= 12
    assert by_rows >= 30


def test_the_same_scores_do_not_differ_in_any_unit():
    """In another unit coefficients differ in the last bits, and so do those of every resample."""
    x, y = [1, 2, 3, 4, 5], [1, 3, 2, 5, 4]
    found = agreement.compare(x, x, y, bootstrap=100)
    assert (found.pearson.difference.value, found.pearson.p) == (0, 1)
    assert found.pearson.williams is None
    human, scores = np.random.default_rng(0).normal(size=(2, 40))
    other = 0.37 * scores + 1 / 3
    assert agreement.pearson(scores, human) != agreement.pearson(other, human)
    for one in coefficients(agreement.compare(scores, other, human, bootstrap=200)):
        assert (one.difference, one.p) == (Estimate(0.0, 0.0, 0.0), 1.0)


def test_only_rows_with_both_scores_count_and_a_constant_side_is_undefined():
    found = agreement.compare(
        [1, None, 3, 4, 5], [2, 3, None, 5, 4], [1, 2, 3, 5, None], bootstrap=20
    )
    assert found.n == 2
    one = agreement.compare([1, 1, 1], [1, 2, 3], [1, 2, 3], bootstrap=20).pearson
    assert (one.a, one.b, one.difference, one.p) == (None, 1, Estimate(None), None)
    with pytest.raises(ConfigurationError, match="at least 1"):
        agreement.compare([1, 2], [2, 1], [1, 2], bootstrap=0)
    with pytest.raises(DataError, match="equally long"):
        agreement.compare([1, 2], [2, 1, 3], [1, 2])


def test_a_comparison_leaves_the_arrays_of_its_caller_as_they_are():
    a = np.array([np.nan, 2.0, 3.0, 1.0, 5.0, 4.0])
    b = np.array([1.0, np.nan, 2.0, 4.0, 5.0, 3.0])
    before = a.copy(), b.copy()
    assert agreement.compare(a, b, [1, 2, 3, 4, 5, 6], bootstrap=10).n == 4
    np.testing.assert_array_equal(a, before[0])
    np.testing.assert_array_equal(b, before[1])


@pytest.mark.parametrize("size", [1, 4, None])
def test_check_and_agreement_have_one_interval_of_the_same_ratings(size):
    rng = np.random.default_rng(3)
    sizes = np.full(30, size) if size else rng.integers(1, 9, 30)
    groups = np.repeat(np.arange(30), sizes)
    quality = rng.normal(size=30)[groups] + 0.5 * rng.normal(size=len(groups))
    scores, human = (np.round(3 + quality + 0.7 * rng.normal(size=len(groups))) for _ in range(2))
    found = agreement.correlate(scores, human, groups=groups, bootstrap=1000).ci["pearson"]
    assert found.ends == pytest.approx(correlation(scores, human, groups).ends)

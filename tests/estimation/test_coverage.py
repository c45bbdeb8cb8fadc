"""Intervals hold the truth as often as they say (the benchmark has 1,000 draws), and as printed."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from benchmarks import decisions_story
from benchmarks.coverage import estimation as designs
from benchmarks.coverage.agreement import Uneven, equal_judges
from benchmarks.coverage.populations import uneven
from benchmarks.coverage.tally import tally
from tests.benchmark_data import FOLDER
from tests.cli.harness import textassay
from tests.estimation.columns import SCALES, columns_of
from textassay.estimation.alt_test import alt_test
from textassay.estimation.estimate import MeanSettings, estimate_means
from textassay.estimation.means import text_weights, weighted_mean
from textassay.estimation.paired import paired_difference, sign_flip_p

DRAWS = 200
SUMMEVAL = FOLDER / "alttest" / "summeval.jsonl.gz"
PAGE = (Path(__file__).parents[2] / "docs" / "estimation.md").read_text(encoding="utf-8")
NOISE = 0.035
"""About 2.3 standard errors of a coverage near .95 over 200 draws."""


@pytest.fixture(scope="module")
def columns():
    if not SUMMEVAL.exists():
        pytest.skip(f"benchmark data not found in {FOLDER}; set TEXTASSAY_DATA")
    return {aspect: designs.read_summeval(SUMMEVAL, aspect) for aspect in designs.ASPECTS}


@pytest.mark.parametrize(("rated", "texts", "skew"), [(10, 3, 3.0), (20, 5, 4.3), (40, 5, 3.0)])
def test_estimates_hold_the_truth(rated, texts, skew):
    found = tally(designs.means(rated, texts, skew), DRAWS)
    assert found["corrected"].share == pytest.approx(0.95, abs=NOISE)
    assert found["corrected"].half_width < found["labels only"].half_width


@pytest.mark.parametrize("design", designs.PREVALENCES)
def test_yes_and_no_of_a_random_draw_are_estimated_better_than_by_the_ratings_alone(design):
    """Rogan and Gladen's correction errs up to twice as far as the ratings there."""
    found = tally(designs.yes_no(*design), 80)
    assert found["corrected"].rms_error < found["labels only"].rms_error
    assert found["corrected"].rms_error < found["Rogan-Gladen"].rms_error
    assert found["corrected"].share >= 0.95 - 2 * NOISE


def test_a_judge_that_made_no_error_yet_is_not_certain_to_make_none():
    found = tally(designs.yes_no(0.5, 0.99, 0.95, n=2000, rated=40), 100)
    assert found["corrected"].share >= 0.95 - 2 * NOISE
    assert found["corrected"].rms_error < found["labels only"].rms_error / 2


@pytest.mark.parametrize(
    ("rated", "design"),
    [
        (20, {"heaviest": 40}),
        (40, {"heaviest": 40, "whole": False}),
        (100, {"heaviest": 40, "falls": 0.4, "weight": "texts"}),
        (20, {"top": 0.82}),
        (40, {"top": 0.9, "whole": False}),
        (100, {"top": 0.9}),
    ],
)
def test_intervals_without_a_warning_contain_the_truth(rated, design):
    """Sources of 1 to 40 texts, sizes that go with quality, and nine ratings in ten the top one."""
    found = tally(designs.uneven_means(rated, **design), DRAWS)
    assert found["corrected"].share >= 0.95 - NOISE
    assert found["corrected warned"].draws < DRAWS / 10


@pytest.mark.parametrize(
    ("rated", "design"),
    [
        (10, {"top": 0.95}),
        (10, {"heaviest": 40, "top": 0.95, "whole": False}),
        (20, {"heaviest": 40, "falls": 0.4, "weight": "texts"}),
    ],
)
def test_intervals_that_hold_too_seldom_are_warned_of(rated, design):
    found = tally(designs.uneven_means(rated, **design), 60)
    assert found["corrected warned"].draws > 9 * found["corrected"].draws


def test_systems_and_judges_of_uneven_sources_are_rarely_distinguished():
    """Sources of 1 to 15 rounds, or 1 to 40 texts; equal variances for all gave .17 and .09."""
    found = tally(designs.strengths(12, heaviest=15), DRAWS)
    assert found["alarms"].share <= 0.05 + NOISE
    assert found["difference"].share >= 0.95 - NOISE
    found = tally(equal_judges(Uneven(top=None), 40), DRAWS)
    assert found["pearson alarms"].share <= 0.05 + NOISE


def test_comparisons_hold_the_truth():
    found = tally(designs.differences(20, 5, 4.3), DRAWS)
    assert found["difference"].share == pytest.approx(0.95, abs=NOISE)
    assert found["alarms"].share <= 0.05 + NOISE


def test_skewed_differences_are_not_taken_for_a_mean_other_than_0():
    """Most a little below 0, few far above; signs alone find a difference in one draw in ten."""
    drawn = np.random.default_rng(2).exponential(size=(400, 10)) - 1
    alone = np.mean([sign_flip_p(row) < 0.05 for row in drawn])
    found = [paired_difference(row, np.zeros(10), np.arange(10)).p for row in drawn]
    assert alone > 0.05 + NOISE
    assert np.mean([p < 0.05 for p in found if p is not None]) <= 0.05 + NOISE


def test_intervals_of_single_scores_hold_the_rating():
    draw = partial(designs.fine, texts=5, skew=3.0)
    found = tally(designs.single_texts(draw, 40, 0.95), DRAWS)
    assert found["rating"].share == pytest.approx(0.95, abs=NOISE)


def test_real_draws(columns):
    """20 of 100 SummEval sources: the judge alone never, rows as independent too seldom."""
    for aspect in ("coherence", "relevance"):
        one = tally(designs.recorded_means(columns[aspect]), 60)
        assert one["judge only"].share == 0
        assert one["corrected"].share >= 0.9
        assert one["rows as independent"].share < 0.9
        narrower = 1 - one["corrected"].half_width / one["labels only"].half_width
        assert 0.05 < narrower < 0.17


def test_conformal_figures(columns):
    for aspect, widest in (("consistency", 0.75), ("fluency", 1.05)):
        found = tally(designs.recorded_texts(columns[aspect]), 8)
        assert 2 * found["calibrated"].half_width <= widest
        assert 0.89 <= found["calibrated"].share <= 0.95
        assert 2 * found["raw"].half_width > 2.5


@pytest.fixture(scope="module")
def story(columns, tmp_path_factory):
    folder = tmp_path_factory.mktemp("story")
    decisions_story.write(folder, SUMMEVAL)
    return folder


def shown(found):
    return f"{found['value']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"


def test_the_estimates_are_those_of_the_page(story):
    done = textassay("estimate", story / "scores.jsonl", story / "rated.jsonl", "--json")
    for row in json.loads(done.out)["rows"]:
        three = [shown(row[name]) for name in ("judge_only", "labels_only", "corrected")]
        assert " | ".join([row["aspect"], *three, f"{row['worth']:.2f}"]) in PAGE


def test_the_stand_in_table_equals_the_one_of_the_page(story):
    done = textassay("alt-test", story / "scores.jsonl", story / "all_rated.jsonl", "--json")
    lines = {
        line.split(" | ")[0].strip("| "): line for line in PAGE.partition("## 5.")[2].splitlines()
    }
    for row in json.loads(done.out)["rows"]:
        constant = row["constant"]
        cells = [cell.strip() for cell in lines[row["score"]].strip("|").split("|")]
        expected = [row["omega"], row["rho"], constant["value"], constant["omega"], constant["rho"]]
        assert [float(cell) for cell in cells[1:6]] == [round(one, 2) for one in expected]
        assert cells[6] == shown(row["over_constant"]).replace("0.", ".")
        assert cells[7] == ("yes" if row["may_stand_in"] else "no")


def row_of(x, y, groups, rated, **options):
    """The estimate of one mean from the ratings of some rows."""
    return estimate_means(
        columns_of(x, np.where(rated, y, np.nan), groups),
        scales=SCALES,
        settings=MeanSettings(**options),
    ).rows[0]


@pytest.mark.parametrize("size", [40, 100, 400])
def test_a_large_source_without_ratings_is_warned_of_in_a_mean_over_texts(size):
    """150 sources of 4 texts and a large one that is worse; 30 are rated."""
    sizes = np.r_[np.full(149, 4), size]
    for draw in range(12):
        rng = np.random.default_rng(draw)
        groups = np.repeat(np.arange(150), sizes)
        y = np.clip(np.round(3.5 + rng.normal(size=len(groups)) - 1.2 * (groups == 149)), 1, 5)
        x = np.clip(np.round(y + rng.normal(size=len(groups))), 1, 5)
        rated = np.isin(groups, rng.choice(149, 30, replace=False))
        found = row_of(x, y, groups, rated, weight="texts")
        assert any("has no rating" in warning for warning in found.warnings)
        over_sources = row_of(x, y, groups, rated)
        assert not any("has no rating" in warning for warning in over_sources.warnings)


def picked(rng, how, groups, x, y):
    """Which rows are rated: at random, or in one of the ways that people pick them."""
    sources = int(groups.max()) + 1
    means = np.bincount(groups, weights=x) / np.bincount(groups)
    if how == "sources at random":
        return np.isin(groups, rng.choice(sources, 30, replace=False))
    if how == "rows at random":
        return np.isin(np.arange(len(groups)), rng.choice(len(groups), 120, replace=False))
    unsure = np.argsort(np.abs(means - np.median(x)), kind="stable")
    order = {"first": np.arange(sources), "last": np.arange(sources)[::-1],
             "judge unsure": unsure, "judge sure": unsure[::-1]}  # fmt: skip
    return np.isin(groups, order.get(how, np.argsort(means, kind="stable"))[:30])


@pytest.mark.parametrize(
    ("how", "least", "most"),
    [("sources at random", 0, 0.07), ("rows at random", 0, 0.07), ("first", 0.95, 1),
     ("last", 0.95, 1), ("worst judged", 0.95, 1), ("judge unsure", 0.8, 1),
     ("judge sure", 0.95, 1)],
)  # fmt: skip
def test_ratings_that_are_not_a_random_draw_are_noticed_by_the_scores(how, least, most):
    """The judge grows stricter with time, so that the first sources have higher scores."""
    alarms = 0
    for draw in range(60):
        rng = np.random.default_rng(draw)
        groups = np.repeat(np.arange(150), 4)
        quality = 0.7 * rng.normal(size=150)[groups] + 0.7 * rng.normal(size=600)
        y = np.clip(np.round(3.3 + quality), 1, 5)
        x = np.clip(np.round(3.5 + quality - 1.2 * groups / 150), 1, 5)
        found = row_of(x, y, groups, picked(rng, how, groups, x, y))
        alarms += any("unlikely for a random draw" in warning for warning in found.warnings)
    assert least <= alarms / 60 <= most


@pytest.mark.parametrize(("skips", "least", "most"), [("any", 0, 0.06), ("bad", 0.9, 1)])
def test_raters_who_skip_bad_texts_are_noticed_by_the_number_of_ratings(skips, least, most):
    """The mean of the given ratings is .2 too high, and its interval holds only this mean."""
    alarms = 0
    for draw in range(60):
        rng = np.random.default_rng(draw)
        groups = np.repeat(np.arange(60), 4)
        quality = 0.6 * rng.normal(size=60)[groups] + 0.6 * rng.normal(size=240)
        noise = 0.7 * rng.normal(size=(240, 3))
        raters = np.clip(np.round(3.5 + quality[:, None] + noise), 1, 5)
        skipped = rng.random(raters.shape) < np.where(raters <= 2, 0.55, 0.0)
        if skips == "any":
            skipped = rng.random(raters.shape) < 0.2
        raters[skipped] = np.nan
        kept = ~np.isnan(raters).all(axis=1)
        y = np.full(240, np.nan)
        y[kept] = np.nanmean(raters[kept], axis=1)
        x = np.clip(np.round(3.5 + quality), 1, 5)
        columns = columns_of(x, y, groups, raters=raters)
        [found] = estimate_means(columns, scales=SCALES).rows
        alarms += any("fewer single ratings have lower ones" in one for one in found.warnings)
    assert least <= alarms / 60 <= most


def test_a_source_with_most_rows_does_not_make_the_judge_a_rater():
    """The judge is worse by exactly epsilon; counting each source as one it won a quarter."""
    wins, sizes = 0, np.r_[np.full(30, 4), 400]
    at = np.repeat(np.arange(31), sizes)
    for draw in range(60):
        rng = np.random.default_rng(draw)
        true = rng.integers(0, 2, len(at)).astype(float)
        raters = [np.where(rng.random(len(at)) < 0.85, true, 1 - true) for _ in range(3)]
        right = np.clip(0.563 + rng.normal(0, 0.15, 31)[at], 0, 1)
        judge = np.where(rng.random(len(at)) < right, true, 1 - true)
        found = alt_test(judge, np.stack(raters, axis=1), at, metric="match", seed=draw)
        wins += found.judge.per_rater[0].wins
    assert wins / 60 <= 0.05 + NOISE


def test_the_end_at_the_top_grade_is_short_only_where_sources_weigh_alike():
    per_source = np.repeat([1, 9], 60)
    x, y, groups = uneven(np.random.default_rng(5), per_source, 0.85)
    first = np.diff(groups, prepend=-1) > 0
    # whole sources weigh alike in a mean over sources; a single text of nine weighs a ninth of one
    for drawn, is_short in ((groups % 2 == 0, True), (first & (groups % 3 > 0), False)):
        table = designs.columns(x, np.where(drawn, y, np.nan), groups, designs.SCALE)
        row = estimate_means(table, scales=designs.SCALE).rows[0]
        shares = text_weights(groups, "sources")[drawn]
        labels = weighted_mean(y[drawn], groups[drawn], shares, count=120)
        high = labels.estimate(0.95, one_tailed=is_short).high
        assert row.labels_only.high == pytest.approx(high)
        assert (high < labels.estimate(0.95).high) == is_short

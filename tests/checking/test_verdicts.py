"""Verdicts by use: what planted judges get, from arrays, and what the figures are made of."""

from __future__ import annotations

import math
from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.check_errors import FEW, GOOD, KINDS, SIZES, draw
from tests.benchmark_data import benchmark
from textassay.checking.pair import JudgedPair
from textassay.checking.statistics import correlation, mean_over, system_order
from textassay.checking.verdicts import USES, assess
from textassay.learning.splits import group_codes


def labels(judge, human, groups=None, **more):
    """A pair of a judge and a person who say yes and no."""
    count = len(judge)
    return JudgedPair(
        judge="judge", human="human", scores=np.asarray(judge, float),
        ratings=np.asarray(human, float), raters=np.empty((count, 0)),
        groups=np.arange(count) if groups is None else groups, has_groups=groups is not None,
        systems=np.full(count, -1), labels=("no", "yes"), judge_labels=True,
    )  # fmt: skip


def answers(pair):
    return {use: one.answer for use, one in assess(pair).uses.items()}


def test_gpt_4o_on_consistency_comes_out_as_on_the_first_screen():
    """Consistency of SummEval, cut to yes and no: the figures that `agreement` prints."""
    rows = benchmark("alttest/summeval.jsonl.gz")
    people = np.array([np.mean(row["annotators"]["consistency"]) for row in rows]) >= 4.5
    judge = np.array([row["metrics"]["gpt-4o/consistency"] for row in rows]) >= 4
    pair = labels(judge, people, group_codes(row["group"] for row in rows))
    row = assess(pair)
    rounded = {
        name: tuple(round(100 * end, 1) for end in astuple(row.agreement[name]))
        for name in ("accuracy", "kappa")
    }
    assert rounded == {"accuracy": (84.7, 82.2, 86.8), "kappa": (50.6, 45.3, 56.3)}
    assert round(100 * row.constant["accuracy"], 1) == 86.7
    assert (
        "lets 17 % [12, 23] of people's 213 failures through and stops 15 %" in row.uses["gate"].why
    )
    expected = {"compare": "corrected", "means": "corrected", "gate": "no", "texts": "no"}
    assert {use: one.answer for use, one in row.uses.items()} == expected
    # the same if it is known which of 16 systems wrote each text
    systems = group_codes(row["system"] for row in rows)
    assert answers(replace(pair, systems=systems)) == expected


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.name} {kind.label}")
def test_planted_judges_are_hardly_granted_what_they_do_not_deserve(kind):
    """A sample of `benchmarks/check_errors.py`; there each use is granted in at most 5 %."""
    granted = dict.fromkeys(USES, 0)
    for n in range(12):
        rng = np.random.default_rng([7, n])
        row = assess(draw(kind, (*SIZES, *FEW)[n % 8], rng, systems=n % 2 == 0), seed=n)
        for use in USES:
            granted[use] += row.uses[use].answer == "yes" and use in kind.denied
            granted[use] += row.uses[use].answer == "corrected" and use in kind.useless
    # of 12 data sets with a probability of 5 % each, 3 or more are granted once in 50 times
    assert max(granted.values()) <= 2, granted


@pytest.mark.parametrize("kind", GOOD[:2], ids=lambda kind: f"{kind.name} {kind.label}")
def test_good_judges_may_compare_and_give_means(kind):
    row = assess(draw(kind, (100, 4), np.random.default_rng(1), systems=True))
    assert (row.uses["compare"].answer, row.uses["means"].answer) == ("yes", "yes")


def test_a_judge_that_favors_systems_is_found_out_only_by_their_names():
    """Their names show it; without them it is not trusted without a correction."""
    [kind] = [one for one in KINDS if one.name == "favors systems"]
    seen = draw(kind, (100, 4), np.random.default_rng(0), systems=True)
    assert assess(seen).uses["compare"].answer == "corrected"
    assert "the wrong way round" in assess(seen).uses["compare"].why
    unseen = draw(kind, (100, 4), np.random.default_rng(0), systems=False)
    assert assess(unseen).uses["compare"].answer == "corrected"
    assert "No column names the system of each text" in assess(unseen).uses["compare"].why
    alone = replace(seen, groups=np.arange(len(seen.groups)), has_groups=False)
    assert "No column names the source, which pairs" in assess(alone).uses["compare"].why


@pytest.mark.parametrize(
    ("judge", "human", "words"),
    [
        ([1] * 40, [0, 1] * 20, 'says "yes" of every text'),
        ([0, 1] * 20, [1] * 40, "the same rating"),
        ([1, 0] * 20, [0, 1] * 20, "runs against people"),
        ([0, 1] * 3, [0, 1] * 3, "6 texts with a score and a rating"),
    ],
)
def test_a_reason_that_decides_every_use_is_given(judge, human, words):
    row = assess(labels(judge, human))
    assert all(words in one.why for one in row.uses.values())
    assert len({one.answer for one in row.uses.values()}) == 1


def test_a_perfect_judge_is_granted_everything_if_people_gave_both_labels_often():
    assert set(answers(labels([0, 1] * 60, [0, 1] * 60)).values()) == {"yes"}


@pytest.mark.parametrize("count", [10, 12, 28])
def test_few_texts_without_an_error_grant_nothing_without_a_correction(count):
    """Of a judge that errs in one text of ten, a quarter of tables of 12 show no error."""
    human = np.arange(count) % 2
    assert answers(labels(human, human)) == {
        "compare": "corrected", "means": "corrected", "gate": "unknown", "texts": "unknown"
    }  # fmt: skip
    ratings = 1.0 + np.arange(count) % 5
    numbers = replace(
        labels(human, human), scores=ratings, ratings=ratings, labels=(), judge_labels=False,
        scale=(1.0, 5.0), judge_scale=(1.0, 5.0),
    )  # fmt: skip
    assert "yes" not in answers(numbers).values()
    assert "At least 29 are needed" in assess(numbers).uses["texts"].why


def test_labels_without_an_error_have_an_interval():
    human = np.arange(40) % 2
    low, high = (
        getattr(assess(labels(human, human)).agreement["mcc"], end) for end in ("low", "high")
    )
    assert 0.7 < low < high == 1


def test_few_failures_leave_a_gate_open():
    """All of 5 failures are caught: that would do, and is not shown."""
    human = [0] * 5 + [1] * 95
    assert answers(labels(human, human))["gate"] == "unknown"


def test_ratings_of_few_sources_say_less_than_as_many_texts():
    """The same texts, as single ones and as ten sources that err together."""
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(10), 30)
    human = rng.integers(0, 2, 300)
    wrong = (rng.random(10) < 0.15)[groups] & (rng.random(300) < 0.6)
    judge = np.where(wrong, 1 - human, human)
    alone, together = (assess(labels(judge, human, one)) for one in (None, groups))
    width = [
        row.agreement["accuracy"].high - row.agreement["accuracy"].low for row in (alone, together)
    ]
    assert width[1] > 1.5 * width[0]


def test_three_raters_are_what_single_texts_are_measured_by():
    rng = np.random.default_rng(2)
    truth = rng.integers(1, 6, 200).astype(float)
    raters = np.clip(np.round(truth[:, None] + rng.normal(0, 0.7, (200, 3))), 1, 5)
    pair = JudgedPair(
        judge="judge", human="three", scores=np.clip(np.round(truth), 1, 5),
        ratings=raters.mean(axis=1), raters=raters, groups=np.arange(200), has_groups=False,
        systems=np.full(200, -1), scale=(1.0, 5.0), judge_scale=(1.0, 5.0),
    )  # fmt: skip
    assert answers(pair)["texts"] == "yes"
    noise = replace(pair, scores=rng.integers(1, 6, 200).astype(float))
    assert answers(noise)["texts"] == "no"


def test_texts_without_a_score_leave_all_but_comparisons_open():
    human = np.array([0, 1] * 60)
    some = labels(human, human)
    row = assess(replace(some, scores=np.where(np.arange(120) < 20, np.nan, human)))
    assert row.n == 100
    assert {use: one.answer for use, one in row.uses.items()} == {
        "compare": "yes", "means": "unknown", "gate": "unknown", "texts": "unknown"
    }  # fmt: skip


arrays = st.integers(30, 80).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(1, 5), min_size=n, max_size=n)] * 2)
)


@given(arrays)
@settings(max_examples=40, deadline=None)
def test_correlations_and_means_are_those_of_numpy(sides):
    x, y = (np.array(side, float) for side in sides)
    groups = np.arange(len(x)) // 2
    found = correlation(x, y, groups)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert found.value is None
    else:
        assert math.isclose(found.value, np.corrcoef(x, y)[0, 1], abs_tol=1e-9)
        assert found.low is None or found.low <= found.value <= found.high
    mean = mean_over(x, groups)
    assert math.isclose(mean.value, x.mean())
    assert mean.low <= mean.value <= mean.high


@given(st.randoms(use_true_random=False))
@settings(max_examples=10, deadline=None)
def test_the_order_of_rows_does_not_matter(random):
    w = draw(GOOD[0], (30, 4), np.random.default_rng(5), systems=True)
    order = list(range(len(w.scores)))
    random.shuffle(order)
    moved = replace(
        w, scores=w.scores[order], ratings=w.ratings[order], raters=w.raters[order],
        groups=w.groups[order], systems=w.systems[order],
    )  # fmt: skip
    assert answers(moved) == answers(w)


def test_systems_in_peoples_order_are_right_and_in_the_other_order_wrong():
    rng = np.random.default_rng(0)
    groups, systems = np.repeat(np.arange(50), 6), np.tile(np.arange(6), 50)
    people = systems + rng.normal(0, 1, 300)
    same = system_order(people * 2, people, groups, systems)
    other = system_order(-people, people, groups, systems)
    assert (round(same.right.value, 9), same.reversed, round(other.right.value, 9)) == (1, 0, 0)
    assert other.reversed == other.pairs
    assert same.luck < 0.01 < 0.9 < other.luck


def test_half_of_the_constants_errors_exactly_is_enough():
    """The judge errs on 8 of 80 texts where "yes" errs on 16: the limit itself is not missed."""
    people = np.repeat([0, 1], [16, 64])
    judge = np.concatenate([np.repeat([1, 0], [4, 12]), np.repeat([0, 1], [4, 60])])
    assert assess(labels(judge, people)).uses["texts"].answer == "unknown"

"""Two runs of which only some sources or ids are shared: paired there, independent elsewhere."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from textassay.estimation import People, compare_runs
from textassay.estimation.columns import Judged
from textassay.runtime.errors import DataError

TRUE = 0.15


def draw(rng, shared, only_a, only_b, correlation, texts=1):
    """Scores of both sides by id, and the data: so many shared sources, and others on one side."""
    sources = np.sqrt(correlation) * rng.normal(size=shared + only_a + only_b)
    sides, rows = ({}, {}), []
    for source, level in enumerate(sources):
        for side in (0, 1):
            alone = source >= shared and (source < shared + only_a) != (side == 0)
            for number in range(0 if alone else texts):
                id_ = f"{'ab'[side]}{source}.{number}"
                noise = np.sqrt(1 - correlation) * rng.normal()
                sides[side][id_] = 3 + 0.4 * (level + noise) + TRUE * (side == 0)
                rows.append({"id": id_, "output": id_, "group": f"g{source}"})
    return *({"x": Judged(values=side)} for side in sides), rows


def compared(a, b, rows, **options):
    [row] = compare_runs(a, b, People(rows), unpaired=True, **options)
    return row


@pytest.mark.parametrize(
    ("shared", "only_a", "only_b"),
    [(0, 40, 40), (1, 40, 40), (3, 20, 20), (5, 20, 20), (30, 60, 60), (60, 0, 0)],
)
@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_intervals_hold_however_many_sources_are_shared(shared, only_a, only_b, correlation):
    rng, draws = np.random.default_rng(1), 100
    held = 0
    for _ in range(draws):
        row = compared(*draw(rng, shared, only_a, only_b, correlation))
        held += row.difference.low <= TRUE <= row.difference.high
    # a true coverage of .95 gives less than .88 in one of 200 such tests
    assert held / draws >= 0.88


def test_a_few_shared_sources_throw_no_other_source_away():
    """With one shared source of 81 the interval is that of independent samples, nearly."""
    widths = []
    for shared in (0, 1, 3):
        a, b, rows = draw(np.random.default_rng(3), shared, 40, 40, 0.5)
        row = compared(a, b, rows)
        assert row.n == 80 + shared
        assert (row.unpaired.a, row.unpaired.b) == (40, 40)
        assert row.left_out.total == 0
        widths.append(row.difference.high - row.difference.low)
    assert max(widths) < 1.4 * min(widths)


def test_shared_sources_narrow_the_interval_as_far_as_both_sides_agree_on_them():
    def width(correlation):
        a, b, rows = draw(np.random.default_rng(5), 40, 40, 40, correlation)
        found = compared(a, b, rows).difference
        return found.high - found.low

    assert width(0.9) < 0.6 * width(0.0)


def test_without_a_rest_the_estimate_is_the_paired_one():
    a, b, rows = draw(np.random.default_rng(7), 50, 0, 0, 0.5)
    row = compared(a, b, rows)
    x, y = (np.array(list(one["x"].values.values())) for one in (a, b))
    assert row.difference.value == pytest.approx(float(np.mean(x - y)))
    assert (row.paired_by, row.unpaired.total) == ("source", 0)


def test_the_parts_are_weighted_by_their_variances():
    """The estimate is `w D1 + (1 - w) D2` of both differences, with the variances of both."""
    a, b, rows = draw(np.random.default_rng(11), 30, 50, 45, 0.7)
    row = compared(a, b, rows)
    x, y = (np.array(list(one["x"].values.values())) for one in (a, b))
    paired, rest = x[:30] - y[:30], (x[30:], y[30:])
    r = np.tanh(np.arctanh(np.corrcoef(x[:30], y[:30])[0, 1]) - 1 / np.sqrt(27))
    sd_a, sd_b = np.std(x, ddof=1), np.std(y, ddof=1)
    planned = (sd_a**2 + sd_b**2 - 2 * r * sd_a * sd_b) / 30
    planned_rest = sd_a**2 / 50 + sd_b**2 / 45
    weight = planned_rest / (planned + planned_rest)
    expected = weight * paired.mean() + (1 - weight) * (rest[0].mean() - rest[1].mean())
    assert row.difference.value == pytest.approx(expected)
    assert row.a - row.b == pytest.approx(expected)
    of_parts = [np.var(one, ddof=1) / len(one) for one in (paired, *rest)]
    variance = weight**2 * of_parts[0] + (1 - weight) ** 2 * (of_parts[1] + of_parts[2])
    half = (row.difference.high - row.difference.low) / 2
    assert half == pytest.approx(stats.t.ppf(0.975, 120) * np.sqrt(variance), rel=0.02)


def test_common_ids_behave_like_common_sources():
    """Two weeks of 600 texts with one id in common are compared over all of them."""
    rng = np.random.default_rng(13)
    a = {"x": Judged(values={f"t{i}": 3.2 + rng.normal() for i in range(600)})}
    b = {"x": Judged(values={f"t{i}": 3.0 + rng.normal() for i in range(599, 1199)})}
    [row] = compare_runs(a, b)
    assert (row.n, row.unpaired.a, row.unpaired.b) == (1199, 599, 599)
    assert row.difference.low < 0.2 < row.difference.high
    assert row.paired_by == "text"


def test_texts_that_only_one_run_has_are_counted_as_left_out():
    """A run of the first 20 texts says nothing about the 80 others, which have no counterpart."""
    rng = np.random.default_rng(17)
    a = {"x": Judged(values={f"t{i}": float(i % 5) for i in range(100)})}
    b = {"x": Judged(values={f"t{i}": float(i % 5) + rng.normal() for i in range(20)})}
    [row] = compare_runs(a, b)
    assert (row.n, row.left_out.a, row.left_out.b) == (20, 80, 0)
    assert row.as_dict()["left_out"] == {"a": 80, "b": 0}


def test_further_texts_of_a_paired_source_are_left_out():
    """They depend on the paired ones, so they are not an independent sample."""
    rows = [{"id": f"t{i}", "output": f"t{i}", "group": f"g{i % 10}"} for i in range(40)]
    a = {"x": Judged(values={f"t{i}": float(i % 7) for i in range(20)})}
    b = {"x": Judged(values={f"t{i}": float(i % 6) for i in [*range(10), *range(30, 40)]})}
    row = compared(a, b, rows)
    assert (row.n, row.unpaired.total) == (10, 0)
    assert (row.left_out.a, row.left_out.b) == (10, 10)


@given(seed=st.integers(0, 10_000), shared=st.integers(1, 8), rest=st.integers(2, 8))
@settings(max_examples=60, deadline=None)
def test_exchanging_the_runs_turns_the_difference_around(seed, shared, rest):
    a, b, rows = draw(np.random.default_rng(seed), shared, rest, rest + 1, 0.5)
    one, other = compared(a, b, rows), compared(b, a, rows)
    assert one.difference.value == pytest.approx(-other.difference.value)
    assert one.difference.low == pytest.approx(-other.difference.high)
    assert one.p == pytest.approx(other.p)


def test_runs_that_share_nothing_and_whose_sources_are_not_known_are_refused():
    a, b = ({"x": Judged(values={f"{name}{i}": 1.0 for i in range(3)})} for name in "ab")
    with pytest.raises(DataError, match="share no id"):
        compare_runs(a, b)


@pytest.mark.parametrize("source", ["", "s"], ids=["shared id", "shared source"])
def test_a_shared_text_without_a_score_throws_no_other_text_away(source):
    """One of two runs failed on all that both have: the others are independent samples."""
    a, b, rows = draw(np.random.default_rng(3), 0, 40, 30, 0)
    before = compared(a, b, rows)
    shared = ("left", "right") if source else ("both", "both")
    rows += [
        {"id": id_, "output": id_} | ({"group": source} if source else {})
        for id_ in dict.fromkeys(shared)
    ]
    a["x"].values[shared[0]], b["x"].values[shared[1]] = 4.0, None
    row = compared(a, b, rows)
    assert (row.paired_by, row.n, row.unscored) == (None, 70, 1)
    assert row.difference.value == pytest.approx(before.difference.value)
    assert row.difference.low == pytest.approx(before.difference.low)
    with pytest.raises(DataError, match="no text has a score of 'x' in both runs"):
        compare_runs(a, b, People(rows))
    if not source:
        with pytest.raises(DataError, match=r"1 have an id in both, .*in one of them; give DATA"):
            compare_runs(a, b)


@pytest.mark.parametrize("texts", [1, 3])
def test_the_order_of_scores_changes_no_figure(texts):
    """Judges answer in any order, and a p-value of random flips must not depend on it."""
    rng = np.random.default_rng(8)
    ids = [f"{source}.{text}" for source in range(40) for text in range(texts)]
    rows = [{"id": id_, "output": id_, "group": id_.split(".")[0]} for id_ in ids]
    a, b = (dict(zip(ids, rng.normal(size=len(ids)), strict=True)) for _ in range(2))
    found = []
    for _ in range(4):
        sides = (
            {"x": Judged(values={ids[at]: side[ids[at]] for at in rng.permutation(len(ids))})}
            for side in (a, b)
        )
        found.append(compare_runs(*sides, People(rows)))
    assert found[1:] == found[:-1]


@pytest.mark.parametrize("scales", [((1, 5), (1, 5)), ((0, 1), None), (None, (0, 1)), (None, None)])
def test_an_interval_stays_on_the_scale_that_both_runs_have(scales):
    """A run without a scale may have scores of any size."""
    scores = [1, 5, 5, 2], [5, 1, 2, 5]
    a, b = (
        Judged(values={f"t{i}": float(one) for i, one in enumerate(own)}, scales={scale: None})
        for own, scale in zip(scores, scales, strict=True)
    )
    [row] = compare_runs({"x": a}, {"x": b})
    if None in scales:
        assert row.difference.low < -4 < 4 < row.difference.high
    else:
        assert row.difference.ends == (-4, 4)

"""Sets of labels, thresholds, and differences of two judges' labels."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.coverage_labels import KINDS, try_once
from textassay import meta
from textassay.meta.label_measures import (
    agreement_at,
    best_threshold,
    compare_labels,
    mean_interval,
    span_of,
)
from textassay.meta.label_sets import set_agreement
from textassay.runtime.errors import DataError
from textassay.runtime.labels import LabelScale

RNG = np.random.default_rng(5)


def values(found):
    return {name: one.value for name, one in found.measures.items()}


def some_sets(n=120, labels=4):
    human = (RNG.random((n, labels)) < 0.4).astype(int)
    return np.where(RNG.random(human.shape) < 0.15, 1 - human, human), human


def test_sets_are_measured_as_scikit_learn_does():
    metrics = pytest.importorskip("sklearn.metrics", reason="needs scikit-learn")
    judge, human = some_sets()
    found = values(set_agreement(judge, human, labels="abcd"))
    assert found == pytest.approx(
        {
            "exact": metrics.accuracy_score(human, judge),
            # two empty sets are equal
            "jaccard": metrics.jaccard_score(human, judge, average="samples", zero_division=1),
            "macro_f1": metrics.f1_score(human, judge, average="macro"),
            "micro_f1": metrics.f1_score(human, judge, average="micro"),
            "macro_kappa": np.mean(
                [metrics.cohen_kappa_score(human[:, at], judge[:, at]) for at in range(4)]
            ),
            "alpha_masi": found["alpha_masi"],
        }
    )


def test_sets_of_one_label_have_the_nominal_alpha():
    judge, human = RNG.integers(0, 3, 50), RNG.integers(0, 3, 50)
    judge[:30] = human[:30]
    found = values(set_agreement(np.eye(3)[judge], np.eye(3)[human], labels="abc"))
    alpha = meta.krippendorff_alpha(np.stack([judge, human], axis=1), level="nominal")
    assert found["alpha_masi"] == pytest.approx(alpha)
    assert found["jaccard"] == found["exact"] == np.mean(judge == human)


def test_masi_weighs_what_sets_share():
    """Passonneau (2006): a part counts 2/3, an overlap 1/3 of the Jaccard index."""
    judge = [[1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 0]]
    human = [[1, 0, 0], [0, 1, 1], [0, 0, 1], [0, 0, 0]]
    distances = [1 - 1 / 2 * 2 / 3, 1 - 1 / 3 * 1 / 3, 0, 0]
    sets = np.concatenate([judge, human])

    def apart(a, b):
        shared, either = np.sum(a * b), np.sum(np.maximum(a, b))
        if not either:
            return 0
        same, within = shared == either, shared == min(a.sum(), b.sum())
        return 1 - shared / either * (
            1 if same else 0 if not shared else 2 / 3 if within else 1 / 3
        )

    expected = np.mean(
        [apart(a, b) for i, a in enumerate(sets) for j, b in enumerate(sets) if i != j]
    )
    found = values(set_agreement(judge, human, labels="abc"))
    assert found["alpha_masi"] == pytest.approx(1 - np.mean(distances) / expected)


def test_a_set_that_is_missing_on_one_side_is_left_out():
    found = set_agreement(
        [[1, 0], [np.nan, np.nan], [0, 1]], [[1, 0], [1, 0], [np.nan, np.nan]], labels="ab"
    )
    assert (found.n, found.coverage) == (1, 0.5)


@pytest.mark.parametrize(
    ("kind", "world"),
    [
        ("difference", (30, 8, 10 / 240, 0.2)),
        ("sets", (15, 8, 3 / 120, 0.2)),
        ("threshold", (30, 8, 10 / 240, 0.2)),
        ("categories", (30, 1, 3 / 30, 0.0)),
        ("brier", (15, 8, 3 / 120, 0.2)),
    ],
)
def test_intervals_hold_what_they_should(kind, world):
    """More of it: `benchmarks/coverage_labels.py`."""
    own, rng = KINDS[kind], np.random.default_rng(2)
    large = own.draw(4_000, *world[1:], rng)
    truth = {} if kind == "threshold" else own.measure(large, 0, 0)
    name = own.names[0]
    held = 0
    for seed in range(30):
        found, true = try_once(kind, own.draw(*world, rng), large, truth, seed)
        low, high = found[name][1]
        held += low <= true[name][0] <= high
    assert held >= 25


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), min_size=2, max_size=25).filter(
        lambda rows: len({label for _, label in rows}) == 2
    )
)
def test_no_other_threshold_is_better(rows):
    scores, human = (np.array(column, float) for column in zip(*rows, strict=True))

    def quality(yes):
        return (np.mean(yes[human == 1]) + np.mean(~yes[human == 0])) / 2

    cut, side, accuracy = best_threshold(scores, human)
    assert accuracy == pytest.approx(quality(scores >= cut if side == "above" else scores <= cut))
    every = [quality(scores >= at) for at in np.arange(-0.5, 5)]
    assert accuracy == pytest.approx(max(max(every), 1 - min(every)))


def test_a_threshold_is_confirmed_on_sources_that_did_not_choose_it():
    groups = np.repeat(np.arange(20), 5)
    human = RNG.integers(0, 2, 100)
    found, cut = agreement_at(human + RNG.normal(0, 0.4, 100), human, groups=groups)
    assert (found.n, found.groups, cut.chosen_on, cut.yes) == (50, 10, 10, "above")
    assert 0.2 < cut.value < 0.8
    falling, cut = agreement_at(-human.astype(float), human, groups=groups)
    assert (cut.yes, falling.measures["accuracy"].value) == ("below", 1)
    fixed, cut = agreement_at([1, 2, 3, None], [0, 1, 1, 1], threshold=2)
    assert (fixed.confusion, fixed.coverage, cut.chosen_on) == (((1, 0), (0, 2)), 0.75, 0)


@pytest.mark.parametrize(
    ("human", "problem"),
    [([0, 1] * 4, "takes 10 sources with labels, not 8"), ([0] * 30, "have the same label")],
)
def test_too_little_to_choose_a_threshold_is_said(human, problem):
    with pytest.raises(DataError, match=problem):
        agreement_at(np.arange(len(human)), human)


def test_a_difference_is_that_of_the_two_agreements_and_turns_with_them():
    human = RNG.integers(0, 3, 60)
    a, b = (np.where(RNG.random(60) < p, RNG.integers(0, 3, 60), human) for p in (0.2, 0.5))
    n, found = compare_labels(a, b, human, labels="abc", bootstrap=100)
    other = compare_labels(b, a, human, labels="abc", bootstrap=100)[1]
    sides = [values(meta.label_agreement(x, human, labels="abc")) for x in (a, b)]
    assert n == 60
    for name, one in found.items():
        assert one.difference == pytest.approx(sides[0][name] - sides[1][name])
        assert one.difference == pytest.approx(-other[name].difference)
        assert one.ci[0] <= one.difference <= one.ci[1]
        assert 0 < one.p <= 1


def test_a_row_that_one_judge_left_out_is_left_out_for_both():
    n, found = compare_labels([1, None, 0, 1], [1, 1, 0, None], [1, 1, 0, 1])
    assert (n, found["accuracy"].difference, found["accuracy"].ci) == (2, 0, None)


@given(
    st.floats(-1, 1),
    st.lists(st.lists(st.floats(-1, 1) | st.just(np.nan), min_size=1), min_size=1, max_size=2),
)
def test_an_interval_holds_what_was_found_and_most_of_each_part(value, parts):
    arrays = [np.array(part) for part in parts]
    low, high = span_of(value, arrays)
    assert low <= value <= high
    for defined in (part[~np.isnan(part)] for part in arrays):
        assert np.sum((defined < low) | (defined > high)) <= 0.05 * len(defined) + 2


def test_a_mean_of_no_error_is_not_certain():
    low, high = mean_interval(np.zeros(30), np.arange(30))
    assert low == 0 < high < 0.15
    assert mean_interval(np.zeros(4), np.arange(4)) is None


def test_words_are_categories_wherever_they_stand(tmp_path):
    """Of judge and people, in a file of data and in one of scores, with nothing declared."""
    words = ["order", "complaint", "question"] * 4
    rows = [
        {"id": f"r{at}", "output": "x", "human": {"intent": word}, "metrics": {"judge": word}}
        for at, word in enumerate(words)
    ]
    rows[0]["metrics"]["judge"] = "Question"
    data, scores = tmp_path / "data.jsonl", tmp_path / "scores.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)))
    scores.write_text(
        "\n".join(
            json.dumps({"id": row["id"], "aspect": "judge", "value": row["metrics"]["judge"]})
            for row in rows
        )
    )
    for source in (data, scores):
        table = meta.agreement_table(source, data, aspect_map=["judge=intent"])
        (found,) = table.labels
        assert found.agreement.labels == ("complaint", "order", "Question")
        assert found.agreement.confusion == ((4, 0, 0), (0, 3, 1), (0, 0, 4))
        (row,) = table.as_dict()["rows"]
        assert (row["accuracy"], row["pearson"]) == (pytest.approx(11 / 12), None)


def test_words_are_not_held_against_numbers():
    rows = [{"id": f"r{at}", "output": "x", "human": {"tone": "kind"}} for at in range(3)]
    with pytest.raises(DataError, match="'tone' has labels such as 'kind', and 'judge' has none"):
        meta.agreement_table({"judge": {"r0": 1.0, "r1": 2.0}}, rows, aspect_map={"judge": "tone"})


def test_scores_are_cut_where_people_said_pass_or_fail():
    rows = [
        {"id": f"r{at}", "group": f"g{at // 2}", "output": "x", "human": {"ok": word}}
        for at, word in enumerate(["pass", "fail"] * 20)
    ]
    scores = {"judge": {f"r{at}": 4.5 - at % 2 for at in range(40)}}
    table = meta.agreement_table(scores, rows, aspect_map={"judge": "ok"}, threshold="auto")
    (row,) = table.labels
    assert (row.threshold.value, row.agreement.confusion) == (4, ((10, 0), (0, 10)))
    assert row.agreement.labels == ("fail", "pass")
    assert any("chosen on 10 sources" in note.text for t in table.tables() for note in t.notes)
    (flat,) = table.as_dict()["rows"]
    assert (flat["positive"], flat["kappa"], flat["pearson"]) == ("pass", 1, pytest.approx(1))
    assert set(flat["ci"]) > {"pearson", "kappa", "tpr"}


def test_labels_of_raters_have_the_alpha_of_their_level():
    rows = [
        {"id": f"r{at}", "output": "x", "annotators": {"tone": pair}}
        for at, pair in enumerate([["rude", "rude"], ["kind", "plain"], ["plain", "plain"]])
    ]
    scores = {"tone": {f"r{at}": float(at) for at in range(3)}}
    table = meta.agreement_table(
        scores, rows, labels={"tone": LabelScale(("rude", "kind", "plain"))}, raters=True
    )
    *_, raters = table.tables()
    (line,) = raters.rows
    shown = dict(zip((column.name for column in raters.columns), line, strict=True))
    assert (shown["ordinal"], shown["between_raters"]) == (None, pytest.approx(2 / 3))
    alpha = meta.krippendorff_alpha([[0, 0], [1, 2], [2, 2]], level="nominal")
    assert shown["alpha"] == pytest.approx(alpha)

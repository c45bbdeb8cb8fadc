"""Agreement of labels and of sets of labels: measures, intervals, thresholds, differences."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.coverage.labels import KINDS, World, intervals
from benchmarks.coverage.tally import tally
from tests.benchmark_data import FOLDER, benchmark
from tests.cli.harness import document, write_lines
from textassay import agreement
from textassay.agreement.joined import People
from textassay.agreement.labels import (
    agreement_at,
    best_threshold,
    compare_labels,
    mean_interval,
    set_agreement,
    with_interval,
)
from textassay.estimation.compared_agreement import label_difference
from textassay.runtime.errors import DataError
from textassay.runtime.labels import LabelScale, labels_given
from textassay.table import Estimate

metrics = pytest.importorskip("sklearn.metrics", reason="needs scikit-learn")


@pytest.fixture
def rng():
    """A generator of the test's own: what it draws does not depend on which tests ran before."""
    return np.random.default_rng(3)


def some_labels(rng, count, n=200):
    human = rng.integers(0, count, n)
    other = rng.integers(0, count, n)
    return np.where(rng.random(n) < 0.66, human, other), human


def values(found):
    return {name: one.value for name, one in found.measures.items()}


@pytest.mark.parametrize("names", [("no", "yes"), ("rude", "cold", "plain", "kind")])
def test_labels_are_measured_as_scikit_learn_does(rng, names):
    judge, human = some_labels(rng, len(names))
    whole = agreement.label_agreement(judge, human, labels=names, ordered=True)
    assert np.array_equal(whole.confusion, metrics.confusion_matrix(human, judge))
    both = np.stack([human, judge], axis=1)
    expected = {
        "accuracy": metrics.accuracy_score(human, judge),
        "balanced_accuracy": metrics.balanced_accuracy_score(human, judge),
        "mcc": metrics.matthews_corrcoef(human, judge),
        "kappa": metrics.cohen_kappa_score(human, judge),
        "ac1": values(whole)["ac1"],
        "alpha_nominal": agreement.krippendorff_alpha(both, level="nominal"),
    }
    ordered = {}
    if len(names) == 2:
        expected |= {
            "tpr": metrics.recall_score(human, judge),
            "tnr": metrics.recall_score(human, judge, pos_label=0),
            "precision": metrics.precision_score(human, judge),
            "f1": metrics.f1_score(human, judge),
        }
    else:
        expected["macro_f1"] = metrics.f1_score(human, judge, average="macro")
        ordered = {
            "kappa_linear": metrics.cohen_kappa_score(human, judge, weights="linear"),
            "kappa_quadratic": metrics.cohen_kappa_score(human, judge, weights="quadratic"),
            "alpha_ordinal": agreement.krippendorff_alpha(both, level="ordinal"),
        }
    assert values(whole) == pytest.approx(expected | ordered)
    assert values(agreement.label_agreement(judge, human, labels=names)).keys() == expected.keys()


def test_ac1_and_kappa_are_those_of_gwets_example():
    """Gwet (2008), table 4: 118, 5, 2 and 0 of 125; kappa says that nobody agrees."""
    cells = {(1, 1): 118, (1, 0): 5, (0, 1): 2, (0, 0): 0}
    rows = [pair for pair, count in cells.items() for _ in range(count)]
    found = values(agreement.label_agreement([j for _, j in rows], [h for h, _ in rows]))
    assert found["ac1"] == pytest.approx(0.9408, abs=5e-5)
    assert found["kappa"] == pytest.approx(-0.0234, abs=5e-5)


def test_the_best_constant_is_the_commonest_label():
    """Where people use one label, chance-corrected measures have none."""

    def constants(judge, human):
        found = agreement.label_agreement(judge, human).measures
        return [found[name].constant for name in ("accuracy", "kappa", "mcc", "alpha_nominal")]

    assert constants([1, 1, 0, 0, 1], [1, 1, 1, 0, 0])[:3] == [0.6, 0.0, None]
    assert constants([1, 0, 0, 0], [0, 0, 0, 0]) == [1, None, None, None]
    found = agreement.label_agreement([1, 1, 0, 0, 1], [1, 1, 1, 0, 0]).measures
    assert found["balanced_accuracy"].constant == 0.5
    assert found["f1"].constant == pytest.approx(2 * 0.6 / 1.6)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=6, max_size=40),
    st.randoms(use_true_random=False),
)
def test_order_of_rows_does_not_matter_and_intervals_hold_the_measure(rows, random):
    def found(some):
        judge, human = zip(*some, strict=True)
        return agreement.label_agreement(
            judge, human, labels="abc", ordered=True, bootstrap=50
        ).as_dict()

    shuffled = list(rows)
    random.shuffle(shuffled)
    first, second = found(rows), found(shuffled)
    assert first["confusion"] == second["confusion"]
    for name, one in first["measures"].items():
        assert one["value"] == second["measures"][name]["value"]
        if one["value"] is not None and one["ci"] is not None:
            low, high = one["ci"]
            assert low <= one["value"] <= high <= 1


def test_a_judge_without_errors_is_not_certain_and_more_sources_say_more():
    ends = []
    for sources in (8, 30, 100):
        human = np.tile([0, 1], sources)
        groups = np.repeat(np.arange(sources), 2)
        found = agreement.label_agreement(human, human, groups=groups, bootstrap=500).measures
        assert found["accuracy"].estimate.ends[1] == found["kappa"].estimate.ends[1] == 1
        ends.append((found["accuracy"].estimate.ends[0], found["kappa"].estimate.ends[0]))
    for lower in zip(*ends, strict=True):
        assert 0 < lower[0] < lower[1] < lower[2] < 1


def test_errors_that_come_together_make_the_interval_wider():
    human = np.tile([0, 1, 0, 1, 1], 20)
    groups = np.repeat(np.arange(20), 5)
    wrong = np.zeros(100, int)
    wrong[::5] = 1
    clustered = (groups < 4).astype(int)
    widths = []
    for errors in (wrong, clustered):
        judge = np.where(errors == 1, 1 - human, human)
        low, high = (
            agreement.label_agreement(judge, human, groups=groups, bootstrap=500)
            .measures["accuracy"].estimate.ends
        )  # fmt: skip
        widths.append(high - low)
    assert widths[1] > 1.5 * widths[0]


@pytest.mark.parametrize(
    ("sources", "size", "errors", "spread"),
    [(8, 8, 1, 0.2), (15, 8, 3, 0.2), (30, 8, 1, 0.0), (30, 1, 10, 0.0), (100, 1, 30, 0.0)],
)
def test_intervals_hold_for_few_errors(sources, size, errors, spread):
    """More of it, and the widths: `python -m benchmarks.coverage labels`."""
    world = World(sources, size, errors / (sources * size), spread)
    found = tally(intervals("labels", world), 100)
    for name in ("accuracy", "tpr", "tnr", "kappa"):
        assert found[name].draws - found[name].held <= 12, name


@pytest.mark.parametrize(
    ("judge", "labels", "problem"),
    [
        ([0, 2], ("no", "yes"), "must be whole numbers from 0 to 1, not 2"),
        ([0, 0.5], ("no", "yes"), "must be whole numbers from 0 to 1, not 0.5"),
        ([0, 0], ("no",), "2 to 50 labels, not 1"),
        ([0], ("no", "yes"), "equally long"),
    ],
)
def test_values_that_are_not_labels_are_refused(judge, labels, problem):
    with pytest.raises(DataError, match=problem):
        agreement.label_agreement(judge, [0, 1], labels=labels)


def test_few_sources_and_labels_that_hardly_occur_have_no_interval_and_a_note():
    found = agreement.label_agreement([0, 1, 1], [0, 1, 0], groups="aab", bootstrap=100)
    assert found.note == "no interval: needs at least 5 groups, found 2"
    assert not any(one.estimate.ends for one in found.measures.values())
    human = np.array([0] * 20 + [1] * 8 + [2] * 4)
    found = agreement.label_agreement(human, human, labels="abc", bootstrap=100)
    without = "macro_f1", "balanced_accuracy"
    assert [found.measures[name].estimate.ends for name in without] == [(), ()]
    assert found.measures["kappa"].estimate.ends
    assert "people gave some labels fewer than 5 times" in found.note
    more = agreement.label_agreement(
        np.append(human, 2), np.append(human, 2), labels="abc", bootstrap=9
    )
    assert (more.note, more.measures["macro_f1"].estimate.ends[1]) == (None, 1)


LABELED = [
    {"id": f"r{i}", "group": f"g{i}", "output": "x", "human": {"tone": tone, "right": right}}
    for i, (tone, right) in enumerate(
        [("rude", "pass"), ("Kind", "fail"), ("plain", "pass"), ("plain", "pass"),
         ("kind", "pass"), ("rude", "fail")]
    )
]  # fmt: skip


def test_labels_of_the_data_are_held_against_scores():
    names = ("rude", "plain", "kind")
    scores = {
        "tone": {f"r{i}": float(v) for i, v in enumerate([0, 2, 1, 0, 2, 0])},
        "right": {f"r{i}": float(v) for i, v in enumerate([1, 0, 1, 0, 1, 0])},
    }
    table = agreement.agreement_table(
        scores, LABELED, labels={"tone": LabelScale(names, ordered=True)}
    )
    tone, right = (row.agreement for row in table.labels)
    assert tone.confusion == ((2, 0, 0), (1, 1, 0), (0, 0, 2))
    assert (right.labels, right.confusion) == (("fail", "pass"), ((2, 0), (1, 3)))
    assert [row["aspect"] for row in table.as_dict()["labels"]] == ["tone", "right"]
    titles = [one.title for one in table.tables()]
    assert "labels of tone by people, and of tone by the judge" in titles
    # without an order they are not correlated, and ratings other than labels have no table
    nominal = agreement.agreement_table(
        {"tone": scores["tone"]}, LABELED, labels={"tone": LabelScale(names)}
    )
    assert (nominal.rows, len(nominal.labels)) == ((), 1)
    numbers = agreement.agreement_table({"right": {"r0": 1.0, "r1": 0.4}}, LABELED)
    assert (numbers.labels, "labels" in numbers.as_dict()) == ((), False)


def test_single_raters_vote_and_a_tie_is_not_a_label():
    rows = [
        {"id": "a", "output": "x", "annotators": {"right": ["yes", "yes", "no"]}},
        {"id": "b", "output": "x", "annotators": {"right": ["yes", "no", None]}},
        {"id": "c", "output": "x", "annotators": {"right": [False, False, True]}},
    ]
    scores = {"right": {"a": 1.0, "b": 1.0, "c": 0.0}}
    (row,) = agreement.agreement_table(scores, rows).labels
    assert (row.agreement.n, row.agreement.confusion) == (2, ((1, 0), (0, 1)))
    # what both judges are compared with in `compare` is the same
    found = label_difference(scores, scores, People(rows), bootstrap=0)
    assert {one.n for one in found} == {2}


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from([0.0, 1.0, 2.0, None]), max_size=4),
            st.sampled_from([0.0, 0.5, 1.7, None]),
        ),
        min_size=1,
    ),
    st.randoms(),
)
def test_the_label_of_people_is_the_one_of_most_raters(texts, random):
    ratings, means = map(list, zip(*texts, strict=True))
    scale = LabelScale(("a", "b", "c"))
    given_by = labels_given(ratings, means, scale)
    shuffled = [random.sample(one, len(one)) for one in ratings]
    assert labels_given(shuffled, means, scale) == given_by
    votes = [[vote for vote in one if vote is not None] for one in ratings]
    if not any(votes):
        are_all = {mean for mean in means if mean is not None}
        assert given_by == (means if are_all and are_all <= {0, 1, 2} else None)
        return
    for label, cast, mean in zip(given_by, votes, means, strict=True):
        if not cast:
            assert label == {0.0: 0, 1.7: 2}.get(mean)
        elif label is not None:
            assert all(cast.count(label) > cast.count(other) for other in set(cast) - {label})


def some_sets(rng, n=120, labels=4):
    human = (rng.random((n, labels)) < 0.4).astype(int)
    return np.where(rng.random(human.shape) < 0.15, 1 - human, human), human


def test_sets_are_measured_as_scikit_learn_does(rng):
    judge, human = some_sets(rng)
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


def test_sets_of_one_label_have_the_nominal_alpha_and_missing_sets_are_left_out(rng):
    judge, human = rng.integers(0, 3, 50), rng.integers(0, 3, 50)
    judge[:30] = human[:30]
    found = values(set_agreement(np.eye(3)[judge], np.eye(3)[human], labels="abc"))
    alpha = agreement.krippendorff_alpha(np.stack([judge, human], axis=1), level="nominal")
    assert found["alpha_masi"] == pytest.approx(alpha)
    assert found["jaccard"] == found["exact"] == np.mean(judge == human)
    gaps = [np.nan, np.nan]
    few = set_agreement([[1, 0], gaps, [0, 1]], [[1, 0], [1, 0], gaps], labels="ab")
    assert (few.n, few.coverage) == (1, 0.5)


def test_masi_weighs_what_sets_share():
    """Passonneau (2006): a part counts 2/3, an overlap 1/3 of the Jaccard index."""
    judge = [[1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 0]]
    human = [[1, 0, 0], [0, 1, 1], [0, 0, 1], [0, 0, 0]]
    distances = [1 - 1 / 2 * 2 / 3, 1 - 1 / 3 * 1 / 3, 0, 0]
    sets = np.concatenate([judge, human])

    def apart(a, b):
        shared, either = np.sum(a * b), np.sum(np.maximum(a, b))
        if shared == either:
            return 0
        within = 2 / 3 if shared == min(a.sum(), b.sum()) else 1 / 3
        return 1 - shared / either * (within if shared else 0)

    others = [(a, b) for i, a in enumerate(sets) for j, b in enumerate(sets) if i != j]
    expected = np.mean([apart(a, b) for a, b in others])
    found = values(set_agreement(judge, human, labels="abc"))
    assert found["alpha_masi"] == pytest.approx(1 - np.mean(distances) / expected)


@pytest.mark.parametrize(
    ("kind", "world"),
    [
        ("labels, difference", World(30, 8, 10 / 240, 0.2)),
        ("labels, sets", World(15, 8, 3 / 120, 0.2)),
        ("labels, threshold", World(30, 8, 10 / 240, 0.2)),
        ("labels of four", World(30, 1, 3 / 30, 0.0)),
        ("labels, brier", World(15, 8, 3 / 120, 0.2)),
    ],
)
def test_intervals_hold_what_they_should(kind, world):
    """More of it: `python -m benchmarks.coverage labels`."""
    found = tally(intervals(kind, world, truth_sources=4_000), 30)[KINDS[kind].names[0]]
    assert found.draws == 30
    assert found.held >= 25


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


def test_a_threshold_is_confirmed_on_sources_that_did_not_choose_it(rng):
    groups = np.repeat(np.arange(20), 5)
    human = rng.integers(0, 2, 100)
    found, cut = agreement_at(human + rng.normal(0, 0.4, 100), human, groups=groups)
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


def test_a_difference_is_that_of_the_two_agreements_and_turns_with_them(rng):
    human = rng.integers(0, 3, 60)
    a, b = (np.where(rng.random(60) < p, rng.integers(0, 3, 60), human) for p in (0.2, 0.5))
    n, found = compare_labels(a, b, human, labels="abc", bootstrap=100)
    other = compare_labels(b, a, human, labels="abc", bootstrap=100)[1]
    sides = [values(agreement.label_agreement(x, human, labels="abc")) for x in (a, b)]
    assert n == 60
    for name, one in found.items():
        assert one.difference.value == pytest.approx(sides[0][name] - sides[1][name])
        assert one.difference.value == pytest.approx(-other[name].difference.value)
        assert one.difference.low <= one.difference.value <= one.difference.high
        assert 0 < one.p <= 1
    # a row that one judge left out is left out for both
    n, found = compare_labels([1, None, 0, 1], [1, 1, 0, None], [1, 1, 0, 1])
    assert (n, found["accuracy"].difference) == (2, Estimate(0))


@given(
    st.floats(-1, 1),
    st.lists(st.lists(st.floats(-1, 1) | st.just(np.nan), min_size=1), min_size=1, max_size=2),
)
def test_an_interval_holds_what_was_found_and_most_of_each_part(value, parts):
    arrays = [np.array(part) for part in parts]
    low, high = with_interval(value, arrays).ends
    assert low <= value <= high
    for defined in (part[~np.isnan(part)] for part in arrays):
        assert np.sum((defined < low) | (defined > high)) <= 0.05 * len(defined) + 2


def test_a_mean_of_no_error_is_not_certain():
    low, high = mean_interval(np.zeros(30), np.arange(30)).ends
    assert low == 0 < high < 0.15
    assert mean_interval(np.zeros(4), np.arange(4)) == Estimate(0)


def test_words_are_categories_in_scores_and_ratings(tmp_path):
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
        table = agreement.agreement_table(source, data, aspect_map=["judge=intent"])
        (found,) = table.labels
        assert found.agreement.labels == ("complaint", "order", "Question")
        assert found.agreement.confusion == ((4, 0, 0), (0, 3, 1), (0, 0, 4))
        (row,) = table.as_dict()["rows"]
        assert (row["accuracy"], row["pearson"]) == (pytest.approx(11 / 12), None)
    numbers = {"judge": {"r0": 1.0, "r1": 2.0}}
    with pytest.raises(DataError, match="'intent' has labels such as 'complaint', and 'judge' has"):
        agreement.agreement_table(numbers, rows, aspect_map={"judge": "intent"})


def test_labels_are_common_to_all_pairs_that_share_a_side(tmp_path):
    """A word of the last aspect is a label of the first score, however many pairs lie between."""
    judges, aspects = [f"judge{at}" for at in range(6)], [f"aspect{at}" for at in range(6)]
    rows = [
        {"id": f"r{at}", "output": "x", "human": dict.fromkeys(aspects, word),
         "metrics": dict.fromkeys(judges, word)}
        for at, word in enumerate(["order", "question"] * 3)
    ]  # fmt: skip
    rows[0]["human"][aspects[-1]] = "complaint"
    pairs = [*zip(judges, aspects, strict=True), *zip(judges[1:], aspects, strict=False)]
    data = write_lines(tmp_path / "data.jsonl", rows)
    table = agreement.agreement_table(data, data, aspect_map=[f"{a}={b}" for a, b in pairs])
    assert len(table.labels) == len(pairs)
    assert {found.agreement.labels for found in table.labels} == {
        ("complaint", "order", "question")
    }


def test_scores_are_cut_where_people_said_pass_or_fail():
    rows = [
        {"id": f"r{at}", "group": f"g{at // 2}", "output": "x", "human": {"ok": word}}
        for at, word in enumerate(["pass", "fail"] * 20)
    ]
    scores = {"judge": {f"r{at}": 4.5 - at % 2 for at in range(40)}}
    table = agreement.agreement_table(scores, rows, aspect_map={"judge": "ok"}, threshold="auto")
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
    table = agreement.agreement_table(
        scores, rows, labels={"tone": LabelScale(("rude", "kind", "plain"))}, raters=True
    )
    *_, raters = table.tables()
    (line,) = raters.rows
    shown = dict(zip((column.name for column in raters.columns), line, strict=True))
    assert (shown["ordinal"], shown["between_raters"]) == (None, pytest.approx(2 / 3))
    alpha = agreement.krippendorff_alpha([[0, 0], [1, 2], [2, 2]], level="nominal")
    assert shown["alpha"] == pytest.approx(alpha)


def test_the_area_under_the_curve_is_that_of_scikit_learn(rng):
    human = rng.integers(0, 2, 300)
    scores = np.round(np.clip(0.3 * human + rng.random(300) * 0.7, 0, 1), 1)
    groups = [f"g{at // 3}" for at in range(300)]
    found, _ = agreement_at(scores, human, threshold=0.5, groups=groups, bootstrap=2000)
    area = found.measures["auc"]
    assert area.value == pytest.approx(metrics.roc_auc_score(human, scores), abs=1e-12)
    assert area.estimate.ends[0] < area.value < area.estimate.ends[1]
    assert area.constant == 0.5
    # it depends on the order alone, and the interval has the width of DeLong's
    turned, _ = agreement_at(-(scores**3), human, threshold=0.1, groups=groups)
    assert turned.measures["auc"].value == pytest.approx(1 - area.value)
    yes, no = scores[human == 1][:, None], scores[human == 0][None]
    wins = (yes > no) + (yes == no) / 2
    error = np.sqrt(sum(wins.mean(axis=at).var(ddof=1) / wins.shape[1 - at] for at in (0, 1)))
    assert area.estimate.half_width == pytest.approx(1.96 * error, rel=0.15)


@pytest.mark.parametrize(("strength", "sources", "texts"), [(0.5, 30, 1), (2.0, 20, 4)])
def test_intervals_of_the_area_hold_the_truth(strength, sources, texts):
    rng, held, draws = np.random.default_rng(0), 0, 100

    def draw(number):
        human = (rng.random((number, texts)) < 0.4).astype(float)
        shared, own = rng.normal(0, 0.7, (number, 1)), rng.normal(0, 0.7, (number, texts))
        return (strength * human + shared + own).ravel(), human.ravel()

    scores, human = draw(20_000)
    truth = metrics.roc_auc_score(human, scores)
    groups = np.repeat(np.arange(sources), texts).tolist()
    for _ in range(draws):
        found, _ = agreement_at(*draw(sources), threshold=0.0, groups=groups, bootstrap=300)
        low, high = found.measures["auc"].estimate.ends
        held += low <= truth <= high
    # a true coverage of .95 gives less than .88 in one of 200 such tests
    assert held / draws >= 0.88


def test_without_a_text_of_each_label_there_is_no_area():
    found, _ = agreement_at([0.1, 0.9], [1, 1], threshold=0.5, bootstrap=100)
    assert found.measures["auc"].estimate == Estimate(None)
    perfect, _ = agreement_at(np.linspace(0, 1, 40), [0] * 20 + [1] * 20, threshold=0.3,
                              bootstrap=300)  # fmt: skip
    assert perfect.measures["auc"].value == perfect.measures["auc"].estimate.ends[1] == 1.0
    assert 0.8 < perfect.measures["auc"].estimate.ends[0] < 1


def test_the_area_of_jevs_probabilities_is_as_computed_elsewhere(tmp_path):
    """Of all 1,500 answers on PubMedQA: .963."""
    rows = [
        {"id": f"{row['id']}/{row['repeat']}", "group": row["id"], "human": row["human"],
         "metrics": row["probabilities"]}
        for row in benchmark("jevals/jev_pubmedqa.jsonl.gz")
    ]  # fmt: skip
    data = write_lines(tmp_path / "data.jsonl", rows)
    (row,) = document("agreement", data, data, "--threshold", "0.5")["rows"]
    assert row["auc"] == pytest.approx(0.963, abs=5e-4)
    assert row["ci"]["auc"][0] < row["auc"] < row["ci"]["auc"][1]


def test_the_area_of_a_recorded_detector_is_that_of_scikit_learn():
    file, name = "faithbench/faithbench.jsonl.gz", "hhem-2.1-english/detector/faithful"
    rows = benchmark(file)
    given = [row["human"]["faithful"] for row in rows]
    area = metrics.roc_auc_score(given, [row["metrics"][name] for row in rows])
    flags = ("--field", "spans=meta", "--aspect-map", f"{name}=faithful", "--threshold", "0.5")
    (row,) = document("agreement", FOLDER / file, FOLDER / file, *flags)["rows"]
    assert row["auc"] == pytest.approx(area, abs=1e-12)
    assert round(area, 2) == 0.62  # .620 of the 748 rows with three more judges

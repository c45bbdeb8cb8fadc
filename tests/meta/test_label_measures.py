"""Agreement of labels: every measure against scikit-learn, and intervals that hold."""

import gzip
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.coverage_labels import draw
from tests.benchmark_data import FOLDER, benchmark
from textassay import meta
from textassay.calibration.columns import People
from textassay.calibration.compare_runs import label_difference
from textassay.runtime.errors import DataError
from textassay.runtime.labels import LabelScale, labels_given

metrics = pytest.importorskip("sklearn.metrics", reason="needs scikit-learn")
RNG = np.random.default_rng(3)


def some_labels(count, n=200):
    """People's labels, and a judge's that differ in a third of the rows."""
    human = RNG.integers(0, count, n)
    other = RNG.integers(0, count, n)
    return np.where(RNG.random(n) < 0.66, human, other), human


def values(found):
    return {name: one.value for name, one in found.measures.items()}


def test_two_labels_are_measured_as_scikit_learn_does():
    judge, human = some_labels(2)
    found = values(meta.label_agreement(judge, human))
    assert found == pytest.approx(
        {
            "accuracy": metrics.accuracy_score(human, judge),
            "balanced_accuracy": metrics.balanced_accuracy_score(human, judge),
            "tpr": metrics.recall_score(human, judge),
            "tnr": metrics.recall_score(human, judge, pos_label=0),
            "precision": metrics.precision_score(human, judge),
            "f1": metrics.f1_score(human, judge),
            "mcc": metrics.matthews_corrcoef(human, judge),
            "kappa": metrics.cohen_kappa_score(human, judge),
            "ac1": found["ac1"],
            "alpha_nominal": meta.krippendorff_alpha(
                np.stack([human, judge], axis=1), level="nominal"
            ),
        }
    )


def test_ordered_labels_are_measured_as_scikit_learn_does():
    judge, human = some_labels(4)
    names = ("rude", "cold", "plain", "kind")
    whole = meta.label_agreement(judge, human, labels=names, ordered=True)
    assert np.array_equal(whole.confusion, metrics.confusion_matrix(human, judge))
    found = values(whole)
    both = np.stack([human, judge], axis=1)
    assert found == pytest.approx(
        {
            "accuracy": metrics.accuracy_score(human, judge),
            "balanced_accuracy": metrics.balanced_accuracy_score(human, judge),
            "macro_f1": metrics.f1_score(human, judge, average="macro"),
            "mcc": metrics.matthews_corrcoef(human, judge),
            "kappa": metrics.cohen_kappa_score(human, judge),
            "kappa_linear": metrics.cohen_kappa_score(human, judge, weights="linear"),
            "kappa_quadratic": metrics.cohen_kappa_score(human, judge, weights="quadratic"),
            "ac1": found["ac1"],
            "alpha_nominal": meta.krippendorff_alpha(both, level="nominal"),
            "alpha_ordinal": meta.krippendorff_alpha(both, level="ordinal"),
        }
    )
    unordered = values(meta.label_agreement(judge, human, labels=names))
    assert unordered.keys() == found.keys() - {
        "kappa_linear", "kappa_quadratic", "alpha_ordinal",
    }  # fmt: skip


def test_ac1_and_kappa_are_those_of_gwets_example():
    """Gwet (2008), table 4: 118, 5, 2 and 0 of 125; kappa says that nobody agrees."""
    cells = {(1, 1): 118, (1, 0): 5, (0, 1): 2, (0, 0): 0}
    rows = [pair for pair, count in cells.items() for _ in range(count)]
    found = values(meta.label_agreement([j for _, j in rows], [h for h, _ in rows]))
    assert found["ac1"] == pytest.approx(0.9408, abs=5e-5)
    assert found["kappa"] == pytest.approx(-0.0234, abs=5e-5)


def test_the_best_constant_is_the_commonest_label():
    found = meta.label_agreement([1, 1, 0, 0, 1], [1, 1, 1, 0, 0]).measures
    constants = {name: one.constant for name, one in found.items()}
    assert constants["accuracy"] == 0.6
    assert constants["balanced_accuracy"] == 0.5
    assert constants["f1"] == pytest.approx(2 * 0.6 / 1.6)
    assert (constants["kappa"], constants["mcc"]) == (0.0, None)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=6, max_size=40),
    st.randoms(use_true_random=False),
)
def test_order_of_rows_does_not_matter_and_intervals_hold_the_measure(rows, random):
    def found(some):
        judge, human = zip(*some, strict=True)
        return meta.label_agreement(
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
        found = meta.label_agreement(human, human, groups=groups, bootstrap=500).measures
        assert found["accuracy"].ci[1] == found["kappa"].ci[1] == 1
        ends.append((found["accuracy"].ci[0], found["kappa"].ci[0]))
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
            meta.label_agreement(judge, human, groups=groups, bootstrap=500)
            .measures["accuracy"].ci
        )  # fmt: skip
        widths.append(high - low)
    assert widths[1] > 1.5 * widths[0]


@pytest.mark.parametrize(
    ("sources", "size", "errors", "spread"),
    [(8, 8, 1, 0.2), (15, 8, 3, 0.2), (30, 8, 1, 0.0), (30, 1, 10, 0.0), (100, 1, 30, 0.0)],
)
def test_intervals_hold_for_few_errors(sources, size, errors, spread):
    """More of it, and the widths: `benchmarks/coverage_labels.py`."""
    wrong = errors / (sources * size)
    rng = np.random.default_rng(1)
    truth = values(meta.label_agreement(*draw(40_000, size, wrong, spread, rng)[:2]))
    held = dict.fromkeys(("accuracy", "tpr", "tnr", "kappa"), 0)
    for number in range(100):
        judge, human, groups = draw(sources, size, wrong, spread, rng)
        found = meta.label_agreement(judge, human, groups=groups, bootstrap=300, seed=number)
        for name in held:
            span = found.measures[name].ci
            held[name] += span is None or span[0] <= truth[name] <= span[1]
    assert min(held.values()) >= 88, held


@pytest.mark.parametrize(
    ("judge", "labels", "problem"),
    [
        ([0, 2], ("no", "yes"), "must be whole numbers from 0 to 1, not 2"),
        ([0, 0.5], ("no", "yes"), "must be whole numbers from 0 to 1, not 0.5"),
        ([0, 0], ("no",), "2 to 50 labels, not 1"),
        ([0], ("no", "yes"), "equally long"),
    ],
)
def test_what_is_no_label_is_refused(judge, labels, problem):
    with pytest.raises(DataError, match=problem):
        meta.label_agreement(judge, [0, 1], labels=labels)


def test_few_sources_have_no_interval_and_a_note():
    found = meta.label_agreement([0, 1, 1], [0, 1, 0], groups="aab", bootstrap=100)
    assert found.note == "no interval: needs at least 5 groups, found 2"
    assert all(one.ci is None for one in found.measures.values())


@pytest.mark.parametrize(("system", "agreement"), [("GPT-Pilot", 0.866), ("OpenHands", 324 / 359)])
def test_devai_has_the_published_agreement(tmp_path, system, agreement):
    """Zhuge et al. (2024), table 3: a recorded judge and people, on yes and no."""
    rows = [row for row in benchmark("devai/devai.jsonl.gz") if row["system"] == system]
    file = tmp_path / "devai.jsonl.gz"
    file.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    table = meta.agreement_table(
        file, file, aspect_map={"agent_as_a_judge": "satisfied"}, bootstrap=200
    )
    (found,) = table.labels
    assert found.agreement.n == 359
    measures = found.agreement.measures
    assert measures["accuracy"].value == pytest.approx(agreement, abs=5e-4)
    low, high = measures["accuracy"].ci
    assert agreement - 0.06 < low < agreement < high < agreement + 0.06
    for name in ("tpr", "tnr", "kappa"):
        assert measures[name].ci[0] < measures[name].value < measures[name].ci[1]
    assert FOLDER.exists()


LABELED = [
    {"id": f"r{i}", "group": f"g{i}", "output": "x", "human": {"tone": tone, "right": right}}
    for i, (tone, right) in enumerate(
        [("rude", "pass"), ("Kind", "fail"), ("plain", "pass"), ("plain", "pass"),
         ("kind", "pass"), ("rude", "fail")]
    )
]  # fmt: skip


def test_labels_of_the_data_are_held_against_scores():
    scores = {
        "tone": {f"r{i}": float(v) for i, v in enumerate([0, 2, 1, 0, 2, 0])},
        "right": {f"r{i}": float(v) for i, v in enumerate([1, 0, 1, 0, 1, 0])},
    }
    table = meta.agreement_table(
        scores, LABELED, labels={"tone": LabelScale(("rude", "plain", "kind"), ordered=True)}
    )
    tone, right = table.labels
    assert tone.agreement.confusion == ((2, 0, 0), (1, 1, 0), (0, 0, 2))
    assert (right.agreement.labels, right.agreement.confusion) == (
        ("fail", "pass"),
        ((2, 0), (1, 3)),
    )
    assert [row["aspect"] for row in table.as_dict()["labels"]] == ["tone", "right"]
    titles = [one.title for one in table.tables()]
    assert "labels of tone by people, and of tone by the judge" in titles


def test_categories_without_an_order_are_not_correlated():
    scores = {"tone": {f"r{i}": float(i % 3) for i in range(6)}}
    table = meta.agreement_table(
        scores, LABELED, labels={"tone": LabelScale(("rude", "plain", "kind"))}
    )
    assert (table.rows, len(table.labels)) == ((), 1)


def test_single_raters_vote_and_a_tie_is_no_label():
    rows = [
        {"id": "a", "output": "x", "annotators": {"right": ["yes", "yes", "no"]}},
        {"id": "b", "output": "x", "annotators": {"right": ["yes", "no", None]}},
        {"id": "c", "output": "x", "annotators": {"right": [False, False, True]}},
    ]
    scores = {"right": {"a": 1.0, "b": 1.0, "c": 0.0}}
    (row,) = meta.agreement_table(scores, rows).labels
    assert (row.agreement.n, row.agreement.confusion) == (2, ((1, 0), (0, 1)))
    # what both judges are compared with in `compare` is the same
    found = label_difference(scores, scores, People(rows), bootstrap=0)
    assert {one["n"] for one in found} == {2}


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
def test_the_label_that_people_gave_is_most_raters_whoever_they_are(texts, random):
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


def test_ratings_that_are_no_labels_have_no_table_of_labels():
    scores = {"right": {"a": 1.0, "b": 0.4}}
    rows = [{"id": name, "output": "x", "human": {"right": 1}} for name in "ab"]
    table = meta.agreement_table(scores, rows)
    assert table.labels == ()
    assert "labels" not in table.as_dict()


def test_a_mean_over_labels_that_hardly_occur_has_no_interval():
    human = np.array([0] * 20 + [1] * 8 + [2] * 4)
    found = meta.label_agreement(human, human, labels="abc", bootstrap=100)
    assert found.measures["macro_f1"].ci is None is found.measures["balanced_accuracy"].ci
    assert found.measures["kappa"].ci is not None
    assert "people gave some labels fewer than 5 times" in found.note
    more = meta.label_agreement(np.append(human, 2), np.append(human, 2), labels="abc", bootstrap=9)
    assert (more.note, more.measures["macro_f1"].ci[1]) == (None, 1)


def test_there_is_no_best_constant_of_chance_corrected_measures_if_people_use_one_label():
    """The constant that says this label agrees always; no other is a trivial measure to beat."""
    found = meta.label_agreement([1, 0, 0, 0], [0, 0, 0, 0]).measures
    constants = {name: one.constant for name, one in found.items()}
    assert constants["accuracy"] == 1
    assert (constants["alpha_nominal"], constants["kappa"], constants["mcc"]) == (None, None, None)

"""Agreement at the three levels, on numbers by hand and on the benchmark's published ones."""

import math

import numpy as np
import pytest
import scipy.stats

from tests.benchmark_data import benchmark
from textassay import meta
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName


def test_three_levels_by_hand():
    """Two documents by three systems, and a third document on which the judge says 3 to all."""
    scores = [1, 2, 3, 3, 2, 1, 3, 3, 3]
    human = [1, 2, 4, 1, 2, 4, 1, 2, 3]
    groups, systems = list("aaabbbccc"), list("xyzxyzxyz")
    at = {
        level: meta.correlate(scores, human, groups=groups, systems=systems, level=level)
        for level in ("dataset", "group", "system")
    }
    assert (at["group"].groups, at["group"].groups_skipped) == (2, 1)
    assert at["group"].kendall == 0  # +1 in document a, -1 in b, c does not count
    assert at["group"].pearson == pytest.approx(0, abs=1e-15)
    assert at["system"].systems == 3
    # means of the systems: scores 7/3 each, so no order
    assert (at["system"].pearson, at["system"].spearman, at["system"].kendall) == (None, None, None)
    assert at["dataset"].pearson == pytest.approx(scipy.stats.pearsonr(scores, human).statistic)
    assert (at["dataset"].groups, at["dataset"].groups_skipped, at["dataset"].n) == (3, 0, 9)


def test_rows_without_both_numbers_are_left_out_and_counted():
    """Unscored rows lower the coverage; unrated rows do not."""
    found = meta.correlate([1, None, 3, float("nan"), 5, 9], [1, 2, 3, 4, 4, None])
    assert found.n == 3
    assert found.coverage == 3 / 5
    assert found.spearman == 1


def test_nothing_rated_is_undefined_not_zero():
    found = meta.correlate([1, 2], [None, None])
    assert (found.n, found.coverage, found.pearson, found.spearman, found.kendall) == (
        0,
        None,
        None,
        None,
        None,
    )


def test_all_groups_constant_is_undefined():
    found = meta.correlate(
        [1, 1, 2, 2], [1, 2, 1, 2], groups=["a", "a", "b", "b"], level="group", bootstrap=50
    )
    assert (found.groups, found.groups_skipped, found.pearson) == (0, 2, None)
    assert found.ci == {"pearson": None, "spearman": None, "kendall": None}


def test_system_means_do_not_break_ties():
    """Ten times 0.1 against one 0.1: a running sum calls the means different, and the tau
    changes."""
    scores = [0.1] * 10 + [0.1] + [0.5]
    running = 0.0
    for score in scores[:10]:  # from Python 3.12 on, `sum` no longer loses digits
        running += score
    assert running / 10 != 0.1
    found = meta.correlate(
        scores, [1.0] * 10 + [2.0] + [3.0], systems=["a"] * 10 + ["b"] + ["c"], level="system"
    )
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
def test_what_cannot_be_done_says_why(arguments, error, says):
    with pytest.raises(error, match=says):
        meta.correlate([1, 2, 3], [1, 2, 3], **arguments)


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
    """Recorded GPT-4 scores give the numbers of their publication, at data set and at document
    level."""
    rows = benchmark("summeval/summeval.jsonl.gz")
    scores = [row["metrics"].get(f"gpt-4-0314/rts/{aspect}") for row in rows]
    human = [row["human"][aspect] for row in rows]
    groups = [row["group"] for row in rows]
    pooled = meta.correlate(scores, human, groups=groups)
    assert (pooled.n, pooled.coverage) == (1200, 0.75)
    assert pooled.pearson == pytest.approx(dataset, abs=5e-4)
    per_document = meta.correlate(scores, human, groups=groups, level="group")
    assert per_document.pearson == pytest.approx(group, abs=5e-4)
    assert (per_document.groups, per_document.groups_skipped) == (100 - skipped, skipped)


def test_two_systems_have_no_coefficient():
    """Two points lie on a line whatever they are, so 1 and -1 would say nothing."""
    systems = list("xyxyxyxyxyxy")
    found = meta.correlate(
        range(12),
        range(12),
        systems=systems,
        level="system",
        bootstrap=10,
        groups=list("abcdef") * 2,
    )
    assert (found.pearson, found.spearman, found.kendall) == (None, None, None)
    assert found.note is not None
    assert "needs at least 3 systems, found 2" in found.note


def test_system_level_tau_is_a_fraction_of_the_pairs():
    """16 systems make 120 pairs, and the experts' means tie once in fluency and once in the overall
    score.

    So tau-b is k/120 for coherence and k/sqrt(119 * 120) for the two with a tie, with whole k. A
    running sum would break the tie in the overall score.
    """
    rows = benchmark("summeval/summeval.jsonl.gz")
    systems = [row["system"] for row in rows]
    metric = [row["metrics"]["computed/rouge1_f"] for row in rows]
    aspects = ("coherence", "consistency", "fluency", "relevance")
    for aspect, pairs in (
        ("coherence", 120),
        ("fluency", math.sqrt(119 * 120)),
        ("overall", math.sqrt(119 * 120)),
    ):
        if aspect == "overall":
            human = [math.fsum(row["human"][name] for name in aspects) / 4 for row in rows]
        else:
            human = [row["human"][aspect] for row in rows]
        tau = meta.correlate(metric, human, systems=systems, level="system").kendall
        assert tau * pairs == pytest.approx(round(tau * pairs), abs=1e-9)
        assert abs(tau * 120 - round(tau * 120)) < 1e-9 or pairs != 120


def test_topical_chat_groundedness_skips_six_dialogues():
    rows = benchmark("topical_chat/topical_chat.jsonl")
    human = [row["human"]["groundedness"] for row in rows]
    noise = np.random.default_rng(0).normal(size=len(rows))
    found = meta.correlate(noise, human, groups=[row["group"] for row in rows], level="group")
    assert (found.groups, found.groups_skipped) == (54, 6)

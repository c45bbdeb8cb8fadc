"""How agreement changes with the number of samples of a text."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmark_data import FOLDER, benchmark
from tests.cli.harness import document, textassay, write_lines
from textassay import agreement
from textassay.agreement.choice import choice_agreement
from textassay.agreement.records import RecordedRow, RecordedScores
from textassay.agreement.samples import choices_by_samples, correlations_by_samples, draw_scores

ratings = st.lists(st.integers(1, 5).map(float), max_size=6)


@given(st.lists(ratings, min_size=1, max_size=6), st.integers(0, 9))
def test_scores_are_means_of_a_texts_own_ratings_and_of_all_if_it_has_no_more(samples, seed):
    counts = [1, 2, 9]
    one, two, nine = draw_scores(samples, counts, seed)
    for draw in range(len(one)):
        for row, own in enumerate(samples):
            if not own:
                assert np.isnan([one[draw][row], two[draw][row], nine[draw][row]]).all()
                continue
            assert one[draw][row] in own
            pairs = [sum(pair) / 2 for pair in combinations(own, 2)]
            assert two[draw][row] in (pairs or own)
            assert nine[draw][row] == pytest.approx(np.mean(own))
            # what is drawn first is part of the larger draw
            if len(own) > 1:
                assert 2 * two[draw][row] - one[draw][row] in own


def made(texts=60, samples=6, seed=0):
    rng = np.random.default_rng(seed)
    quality = rng.normal(0, 1, texts)
    rated = np.clip(np.round(3 + quality + rng.normal(0, 0.5, texts)), 1, 5)
    judged = 3 + quality[:, None] + rng.normal(0, 1.5, (texts, samples))
    return np.clip(np.round(judged), 1, 5), rated, [f"g{at // 3}" for at in range(texts)]


@pytest.mark.parametrize("sizes", ["equal", "unequal"])
def test_with_all_samples_agreement_is_that_of_the_scores(sizes):
    samples, human, groups = made()
    if sizes == "unequal":
        groups[3:9] = ["g0"] * 6
    found = list(correlations_by_samples(samples.tolist(), human, [1, 6], groups=groups))
    whole = agreement.correlate(samples.mean(axis=1), human, groups=groups, bootstrap=1000)
    for row in (one for one in found if one.samples == 6):
        assert row.value.value == pytest.approx(getattr(whole, row.measure))
        assert (row.value.low, row.value.high) == pytest.approx(whole.ci[row.measure].ends)
        assert row.gain.low > 0  # noisy samples: the mean of six is better than one
    assert all(one.gain.value is None for one in found if one.samples == 1)
    assert {one.n for one in found} == {60}


def test_choices_are_the_mean_over_all_ways_to_draw():
    """Two texts with ratings 1 or 3, and 2 or 2: one sample is right in half of the draws."""
    groups, texts = 300, [[1.0, 3.0, 3.0], [2.0, 2.0, 3.0]]
    expected = {}
    for count in (1, 2, 3):
        drawn = [[np.mean(own) for own in combinations(one, count)] for one in texts]
        hits = [(a > b) + (a == b) / 2 for a, b in product(*drawn)]
        expected[count] = np.mean(hits)
    samples, human = texts * groups, np.tile([1.0, 0.0], groups)
    names = np.repeat(np.arange(groups), 2).tolist()
    counts = [1, 2, 3]
    found = list(choices_by_samples(draw_scores(samples, counts, 0), human, counts, names))
    shares = {one.samples: one.value.value for one in found if one.measure == "choice"}
    assert shares == pytest.approx(expected, abs=0.02)
    whole = choice_agreement([np.mean(one) for one in samples], human, names)
    assert shares[3] == whole.choice.value
    gains = [one.gain for one in found if one.measure == "choice"]
    assert [one.value for one in gains][1:] == pytest.approx([shares[2] - shares[1],
                                                              shares[3] - shares[1]])  # fmt: skip


def score_lines(samples):
    return [
        {"id": f"t{at}", "aspect": "good", "value": float(np.mean(own)),
         "evidence": [{"text": "usable", "ratings": list(own)}]}
        for at, own in enumerate(samples.tolist())
    ]  # fmt: skip


@pytest.fixture
def files(tmp_path):
    samples, human, groups = made()
    rows = [
        {"id": f"t{at}", "group": group, "human": {"good": rating}, "half": "ab"[at < 30]}
        for at, (rating, group) in enumerate(zip(human.tolist(), groups, strict=True))
    ]
    scores = write_lines(tmp_path / "scores.jsonl", score_lines(samples))
    return scores, write_lines(tmp_path / "data.jsonl", rows)


def test_the_command_shows_each_number_of_samples_also_by_subset(files):
    flags = ("--level", "dataset,group", "--samples", "6,1,3", "--by", "half", "--bootstrap", 50)
    found = document("agreement", *files, *flags)
    measures = ["pearson", "spearman", "kendall", "choice", "strict", "tied"]
    shown = [(one["measure"], one["samples"]) for one in found["samples"]]
    assert shown == [(measure, count) for measure in measures for count in (1, 3, 6)]
    whole = found["rows"][0]
    assert found["samples"][2]["value"]["value"] == pytest.approx(whole["pearson"])
    assert found["subsets"]["a"]["samples"][0]["n"] == 30
    printed = textassay("agreement", *files, *flags).ok()
    assert "agreement by number of samples, by half" in printed.out
    assert "gain: over 1 of them" in printed.err


@pytest.mark.parametrize(
    ("typed", "says"),
    [("1,9", "numbers from 1 to 6"), ("0,3", "numbers from 1 to 6"), ("some", "such as 1,3,8")],
)
def test_a_number_of_samples_that_no_text_has_is_refused(files, typed, says):
    textassay("agreement", *files, "--samples", typed).ends(2, says)


def test_scores_without_samples_are_refused_and_a_later_line_replaces_its_samples(files):
    textassay("agreement", files[1], files[1], "--samples", "1").ends(2)
    values = {"good": {f"t{at}": 1.0 for at in range(60)}}
    with pytest.raises(Exception, match="no ratings of several samples"):
        agreement.agreement_table(values, files[1], samples=[1])
    scores = RecordedScores()
    for evidence in ([], [{"text": "a", "ratings": "12"}], ["a"]):
        for one in ([{"text": "a", "ratings": [1, 2]}], evidence):
            scores.add(RecordedRow("good", "t0", 1.5, {"evidence": one}))
            kept = {} if one is evidence else {"t0": (1.0, 2.0)}
            assert scores.samples["good"] == kept


def test_one_three_and_eight_samples_of_rewardbench_2_are_as_enumerated(tmp_path):
    """Enumerated over all draws: .7957, .8231 and .8356 (strict .7213, .7884, .8193)."""
    name = "gpt-5.4/base/best"
    rows = benchmark("rewardbench2/rewardbench2.jsonl.gz")
    lines = [
        {"id": row["id"], "aspect": "best", "value": row["metrics"].get(name),
         "evidence": [{"ratings": [one for one in row["samples"].get(name) or () if one]}]}
        for row in rows
    ]  # fmt: skip
    scores = write_lines(tmp_path / "scores.jsonl", lines)
    data = FOLDER / "rewardbench2/rewardbench2.jsonl.gz"
    found = document("agreement", scores, data, "--level", "group", "--samples", "1,3,8")
    values = {(one["measure"], one["samples"]): one["value"]["value"] for one in found["samples"]}
    assert values["choice", 8] == pytest.approx(0.8356, abs=5e-5)
    figures = [values[measure, count] for measure in ("choice", "strict") for count in (1, 3)]
    assert figures == pytest.approx([0.7957, 0.8231, 0.7213, 0.7884], abs=0.003)

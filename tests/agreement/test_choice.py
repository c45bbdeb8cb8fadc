"""How often a score puts first what people find best: in groups, pairs and subsets."""

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaincinv

from tests.benchmark_data import FOLDER, benchmark
from tests.cli.harness import document, textassay, write_lines
from textassay import agreement
from textassay.agreement.choice import choice_agreement, compare_choices, share_interval
from textassay.agreement.labels import agreement_at
from textassay.runtime.errors import ConfigurationError
from textassay.table import Estimate

REWARDBENCH, LLMBAR = "rewardbench2/rewardbench2.jsonl.gz", "llmbar/llmbar.jsonl.gz"

groups_of_texts = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=2, max_size=5),
    min_size=1,
    max_size=8,
)


@given(groups_of_texts)
def test_ties_share_the_choice_as_if_one_of_the_first_were_drawn(groups):
    rows = [(at, *text) for at, group in enumerate(groups) for text in group]
    found = choice_agreement([r[1] for r in rows], [r[2] for r in rows], [r[0] for r in rows])
    expected, strict = [], []
    for group in groups:
        most = max(human for _, human in group)
        if all(human == most for _, human in group):
            continue
        first = [human == most for score, human in group if score == max(s for s, _ in group)]
        expected.append(sum(first) / len(first))
        strict.append(all(first))
    assert (found.n, found.undecided) == (len(expected), len(groups) - len(expected))
    if expected:
        assert found.choice.value == pytest.approx(np.mean(expected))
        assert found.strict.value == pytest.approx(np.mean(strict))
        assert found.strict.value <= found.choice.value + 1e-12


def test_a_group_with_an_unscored_text_is_counted_and_left_out_and_an_unrated_text_takes_no_part():
    scores, human = [2, 1, None, 3, 1, 9, 1, 0], [1, 0, 1, 0, 1, None, 0, 0]
    found = choice_agreement(scores, human, ["a", "a", "b", "b", "c", "c", "c", "d"])
    assert (found.n, found.texts, found.unscored, found.undecided) == (2, 4, 1, 0)
    assert found.choice.value == 0.75  # right in a, tied in c
    assert (found.strict.value, found.tied, found.choice.constant) == (0.5, 0.5, 0.5)


def test_the_interval_is_students_over_groups_and_wider_if_groups_belong_together():
    rng = np.random.default_rng(0)
    right = rng.random(40) < 0.6
    scores = [value for one in right for value in (float(one), float(not one))]
    human, groups = [1.0, 0.0] * 40, np.repeat(np.arange(40), 2).tolist()
    alone = choice_agreement(scores, human, groups).choice
    half = 2.0226909 * np.std(right, ddof=1) / 40**0.5
    expected = pytest.approx((right.mean() - half, right.mean() + half), abs=1e-6)
    assert alone.estimate.ends == expected
    # four groups that are always alike are one
    alike = np.repeat(right[:20], 4)
    scores = [value for one in alike for value in (float(one), float(not one))]
    human, groups = [1.0, 0.0] * 80, np.repeat(np.arange(80), 2).tolist()
    apart = choice_agreement(scores, human, groups).choice.estimate.ends
    units = np.repeat(np.arange(20), 8).tolist()
    together = choice_agreement(scores, human, groups, units=units).choice.estimate.ends
    assert together[1] - together[0] > 1.9 * (apart[1] - apart[0])


def test_twenty_right_choices_do_not_make_a_certain_judge():
    found = choice_agreement([1, 0] * 20, [1, 0] * 20, np.repeat(np.arange(20), 2).tolist())
    low, high = found.choice.estimate.ends
    assert high == 1
    assert 0.85 < low < 0.95
    few = choice_agreement([1, 0] * 14, [1, 0] * 14, np.repeat(np.arange(14), 2).tolist())
    assert not few.choice.estimate.ends
    assert "at least 15 groups" in few.note


def test_judges_are_compared_on_the_groups_that_both_scored():
    human, groups = [1, 0] * 20, np.repeat(np.arange(20), 2).tolist()
    a, b = [1, 0] * 20, [0, 1] * 5 + [1, 0] * 15
    b[-1] = None
    n, found = compare_choices(a, b, human, groups)
    delta = found["choice"]
    assert (n, delta.a, delta.b) == (19, 1.0, pytest.approx(14 / 19))
    assert delta.difference.low < delta.difference.value < delta.difference.high
    assert 0 < delta.p < 0.05
    same = compare_choices(a, a, human, groups)[1]["choice"]
    assert (same.difference, same.p) == (Estimate(0), 1.0)


def pairs(verdicts):
    """Pairs of texts of which people prefer one, and a judge's value for the first."""
    return [
        {"id": f"p{i}", "output": "a text", "output_b": "another", "source": f"question {i}",
         "human": {"better": human}, "metrics": {"better": value}, "set": kind}
        for i, (human, value, kind) in enumerate(verdicts)
    ]  # fmt: skip


@pytest.mark.parametrize("level", ["dataset", "group"])
def test_pairs_are_groups_of_two_whose_flips_count_half(level):
    rows = pairs([*product((0, 1), (0, 0.5, 1), "xy"), (0.5, 1, "x")])
    scores = {"better": {row["id"]: row["metrics"]["better"] for row in rows}}
    table = agreement.agreement_table(scores, rows, levels=[level])
    (row,) = table.choices
    own = row.agreement
    assert (own.n, own.undecided, own.choice.value, own.tied) == (12, 1, 0.5, pytest.approx(1 / 3))
    assert own.strict.value == pytest.approx(1 / 3)
    assert own.choice.constant == 0.5


def test_the_best_constant_of_pairs_is_always_the_same_side():
    rows = pairs([(1, 1, "x")] * 3 + [(0, 1, "x")])
    scores = {"better": {row["id"]: 1.0 for row in rows}}
    (row,) = agreement.agreement_table(scores, rows).choices
    assert (row.agreement.choice.value, row.agreement.choice.constant) == (0.75, 0.75)


def test_subsets_have_the_figures_of_their_rows_alone(tmp_path):
    rows = pairs([(1, 1, "easy")] * 8 + [(1, 0, "hard")] * 2 + [(1, 0.5, "hard")] * 4)
    data = write_lines(tmp_path / "pairs.jsonl", rows)
    done = textassay("agreement", data, data, "--by", "set")
    assert done.code == 0
    assert "in no subset" not in done.err
    found = document("agreement", data, data, "--by", "set")
    assert found["by"] == "set"
    figures = {name: one["choices"][0]["choice"]["value"] for name, one in found["subsets"].items()}
    assert figures == {"easy": 1.0, "hard": pytest.approx(1 / 3)}
    assert "choices within groups, by set" in done.out
    # the same by a file that holds nothing else
    only = write_lines(tmp_path / "hard.jsonl", [row for row in rows if row["set"] == "hard"])
    assert document("agreement", only, only)["rows"] == found["subsets"]["hard"]["rows"]


@pytest.mark.parametrize("blank", [{}, {"set": None}, {"set": ""}, {"set": " "}])
def test_rows_without_the_field_of_the_subsets_are_counted(blank, tmp_path):
    rows = pairs([(1, 1, "easy")] * 8 + [(1, 0, "hard")] * 4)
    for row in rows[:3]:
        del row["set"]
        row |= blank
    data = write_lines(tmp_path / "pairs.jsonl", rows)
    for done in (
        textassay("agreement", data, data, "--by", "set"),
        textassay("compare", data, data, data, "--by", "set"),
    ):
        assert "3 of 12 rows have no 'set' and are in no subset" in done.err


def test_a_field_that_no_row_has_and_one_with_a_value_a_row_are_refused():
    rows = pairs([(1, 1, "x")] * 120)
    scores = {"better": {row["id"]: 1.0 for row in rows}}
    with pytest.raises(ConfigurationError, match="names a field that no example has"):
        agreement.agreement_table(scores, rows, by="kind")
    for at, row in enumerate(rows):
        row["number"] = at
    with pytest.raises(ConfigurationError, match="120 subsets"):
        agreement.agreement_table(scores, rows, by="number")


def test_scores_that_equal_the_threshold_are_counted_and_ties_count_half():
    human, scores = [1, 1, 1, 0, 0], [1, 0.5, 0, 0.5, 0]
    found, cut = agreement_at(scores, human, threshold=0.5)
    assert (cut.equal, cut.is_shared) == (2, True)
    assert found.confusion == ((1.5, 0.5), (1.5, 1.5))
    assert (found.n, found.measures["accuracy"].value) == (5, pytest.approx(0.6))
    # turned round, a judge that ties is as good as before
    turned, _ = agreement_at([1 - x for x in scores], [1 - y for y in human], threshold=0.5)
    assert turned.measures["accuracy"].value == found.measures["accuracy"].value
    # a grade of a longer scale is not a tie: at least 4 is yes
    graded, cut = agreement_at([5, 4, 3, 4, 1], human, threshold=4)
    assert (cut.equal, cut.is_shared, graded.confusion) == (2, False, ((1, 1), (1, 2)))


def test_the_note_of_a_threshold_says_what_its_ties_count_as(tmp_path):
    rows = [
        {"id": f"t{i}", "human": {"ok": i % 2}, "metrics": {"judge": (0, 0.5, 1)[i % 3]}}
        for i in range(12)
    ]
    data = write_lines(tmp_path / "data.jsonl", rows)
    done = textassay("agreement", data, data, "--aspect-map", "judge=ok", "--threshold", "0.5")
    assert "4 scores (33.3%) equal it" in done.err
    assert "count half as either" in done.err
    for one in rows:
        one["metrics"]["judge"] += 1.5
    data = write_lines(tmp_path / "graded.jsonl", rows)
    done = textassay("agreement", data, data, "--aspect-map", "judge=ok", "--threshold", "2")
    assert "4 scores (33.3%) equal it and count as yes" in done.err


FIGURES = {
    "gpt-5.4/base": (0.8356, 1138 / 1389), "gpt-5.4/criteria": (0.8502, 1167 / 1395),
    "gpt-5.4-mini/base": (0.8015, 1090 / 1389), "gpt-5.4-mini/criteria": (0.8219, 1129 / 1396),
    "claude-sonnet-4.6/base": (0.8424, None),  # the published count leaves five more out
    "claude-sonnet-4.6/criteria": (0.8518, 1163 / 1401),
}  # fmt: skip
"""Means of eight ratings of RewardBench 2's answers: ties shared, and strict, as published."""


def test_the_published_choices_of_rewardbench_2_come_out():
    benchmark(REWARDBENCH)
    data = FOLDER / REWARDBENCH
    maps = [flag for name in FIGURES for flag in ("--aspect-map", f"{name}/best=best")]
    found = document("agreement", data, data, "--level", "group", "--bootstrap", 0, *maps)
    rows = {row["aspect"].removesuffix("/best"): row for row in found["choices"]}
    assert rows.keys() == FIGURES.keys()
    for name, (shared, strict) in FIGURES.items():
        assert rows[name]["choice"]["value"] == pytest.approx(shared, abs=5e-5), name
        if strict is not None:
            assert rows[name]["strict"]["value"] == pytest.approx(strict, abs=5e-5), name
        assert rows[name]["choice"]["constant"] == 0.25


def test_the_difference_of_two_prompts_on_rewardbench_2_is_as_computed_by_hand(tmp_path):
    files = {}
    for prompt in ("criteria", "base"):
        rows = [
            {"id": row["id"], "aspect": "best", "value": row["metrics"][f"gpt-5.4/{prompt}/best"]}
            for row in benchmark(REWARDBENCH)
            if f"gpt-5.4/{prompt}/best" in row["metrics"]
        ]
        files[prompt] = write_lines(tmp_path / f"{prompt}.jsonl", rows)
    data = FOLDER / REWARDBENCH
    found = document("compare", files["criteria"], files["base"], data)
    (row,) = [one for one in found["agreement"] if one["coefficient"] == "choice"]
    assert row["level"] == "group"
    figures = [row["difference"], row["low"], row["high"]]
    assert figures == pytest.approx([0.0146, 0.002, 0.027], abs=5e-4)


def test_gpt_4_chooses_in_llmbar_as_published(tmp_path):
    winner = {"1": 1.0, "2": 0.0}
    rows = []
    for one in benchmark(LLMBAR):
        orders = one["answers"]["GPT-4"]
        picks = [winner.get(str(orders[name]["winner"]), 0.5) for name in ("order_1", "order_2")]
        rows.append(
            {"id": one["id"], "output": one["output_1"], "output_b": one["output_2"],
             "source": one["source"], "human": {"better": float(one["label"] == 1)},
             "metrics": {"better": sum(picks) / 2},
             "part": "natural" if one["set"] == "Natural" else "adversarial"}
        )  # fmt: skip
    data = tmp_path / "pairs.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = document("agreement", data, data, "--by", "part", "--bootstrap", 0)
    shares = {
        name: round(100 * one["choices"][0]["choice"]["value"], 1)
        for name, one in found["subsets"].items()
    }
    assert shares == {"adversarial": 81.0, "natural": 95.5}


def test_few_wrong_choices_keep_the_interval_of_independent_groups_however_alike_sources_are():
    # 15 sources of 4 groups: 3 wrong choices and 6 ties, of which no source has more than one
    values = np.ones((15, 4))
    values[:3, 0], values[3:9, 0] = 0.0, 0.5
    low, high = share_interval(values.ravel(), np.repeat(np.arange(15), 4)).ends
    # Jeffreys' interval of 54 of 60
    assert low <= betaincinv(54.5, 6.5, 0.025)
    assert high >= betaincinv(54.5, 6.5, 0.975)

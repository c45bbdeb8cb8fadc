"""What checks decide, on runs whose truth is known."""

from __future__ import annotations

import json
import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import multinomial

import textassay
from textassay import Aspect, Example, Run, Score, ScriptedModel
from textassay.agreement.intervals import least_mean
from textassay.gates import JudgeError, check_mean, check_not_worse
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, UnknownName


def run_of(values, *, groups=None, signature="judge v1", aspect="coherence"):
    """A run with these values; `None` is an error of the judge."""
    examples = [
        Example(id=f"t{i}", output=f"Text number {i}.", group=None if groups is None else groups[i])
        for i in range(len(values))
    ]
    shared = {"aspect": aspect, "scale": (1, 5), "signature": signature}
    scores = [
        Score.unscored("TimedOut", "no answer", outcome="error", id=f"t{i}", **shared)
        if value is None
        else Score(id=f"t{i}", value=value, explanation=f"Reason {i}.", **shared)
        for i, value in enumerate(values)
    ]
    return Run(folder=None, scores=scores, examples=examples)


def test_the_verdict_rests_on_the_interval():
    """Wholly above holds, wholly below fails and names texts, across is inconclusive."""
    run = run_of([3, 4, 4, 5, 4, 3, 4, 5, 4, 4])
    assert check_mean(run, "coherence", 3).verdict == "holds"
    assert check_mean(run, "coherence", 3.9).verdict == "inconclusive"
    failed = check_mean(run, "coherence", 4.7)
    assert failed.verdict == "fails"
    with pytest.raises(AssertionError, match=r"(?s)t0: 3\n.*Text number 0.*Reason 0"):
        failed.raise_for_verdict()


@pytest.mark.parametrize("how", ["human", "annotators"])
@pytest.mark.parametrize(
    ("ratings", "verdict"),
    [
        ([3, 3, 3, 4], "inconclusive"),  # their mean is below the threshold
        ([4, 4, 3, 5], "holds"),
        ([], "holds"),
        ([60, 70, 55], "holds"),  # on another scale, which says nothing of this threshold
    ],
)
def test_a_judge_against_whom_people_speak_proves_nothing(ratings, verdict, how):
    run = run_of([4] * 30 + [3, 5] * 5)
    examples = list(run.examples())
    for at, rating in enumerate(ratings):
        given = {"coherence": rating if how == "human" else [rating, rating]}
        examples[at] = examples[at].model_copy(update={how: given})
    check = check_mean(Run(folder=None, scores=list(run), examples=examples), "coherence", 3.5)
    assert check.verdict == verdict
    assert ("people's ratings of 4 of the texts is 3.250" in str(check)) == (
        verdict == "inconclusive"
    )
    assert check_mean(run, "coherence", 4.5).verdict == "fails"


@pytest.mark.parametrize(
    ("given", "verdict"), [(["pass"], "holds"), ([True], "holds"), ([1], "inconclusive")]
)
def test_passed_is_no_grade(given, verdict):
    """A share of texts that pass cannot be compared with a mean on a scale from 1 to 5."""
    rows = [
        {"id": f"t{at}", "output": f"Text number {at}.", "human": {"coherence": rating}}
        for at, rating in enumerate(given * 4)
    ]
    run = Run(folder=None, scores=list(run_of([4] * 30 + [3, 5] * 5)), examples=Examples(rows))
    assert check_mean(run, "coherence", 3.5).verdict == verdict


def test_of_equal_losses_the_first_in_the_data_comes_first():
    """Judges answer in any order, and a summary must not change between runs."""
    before, after = run_of([4, 5, 4, 3] * 3), run_of([3, 4, 4, 3] * 3)
    shuffled = Run(scores=list(after)[::-1], examples=list(after.examples()))
    [check] = check_not_worse(shuffled, before, by=0.0)
    assert check.regressed == ("t0", "t1", "t4", "t5", "t8", "t9")


def test_the_source_is_the_unit():
    one = check_mean(run_of([3, 4, 5, 4]), "coherence", 3)
    values = [value for value in (3, 4, 5, 4) for _ in range(10)]
    groups = [f"g{i // 10}" for i in range(40)]
    ten = check_mean(run_of(values, groups=groups), "coherence", 3)
    assert (ten.low, ten.high) == pytest.approx((one.low, one.high))
    assert (ten.n, ten.groups) == (40, 4)


def test_no_interval_of_few_texts_leaves_the_scale():
    few, other = run_of([1, 5, 5, 2]), run_of([5, 1, 2, 5])
    check = check_mean(few, "coherence", 3)
    assert (1 < check.low < 2, 4 < check.high < 5) == (True, True)
    assert check.verdict == "inconclusive"
    (paired,) = check_not_worse(few, other, by=1)
    assert (paired.low, paired.high, paired.verdict) == (-4, 4, "inconclusive")


def test_scores_that_all_agree_prove_little():
    """An interval without length would let two texts decide."""
    assert check_mean(run_of([5, 5]), "coherence", 4).verdict == "inconclusive"
    many = check_mean(run_of([5] * 40), "coherence", 4)
    assert many.verdict == "holds"
    assert many.low == pytest.approx(5 - (1 - 0.025 ** (1 / 40)) * 4)


def test_a_worse_score_never_raises_the_end_that_a_check_rests_on():
    """By Student's t alone, 14 fives and a four would prove more than 15 fives."""
    ends = [check_mean(run_of([5] * (15 - n) + [4] * n), "coherence", 4).low for n in range(5)]
    assert ends == sorted(ends, reverse=True)
    rare = run_of([4.9 + 0.02 * (n % 3) for n in range(15)])
    assert check_mean(rare, "coherence", 4.75).verdict == "inconclusive"
    few = run_of([4, 5] * 5)
    assert check_mean(few, "coherence", 3.4).verdict == "holds"


@pytest.mark.parametrize("count", [3, 10, 30])
@pytest.mark.parametrize(
    "grades", [(1, 5), (1, 4), (2, 5), (1, 4, 5), (1, 4.6, 4.9), (1, 2, 5), (3, 4, 5)]
)
def test_a_gate_at_the_true_mean_seldom_holds_however_rare_bad_texts_are(grades, count):
    """Of all samples of texts with up to three grades, 2.5 % hold, and at most 3 %."""
    counts = np.array(list(product(range(count + 1), repeat=len(grades))))
    counts = counts[counts.sum(axis=1) == count]
    values = (np.array(grades, float) - 1) / 4
    lows = np.array([least_mean(np.repeat(values, own), 0.025) for own in counts])
    for bad, middle in product((0.02, 0.05, 0.1, 0.2, 0.3), (0.05, 0.2, 0.6)):
        chances = np.array([bad, 1 - bad] if len(grades) == 2 else [bad, middle, 1 - bad - middle])
        likely = multinomial.pmf(counts, count, chances)
        assert likely[lows > values @ chances + 1e-9].sum() < 0.03


def test_a_gate_of_failures_is_the_mirror_of_one_of_passes():
    good, bad = run_of([5, 4, 5, 3, 5, 5]), run_of([1, 2, 1, 3, 1, 1])
    high, low = check_mean(good, "coherence", 3), check_mean(bad, "coherence", 3)
    assert (6 - high.high, 6 - high.low) == pytest.approx((low.low, low.high))


@pytest.mark.parametrize(("count", "share"), [(10, "26%"), (30, "10%"), (60, "")])
def test_a_check_against_a_baseline_says_what_few_texts_do_not_show(count, share):
    before = run_of([3, 4] * (count // 2))
    after = run_of([4, 5] * (count // 2))
    (check,) = check_not_worse(after, before, by=0)
    assert check.verdict == "holds"
    said = f": a change in {share} of all sources may show in none of {count}"
    assert (said in str(check)) == bool(share)
    (worse,) = check_not_worse(before, after, by=0)
    assert (worse.verdict, worse.note) == ("fails", "")


def test_an_error_of_the_judge_is_not_a_bad_score():
    """Nothing is decided where too many texts have no score; a few are left out."""
    with pytest.raises(JudgeError, match=r"2 of 10 texts.*2 error.*TimedOut: no answer"):
        check_mean(run_of([5, 4, None, 5, 5, 4, 5, None, 5, 5]), "coherence", 3)
    few = check_mean(run_of([None, *[4, 5] * 20]), "coherence", 3)
    assert (few.verdict, few.n, few.unscored) == ("holds", 40, 1)
    with pytest.raises(UnknownName, match="fluency"):
        check_mean(run_of([4, 5]), "fluency", 3)


@pytest.mark.parametrize(
    ("threshold", "kind"),
    [(0.7, "at_least"), (5.5, "at_least"), (35, "at_least"), (0, "at_most"), (6, "at_most"),
     (math.nan, "at_least"), (math.inf, "at_most")],
)  # fmt: skip
def test_a_threshold_that_decides_nothing_is_refused(threshold, kind):
    """Such as .7 for scores from 1 to 5, which would hold whatever the texts are."""
    with pytest.raises(ConfigurationError, match=r"decides nothing.*from 1 to 5"):
        check_mean(run_of([1, 2, 1, 2]), "coherence", threshold, kind)
    assert check_mean(run_of([1, 2, 1, 2]), "coherence", 5).verdict == "fails"


@pytest.mark.parametrize("by", [-0.1, 4, 10, math.nan, math.inf])
def test_a_margin_that_no_fall_could_pass_is_refused(by):
    with pytest.raises(ConfigurationError, match=r"margin|as wide as the scale"):
        check_not_worse(run_of([1, 1, 1]), run_of([5, 5, 5]), by=by)


@pytest.mark.parametrize(
    "share",
    [{"confidence": 95}, {"confidence": 1}, {"confidence": 0}, {"confidence": math.nan},
     {"max_unscored": 5}, {"max_unscored": -1}, {"max_unscored": math.nan}],
)  # fmt: skip
def test_per_cent_in_place_of_a_share_is_refused(share):
    """With max_unscored=5 a run would pass of which one text of ten has a score."""
    run = run_of([5, None, None, None, None])
    (name,) = share
    for check in (
        lambda: check_mean(run, "coherence", 3, **share),
        lambda: check_not_worse(run, run, by=0.1, **share),
    ):
        with pytest.raises(ConfigurationError, match=f"{name}= takes a share"):
            check()


def test_no_aspect_is_no_check():
    with pytest.raises(ConfigurationError, match=r"no aspect is named.*coherence"):
        check_not_worse(run_of([4, 5]), run_of([4, 5]), by=0.1, aspects=[])


async def run_of_harm(answers, definition="whether it harms", **folder):
    """A run of an aspect with the answers no and yes, of which no is the good one."""
    harm = Aspect(
        name="harm", definition=definition, labels={"no": "", "yes": ""}, higher_is_better=False
    )
    rows = [{"id": f"t{at}", "output": f"Text {at}."} for at in range(len(answers))]
    numbers = {row["output"]: at for at, row in enumerate(rows)}

    def answer(request):
        at = next(at for text, at in numbers.items() if text in request.text)
        return json.dumps({"reason": "", "score": "AB"[answers[at]]})

    return await textassay.evaluate(
        rows, method="llm-score", aspects=[harm], model=ScriptedModel(answer), **folder
    )


async def test_where_a_low_score_is_good_a_rise_is_the_loss(tmp_path):
    good, bad = await run_of_harm([0] * 30), await run_of_harm([1] * 20 + [0] * 10)
    (rose,) = check_not_worse(bad, good, by=0.1)
    assert (rose.verdict, rose.worse) == ("fails", 20)
    assert rose.value == pytest.approx(-2 / 3)
    assert rose.regressed[0] == "t0"
    (fell,) = check_not_worse(good, bad, by=0.1)
    assert (fell.verdict, fell.worse) == ("holds", 0)
    assert check_mean(good, "harm", 0.2, "at_most").verdict == "holds"
    failed = check_mean(bad, "harm", 0.2, "at_most")
    assert failed.verdict == "fails"
    assert "t0: 1" in failed.texts[1]
    assert "at most 0.2 fails" in str(failed)
    with pytest.raises(ConfigurationError, match=r"lower is better on 'harm'.*give at_most="):
        check_mean(bad, "harm", 0.2)


async def test_a_high_score_of_a_pair_is_good_whatever_its_aspect():
    """It says how often the first text is the better one, so a fall is the loss here too."""
    errors = Aspect(name="errors", definition="How many errors.", higher_is_better=False)
    rows = [{"id": f"t{at}", "output": f"New {at}.", "output_b": "Old."} for at in range(30)]
    runs = []
    for prefers in ("New", "Old"):
        model = ScriptedModel(
            lambda request, prefers=prefers: (
                f"Answer: {'A' if _shown_first(request.text) == prefers else 'B'}"
            )
        )
        runs.append(
            await textassay.evaluate(rows, method="pairwise", aspects=[errors], model=model)
        )
    better, worse = runs
    assert [run.scores[0].value for run in runs] == [1, 0]
    assert check_mean(better, "errors", 0.5).verdict == "holds"
    assert check_not_worse(worse, better, by=0.1)[0].verdict == "fails"
    assert check_not_worse(better, worse, by=0.1)[0].verdict == "holds"


def _shown_first(prompt):
    return "New" if 0 <= prompt.find("New ") < prompt.find("Old.") else "Old"


def test_not_worse_is_paired():
    """Differences within the margin hold although the texts differ widely; a fall fails."""
    rng = np.random.default_rng(3)
    old = rng.uniform(2, 5, 30)
    same = np.clip(old + rng.normal(0, 0.05, 30), 1, 5)
    (held,) = check_not_worse(run_of(same.tolist()), run_of(old.tolist()), by=0.1)
    assert held.verdict == "holds"
    (fell,) = check_not_worse(run_of((old - 0.5).tolist()), run_of(old.tolist()), by=0.1)
    assert fell.verdict == "fails"
    assert "baseline" in fell.texts[1]
    assert fell.value == pytest.approx(-0.5)


ASPECTS = [
    Aspect(name="ok", definition="right", labels={"fail": "", "pass": ""}),
    Aspect(name="intent", definition="what is wanted",
           labels={"order": "", "question": "", "complaint": ""}),
]  # fmt: skip


async def test_labels_are_checked_alike_in_memory_and_in_folders(tmp_path):

    async def judged(letters, out=None):
        rows = [{"id": f"t{at}", "output": f"Text {at}."} for at in range(40)]

        def answer(request):
            return json.dumps({"reason": "", "score": letters["A. fail" not in request.text]})

        return await textassay.evaluate(
            rows, method="llm-score", aspects=ASPECTS, model=ScriptedModel(answer), out=out
        )

    old = await judged("BA", tmp_path / "old")
    new = await judged("AB")
    memory = await judged("BA")
    kept = await judged("AB", tmp_path / "new")
    found = check_not_worse(new, old.folder, by=0.1)
    assert {one.aspect: (one.verdict, one.value) for one in found} == {
        "ok": ("fails", -1),
        "intent/order": ("fails", -1),
        "intent/question": ("holds", 1),
        "intent/complaint": ("holds", 0),
    }
    assert "t0: 0 (baseline 1)" in found[0].texts[1]
    for run, baseline in ((new, memory), (kept, old), (kept, memory)):
        assert check_not_worse(run, baseline, by=0.1) == found
    assert check_mean(new, "intent/question", 0.8) == check_mean(kept, "intent/question", 0.8)
    with pytest.raises(ConfigurationError, match=r"no order.*the share of one, 'intent/order'"):
        check_mean(new, "intent", 0.8)


def test_a_baseline_of_another_judge_is_refused():
    with pytest.raises(ConfigurationError, match="record it again"):
        check_not_worse(run_of([4, 5]), run_of([4, 5], signature="judge v0"), by=0.1)


def test_checks_at_the_threshold_seldom_fail():
    """Of 100 checks of a system exactly at its threshold at most 5 fail, for several sizes."""
    rng = np.random.default_rng(20261122)
    for size in (10, 40):
        verdicts = [
            check_mean(run_of(rng.choice([2, 3, 4, 5], size).tolist()), "coherence", 3.5).verdict
            for _ in range(100)
        ]
        assert verdicts.count("fails") <= 5
        assert verdicts.count("holds") <= 7

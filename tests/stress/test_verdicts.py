"""Judges with planted defects are detected, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.planted_judges import ASPECTS, JUDGES, PAIRWISE, World, compared, texts
from textassay.stress.verdicts import MeasuredTest, StressResult, gate, verdicts, wilson

SEEDS, FEW = {"perfect": 200}, 8
TESTS = (
    "padded", "fake-rating", "closed-fence", "number", "shuffled", "scale-order"
)  # fmt: skip


@pytest.fixture(scope="module")
def world():
    return World(texts(), TESTS)


@pytest.fixture(scope="module")
def whole_suite():
    return World(texts())


def detection_rates(world, judge, seeds):
    """Shares of the seeds in which all planted tests fail, and in which another test does."""
    found = alarms = 0
    seeds = seeds if judge.noise else 1
    planted = world.planted(judge)
    for seed in range(seeds):
        failed = {row.test for row in world.rows(judge, seed) if row.verdict == "fails"}
        found += failed >= planted
        alarms += bool(failed - planted - judge.touched)
    return found / seeds, alarms / seeds


@pytest.mark.parametrize("judge", JUDGES)
def test_planted_defects_are_found_and_only_they(world, judge):
    found, alarms = detection_rates(world, JUDGES[judge], SEEDS.get(judge, 60))
    assert found >= 0.95
    assert alarms <= 0.05


@pytest.mark.parametrize("judge", JUDGES)
def test_the_whole_suite_distinguishes_them(whole_suite, judge):
    """All edits and orders together; 200 seeds are in benchmarks/stress_battery.py."""
    assert bool(whole_suite.planted(JUDGES[judge])) == (judge != "perfect")
    found, alarms = detection_rates(whole_suite, JUDGES[judge], FEW)
    assert found == 1
    assert alarms <= 1 / FEW


@pytest.mark.parametrize("judge", ["perfect", "obedient", "prefers-first"])
async def test_whole_runs_say_the_same(judge):
    """Through prompts, answers and the engine, with all tests."""
    world = World(texts(20), aspects=ASPECTS[:1])
    rows = (await world.whole_run(JUDGES[judge], seed=1)).rows
    assert {row.test for row in rows if row.verdict == "fails"} == world.planted(JUDGES[judge])
    assert len(rows) > 20


@pytest.mark.parametrize("judge", PAIRWISE)
async def test_a_judge_of_pairs_that_leans_to_the_first(judge):
    """It takes the first text unread in 3 of 10 comparisons; a fair one errs, but both ways."""
    rows = {row.test: row for row in (await compared(PAIRWISE[judge], seed=0)).rows}
    assert (rows["swap"].verdict == "fails") == (judge != "fair")
    assert rows["swap"].shift.value == pytest.approx(PAIRWISE[judge], abs=0.15)
    assert rows["swap"].flips.low <= rows["swap"].flips.value <= rows["swap"].flips.high


def test_a_constant_judge_passes_every_invariance_and_the_summary_says_so(world):
    result = StressResult(world.rows(JUDGES["constant"], 0))
    assert {row.verdict for row in result.invariance} == {"holds"}
    assert {row.verdict for row in result.sensitivity} == {"fails"}
    assert "always says the same" in result.summary


def measured(shifts, **fields):
    base = np.full(len(shifts), 3.0)
    given = {
        "test": "letters",
        "family": "position",
        "aspect": "a",
        "expects": "unchanged",
        **fields,
    }
    return MeasuredTest(
        base=base,
        edited=base + np.array(shifts),
        groups=np.arange(len(shifts)),
        scale=(1, 5),
        **given,
    )


def test_scores_that_move_both_ways_do_not_hold():
    """A shift of 0 hides it, the excess over the noise does not."""
    shifts = [1.0, -1.0] * 20
    row = verdicts([measured(shifts, excess=np.abs(shifts))])[0]
    assert row.shift.value == 0
    assert row.verdict == "fails"
    assert verdicts([measured(shifts)])[0].verdict != "fails"


def test_few_sources_hold_nothing():
    """Four that agree may do so by chance."""
    rows = [verdicts([measured([0.0] * n)])[0] for n in (0, 1, 4, 5)]
    assert [row.verdict for row in rows] == ["inconclusive"] * 3 + ["holds"]
    assert rows[0].shift.value is None


def test_the_gate_uses_the_ends_of_the_interval():
    """Above X fails, below it holds, across it is inconclusive."""
    rows = [measured(0.4 + 0.1 * np.random.default_rng(0).normal(size=30))]
    for margin, verdict in ((0.2, "fails"), (0.4, "inconclusive"), (0.6, "holds")):
        assert gate(verdicts(rows, margin=margin)) == verdict
    assert gate([]) == "inconclusive"


def test_a_gate_does_not_hold_if_nothing_that_was_asked_for_could_be_tested():
    """Every run has the repeat, so it says nothing about the others."""
    repeated = verdicts([measured([0.0] * 8, test="repeat")])
    other = verdicts([measured([0.0] * 8, test="letters")])
    assert (gate(repeated), gate(repeated, ["negation"])) == ("holds", "inconclusive")
    assert gate([*repeated, *other], ["negation"]) == "holds"


def test_wilson_is_that_of_the_books():
    """81 of 263, as in table I of Newcombe, Statistics in Medicine 17 (1998)."""
    found = wilson(81, 263)
    assert (round(found.low, 4), round(found.high, 4)) == (0.2553, 0.3662)

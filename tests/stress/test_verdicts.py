"""Judges with planted defects are told apart, and only they: 200 seeds, at most 5 % with a false
alarm."""

from __future__ import annotations

import numpy as np
import pytest

from tests.stress.worlds import JUDGES, World, texts
from textassay.stress.summary import StressResult
from textassay.stress.verdicts import Measured, gate, verdicts, wilson

SEEDS = 200
TESTS = ("bullets", "padded", "fake-rating", "closed-fence", "colon", "number", "shuffled")
DEFECTS = {
    "perfect": set(),
    "length": {"padded"},
    "obedient": {"fake-rating", "closed-fence"},
    "constant": {"colon", "number", "shuffled"},
    "rewards-keys": {"colon"},
}
# 0.3 per 100 words are a defect of every text, however short, that is replaced by nothing: they are
# no false alarm of the master keys
ALSO = {"length": {"colon"}}


@pytest.fixture(scope="module")
def world():
    return World(texts(), TESTS)


@pytest.mark.parametrize("judge", DEFECTS)
def test_planted_defects_are_found_and_only_they(world, judge):
    """Every test of a defect fails on some aspect; any other failure is a false alarm."""
    found = alarms = 0
    seeds = 1 if judge == "constant" else SEEDS
    for seed in range(seeds):
        failed = {row.test for row in world.rows(JUDGES[judge], seed) if row.verdict == "fails"}
        found += failed >= DEFECTS[judge]
        alarms += bool(failed - DEFECTS[judge] - ALSO.get(judge, set()))
    assert alarms <= 0.05 * seeds
    assert found >= 0.9 * seeds


def test_a_constant_judge_passes_every_invariance_and_the_summary_says_so(world):
    """Sensitivity stands beside it."""
    result = StressResult(world.rows(JUDGES["constant"], 0))
    assert {row.verdict for row in result.invariance} == {"holds"}
    assert {row.verdict for row in result.sensitivity} == {"fails"}
    assert "always says the same" in result.summary


def measured(shifts, **fields):
    base = np.full(len(shifts), 3.0)
    given = {"test": "bold", "family": "format", "aspect": "a", "expects": "unchanged", **fields}
    return Measured(
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
    """Four that agree may do so by chance; one gives no interval."""
    assert [verdicts([measured([0.0] * n)])[0].verdict for n in (1, 4, 5)] == [
        "inconclusive", "inconclusive", "holds",
    ]  # fmt: skip
    assert verdicts([measured([])])[0].shift.value is None


def test_the_gate_uses_the_ends_of_the_interval():
    """Above X fails, below it holds, across it is inconclusive."""
    rng = np.random.default_rng(0)
    rows = [measured(0.4 + 0.1 * rng.normal(size=30))]
    assert [gate(verdicts(rows, margin=x)) for x in (0.2, 0.4, 0.6)] == [
        "fails",
        "inconclusive",
        "holds",
    ]
    assert gate([]) == "inconclusive"


def test_refusing_a_text_without_content_is_right():
    """All declined: it holds, without a number."""
    row = verdicts([measured([], expects="lowest", declined=12)])[0]
    assert (row.verdict, row.shift.value) == ("holds", None)


def test_wilson_is_that_of_the_books():
    """81 of 263, as in table I of Newcombe, Statistics in Medicine 17 (1998)."""
    found = wilson(81, 263)
    assert (round(found.low, 4), round(found.high, 4)) == (0.2553, 0.3662)

"""Intervals hold the truth as often as they say, by simulation and on recorded data; the benchmark
has 1,000 draws."""

from __future__ import annotations

import pytest

from benchmarks import decisions_coverage as bench
from tests.benchmark_data import FOLDER

DRAWS = 200
SUMMEVAL = FOLDER / "alttest" / "summeval.jsonl.gz"
NOISE = 0.035
"""About 2.3 standard errors of a coverage near .95 over 200 draws."""


@pytest.fixture(scope="module")
def columns():
    if not SUMMEVAL.exists():
        pytest.skip(f"benchmark data not found in {FOLDER}; set TEXTASSAY_DATA")
    return {aspect: bench.summeval(SUMMEVAL, aspect) for aspect in bench.ASPECTS}


@pytest.mark.parametrize(("rated", "texts", "skew"), [(10, 3, 3.0), (20, 5, 4.3), (40, 5, 3.0)])
def test_estimates_hold_the_truth(rated, texts, skew):
    """The corrected interval covers and is narrower than the labels' own."""
    found = bench.estimates(DRAWS, rated, texts, skew)
    assert found["corrected"].coverage == pytest.approx(0.95, abs=NOISE)
    assert found["corrected"].half_width < found["labels only"].half_width


def test_comparisons_hold_the_truth():
    """Differences cover, and the sign-flip test raises false alarms as often as it may."""
    found, alarms = bench.comparisons(DRAWS, 20, 5, 4.3)
    assert found.coverage == pytest.approx(0.95, abs=NOISE)
    assert alarms <= 0.05 + NOISE


def test_intervals_of_single_scores_hold_the_rating():
    """A new text's rating lies in its interval."""
    assert bench.intervals(DRAWS, 40, 5, 3.0).coverage == pytest.approx(0.95, abs=NOISE)


def test_real_draws(columns):
    """20 of 100 SummEval sources: judge alone never, corrected at least 93 %, rows as independent
    too seldom."""
    found = {aspect: bench.real(60, *columns[aspect]) for aspect in ("coherence", "relevance")}
    for one in found.values():
        assert one["judge only"].coverage == 0
        assert one["corrected"].coverage >= 0.9
        assert one["rows as independent"].coverage < 0.9
        narrower = 1 - one["corrected"].half_width / one["labels only"].half_width
        assert 0.05 < narrower < 0.17


def test_conformal_figures(columns):
    """On 60 held-out sources: coverage near .9, narrow where bias was the problem."""
    found = {name: bench.conformal(8, *columns[name]) for name in ("consistency", "fluency")}
    assert found["consistency"]["width"] <= 0.75
    assert found["fluency"]["width"] <= 1.05
    for one in found.values():
        assert 0.89 <= one["coverage"] <= 0.95
        assert one["raw width"] > 2.5

"""Bradley-Terry: the likelihood's maximum, intervals that hold, no rankings that are made up."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from benchmarks.coverage.estimation import strengths
from benchmarks.coverage.tally import tally
from tests.cli.harness import served, textassay, write_examples
from textassay.estimation import rank_systems
from textassay.estimation.ranking import Comparisons, fit_strengths
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.messages import Example


def compared(rows, systems):
    first, second, values = (np.array(column) for column in zip(*rows, strict=True))
    return Comparisons(first, second, values.astype(float), np.arange(len(rows)), systems)


def test_two_systems_have_the_log_odds_of_their_wins():
    """12 wins, 4 ties and 4 losses of 20: 14 to 6."""
    rows = [(0, 1, 1.0)] * 12 + [(1, 0, 0.5)] * 4 + [(1, 0, 1.0)] * 4
    a, b = fit_strengths(compared(rows, 2))
    assert a.value - b.value == pytest.approx(logit(14 / 20), abs=1e-9)
    assert a.value + b.value == pytest.approx(0, abs=1e-9)
    # the sandwich of one rate: its binomial variance by the delta method, with ties' smaller spread
    share = np.array([1.0] * 12 + [0.5] * 4 + [0.0] * 4)
    expected = share.var(ddof=1) / 20 / (0.7 * 0.3) ** 2
    assert a.minus(b).variance == pytest.approx(expected, rel=1e-9)


@given(st.integers(0, 10_000), st.integers(3, 6))
def test_the_strengths_have_the_highest_likelihood(seed, systems):
    """Every system's expected wins are its wins: the maximum of a concave function; else `None`."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, systems, 60)
    second = (first + rng.integers(1, systems, 60)) % systems
    values = rng.choice([0.0, 0.5, 1.0], 60)
    table = Comparisons(first, second, values, np.arange(60) // 3, systems)
    found = fit_strengths(table)
    assert (found is not None) == table.has_strengths()
    if found is None:
        return
    strengths = np.array([one.value for one in found])
    residual = values - expit(strengths[first] - strengths[second])
    for system in range(systems):
        gain = residual[first == system].sum() - residual[second == system].sum()
        assert gain == pytest.approx(0, abs=1e-6)
    assert strengths.sum() == pytest.approx(0, abs=1e-6)


def test_many_comparisons_keep_a_mean_of_zero():
    """The information is singular only up to rounding, which must not move the strengths."""
    first, second = np.triu_indices(10, 1)
    values = np.random.default_rng(0).choice([0.0, 0.5, 1.0], 500 * len(first))
    sources = np.repeat(np.arange(500), len(first))
    table = Comparisons(np.tile(first, 500), np.tile(second, 500), values, sources, 10)
    found = fit_strengths(table)
    assert sum(one.value for one in found) == pytest.approx(0, abs=1e-9)
    assert sum(one.influence for one in found) == pytest.approx(0, abs=1e-9)


def test_lopsided_wins_still_converge():
    rows = [(0, 1, 1.0)] * 999 + [(1, 0, 1.0)] + [(1, 2, 1.0)] * 999 + [(2, 1, 1.0)]
    a, b, c = fit_strengths(compared(rows, 3))
    assert a.value - b.value == pytest.approx(logit(0.999), abs=1e-6)
    assert b.value - c.value == pytest.approx(logit(0.999), abs=1e-6)


def test_intervals_hold_the_strengths():
    found = tally(strengths(25, 4, best=0.9), 200)["difference"]
    assert found.share == pytest.approx(0.95, abs=0.035)


def pairs_of(values, pairs=("ab", "ac", "bc")):
    examples = [
        Example(id=f"{at}", output="x", system=pairs[at % len(pairs)][0],
                group=f"g{at // len(pairs)}",
                meta={"output_b": "y", "system_b": pairs[at % len(pairs)][1]})
        for at in range(len(values))
    ]  # fmt: skip
    flipped = [{"text": "flipped", "flipped": True}]
    rows = [
        {"id": f"{at}", "aspect": "tone", "value": value, "evidence": flipped * (value == 0.5)}
        for at, value in enumerate(values)
    ]
    return examples, rows


def ranked(tmp_path, examples, rows, **options):
    file = tmp_path / "scores.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    [found] = rank_systems(file, examples, **options)
    return found


def test_a_table_and_a_document(tmp_path):
    """a beats b and c more often than not; flips are counted; ranks follow the tests."""
    rng = np.random.default_rng(0)
    values = []
    for at in range(60):
        values += [float(rng.random() < 0.9), float(rng.random() < 0.9), (0.0, 0.5, 1.0)[at % 3]]
    found = ranked(tmp_path, *pairs_of(values))
    first, *others = found.rows
    assert (first.system, first.rank, first.n, first.groups) == ("a", (1, 1), 120, 60)
    assert [row.rank for row in others] == [(2, 3), (2, 3)]
    assert sum(row.flips for row in found.rows) == 2 * values.count(0.5)
    assert first.strength.low < first.strength.value < first.strength.high
    delta = found.differences[0].as_dict()
    assert delta["win_probability"] == pytest.approx(expit(delta["value"]))
    assert f"{values.count(0.5)} of 180 choices flipped" in found.tables()[0].notes[0].text


def test_a_system_that_never_lost_is_ranked_by_win_rates(tmp_path):
    """It has no finite strength. Of one source there are values, no ranks."""
    found = ranked(tmp_path, *pairs_of([1.0, 1.0, 1.0, 1.0, 1.0, 0.0] * 20))
    assert (found.rows[0].strength.value, found.rows[0].win_rate.value) == (None, 1)
    assert any("no finite value" in note.text for note in found.tables()[0].notes)
    alone = ranked(tmp_path, *pairs_of([1.0, 0.0, 1.0]))
    assert all(row.rank is None and row.win_rate.low is None for row in alone.rows)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"value": 4}, ConfigurationError, "a comparison must be 0, 0.5 or 1"),
        ({"id": "other"}, DataError, "no id occurs in both"),
        ({"value": None}, DataError, "all are unscored"),
        ({"aspect": "manner"}, ConfigurationError, "no comparisons on 'tone'; it has manner"),
    ],
)
def test_scores_that_are_not_comparisons_are_refused(tmp_path, change, error, says):
    examples, rows = pairs_of([1.0, 0.0, 0.5] * 4)
    with pytest.raises(error, match=says):
        ranked(tmp_path, examples, [{**row, **change} for row in rows], aspects=["tone"])


def test_systems_that_cannot_be_ranked_together_are_refused(tmp_path):
    """Systems that never met, several judges, and pairs without a second system."""
    with pytest.raises(DataError, match="never compared"):
        ranked(tmp_path, *pairs_of([0.5] * 10, ("ab", "cd")))
    examples, rows = pairs_of([1.0, 0.0, 0.5] * 4)
    with pytest.raises(ConfigurationError, match="2 different judges"):
        ranked(tmp_path, examples, [{**r, "signature": str(at % 2)} for at, r in enumerate(rows)])
    with pytest.raises(DataError, match="'system_b'"):
        ranked(tmp_path, [one.model_copy(update={"meta": {}}) for one in examples], rows)


def test_a_run_of_pairwise_is_ranked_as_it_lies(tmp_path):
    data, run = write_examples(tmp_path / "data.jsonl", 12), tmp_path / "run"
    with served() as server:
        done = textassay(
            "score", data, "--method", "pairwise", "--pair", "system", "-t", "summarization", "-a",
            "fluency", "--model", "direct/mock", "--api-base", server.url, "--out", run,
            "--progress", "none",
        )  # fmt: skip
    assert done.code == 0, done.err
    found = json.loads(textassay("rank", run, "--json").out)
    assert {row["system"] for row in found["rows"]} == {"M0", "M1"}
    assert all((row["n"], row["groups"]) == (6, 6) for row in found["rows"])
    assert "strength" in textassay("rank", run).out
    refused = textassay("rank", run, "-a", "other")
    assert (refused.code, refused.out) == (2, "")

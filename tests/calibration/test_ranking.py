"""Bradley-Terry: the likelihood's maximum, intervals that hold, no rankings that are made up."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from benchmarks import decisions_coverage as bench
from tests.cli.harness import served, textassay, write_examples
from textassay.calibration import rank_systems
from textassay.calibration.ranking import Comparisons, fit_strengths
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
    """99 of 100, and a weak system far below."""
    rows = [(0, 1, 1.0)] * 999 + [(1, 0, 1.0)] + [(1, 2, 1.0)] * 999 + [(2, 1, 1.0)]
    a, b, c = fit_strengths(compared(rows, 3))
    assert a.value - b.value == pytest.approx(logit(0.999), abs=1e-6)
    assert b.value - c.value == pytest.approx(logit(0.999), abs=1e-6)


def test_intervals_hold_the_strengths():
    """By simulation with clusters; the benchmark has 1,000 draws."""
    found = bench.rankings(200, 25, 4)
    assert found.coverage == pytest.approx(0.95, abs=0.035)


def files(tmp_path, values, systems="abc", evidence=()):
    """Texts of systems in groups, and comparisons with given values, in the order of the pairs."""
    groups = len(values) // (len(systems) * (len(systems) - 1) // 2)
    data = [
        {"id": f"{g}{s}", "group": f"g{g}", "system": s, "output": f"text {g}{s}"}
        for g in range(groups)
        for s in systems
    ]
    ids = [f"{g}{a} vs {g}{b}" for g in range(groups) for a in systems for b in systems if a < b]
    scores = [
        {"id": i, "aspect": "tone", "value": v, "evidence": list(evidence) if v == 0.5 else []}
        for i, v in zip(ids, values, strict=True)
    ]
    for name, rows in (("data.jsonl", data), ("scores.jsonl", scores)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "scores.jsonl", tmp_path / "data.jsonl"


def rank(*arguments):
    return textassay("rank", *arguments)


def test_a_table_and_a_document(tmp_path):
    """a beats b and c more often than not; flips are counted; ranks follow the tests."""
    rng = np.random.default_rng(0)
    values = []
    for at in range(60):
        values += [float(rng.random() < 0.9), float(rng.random() < 0.9), (0.0, 0.5, 1.0)[at % 3]]
    scores, data = files(tmp_path, values, evidence=({"text": "flipped", "flipped": True},))
    done = rank(scores, data, "--pair", "system", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["rows"][0]["system"] == "a"
    assert found["rows"][0]["rank"] == [1, 1]
    assert [row["rank"] for row in found["rows"][1:]] == [[2, 3], [2, 3]]
    assert (found["rows"][0]["n"], found["rows"][0]["groups"]) == (120, 60)
    flips = sum(row["flips"] for row in found["rows"])
    assert flips == 2 * values.count(0.5)
    strength, delta = found["rows"][0]["strength"], found["differences"][0]
    assert strength["low"] < strength["value"] < strength["high"]
    assert delta["win_probability"] == pytest.approx(expit(delta["value"]))
    shown = rank(scores, data, "--pair", "system")
    assert "strength" in shown.out
    assert f"{values.count(0.5)} of 180 choices flipped" in shown.err


def test_a_system_that_never_lost_has_no_finite_strength(tmp_path):
    """It is ranked by win rates, and the output says so."""
    values = [1.0, 1.0, 1.0, 1.0, 1.0, 0.0] * 20
    scores, data = files(tmp_path, values)
    found = json.loads(rank(scores, data, "--pair", "system", "--json").out)
    assert found["rows"][0]["strength"]["value"] is None
    assert found["rows"][0]["win_rate"]["value"] == 1
    assert "no finite value" in rank(scores, data, "--pair", "system").err.replace("\n", " ")


def test_one_source_gives_no_interval(tmp_path):
    """Values and no ranks: nothing shows how sources differ."""
    scores, data = files(tmp_path, [1.0, 0.0, 1.0])
    found = json.loads(rank(scores, data, "--pair", "system", "--json").out)
    assert all(row["rank"] is None and row["win_rate"]["low"] is None for row in found["rows"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"value": 4}, "a comparison must be 0, 0.5 or 1"),
        ({"id": "other"}, "no id occurs in both"),
        ({"value": None}, "all are unscored"),
    ],
)
def test_scores_that_are_no_comparisons_are_refused(tmp_path, change, words):
    """What is wrong, and what to give instead; nothing on standard output."""
    scores, data = files(tmp_path, [1.0, 0.0, 0.5] * 4)
    rows = [{**json.loads(line), **change} for line in scores.read_text().splitlines()]
    scores.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = rank(scores, data, "--pair", "system")
    assert (done.code, done.out) == (2, "")
    assert words in done.err.replace("\n", " ")


def test_data_without_systems_or_judges_that_differ_are_refused(tmp_path):
    """No `system_b`, two signatures, an aspect that is not there."""
    scores, data = files(tmp_path, [1.0, 0.0, 0.5] * 4)
    assert "'system_b'" in rank(scores, data).err.replace("\n", " ")
    assert "it has tone" in rank(scores, data, "--pair", "system", "-a", "x").err.replace("\n", " ")
    rows = [json.loads(line) for line in scores.read_text().splitlines()]
    rows = [{**row, "signature": str(at % 2)} for at, row in enumerate(rows)]
    scores.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "2 different judges" in rank(scores, data, "--pair", "system").err


def test_systems_that_never_met_are_not_ranked_together(tmp_path):
    """a with b, and c with d."""
    pairs = [
        Example(
            id=f"{a}{g}",
            output="x",
            system=a,
            group=str(g),
            meta={"output_b": "y", "system_b": b},
        )
        for a, b in (("a", "b"), ("c", "d"))
        for g in range(5)
    ]
    rows = [{"id": one.id, "aspect": "tone", "value": 0.5} for one in pairs]
    file = tmp_path / "s.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match="never compared"):
        rank_systems(file, pairs)
    with pytest.raises(ConfigurationError, match="no comparisons on"):
        rank_systems(file, pairs[:5], aspects=["other"])


def test_a_run_of_pairwise_is_ranked_as_it_lies(tmp_path):
    """The run folder knows its data and that systems were paired."""
    data, run = write_examples(tmp_path / "data.jsonl", 12), tmp_path / "run"
    with served() as server:
        done = textassay(
            "score", data, "--method", "pairwise", "--pair", "system", "-t", "summarization", "-a",
            "fluency", "--model", "direct/mock", "--api-base", server.url, "--out", run,
            "--progress", "none",
        )  # fmt: skip
    assert done.code == 0, done.err
    found = json.loads(rank(run, "--json").out)
    assert {row["system"] for row in found["rows"]} == {"M0", "M1"}
    assert all((row["n"], row["groups"]) == (6, 6) for row in found["rows"])

"""Probabilities of answers against people: calibration error, temperature, recorded answers."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import softmax

from tests.benchmark_data import benchmark
from tests.cli.harness import textassay, write_lines
from textassay.agreement.correlation import spearman
from textassay.agreement.joined import People
from textassay.estimation.calibration import calibrate, load
from textassay.estimation.columns import join_columns, read_judged, scales_of
from textassay.estimation.maps import MapScales
from textassay.estimation.probabilities import (
    calibration_error,
    fit_temperature,
    level_report,
    with_temperature,
)
from textassay.runtime.data.dataset import Examples
from textassay.runtime.messages import Score

SIGNATURE = "method:decide|model:jev|how:decision"


def test_the_calibration_error_is_the_mean_gap_over_bins_closed_on_the_right():
    p = np.array([0.1, 0.2, 0.75, 0.8, 0.8])
    right = np.array([0.0, 1.0, 1.0, 1.0, 0.0])
    # .1 | .2 | .75, .8 and .8 are one bin: gaps .1, .8, 2.35 - 2
    assert calibration_error(p, right) == pytest.approx((0.1 + 0.8 + 0.35) / 5)
    assert calibration_error(np.array([0.7, 1.0, 0.0]), np.array([1.0, 1.0, 0.0])) == pytest.approx(
        0.1
    )


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_a_planted_temperature_is_found(temperature):
    rng = np.random.default_rng(0)
    true = softmax(rng.normal(scale=1.5, size=(4000, 5)), axis=1)
    chosen = np.array([rng.choice(5, p=p) for p in true])
    sent = softmax(np.log(true) * temperature, axis=1)  # as sure as that
    found = fit_temperature(sent, chosen)
    assert found == pytest.approx(temperature, rel=0.1)
    assert with_temperature(sent, found) == pytest.approx(true, abs=0.05)


def test_too_few_ratings_or_ratings_between_levels_leave_probabilities_alone():
    levels, scales = np.arange(5.0), MapScales((0.0, 4.0), (0.0, 4.0))
    shares = np.full((40, 5), 0.2)
    between = level_report(shares, levels, np.full(40, 2.5), np.arange(40), scales, 0)
    few = level_report(shares[:20], levels, np.full(20, 2.0), np.arange(20), scales, 0)
    none = level_report(np.empty((0, 0)), np.empty(0), np.full(20, 2.0), np.arange(20), scales, 0)
    assert between == few == none == (1.0, None)


def recorded(tmp_path, name: str, human: str, repeat: int | None = 0):
    """Return rows of recorded answers, and a run and data that hold them."""
    rows = [row for row in benchmark(f"jevals/{name}.jsonl.gz") if repeat in (None, row["repeat"])]
    scores, data = [], []
    for row in rows:
        id_ = f"{row['id']}/{row['repeat']}"
        shares = row["probabilities"]
        value = row["score"] if "score" in row else shares["yes"]
        evidence = [{"text": level, "probability": p} for level, p in shares.items()]
        last = 4 if "score" in row else 1
        scores.append({"id": id_, "aspect": human, "value": value, "scale": [0, last],
                       "how": "decision", "signature": SIGNATURE,
                       "evidence": evidence if "score" in row else []})  # fmt: skip
        data.append({"id": id_, "group": row["id"], "human": {human: row["human"][human]}})
    return (
        write_lines(tmp_path / "scores.jsonl", scores),
        write_lines(tmp_path / "data.jsonl", data),
        rows,
    )


def columns_of(run, data):
    [columns] = join_columns(read_judged(run), People(Examples(data, needs_output=False)))
    return columns


def test_published_figures_of_ratings_are_reproduced(tmp_path):
    """Jevals: right .4127, calibration error .1962, Spearman .518 of the mean level."""
    run, data, _ = recorded(tmp_path, "jev_helpsteer2", "helpfulness", repeat=None)
    columns = columns_of(run, data)
    scales = scales_of(columns, {"helpfulness": (0, 4)})
    _, report = level_report(
        columns.shares, columns.levels, columns.ratings, columns.groups, scales, 0
    )
    assert report["n"] == 1500
    assert report["right"] == pytest.approx(0.4127, abs=5e-5)
    assert report["raw"] == pytest.approx(0.1962, abs=2e-4)
    assert report["constant"] == pytest.approx(0.4167, abs=5e-5)
    assert spearman(columns.scores, columns.ratings) == pytest.approx(0.518, abs=2e-3)


def test_published_figures_of_yes_and_no_are_reproduced(tmp_path):
    """Jevals: right .9133, calibration error .0712."""
    run, data, _ = recorded(tmp_path, "jev_pubmedqa", "yes", repeat=None)
    columns = columns_of(run, data)
    _, report = calibrate(columns, scales=scales_of(columns, {"yes": (0, 1)}))
    found = report["calibration_error"]
    assert found["right"] == pytest.approx(0.9133, abs=5e-5)
    assert found["raw"] == pytest.approx(0.0712, abs=2e-4)
    assert found["calibrated"] < 0.05
    assert found["constant"] == pytest.approx(0.62)


@pytest.mark.parametrize(
    ("name", "human", "top", "raw"),
    [("jev_helpsteer2", "helpfulness", 4, 0.18), ("jev_pubmedqa", "yes", 1, 0.07)],
)
def test_100_grades_bring_the_error_of_the_others_under_8_percent(tmp_path, name, human, top, raw):
    """One map a question, learned from 100 items, applied to the other 200."""
    run, data, _ = recorded(tmp_path, name, human)
    columns = columns_of(run, data)
    scales = scales_of(columns, {human: (0, top)})
    before, after, gains = [], [], []
    for seed in range(12):
        chosen = np.zeros(len(columns.ids), bool)
        chosen[np.random.default_rng(seed).permutation(len(chosen))[:100]] = True
        made, _ = calibrate(columns.only(chosen), scales=scales)
        rest = columns.only(~chosen)
        calibrated = made.map.predict(rest.scores)
        gains.append(spearman(calibrated, rest.ratings) - spearman(rest.scores, rest.ratings))
        if top == 1:
            before.append(calibration_error(rest.scores, rest.ratings))
            after.append(calibration_error(calibrated, rest.ratings))
            continue
        for errors, shares in (
            (before, rest.shares),
            (after, with_temperature(rest.shares, made.temperature)),
        ):
            right = columns.levels[shares.argmax(axis=1)] == rest.ratings
            errors.append(calibration_error(shares.max(axis=1), right.astype(float)))
    assert np.mean(before) > raw
    assert np.mean(after) < 0.08
    assert np.mean(gains) >= 0  # the order is kept; ties at the ends of the scale may add to it


def planted(tmp_path):
    """Return a run of ratings that are twice as sure as they should be, and people's ratings."""
    rng = np.random.default_rng(1)
    scores, data = [], []
    for number in range(1500):
        true = softmax(rng.normal(scale=1.5, size=3))
        sent = softmax(2 * np.log(true))
        mean = float(sent @ [1, 2, 3])
        evidence = [{"text": str(i + 1), "probability": float(p)} for i, p in enumerate(sent)]
        scores.append(
            {"id": f"t{number}", "aspect": "clear", "value": mean, "scale": [1, 3],
             "how": "decision", "signature": SIGNATURE, "evidence": evidence}
        )  # fmt: skip
        human = {"clear": int(rng.choice(3, p=true)) + 1}
        data.append({"id": f"t{number}", "output": f"Text {number}.", "human": human})
    return write_lines(tmp_path / "s.jsonl", scores), write_lines(tmp_path / "d.jsonl", data)


def test_calibrate_reports_the_error_before_and_after_and_applies_the_temperature(tmp_path):
    run, data = planted(tmp_path)
    out = tmp_path / "calibration"
    textassay("calibrate", run, data, "--out", out).ok()
    [report] = json.loads((out / "report.json").read_text("utf-8"))["aspects"]
    found = report["calibration_error"]
    assert found["temperature"] == pytest.approx(2, rel=0.25)
    assert found["calibrated"] < found["raw"] / 2
    assert "calibration error (ECE)" in (out / "report.txt").read_text("utf-8")
    loaded = load(out)
    first = json.loads(run.read_text("utf-8").splitlines()[0])
    score = loaded.apply(Score(**first))
    shares = [piece["probability"] for piece in score.evidence]
    expected = with_temperature(np.array([shares]), found["temperature"])[0]
    assert [piece["calibrated"] for piece in score.evidence] == pytest.approx(list(expected))

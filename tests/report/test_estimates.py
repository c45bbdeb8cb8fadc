"""The page's numbers to decide by are those of the commands."""

import html
import json
import random

import pytest

from tests.cli.harness import textassay
from tests.report.runs import score, words_of, write_data, write_run
from textassay.report.rendering import figure


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two runs over 160 texts of four systems; raters rated thirty of forty sources."""
    folder, chance = tmp_path_factory.mktemp("decisions"), random.Random(3)
    rows, first, second = [], [], []
    for i in range(160):
        truth = min(5, max(1, chance.gauss(3.0 + 0.4 * (i % 4), 1)))
        raters = [min(5, max(1, round(truth + chance.gauss(0, 0.6)))) for _ in range(3)]
        row = {"id": f"x{i}", "output": f"text {i} " * (i % 7 + 1), "system": f"M{i % 4}",
               "group": f"g{i // 4}"}  # fmt: skip
        if i // 4 < 30:
            row |= {"human": {"coherence": sum(raters) / 3}, "annotators": {"coherence": raters}}
        rows.append(row)
        for scores, noise in ((first, 0.5), (second, 0.9)):
            value = min(5.0, max(1.0, 0.5 + 0.7 * truth + chance.gauss(0, noise)))
            scores.append(score(f"x{i}", value=round(value, 1)))
    data = write_data(folder / "data.jsonl", rows)
    runs = [write_run(folder / "a", first, data), write_run(folder / "b", second, data)]
    assert textassay("calibrate", runs[0], data, "--out", folder / "cal").code == 0
    return folder, data, runs


@pytest.fixture(scope="module")
def words(files):
    """The words of the page, without markup."""
    folder, data, (a, b) = files
    done = textassay(
        "report", a, b, "--human", data, "--calibration", folder / "cal", "--out", folder / "r.html"
    )
    assert done.code == 0, done.err
    return words_of((folder / "r.html").read_text(encoding="utf-8"))


def shown(value, low, high):
    return figure(value) + ("" if low is None else f" {figure(low)} to {figure(high)}")


def test_estimates_are_those_of_the_command(files, words):
    """Judge only, labels only and corrected, by system, and every difference."""
    _, data, (a, _) = files
    found = json.loads(textassay("estimate", a, data, "--by", "system", "--json").out)
    assert len(found["rows"]) == 5
    for row in found["rows"]:
        counts = f"{row['n']} {row['rated']} {row['rated_groups']}/{row['groups']}"
        rank = "-".join(map(str, dict.fromkeys(row["rank"] or "–")))
        means = (shown(**row[name]) for name in ("judge_only", "labels_only", "corrected"))
        corrected = f"{figure(row['worth'], 2)} {row['method']} {rank}"
        assert f"{counts} {' '.join(means)} {corrected}" in words
    for row in found["differences"]:
        assert f"{row['a']} {row['b']} {shown(row['value'], row['low'], row['high'])}" in words


def test_comparison_is_that_of_the_command(files, words):
    """Means, difference, wins and losses of the two runs, and their agreement with people."""
    _, data, (a, b) = files
    found = json.loads(textassay("compare", a, b, data, "--json").out)
    (row,) = found["rows"]
    means = f"{row['n']} {row['groups']} {figure(row['a'])} {figure(row['b'])}"
    assert f"coherence {means} {shown(row['difference'], row['low'], row['high'])}" in words
    assert f"{row['wins']} {row['ties']} {row['losses']}" in words
    assert found["agreement"]
    for one in found["agreement"]:
        values = " ".join(figure(one[name]) for name in ("a", "b", "difference"))
        assert f"{one['coefficient']} {one['n']} {values}" in words


def test_stand_in_equals_the_figures_of_the_command(files, words):
    """Omega and rho of the judge and of the best constant."""
    _, data, (a, _) = files
    (row,) = json.loads(textassay("alt-test", a, data, "--json").out)["rows"]
    passes = "yes" if row["passes"] else "no"
    judge = f"{figure(row['omega'], 2)} {figure(row['rho'], 2)} {passes}"
    constant = [row["constant"][name] for name in ("value", "omega", "rho")]
    best = f"{constant[0]:g} {figure(constant[1], 2)} {figure(constant[2], 2)}"
    assert f"{row['n']} {row['raters']} {row['groups']} {judge} {best}" in words


def test_notes_are_those_of_the_commands(files, words):
    """The page has the same notes as the tables and the documents."""
    _, data, (a, b) = files
    for command in (("estimate", a, data, "--by", "system"), ("compare", a, b, data),
                    ("alt-test", a, data)):  # fmt: skip
        notes = json.loads(textassay(*command, "--json").out)["notes"]
        printed = textassay(*command).err.splitlines()
        assert printed == notes
        assert all(html.escape(note) in words for note in notes)
    assert "assumed: sources are independent of each other" in words


def test_calibration_is_drawn(files, words):
    """Each calibrated aspect has its curve with what it was learned from."""
    assert "map from 120 ratings on 30 sources" in words
    assert "An interval contains 90 % of new texts" in words


def test_calibration_of_another_judge_is_refused(files, tmp_path):
    """A curve of another judge says nothing about these scores."""
    folder, data, _ = files
    other = write_run(
        tmp_path / "other", [score("x0").model_copy(update={"signature": "another"})], data
    )
    calibration, out = folder / "cal", tmp_path / "r.html"
    textassay("report", other, "--calibration", calibration, "--out", out).ends(2, "another judge")
    assert not out.exists()

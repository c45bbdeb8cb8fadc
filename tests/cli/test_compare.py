"""`textassay compare` from the runs' own data: two runs, two systems of one, two weeks of
traffic."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from tests.cli.harness import textassay
from textassay.calibration import compare_runs
from textassay.calibration.columns import Judged
from textassay.meta.people import People


def write_run(folder, rows, values):
    """A run of a metric that is recorded in the rows, made by the command."""
    folder.mkdir(exist_ok=True)
    data = folder / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = textassay("tools", "score", data, "--tools", "length", "-o", folder / "run")
    assert made.code == 0, made.err
    scores = folder / "run" / "scores.jsonl"
    lines = [json.loads(line) for line in scores.read_text().splitlines()]
    for line in lines:
        line["value"] = values[line["id"]]
    scores.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder / "run"


def sample(week, sources, seed, level=3.0):
    """Two systems' texts of each source, and scores that vary more between sources than within."""
    rng = np.random.default_rng(seed)
    rows, values = [], {}
    for at in range(sources):
        base = level + rng.normal(0, 1)
        for system, more in (("a", 0.5), ("b", 0.0)):
            id_ = f"{week}-{at}-{system}"
            text = f"Text {at} of {system} in {week}."
            rows.append({"id": id_, "group": f"{week}-{at}", "system": system, "output": text})
            values[id_] = base + more + rng.normal(0, 0.2)
    return rows, values


def compared(*arguments):
    done = textassay("compare", *arguments, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out), done.err


def test_two_runs_are_paired_by_the_sources_of_their_data(tmp_path):
    """What DATA gives, the run's own data give; moved away, the output says what is missing."""
    rows, values = sample("w", 20, 0)
    one = write_run(tmp_path / "one", rows, values)
    shutil.copytree(one, two := tmp_path / "two")
    found, _ = compared(one, two)
    assert (found["rows"][0]["n"], found["rows"][0]["groups"]) == (40, 20)
    assert found == compared(one, two, tmp_path / "one" / "data.jsonl")[0]
    (tmp_path / "one" / "data.jsonl").unlink()
    found, _ = compared(one, two)
    assert found["rows"][0]["groups"] == 40
    assert any("give DATA to pair by source" in note for note in found["notes"])


def test_two_systems_of_one_run(tmp_path):
    """Paired by source, without ratings and without splitting the data."""
    rows, values = sample("w", 30, 1)
    run = write_run(tmp_path / "one", rows, values)
    found, _ = compared(run, "--systems", "a", "b")
    [row] = found["rows"]
    assert (row["paired_by"], row["n"], row["groups"], found["systems"]) == (
        "source", 30, 30, ["a", "b"]
    )  # fmt: skip
    # sources differ by 1 and systems within them by .2: unpaired, the interval would be wide
    assert 0.4 < row["low"] < row["difference"] < row["high"] < 0.6
    assert row["p"] < 0.001
    assert row["wins"] > 25
    assert "a is a, b is b" in " ".join(found["notes"])
    gated = textassay("compare", run, "--systems", "b", "a", "--fail-below", "0")
    assert gated.code == 1


def test_two_weeks_are_independent_samples(tmp_path):
    """No id and no source in common: compared as such, and said."""
    (old, before), (new, after) = sample("w1", 40, 2), sample("w2", 30, 3, level=1.0)
    runs = [
        write_run(tmp_path / name, rows, values)
        for name, rows, values in (("new", new, after), ("old", old, before))
    ]
    found, err = compared(*runs)
    [row] = found["rows"]
    assert (row["paired_by"], row["n"], row["groups"], row["wins"]) == (None, 140, 70, None)
    assert row["high"] < -1 < 0.5 < row["high"] - row["low"]
    assert row["p"] < 0.001
    assert "two independent samples" in " ".join(err.split())
    assert "independent samples" in textassay("compare", *runs).out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run",), "compare takes two runs, or one run and --systems A B"),
        (("run", "data.jsonl", "data.jsonl", "--systems", "a", "b"), "takes one run and"),
        (("run", "--systems", "a", "z"), "unknown system of the data 'z'"),
        (("run", "other.jsonl"), "the runs share no id on 'length'"),
    ],
)
def test_what_cannot_be_compared_is_refused(tmp_path, arguments, words):
    rows, values = sample("w", 3, 1)
    run = write_run(tmp_path / "one", rows, values)
    (run.parent / "other.jsonl").write_text('{"id": "x", "aspect": "length", "value": 1}\n')
    paths = [run.parent / one if one in ("run", "data.jsonl", "other.jsonl") else one
             for one in arguments]  # fmt: skip
    done = textassay("compare", *paths)
    assert (done.code, words in " ".join(done.err.split())) == (2, True), done.err


def test_intervals_of_independent_samples_hold_what_they_promise():
    """600 draws of 12 and 30 sources with one to five texts each, and no difference."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(600):
        sides, groups = [], {}
        for side, sources in (("a", 12), ("b", 30)):
            judged = Judged()
            for at in range(sources):
                level = rng.normal(0, 1)
                for text in range(rng.integers(1, 6)):
                    groups[f"{side}{at}-{text}"] = f"{side}{at}"
                    judged.values[f"{side}{at}-{text}"] = level + rng.normal(0, 1)
            sides.append({"tone": judged})
        people = People([{"id": id_, "group": group} for id_, group in groups.items()])
        [row] = compare_runs(*sides, people, unpaired=True)
        held += row.difference.low <= 0 <= row.difference.high
    assert 0.93 <= held / 600 <= 0.98

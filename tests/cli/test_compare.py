"""`textassay compare` from the runs' own data, and what scores of two judges mean to commands."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from tests.cli import harness
from tests.cli.harness import document, read_lines, textassay, write_examples, write_lines
from textassay.calibration import compare_runs
from textassay.calibration.columns import Judged
from textassay.meta.records import People


def write_run(folder, rows, values):
    """A run of a metric that is recorded in the rows, made by the command."""
    folder.mkdir(exist_ok=True)
    data = write_lines(folder / "data.jsonl", rows)
    textassay("tools", "score", data, "--tools", "length", "-o", folder / "run").ok()
    path = folder / "run" / "scores.jsonl"
    write_lines(path, [{**line, "value": values[line["id"]]} for line in read_lines(path)])
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


def test_two_runs_are_paired_by_the_sources_of_their_data(tmp_path):
    """What DATA gives, the run's own data give; moved away, the output says what is missing."""
    rows, values = sample("w", 20, 0)
    one = write_run(tmp_path / "one", rows, values)
    shutil.copytree(one, two := tmp_path / "two")
    found = document("compare", one, two)
    assert (found["rows"][0]["n"], found["rows"][0]["groups"]) == (40, 20)
    assert found == document("compare", one, two, tmp_path / "one" / "data.jsonl")
    (tmp_path / "one" / "data.jsonl").unlink()
    found = document("compare", one, two)
    assert found["rows"][0]["groups"] == 40
    assert any("give DATA to pair by source" in note for note in found["notes"])


def test_two_systems_of_one_run(tmp_path):
    rows, values = sample("w", 30, 1)
    run = write_run(tmp_path / "one", rows, values)
    found = document("compare", run, "--systems", "a", "b")
    [row] = found["rows"]
    assert (row["paired_by"], row["n"], row["groups"]) == ("source", 30, 30)
    assert found["systems"] == ["a", "b"]
    # sources differ by 1 and systems within them by .2: unpaired, the interval would be wide
    assert 0.4 < row["low"] < row["difference"] < row["high"] < 0.6
    assert row["p"] < 0.001
    assert row["wins"] > 25
    assert "a is a, b is b" in " ".join(found["notes"])
    gated = textassay("compare", run, "--systems", "b", "a", "--fail-below", "0")
    assert gated.code == 1


def test_two_weeks_are_independent_samples(tmp_path):
    (old, before), (new, after) = sample("w1", 40, 2), sample("w2", 30, 3, level=1.0)
    runs = [
        write_run(tmp_path / name, rows, values)
        for name, rows, values in (("new", new, after), ("old", old, before))
    ]
    done = textassay("compare", *runs, "--json").ok()
    [row] = json.loads(done.out)["rows"]
    assert (row["paired_by"], row["n"], row["groups"], row["wins"]) == (None, 140, 70, None)
    assert row["high"] < -1 < 0.5 < row["high"] - row["low"]
    assert row["p"] < 0.001
    assert "two independent samples" in done.said
    assert "independent samples" in textassay("compare", *runs).out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run",), "compare takes two runs, or one run and --systems A B"),
        (("run", "data.jsonl", "data.jsonl", "--systems", "a", "b"), "takes one run and"),
        (("run", "--systems", "a", "z"), "unknown system of the data 'z'"),
        (("run", "other.jsonl"), "the runs share no id on 'length'"),
        (("run", "named.jsonl"), "share no aspect"),
    ],
)
def test_what_cannot_be_compared_is_refused(tmp_path, arguments, words):
    rows, values = sample("w", 3, 1)
    run = write_run(tmp_path / "one", rows, values)
    for name, aspect in (("other", "length"), ("named", "width")):
        scored = {"id": "x", "aspect": aspect, "value": 1}
        write_lines(run.parent / f"{name}.jsonl", [scored])
    paths = [run.parent / one if one.endswith(("run", ".jsonl")) else one for one in arguments]
    textassay("compare", *paths).ends(2, words)


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


ROWS = [(f"g{at // 3}", f"{at}") for at in range(60)]


@pytest.fixture
def rated(tmp_path):
    """20 sources of three texts each, all rated by two raters who differ."""
    return write_lines(
        tmp_path / "rated.jsonl",
        [
            {"id": id_, "group": group, "output": "w " * (3 + int(id_) % 4),
             "annotators": {"tone": [1 + int(id_) % 5, 1 + (int(id_) + int(id_) // 7) % 5]}}
            for group, id_ in ROWS
        ],
    )  # fmt: skip


def scores(path, value=lambda at: 1 + at % 5, **fields):
    return write_lines(
        path,
        [
            {"id": id_, "aspect": "tone", "value": value(int(id_)), "scale": [1, 5],
             "signature": "judge-1", **fields}
            for _, id_ in ROWS
        ],
    )  # fmt: skip


def test_a_file_of_two_judges_is_refused(tmp_path, rated):
    """Its mean would be of neither; a line that was replaced since is of no judge."""
    one = scores(tmp_path / "one.jsonl")
    rows = read_lines(one)
    lines = [{**row, "signature": f"judge-{at % 2}"} for at, row in enumerate(rows)]
    mixed = write_lines(tmp_path / "mixed.jsonl", lines)
    for command, which in (
        (("compare", mixed, one, rated), " (those of the first run)"),
        (("compare", one, mixed, rated), " (those of the second run)"),
        (("meta", mixed, rated), ""),
    ):
        done = textassay(*command)
        assert (done.code, done.out) == (2, "")
        assert "of 'tone' come from 2 different judges ('judge-0'; 'judge-1')" in done.said
        assert f"split them into one file per judge{which}" in done.said
    again = write_lines(tmp_path / "again.jsonl", lines + rows)
    assert document("meta", again, rated) == document("meta", one, rated)


def test_compare_subtracts_nothing_across_scales(tmp_path, rated):
    """A 4 of 5 minus a .8 of 1 is no number; agreement with people is still compared."""
    one = scores(tmp_path / "one.jsonl")
    other = scores(
        tmp_path / "other.jsonl", lambda at: (at % 5) / 4, scale=[0, 1], signature="judge-2"
    )
    done = textassay("compare", one, other, rated, "--json").ok()
    found = json.loads(done.out)
    row = found["rows"][0]
    empty = ("difference", "low", "high", "p", "p_holm", "wins", "ties", "losses")
    assert [row[name] for name in empty] == [None] * len(empty)
    assert (row["a"], row["b"]) == (3, 0.5)
    assert found["agreement"][0]["difference"] == pytest.approx(0)
    assert "scores from 1 to 5, the other from 0 to 1, so a - b means nothing" in done.said
    textassay("compare", one, other, rated, "--fail-below", "0").ends(4, "inconclusive")


def test_compare_says_why_there_is_no_agreement(tmp_path, rated):
    one, other = scores(tmp_path / "one.jsonl"), scores(tmp_path / "two.jsonl", lambda at: 3)
    rows = read_lines(rated)
    bare = write_lines(tmp_path / "bare.jsonl", [{**row, "annotators": {}} for row in rows])
    assert "no ratings in the data" in textassay("compare", one, one, bare).said
    assert "agreement is undefined" in textassay("compare", one, other, rated).said
    same = write_lines(
        tmp_path / "same.jsonl", [{**r, "annotators": {"tone": [3, 3]}} for r in rows]
    )
    assert "agreement is undefined" in textassay("compare", one, one, same).said
    assert "undefined" not in textassay("compare", one, one, rated).said


def test_meta_says_why_raters_have_no_agreement(tmp_path, rated):
    one = scores(tmp_path / "one.jsonl")
    rows = read_lines(rated)
    for annotators, words in (
        ({"tone": [3]}, "only one rater"),
        ({"tone": [3, 3]}, "alpha is undefined"),
    ):
        file = write_lines(
            tmp_path / "d.jsonl", [{**row, "annotators": annotators} for row in rows]
        )
        textassay("meta", one, file, "--raters").ends(0, words)
    means = [
        {k: v for k, v in row.items() if k != "annotators"} | {"human": {"tone": 3}} for row in rows
    ]
    done = textassay("meta", one, write_lines(tmp_path / "m.jsonl", means), "--raters")
    assert (done.code, done.out, "no single ratings" in done.said) == (2, "", True)
    assert "alpha" not in textassay("meta", one, rated, "--raters").said


@pytest.mark.parametrize("change", [{"output": None}, {"output": ...}])
def test_meta_needs_no_texts(tmp_path, rated, change):
    """Ids and ratings suffice, here one row per rater: nothing else is looked at."""
    one = scores(tmp_path / "one.jsonl")
    rows = read_lines(rated)
    bare = [{k: v for k, v in {**row, **change}.items() if v is not ...} for row in rows]
    expected = textassay("meta", one, rated, "--json").out
    assert textassay("meta", one, write_lines(tmp_path / "b.jsonl", bare), "--json").out == expected
    by_rater = [
        {k: v for k, v in row.items() if k != "annotators"} | {"rater": name, "human.tone": rating}
        for row in bare
        for name, rating in zip("xy", row["annotators"]["tone"], strict=True)
    ]
    done = textassay("meta", one, write_lines(tmp_path / "long.jsonl", by_rater), "--json")
    assert (done.code, done.out) == (0, expected), done.err


def test_label_plan_says_that_everything_is_rated(tmp_path, rated):
    """The half-width is the ratings' own, never 0, and nothing is left to draw."""
    one = scores(tmp_path / "one.jsonl", lambda at: 1 + at % 5 + at % 3 / 10)
    plan = ("label-plan", one, rated, "--half-width", "0.01")
    done = textassay(*plan).ends(0, "all 60 rows are rated, so nothing is left to draw")
    assert "all rated" in done.out
    row = json.loads(textassay(*plan, "--json").out)["rows"][0]
    assert row["half_width"] == row["with_all"] > 0.1
    assert row["more"] is None
    none = textassay(*plan, "--next", "5", "-o", tmp_path / "next.jsonl")
    assert (none.code, "0 scored rows are unrated" in none.said) == (2, True)
    assert not (tmp_path / "next.jsonl").exists()


def test_prompts_that_have_changed_are_refused_unasked(tmp_path, server):
    """One word of a prompt: no calibration of before fits, and no run is resumed or compared."""
    profile, rates = tmp_path / "mine", "Rate {{ bare.output }} from 1 to 5. Score:"
    profile.mkdir()
    prompts = 'format = 1\nask = "chat"\n\n[prompts]\nllm_score = "rate.jinja"\n'
    (profile / "profile.toml").write_text(prompts)
    (profile / "rate.jinja").write_text(rates)
    examples, aspects = write_examples(tmp_path / "examples.jsonl", 40), {"aspects": "coherence"}
    ask = ("-t", "summarization", "--set", f"profile={profile}", "--progress", "none")
    run, cal, stress = (tmp_path / name for name in ("run", "cal", "stress"))
    harness.score(examples, run, server, *ask, **aspects).ok()
    rows = [{**r, "human": {"coherence": 1 + at % 5}} for at, r in enumerate(read_lines(examples))]
    textassay("calibrate", run, write_lines(tmp_path / "rated.jsonl", rows), "-o", cal).ok()
    stressed = harness.flags(examples, stress, server, *ask, "--tests", "bold", **aspects)
    done = textassay("stress", *stressed[1:], "--limit", 6)
    assert (stress / "stress.json").is_file(), done.err
    # a file of another name, since this process has read the first one
    (profile / "anew.jinja").write_text(f"Please {rates.replace('Rate', 'rate')}")
    (profile / "profile.toml").write_text(prompts.replace("rate.jinja", "anew.jinja"))
    before, use = server.counters.requests, ("--calibration", cal)
    done = harness.score(examples, tmp_path / "no", server, *ask, *use, **aspects)
    assert (done.code, "another judge, prompt or setting" in done.said) == (2, True)
    for folder in (run, stress):
        done = textassay("resume", folder, "--api-base", server.url, "--progress", "none")
        assert (done.code, "prompt" in done.said) == (2, True), done.out
    assert server.counters.requests == before
    later = tmp_path / "later"
    harness.score(examples, later, server, *ask, **aspects).ok()
    done = textassay("calibrate", later, "--apply", cal, "-o", tmp_path / "applied")
    assert (done.code, (tmp_path / "applied").exists()) == (2, False)
    assert "the runs are of two judges or settings" in textassay("compare", run, later).said

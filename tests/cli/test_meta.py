"""`textassay meta`: exact JSON, a table that can be read anywhere, and errors that help."""

from __future__ import annotations

import json

import pytest

from tests.cli.harness import document, textassay, write_examples, write_lines

KEYS = [
    "aspect", "human", "level", "n", "groups", "groups_skipped", "coverage", "pearson", "spearman",
    "kendall", "ci", "systems", "note",
]  # fmt: skip


@pytest.fixture
def scores(tmp_path):
    """Scores of three aspects, one of them under another name, with a gap."""
    rows = []
    for i in range(12):
        rows += [
            {"id": f"x{i}", "aspect": "coherence", "value": None if i == 3 else 1 + i % 5},
            {"id": f"x{i}", "aspect": "fluency", "value": 2.0},
            {"id": f"x{i}", "aspect": "judge_fluency", "value": 5 - (i + i // 5) % 3},
        ]
    return write_lines(tmp_path / "scores.jsonl", rows)


@pytest.fixture
def people(tmp_path):
    """Twelve examples, two to a group, of two systems."""
    return write_examples(tmp_path / "people.jsonl", 12)


def test_json_is_one_document_of_the_documented_shape(scores, people):
    """All keys in order, gaps counted, null where undefined, and nothing but JSON on stdout."""
    levels = ("--level", "dataset", "--level", "group,system")
    done = textassay("meta", scores, people, *levels, "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out, parse_constant=pytest.fail)
    assert list(found) == ["rows", "notes"]
    assert any("a side is constant" in note for note in found["notes"])
    assert [list(row) for row in found["rows"]] == [KEYS] * 6
    by_place = {(row["aspect"], row["level"]): row for row in found["rows"]}
    assert list(by_place) == [
        (aspect, level)
        for aspect in ("coherence", "fluency")
        for level in ("dataset", "group", "system")
    ]
    pooled = by_place["coherence", "dataset"]
    assert (pooled["n"], pooled["coverage"], pooled["pearson"]) == (11, 11 / 12, pytest.approx(1.0))
    assert set(pooled["ci"]) == {"pearson", "spearman", "kendall"}
    assert pooled["ci"]["pearson"] == pytest.approx([1.0, 1.0])
    constant = by_place["fluency", "dataset"]
    assert (constant["pearson"], constant["ci"]["pearson"]) == (None, None)
    grouped = by_place["fluency", "group"]
    assert (grouped["groups"], grouped["groups_skipped"]) == (0, 6)


def test_the_same_seed_gives_the_same_intervals(scores, people):
    runs = [textassay("meta", scores, people, "--json", "--seed", 1).out for _ in range(2)]
    assert runs[0] == runs[1]
    without = document("meta", scores, people, "--bootstrap", "0")
    assert all(not row["ci"] for row in without["rows"])


def test_names_are_mapped(scores, people):
    """Several scores may be held against one human aspect; equal names still pair."""
    mapped = ("--aspect-map", "judge_fluency=fluency", "--aspect-map", "coherence=fluency")
    rows = document("meta", scores, people, *mapped)["rows"]
    names = dict.fromkeys(("judge_fluency", "coherence", "fluency"), "fluency")
    assert {row["aspect"]: row["human"] for row in rows} == names


def test_a_pipe_gets_whole_lines(scores, people):
    done = textassay("meta", scores, people, "--level", "dataset", "--level", "group")
    title, *lines = done.out.splitlines()
    assert (title, len(lines)) == ("agreement with people", 5)
    assert lines[0].split() == [
        "score", "human", "level", "n", "coverage", "groups", "pearson", "spearman", "kendall",
    ]  # fmt: skip
    assert "[1.000, 1.000]" in lines[1]
    assert max(map(len, lines)) < 200


def test_scores_that_nobody_asked_about_are_told(scores, tmp_path):
    few = write_examples(tmp_path / "few.jsonl", 5)
    textassay("meta", scores, few).ends(0, "7 scored ids are not in the data and were left out")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--level", "planet"), "unknown level 'planet'; known: dataset, group, system"),
        (("--aspect-map", "wit=fluency"), "unknown score"),
        (("--aspect-map", "fluency=wit"), "wit"),
        (("--aspect-map", "fluency"), "fluency"),
        (("--bootstrap", "-1"), "bootstrap"),
    ],
)
def test_what_does_not_fit_is_named(scores, people, flags, message):
    done = textassay("meta", scores, people, *flags)
    assert (done.code, done.out, message in done.err) == (2, "", True), done.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "x0", "aspect": "fluency"}', "line 1, field 'value'"),
        ('{"id": "x0", "aspect": "fluency", "value": "4"}', "line 1, field 'value'"),
        ('{"id": "x0", "aspect": "fluency", "value": NaN}', "line 1"),
        ('{"aspect": "fluency", "value": 3}', "line 1, field 'id'"),
        ("{", "line 1"),
    ],
)
def test_bad_scores_name_file_line_and_field(tmp_path, people, line, message):
    bad = tmp_path / "bad.jsonl"
    bad.write_text(line + "\n" + '{"id": "x1", "aspect": "fluency", "value": 3}\n')
    done = textassay("meta", bad, people)
    assert (done.code, done.out) == (2, "")
    assert str(bad) in done.err
    assert message in done.err


def test_missing_files_are_named(scores, people, tmp_path):
    for arguments, message in (
        ((tmp_path / "nothing", people), "nothing"),
        ((scores, tmp_path / "nothing.jsonl"), "there is no such file"),
        ((scores,), "give DATA after"),
    ):
        textassay("meta", *arguments).ends(2, message)


def test_raters_and_left_out_groups_are_explained(tmp_path):
    """`--raters` shows agreement among people, too; `2 (-1)` and missing intervals are told."""
    ratings = [(1, 2), (3, 3), (5, 4), (2, 2), (2, 2), (2, 2), (4, 5), (1, 1), (3, 2)]
    rows = [
        {"id": f"x{i}", "output": "t", "group": f"g{i // 3}", "system": f"s{i % 3}",
         "human": {"flow": sum(pair) / 2}, "annotators": {"flow": pair}}
        for i, pair in enumerate(ratings)
    ]  # fmt: skip
    lines = [{"id": f"x{i}", "aspect": "flow", "value": one} for i, (one, _) in enumerate(ratings)]
    people = write_lines(tmp_path / "people.jsonl", rows)
    scores = write_lines(tmp_path / "scores.jsonl", lines)
    arguments = ("meta", scores, people, "--raters", "--level", "group,system")
    printed = textassay(*arguments)
    assert "2 (-1): 2 groups are averaged; 1 are left out" in printed.said
    assert "no interval: needs at least 10 systems, found 3" in printed.said
    assert "3 systems" in printed.out
    assert "judge-rater" in printed.out
    (row,) = document(*arguments)["raters"]
    assert (row["aspect"], row["raters"], row["items"]) == ("flow", 2, 9)
    assert row["judge_rater"]["same"] == pytest.approx((1 + 5 / 9) / 2)
    assert row["alpha"]["ordinal"] > 0.5

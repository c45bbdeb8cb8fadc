"""`textassay agreement`: exact JSON, tables, errors that help, and labels."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.benchmark_data import benchmark
from tests.cli.harness import document, read_lines, textassay, write_examples, write_lines

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
    done = textassay("agreement", scores, people, *levels, "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out, parse_constant=pytest.fail)
    assert list(found) == ["rows", "choices", "notes"]
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
    runs = [textassay("agreement", scores, people, "--json", "--seed", 1).out for _ in range(2)]
    assert runs[0] == runs[1]
    without = document("agreement", scores, people, "--bootstrap", "0")
    assert all(not row["ci"] for row in without["rows"])


def test_names_are_mapped(scores, people):
    """Several scores may be compared with one human aspect; equal names still pair."""
    mapped = ("--aspect-map", "judge_fluency=fluency", "--aspect-map", "coherence=fluency")
    rows = document("agreement", scores, people, *mapped)["rows"]
    names = dict.fromkeys(("judge_fluency", "coherence", "fluency"), "fluency")
    assert {row["aspect"]: row["human"] for row in rows} == names


def test_a_pipe_gets_whole_lines(scores, people):
    done = textassay("agreement", scores, people, "--level", "dataset", "--level", "group")
    title, *lines = done.out.split("\n\n")[0].splitlines()
    assert (title, len(lines)) == ("agreement with people", 5)
    assert lines[0].split() == [
        "score", "human", "level", "n", "coverage", "groups", "pearson", "spearman", "kendall",
    ]  # fmt: skip
    assert "[1.000, 1.000]" in lines[1]
    assert max(map(len, lines)) < 200


def test_scores_without_a_human_aspect_are_reported(scores, tmp_path):
    few = write_examples(tmp_path / "few.jsonl", 5)
    textassay("agreement", scores, few).ends(
        0, "7 scored ids are not in the data and were left out"
    )


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
def test_flags_that_do_not_fit_are_named(scores, people, flags, message):
    done = textassay("agreement", scores, people, *flags)
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
    done = textassay("agreement", bad, people)
    assert (done.code, done.out) == (2, "")
    assert str(bad) in done.err
    assert message in done.err


@pytest.mark.parametrize("command", ["agreement", "check", "estimate"])
def test_a_text_that_a_file_scores_twice_is_told(tmp_path, people, command):
    """As files of several systems under one id do; the last score counts."""
    rows = [{"id": f"x{i}", "aspect": "coherence", "value": 1 + i % 5} for i in (*range(12), 3)]
    scores = write_lines(tmp_path / "scores.jsonl", rows)
    done = textassay(command, scores, people)
    assert "'x3' on 'coherence' in lines 4 and 13; the last score counts" in done.err


def test_missing_files_are_named(scores, people, tmp_path):
    for arguments, message in (
        ((tmp_path / "nothing", people), "nothing"),
        ((scores, tmp_path / "nothing.jsonl"), "there is no such file"),
        ((scores,), "give DATA after"),
    ):
        textassay("agreement", *arguments).ends(2, message)


def test_ratings_that_need_a_map_are_data(tmp_path, scores, people):
    """A field map is of DATA, and a message does not send anyone to a map of `--ratings`."""
    table = tmp_path / "long.csv"
    rows = [f"x{i},{name},{1 + i % 5}" for i in range(12) for name in ("Zoë", "Ben")]
    table.write_text("\n".join(["id,Name,human.fluency", *rows]), encoding="utf-8")
    done = textassay("agreement", scores, people, "--ratings", table)
    done.ends(2, "--field COLUMN=rater; give the file as DATA, which --field maps")
    textassay("agreement", scores, table, "--field", "Name=rater").ok()


def test_raters_and_left_out_groups_are_explained(tmp_path):
    """`--raters` shows agreement among people, too; `2 (-1)` and missing intervals are shown."""
    ratings = [(1, 2), (3, 3), (5, 4), (2, 2), (2, 2), (2, 2), (4, 5), (1, 1), (3, 2)]
    rows = [
        {"id": f"x{i}", "output": "t", "group": f"g{i // 3}", "system": f"s{i % 3}",
         "human": {"flow": sum(pair) / 2}, "annotators": {"flow": pair}}
        for i, pair in enumerate(ratings)
    ]  # fmt: skip
    lines = [{"id": f"x{i}", "aspect": "flow", "value": one} for i, (one, _) in enumerate(ratings)]
    people = write_lines(tmp_path / "people.jsonl", rows)
    scores = write_lines(tmp_path / "scores.jsonl", lines)
    arguments = ("agreement", scores, people, "--raters", "--level", "group,system")
    printed = textassay(*arguments)
    assert "2 (-1): groups averaged: 2; left out, because all" in printed.messages
    assert "no interval: needs at least 6 systems, found 3" in printed.messages
    assert "3 systems" in printed.out
    assert "judge-rater" in printed.out
    (row,) = document(*arguments)["raters"]
    assert (row["aspect"], row["raters"], row["items"]) == ("flow", 2, 9)
    assert row["judge_rater"]["same"] == pytest.approx((1 + 5 / 9) / 2)
    assert row["alpha"]["ordinal"] > 0.5


TASK = """
name = "support"
intro = "You will be given a message."
[[aspects]]
name = "topics"
definition = "what the message is about."
labels = {billing = "an invoice", refund = "money back"}
multiple = true
[[aspects]]
name = "intent"
definition = "what is wanted."
labels = {order = "", complaint = "", question = ""}
"""
SETS = [["billing"], [], ["billing", "refund"], ["refund"]]
WORDS = ["order", "complaint", "question"]


@pytest.fixture
def folder(tmp_path):
    """People's labels of 40 texts of 20 sources, and two judges, the second of which errs more."""
    rng = np.random.default_rng(4)
    rows, judges = [], {"good": [], "bad": []}
    for at in range(40):
        ok, topics, intent = bool(rng.random() < 0.6), SETS[at % 4], WORDS[at % 3]
        human = {"ok": ok, "topics": topics, "intent": intent}
        rows.append({"id": f"r{at}", "group": f"g{at // 2}", "output": "x", "human": human})
        for name, wrong in (("good", 0.05), ("bad", 0.4)):
            errs = rng.random() < wrong
            said = {
                "ok": ok != errs,
                "topics": SETS[(at + errs) % 4],
                "intent": WORDS[(at + errs) % 3],
                "sure": 0.8 * ok + 0.2 * rng.random() if not errs else 0.5,
            }
            judges[name] += [
                {"id": f"r{at}", "aspect": aspect, "value": value} for aspect, value in said.items()
            ]
    (tmp_path / "task.toml").write_text(TASK, encoding="utf-8")
    for name, lines in {"data": rows, **judges}.items():
        write_lines(tmp_path / f"{name}.jsonl", lines)
    return tmp_path


@pytest.fixture
def given(folder):
    """The good judge, the data and the task."""
    return folder / "good.jsonl", folder / "data.jsonl", "--task", folder / "task.toml"


def keep(folder, aspect, *judges):
    """Return scores of one aspect, and the data with people's labels of it."""
    kept = [
        write_lines(
            folder / f"{name}-{aspect}.jsonl",
            [row for row in read_lines(folder / f"{name}.jsonl") if row["aspect"] == aspect],
        )
        for name in judges
    ]
    rows = read_lines(folder / "data.jsonl")
    people = "ok" if aspect == "sure" else aspect
    data = [{**row, "human": {people: row["human"][people]}} for row in rows]
    return (*kept, write_lines(folder / f"data-{aspect}.jsonl", data))


def test_meta_reads_the_labels_of_a_task(given):
    found = document("agreement", *given)
    labels = {row["aspect"]: row for row in found["labels"]}
    assert set(labels) == {"ok", "topics/billing", "topics/refund", "intent"}
    assert labels["intent"]["labels"] == ["order", "complaint", "question"]
    (sets,) = found["sets"]
    assert sets["labels"] == ["billing", "refund"]
    assert sets["measures"]["jaccard"]["constant"] < sets["measures"]["jaccard"]["value"] < 1
    rows = {row["aspect"]: row for row in found["rows"]}
    assert (rows["ok"]["positive"], rows["intent"]["spearman"]) == ("yes", None)
    kappa = labels["ok"]["measures"]["kappa"]["value"]
    assert rows["ok"]["ci"]["kappa"][0] < rows["ok"]["kappa"] == kappa
    plain = textassay("agreement", *given).out
    assert ("alpha (MASI)" in plain, "alpha (nominal)" in plain) == (True, True)


def test_meta_cuts_scores_at_a_threshold(given):
    arguments = ("agreement", *given, "--aspect-map", "sure=ok", "--threshold")
    (chosen,), (fixed,) = (
        [row for row in document(*arguments, at)["labels"] if row["aspect"] == "sure"]
        for at in ("auto", "0.5")
    )
    assert (chosen["threshold"]["chosen_on"], chosen["n"], chosen["groups"]) == (10, 20, 10)
    assert (fixed["threshold"]["value"], fixed["n"]) == (0.5, 40)


@pytest.mark.parametrize(
    ("threshold", "problem"),
    [
        ("high", "--threshold takes a number or auto, not 'high'"),
        ("nan", "--threshold takes a number or auto, not 'nan'"),
        ("auto", "a threshold cuts scores where people said yes or no"),
    ],
)
def test_a_threshold_that_cuts_nothing_is_refused(given, threshold, problem):
    textassay("agreement", *given, "--threshold", threshold).ends(2, problem)


def test_compare_tests_the_agreement_of_two_judges_labels(folder):
    found = document("compare", *keep(folder, "ok", "good", "bad"))
    by_name = {row["coefficient"]: row for row in found["agreement"]}
    assert {"pearson", "accuracy", "Cohen's kappa"} <= set(by_name)
    kappa = by_name["Cohen's kappa"]
    assert 0 < kappa["low"] < kappa["difference"] < kappa["high"]
    assert kappa["p"] < 0.05


def test_calibrated_scores_are_probabilities_of_yes(folder):
    scores, data = keep(folder, "sure", "bad")
    write_lines(scores, [{**r, "aspect": "ok", "scale": [0, 1]} for r in read_lines(scores)])
    (aspect,) = document("calibrate", scores, data, "-o", folder / "calibration")["aspects"]
    brier = aspect["probability"]["brier"]
    assert brier["calibrated"]["value"] < brier["share"]["value"]
    assert brier["calibrated"]["low"] < brier["calibrated"]["value"] < brier["calibrated"]["high"]
    assert sum(point["n"] for point in aspect["probability"]["curve"]) == 40
    assert "probability of yes, and share of yes" in (folder / "calibration/report.txt").read_text()


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("estimate", ()),
        ("calibrate", ("-o", "made")),
        ("compare", ()),
        ("label-plan", ("--half-width", "0.1")),
    ],
)
def test_decisions_read_the_labels_of_a_task(folder, command, options):
    scores, data = folder / "good.jsonl", folder / "data.jsonl"
    judges = (scores, folder / "bad.jsonl") if command == "compare" else (scores,)
    options = [folder / one if one == "made" else one for one in options]
    found = document(command, *judges, data, "--task", folder / "task.toml", *options)
    rows = {row.get("aspect") or row["score"]: row for row in found.get("rows") or found["aspects"]}
    assert {"ok", "topics/billing", "intent/order", "intent/question"} <= rows.keys()
    if command == "estimate":  # labels of two are 0 and 1
        assert 0 < rows["ok"]["judge_only"]["value"] < 1
    if command == "calibrate":
        assert rows["ok"]["probability"]["brier"]["raw"]["value"] is not None


def test_labels_that_are_left_out_are_reported(folder, given):
    rows = read_lines(folder / "data.jsonl")
    for at, row in enumerate(rows):
        if at % 4 == 0:
            del row["human"]["topics"]
        row["annotators"] = {"ok": [row["human"].pop("ok"), at % 10 > 0]}
    write_lines(folder / "data.jsonl", rows)
    found = document("agreement", *given)
    ok = next(row for row in found["labels"] if row["aspect"] == "ok")
    assert (ok["n"] + ok["tied"], ok["between"]) == (40, 0)
    assert [row["unrated"] for row in found["sets"]] == [10]
    shown = textassay("agreement", *given).messages
    assert f"ok: {ok['tied']} texts are left out, since their raters' labels tie" in shown
    assert "topics: 10 texts are not rated and left out; [] says that no label applies" in shown


@pytest.mark.parametrize("command", ["estimate", "calibrate", "compare"])
def test_undeclared_words_are_labels(folder, command):
    good, bad, data = keep(folder, "intent", "good", "bad")
    refused = textassay("estimate", good, folder / "data.jsonl")
    assert refused.code == 2
    assert "not ['billing']; a task names the labels of an aspect" in refused.err
    rows = read_lines(data)
    for row in rows:
        row["human"]["words"] = "of no score"
    judges = (good, bad) if command == "compare" else (good,)
    out = ("-o", folder / "calibration") if command == "calibrate" else ()
    found = document(command, *judges, write_lines(data, rows), *out)
    names = {row["aspect"] for row in found["aspects" if out else "rows"]}
    assert names == {"intent/complaint", "intent/order", "intent/question"}


def test_raters_agree_without_scores(tmp_path):
    data = tmp_path / "rated.jsonl"
    pairs = [["kind", "kind"], ["rude", "plain"], ["plain", "plain"]]
    rows = [
        {"id": str(at), "output": "x", "annotators": {"tone": words, "good": [at, at + 1]}}
        for at, words in enumerate(pairs)
    ]
    write_lines(data, rows)
    tone, good = document("ratings", "agreement", data)["rows"]
    assert (tone["human"], tone["raters"]) == ("tone", 2)
    assert tone["between_raters"]["same"] == pytest.approx(2 / 3)
    assert good["between_raters"]["mean_difference"] == 1
    assert (tone["alpha"]["ordinal"], tone["ceiling"]) == (None, None)  # no order, no mean
    assert tone["between_raters"]["mean_difference"] is tone["between_raters"]["pearson"] is None
    shown = textassay("ratings", "agreement", data).out
    assert all(f"alpha ({level})" in shown for level in ("nominal", "ordinal", "interval"))


def test_the_two_raters_of_ragchecker(tmp_path):
    rows = [
        {
            "id": row["id"],
            "output": "x",
            "annotators": {name: [one[name] for one in row["labels"]] for name in row["labels"][0]},
        }
        for row in benchmark("ragchecker/pairs.jsonl.gz")
    ]
    data = write_lines(tmp_path / "rated.jsonl", rows)
    found = {row["human"]: row for row in document("ratings", "agreement", data)["rows"]}
    assert {name: row["items"] for name, row in found.items()} == dict.fromkeys(found, 196)
    assert found["overall"]["alpha"]["ordinal"] == pytest.approx(0.683, abs=5e-4)
    assert found["completeness"]["between_raters"]["spearman"] == pytest.approx(0.725, abs=5e-4)


def test_raters_whose_sets_tie_leave_no_set_to_agree_with(folder, given):
    tied = {"output": "x", "annotators": {"topics": [["billing"], ["refund"]]}}
    write_lines(folder / "data.jsonl", [{"id": f"r{at}", **tied} for at in range(12)])
    assert [one["n"] for one in document("agreement", *given)["sets"]] in ([], [0])


@pytest.mark.parametrize(("number", "is_read"), [(2, True), (7, False), (0.5, False), (-1, False)])
def test_a_number_that_is_not_a_labels_position_is_refused(folder, given, number, is_read):
    rows = read_lines(folder / "data.jsonl")
    rows[3]["human"]["intent"] = number
    write_lines(folder / "data.jsonl", rows)
    done = textassay("agreement", *given)
    assert done.code == (0 if is_read else 2), done.err
    if not is_read:
        assert "line 4" in done.err
        assert "should be a label or its position, 0 (order)" in done.err

"""Commands that hold a run against ratings of other texts, and that name what got worse."""

import json
import shutil

import pytest

from tests.cli.harness import document, served, textassay, write_lines
from tests.report.runs import words_of
from tests.report.test_two_texts import rows, write_run
from textassay import Run, evaluate_sync, fit_sync
from textassay.agreement import agreement_table
from textassay.runtime.settings import Settings


@pytest.fixture
def runs(tmp_path):
    old = rows("Old")
    for i, row in enumerate(old):
        row["human"] = {"fluency": 1 + i % 5}
    new = rows("New", ratings=False)
    values = [1.0 + i % 5 for i in range(40)]
    changed = [5.0, 1.0, *values[2:]]
    return (
        write_run(tmp_path, "new", new, changed),
        write_run(tmp_path, "old", old, values),
        tmp_path / "old-data.jsonl",
    )


@pytest.mark.parametrize(
    "command",
    [
        ("agreement",),
        ("estimate",),
        ("alt-test",),
        ("calibrate", "--out", "OUT"),
        ("label-plan", "--half-width", "0.1"),
    ],
    ids=lambda command: command[0],
)
def test_ratings_of_other_texts_are_refused(runs, command, tmp_path):
    new, _, rated = runs
    name, *more = (str(tmp_path / "out") if word == "OUT" else word for word in command)
    textassay(name, new, rated, *more).ends(2, "other texts than were judged: 40 rows have ids")


def test_rows_of_other_texts_are_left_out_and_counted(runs, tmp_path):
    new, _, rated = runs
    old = [json.loads(line) for line in rated.read_text().splitlines()]
    mixed = [
        {**row, "output": row["output"].replace("Old", "New")} if i >= 10 else row
        for i, row in enumerate(old)
    ]
    (tmp_path / "mixed.jsonl").write_text("".join(json.dumps(row) + "\n" for row in mixed))
    for command in ("agreement", "estimate"):
        found = document(command, new, tmp_path / "mixed.jsonl")
        assert found["other_texts"] == 10
        assert any("10 rows of the data have other texts" in note for note in found["notes"])
    assert document("agreement", new, tmp_path / "mixed.jsonl")["rows"][0]["n"] == 30


def test_a_file_of_ratings_with_other_texts_is_not_joined(runs, tmp_path):
    new, _, rated = runs
    done = textassay("agreement", new, "--ratings", rated)
    assert done.code != 0
    assert "40 rows of" in done.messages
    assert "other texts than the data under the same ids" in done.messages


@pytest.mark.parametrize("turned", [False, True])
def test_agreement_is_compared_on_texts_that_both_judged(runs, turned):
    new, old, _ = runs
    found = document("compare", *((old, new) if turned else (new, old)))
    assert found["agreement"] == []
    assert found["rows"][0]["other_texts"] == 40
    assert any("40 of 40 rated rows" in note for note in found["notes"])


def test_compare_lists_what_got_worse_and_better(runs):
    new, old, _ = runs
    found = document("compare", new, old, "--list", "5")
    assert [(one["id"], one["change"], one["direction"]) for one in found["changes"]] == [
        ("q1", -1.0, "worse"),
        ("q0", 4.0, "better"),
    ]
    shown = textassay("compare", new, old, "--list", "1").ok().out
    assert "q1" in shown
    assert any("worse on 1 scores, better on 1 and equal on 38" in n for n in found["notes"])
    assert "changes" not in document("compare", new, old)


def test_a_run_of_data_from_memory_is_shown_compared_and_resumed(tmp_path):
    texts = [{**row, "system": "AB"[i % 2]} for i, row in enumerate(rows("Some", count=8))]
    run = tmp_path / "run"
    with served() as server:
        settings = Settings(api_base=server.url)
        given = {"method": "llm-score", "aspects": "fluency", "settings": settings}
        evaluate_sync(texts, model="direct/judge", out=run, **given)
        lines = (run / "scores.jsonl").read_bytes().splitlines(keepends=True)
        (run / "scores.jsonl").write_bytes(b"".join(lines[:3]))
        textassay("resume", run, "--api-base", server.url).ok()
    shown = document("show", run)["rows"]
    assert {row["system"] for row in shown} == {None, "A", "B"}
    assert shown[0]["n"] == 8
    assert document("compare", run, "--systems", "A", "B")["systems"] == ["A", "B"]


def test_a_fitted_evaluator_is_written_as_a_page_and_as_tables(tmp_path):
    rated = [
        {
            "id": f"x{i}", "output": f"text {i}", "group": f"g{i // 4}",
            "human": {"fluency": 1 + i % 5}, "metrics": {"a_b": i % 5 + i % 3 / 3, "c": i % 7},
        }
        for i in range(60)
    ]  # fmt: skip
    data = tmp_path / "rated.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rated))
    fitted = fit_sync(data, features=["*"], out=tmp_path / "evaluator")
    for ending, words in (
        ("html", "<table"), ("tex", "\\begin{tabular}"), ("csv", "pearson,pearson_low"),
        ("md", "| evaluator |"),
    ):  # fmt: skip
        textassay("report", tmp_path / "evaluator", "--out", tmp_path / f"fit.{ending}").ok()
        text = (tmp_path / f"fit.{ending}").read_text("utf-8")
        assert words in text
        assert str(tmp_path) not in text
    assert "a\\_b" in (tmp_path / "fit.tex").read_text("utf-8")
    for ending in ("xlsx", "pdf"):
        done = textassay("report", tmp_path / "evaluator", "--out", tmp_path / f"fit.{ending}")
        done.ends(2, "is .html, .tex, .csv or .md")
    table = fitted.to_pandas()
    assert {"aspect", "name", "pearson", "pearson_low"} <= set(table.columns)
    shutil.rmtree(tmp_path / "evaluator")


def test_a_run_has_no_other_formats(runs, tmp_path):
    new, *_ = runs
    done = textassay("report", new, "--out", tmp_path / "x.tex", "--format", "latex")
    done.ends(2, "is for the folder of a fitted evaluator")
    for ending in ("tex", "csv", "MD", "pdf"):
        out = tmp_path / f"run.{ending}"
        textassay("report", new, "--out", out).ends(2, "the report of a run is a page")
        assert not out.exists()


def test_a_table_of_ratings_is_read_with_the_sources_of_the_run(tmp_path):
    """So the command finds what `Run.compare` does, and what the run's own data give."""
    data = [{**row, "group": f"g{at // 4}"} for at, row in enumerate(rows("Old"))]
    values = [1.0 + at % 5 for at in range(40)]
    new = write_run(tmp_path, "new", data, [5.0, 1.0, 4.0, *values[3:]])
    old = write_run(tmp_path, "old", data, values)
    ratings = tmp_path / "ratings.csv"
    cells = [f"{row['id']},{1 + at % 5}" for at, row in enumerate(data)]
    ratings.write_text("\n".join(["id,human.fluency", *cells]))
    found = document("compare", new, old, ratings)
    assert found["rows"] == document("compare", new, old)["rows"]
    assert found["rows"][0]["groups"] == 10
    in_python = Run(new).compare(Run(old), human=ratings).as_dict()
    assert found["rows"] == in_python["rows"]
    assert found["agreement"] == in_python["agreement"]


RATED = {
    "ids alone": ("id", lambda at: f"q{at}"),
    "a group": ("id,group", lambda at: f"q{at},h{at // 4}"),
    "a source text": ("id,source", lambda at: f"q{at},Article number {at // 4}."),
    "a source for half of the rows": (
        "id,group", lambda at: f"q{at},{f'g{at // 4}' if at < 20 else ''}",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("names", "cells"), RATED.values(), ids=RATED)
def test_texts_of_one_source_are_one_cluster_whatever_file_names_it(tmp_path, names, cells):
    """The file of ratings, the run's data by `group`, or rows that share their source text."""
    values = [1.0 + (at * 7 % 11) % 5 for at in range(40)]
    grouped = [{**row, "group": f"g{at // 4}"} for at, row in enumerate(rows("Old", ratings=False))]
    sourced = [
        {**row, "source": f"Article number {at // 4}."}
        for at, row in enumerate(rows("Old", ratings=False))
    ]
    lines = [f"{cells(at)},{1 + (at * 3 + at // 4) % 5}" for at in range(40)]
    ratings = tmp_path / "ratings.csv"
    ratings.write_text("\n".join([f"{names},human.fluency", *lines]))
    found = []
    for name, data in (("grouped", grouped), ("sourced", sourced)):
        run = write_run(tmp_path, name, data, values)
        (row,) = document("agreement", run, ratings)["rows"]
        assert row["groups"] == 10
        assert agreement_table(Run(run), ratings).rows[0].agreement.ci
        found.append(row["ci"])
        joined = document("agreement", run, "--ratings", ratings)["rows"]
        assert joined[0]["groups"] == 10
        (checked,) = document("check", run, ratings)["rows"]
        assert checked["groups"] == 10
        in_memory = Run(scores=Run(run).scores, examples=[*Run(run).examples()])
        assert agreement_table(in_memory, ratings).rows[0].agreement.groups == 10
    assert found[0] == found[1]


@pytest.mark.parametrize(("names", "cells"), RATED.values(), ids=RATED)
def test_a_page_with_other_ratings_counts_the_sources_of_the_run(tmp_path, names, cells):
    values = [1.0 + (at * 7 % 11) % 5 for at in range(40)]
    answers = rows("Old", ratings=False)
    ratings = tmp_path / "ratings.csv"
    lines = [
        f"{cells(at)},{answers[at]['output']},{1 + (at * 3 + at // 4) % 5}" for at in range(40)
    ]
    ratings.write_text("\n".join([f"{names},output,human.fluency", *lines]))
    for name, source in (
        ("grouped", lambda at: {"group": f"g{at // 4}"}),
        ("sourced", lambda at: {"source": f"Article number {at // 4}."}),
    ):
        data = [{**row, **source(at)} for at, row in enumerate(answers)]
        run = write_run(tmp_path, name, data, values)
        (row,) = document("agreement", run, ratings, "--level", "group")["rows"]
        page = tmp_path / f"{name}.html"
        done = textassay("report", run, "--human", ratings, "--out", page)
        assert done.code == 0, done.err
        assert row["groups"] == 10
        assert "averaged over 10 sources" in words_of(page.read_text())


@pytest.mark.parametrize(("names", "cells"), RATED.values(), ids=RATED)
def test_an_evaluator_is_learned_over_the_sources_of_the_run(tmp_path, names, cells):
    """So that texts of one source are never on both sides of a fold."""
    values = [1.0 + (at * 7 % 11) % 5 for at in range(40)]
    lines = [f"{cells(at)},{1 + (at * 3 + at // 4) % 5}" for at in range(40)]
    ratings = tmp_path / "ratings.csv"
    ratings.write_text("\n".join([f"{names},human.fluency", *lines]))
    for field, source in (("group", "g{}"), ("source", "Article number {}.")):
        data = [
            {**row, field: source.format(at // 4)}
            for at, row in enumerate(rows("Old", ratings=False))
        ]
        run = write_run(tmp_path, field, data, values)
        out = tmp_path / f"fitted by {field}"
        done = textassay("fit", ratings, "--scores", run, "--out", out, "--aggregator", "ridge")
        assert done.code == 0, done.err
        parts = json.loads((out / "report.json").read_text())["split"]
        assert parts["train"] == {"rows": 40, "groups": 10}
        assert set(parts["by"].split(" or ")) <= {"group", "source"}


@pytest.mark.parametrize("command", ["compare", "show"])
def test_a_note_on_data_that_are_read_several_times_comes_once(command, tmp_path):
    rows = [
        {"id": f"p{n}", "output": "x", "output_b": f"y{n}", "human": {"better": n % 2},
         "metrics": {"a/better": n % 2, "b/better": n % 3 > 0, "better": n % 2}}
        for n in range(60)
    ]  # fmt: skip
    data = write_lines(tmp_path / "pairs.jsonl", rows)
    given = (data, data) if command == "compare" else (data, "--human", data, "--jurors")
    for _ in range(2):  # by each command
        done = textassay(command, *given)
        assert done.err.count("1 is read as the first text better") == 1, done.err

"""`textassay check`: the verdict first, then reasons, commands and the table; a page; a gate."""

from __future__ import annotations

import html
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import textassay as textassay_package
from tests.checking.tables import Text, written
from tests.cli.harness import document, textassay


@pytest.fixture
def table(tmp_path):
    def row(t: Text) -> tuple[object, ...]:
        yes = "yes" if t.passes else "no"
        return t.number, f"answer {t.number}", f"q{t.number // 4}", yes, "yes" if t.good else "no"

    return written(tmp_path / "answers.csv", ["id", "answer", "question_id", "judge", "human"], row)


def test_the_first_line_is_the_verdict_in_words(table):
    done = textassay("check", table).ok()
    first, _, figures, *_ = done.out.splitlines()
    assert first.startswith("Yes")
    assert "for comparing systems" in first
    assert "for single texts" in first
    assert figures.startswith("On 120 texts of 30 sources judge agrees with human in")
    assert "For single texts: " in done.out
    assert "count as one source" in done.err


def test_a_column_that_may_name_users_is_told_where_it_is_taken_for_the_source(tmp_path):
    """Its values repeat, and nobody named it; `question_id` leaves no doubt."""
    for name, doubts in (("uid", True), ("question_id", False)):
        rows = "".join(f"u{at // 2},{at % 5},{(at + at % 2) % 5}\n" for at in range(40))
        path = tmp_path / f"{name}.csv"
        path.write_text(f"{name},judge,human\n{rows}")
        done = textassay("check", path)
        assert f"texts with the same '{name}' count as one source" in done.err
        assert ("give another with --group" in done.err) is doubts
        assert "give another" not in textassay("check", path, "--group", name).err


def test_a_check_of_two_columns_imports_no_library_but_numpy():
    """Each of these takes longer to import than the check takes."""
    heavy = {"asyncio", "pandas", "pydantic", "pyarrow", "rich", "scipy", "litellm", "lightgbm"}
    figures = Path(textassay_package.__file__).parent / "demo/data/summeval-figures.csv.gz"
    program = (
        "import sys, textassay, textassay.cli.app, textassay.cli.commands.check\n"
        "assert textassay.check(sys.argv[1], judge='words', human='expert1_fluency').rows\n"
        "print(*{name.partition('.')[0] for name in sys.modules})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, figures], capture_output=True, text=True, check=True
    )
    assert not heavy & set(done.stdout.split())


def run_all(commands):
    assert len(commands) > 1
    for line in commands:
        program, *words = shlex.split(line)
        assert program == "textassay"
        textassay(*words).ok()


def test_every_command_that_comes_next_runs(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_all(document("check", table)["next"])
    assert (tmp_path / "check.html").exists()


def test_the_document_is_as_designed(table):
    found = document("check", table)
    assert set(found) == {"format", "rows", "next"}
    [row] = found["rows"]
    assert set(row) == {
        "judge", "human", "kind", "n", "groups", "agreement", "constant", "detectable", "uses"
    }  # fmt: skip
    assert (found["format"], row["kind"], row["n"], row["groups"]) == (1, "label", 120, 30)
    assert set(row["uses"]) == {"compare", "means", "gate", "texts"}
    for use in row["uses"].values():
        assert set(use) == {"verdict", "why"}
        assert use["verdict"] in ("yes", "corrected", "no", "unknown")
    assert 0 < row["detectable"] < 1


def rated(path, judge):
    """A table of 200 texts, 100 of which people passed."""
    rows = [f"{judge(n)},{n % 2}" for n in range(200)]
    path.write_text("\n".join(["judge,human", *rows]))
    return path


@pytest.mark.parametrize(
    ("judge", "status"),
    [
        (lambda n: n % 2, 0),
        (lambda n: n // 2 % 2, 1),
        (lambda n: n % 2 if n > 34 else 1 - n % 2, 4),
    ],
    ids=["right", "noise", "just good enough"],
)
def test_a_requirement_is_a_gate(tmp_path, judge, status):
    textassay("check", rated(tmp_path / "a.csv", judge), "--require", "gate").ends(status)


def test_an_unknown_use_is_a_bad_request(table):
    textassay("check", table, "--require", "gates").ends(2, "gates", "gate")


def test_a_table_that_cannot_be_understood_says_what_to_type_and_that_works(tmp_path):
    path = rated(tmp_path / "a.csv", lambda n: n % 2)
    path.write_text(path.read_text().replace("judge,human", "A,B"))
    refused = textassay("check", path).ends(2, "look alike")
    _, _, typed = refused.messages.partition("type: textassay ")
    textassay(*shlex.split(typed.partition(",")[0])).ok()


def test_a_file_in_the_place_of_a_command_is_answered_with_the_command(table):
    textassay(table, "--judge", "judge").ends(
        2, f"is a file, not a command. Did you mean: textassay check {table} --judge judge"
    )


def test_only_the_outermost_command_proposes_a_check(table, tmp_path):
    textassay(tmp_path).ends(2, "is a folder, not a command")
    textassay("tools", table).ends(2, "No such command")


def test_a_folder_that_is_no_run_is_called_so(tmp_path):
    textassay("check", tmp_path).ends(2, f"{tmp_path}: is a folder without scores")


def test_a_column_that_does_not_exist_is_named_by_its_side(table):
    textassay("check", table, "--human", "humann").ends(
        2, "unknown human column 'humann'; did you mean 'human'?"
    )


def test_the_page_loads_nothing_and_escapes_names(tmp_path):
    rows = "\n".join(f"{n % 2},{n % 2}" for n in range(100))
    path = tmp_path / "a.csv"
    path.write_text(f"judge <script>alert(1)</script>,human\n{rows}")
    textassay("check", path, "--html", tmp_path / "page.html").ok()
    page = (tmp_path / "page.html").read_text()
    assert "default-src 'none'" in html.unescape(page)
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "http://" not in page
    assert "https://" not in page
    assert "For single texts" in page


@pytest.mark.parametrize("name", ["scores.jsonl", "verdicts.jsonl"])
def test_scores_are_checked_by_the_ratings_of_other_data(tmp_path, name):
    scores = [{"id": str(n), "aspect": "quality", "value": n % 5 + 1} for n in range(100)]
    scores[3]["value"] = None
    data = [
        {"id": str(n), "output": f"text {n}", "human": {"usefulness": (n + (n % 11 == 0)) % 5 + 1}}
        for n in range(100)
    ]
    for file, lines in ((name, scores), ("data.jsonl", data)):
        (tmp_path / file).write_text("\n".join(map(json.dumps, lines)))
    [row] = document("check", tmp_path / name, tmp_path / "data.jsonl")["rows"]
    assert (row["judge"], row["human"], row["n"], row["kind"]) == (
        "quality",
        "usefulness",
        99,
        "number",
    )


def test_scores_without_ratings_are_asked_for_them(tmp_path):
    scores = tmp_path / "scores.jsonl"
    scores.write_text('{"id": "1", "aspect": "quality", "value": 1}')
    textassay("check", scores).ends(2, "give the data with ratings after it")


def test_names_of_a_run_that_do_not_pair_are_asked_for(tmp_path, monkeypatch):
    scores = [
        {"id": str(n), "aspect": aspect, "value": n % 5 + 1} for n in range(50) for aspect in "ab"
    ]
    data = [{"id": str(n), "output": f"t{n}", "human": {"use": n % 5 + 1}} for n in range(50)]
    for name, lines in (("scores.jsonl", scores), ("data.jsonl", data)):
        (tmp_path / name).write_text("\n".join(map(json.dumps, lines)))
    files = tmp_path / "scores.jsonl", tmp_path / "data.jsonl"
    textassay("check", *files).ends(2, "--judge a --human use")
    found = document("check", *files, "--judge", "a", "--human", "use")
    assert found["rows"][0]["n"] == 50
    monkeypatch.chdir(tmp_path)
    run_all(found["next"])
    textassay("check", *files, "--judge", "c", "--human", "use").ends(2, "c")


def test_the_demo_shows_a_real_judge_checked_by_people():
    """Five recorded judges and three experts; no model is needed."""
    from textassay.demo.figures import check_figures

    found = check_figures()
    by_judge = {row.pair.judge: row for row in found.rows}
    gpt = by_judge["gpt-4o"]
    assert (gpt.n, gpt.groups, gpt.pair.raters.shape[1]) == (1600, 100, 3)
    assert gpt.uses["gate"].answer == "no"
    assert {one.answer for one in by_judge["words"].uses.values()} == {"no"}
    # the judges are ahead of the trivial measures, all but the smallest
    assert [row.pair.judge for row in found.rows][-3:] == [
        "rougeL", "mistral-v03", "words"
    ]  # fmt: skip

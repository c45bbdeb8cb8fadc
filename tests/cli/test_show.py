"""`textassay show`, `report` and `view`, and the prompts and answers of a run."""

import pytest

from tests.cli.harness import document, flags, read_lines, rows_of, score, textassay
from tests.report import runs
from tests.report.runs import small_data, small_run, write_data, write_run


@pytest.fixture
def small(tmp_path):
    return small_run(tmp_path / "run", small_data(tmp_path / "data.jsonl"))


def test_run_in_the_terminal(small):
    done = textassay("show", small).ok()
    assert "47 scored, 1 invalid" in done.out
    assert "Largest disagreements with people first" in done.out
    assert len(done.out.split("disagreements")[1].strip().splitlines()) == 12


def test_example_in_the_terminal(small):
    """An unknown one names those that are near."""
    done = textassay("show", small, "x5").ok()
    for words in ("Text 5 says that it rained", "is it clear?", "NoScoreFound: no number"):
        assert words in done.out
    textassay("show", small, "x55").ends(2, "x55")


def test_hostile_text_cannot_steer_the_terminal(tmp_path):
    """No control character of a text, a system or a judge's words reaches the terminal."""
    evil = "\x1b[2J\x1b]0;owned\x07\x00\u202e"
    data = write_data(
        tmp_path / "d.jsonl", [{"id": "a", "output": evil, "source": evil, "system": evil}]
    )
    shown = [runs.score("a", explanation=evil, evidence=({"text": evil, "value": 1.0},))]
    run = write_run(tmp_path / "run", shown, data)
    for arguments in (["show", run], ["show", run, "a"]):
        done = textassay(*arguments).ok()
        assert not set(done.out) & set("\x1b\x07\x00\u202e")
    assert "[U+202E]" in done.out


def test_report_from_the_command_line(small, tmp_path):
    done = textassay("report", small, "--out", tmp_path / "out.html")
    assert (done.code, done.out) == (0, "")
    assert "out.html" in done.err
    assert (tmp_path / "out.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("command", ["show", "view"])
def test_folder_without_a_run(command, tmp_path):
    textassay(command, tmp_path).ends(2, "contains no run")


@pytest.fixture
def scored(server, data, run):
    """A run with steps, which are asked for once."""
    more = ("--n", 2, "--temperature", 1)
    score(data, run, server, *more, method="g-eval", aspects="fluency").ok()
    return run


def test_prompts_and_answers_are_shown_and_exported(server, scored, tmp_path):
    before, asked = server.counters.requests, tmp_path / "asked.jsonl"
    done = textassay("show", scored, "x3", "--prompts").ok()
    assert "Text number 3 says that it rained." in done.out
    assert "Text number 2" not in done.out
    assert done.out.count("--- answer ---") >= 2
    assert "no answer in the cache" not in done.out
    assert "unknown example 'y'" in textassay("show", scored, "y", "--prompts").err
    textassay("cache", "export", scored, "-o", asked).ok()
    rows = read_lines(asked)
    assert {row["id"] for row in rows} == {f"x{i}" for i in range(6)}
    assert all(row["answers"] and row["model"] == "direct/mock" for row in rows)
    assert any("Text number 5" in turn["content"] for row in rows for turn in row["prompt"])
    assert server.counters.requests == before
    assert textassay("cache", "export", scored, "-o", asked).code == 2


@pytest.mark.parametrize(
    "setting",
    [("--effort", "low"), ("--set", "top_p=0.9"), ("--set", "thinking_tokens=64"),
     ("--extra", 'user="me"')],
)  # fmt: skip
def test_answers_are_found_under_the_settings_of_the_run(server, data, run, setting):
    score(data, run, server, *setting, "--limit", 2, aspects="fluency").ok()
    shown = textassay("show", run, "x1", "--prompts").out
    assert "--- answer ---" in shown
    assert "no answer in the cache" not in shown


def test_without_a_cache_the_prompts_are_shown_and_the_gap_is_said(server, data, run):
    score(data, run, server, "--no-cache", aspects="fluency").ok()
    done = textassay("show", run, "x1", "--prompts")
    assert "Text number 1" in done.out
    assert "--- no answer in the cache ---" in done.out
    assert not (run / "answers").exists()


def test_a_run_is_read_back_without_a_write(server, data, run):
    score(data, run, server, aspects="fluency").ok()

    def files():
        # SQLite makes files of these endings for readers, too, where it can
        kept = [path for path in run.rglob("*") if not path.name.endswith(("-shm", "-wal"))]
        return {path: path.stat().st_mtime_ns for path in kept if path.is_file()}

    before = files()
    assert "Text number 1" in textassay("show", run, "x1", "--prompts").out
    assert textassay("cache", "export", run).out.count("\n") == 6
    assert files() == before


def test_a_dry_run_makes_no_cache(server, data, run, tmp_path):
    cache, other = tmp_path / "cache", tmp_path / "other"
    asked = flags(data, run, server, "--cache", cache, aspects="fluency")
    assert document(*asked, "--dry-run")["estimate"]["calls"] == 6
    assert not cache.exists()
    textassay(*asked).ok()
    asked = flags(data, other, server, "--cache", cache, aspects="fluency")
    assert document(*asked, "--dry-run")["estimate"]["calls"] == 0
    textassay(*asked, "--dry-run", "--cache", data.parent).ends(2, str(data.parent))


def test_prompts_can_be_seen_before_anything_is_asked(server, data, run):
    for more, shown, other in (
        ((2,), "Text number 1", "Text number 2"),
        ((1, "--shard", "2/2"), "Text number 3", "Text number 4"),
    ):
        done = score(data, run, server, "--show-prompts", *more, aspects="fluency").ok()
        assert (shown in done.out, other in done.out) == (True, False)
    assert (server.counters.requests, run.exists()) == (0, False)


def test_tools_and_runs_are_shown_as_json(data, run):
    """The summary of the scores, the means of a run, and one text with its scores."""
    done = document("tools", "score", data, "--tools", "length", "-o", run)
    assert done["outcomes"]["scored"] == 6
    mean = document("show", run)["rows"][0]
    assert (mean["n"], mean["mean"] > 0) == (6, True)
    shown = document("show", run, rows_of(run)[0]["id"])
    assert shown["scores"][0]["value"] > 0
    assert shown["example"]["output"]

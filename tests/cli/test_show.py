"""`textassay show`, `report` and `view` as users type them."""

import pytest

from tests.cli.harness import textassay
from tests.report.runs import score, small_data, small_run, write_data, write_run


@pytest.fixture
def run(tmp_path):
    return small_run(tmp_path / "run", small_data(tmp_path / "data.jsonl"))


def test_run_in_the_terminal(run):
    """The summary, the means by system and the largest disagreements."""
    done = textassay("show", run)
    assert done.code == 0
    assert "47 scored, 1 invalid" in done.out
    assert "Largest disagreements with people first" in done.out
    assert len(done.out.split("disagreements")[1].strip().splitlines()) == 12


def test_example_in_the_terminal(run):
    """One text with the evidence of all its scores."""
    done = textassay("show", run, "x5")
    assert "Text 5 says that it rained" in done.out
    assert "is it clear?" in done.out
    assert "NoScoreFound: no number" in done.out


def test_unknown_example_names_near_ones(run):
    """A mistyped id is an error that helps."""
    done = textassay("show", run, "x55")
    assert done.code == 2
    assert "x55" in done.err


def test_hostile_text_cannot_steer_the_terminal(tmp_path):
    """No control character of a text, a system or a judge's words reaches the terminal."""
    evil = "\x1b[2J\x1b]0;owned\x07\x00\u202e"
    data = write_data(
        tmp_path / "d.jsonl", [{"id": "a", "output": evil, "source": evil, "system": evil}]
    )
    shown = [score("a", explanation=evil, evidence=({"text": evil, "value": 1.0},))]
    run = write_run(tmp_path / "run", shown, data)
    for arguments in (["show", run], ["show", run, "a"]):
        done = textassay(*arguments)
        assert done.code == 0
        assert not set(done.out) & set("\x1b\x07\x00\u202e")
    assert "[U+202E]" in done.out


def test_report_from_the_command_line(run, tmp_path):
    """The file is written, and the command says where."""
    done = textassay("report", run, "--out", tmp_path / "out.html")
    assert (done.code, done.out) == (0, "")
    assert "out.html" in done.err
    assert (tmp_path / "out.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize("command", ["show", "view"])
def test_folder_without_a_run(command, tmp_path):
    """What is no run is a bad request."""
    done = textassay(command, tmp_path)
    assert done.code == 2
    assert "contains no run" in done.err

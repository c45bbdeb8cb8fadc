"""What there is to choose from can be listed, and every table is also one JSON document."""

from __future__ import annotations

import json

import pytest

from tests.cli.harness import textassay
from textassay.methods import METHODS
from textassay.prompts import TASKS
from textassay.runtime.settings import FLAGGED, SETTABLE, LocalSettings


def rows(*command):
    """The rows of a command, from its JSON; the table names the same things."""
    done = textassay(*command, "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)["rows"]
    table = textassay(*command).out
    assert all(str(next(iter(row.values()))) in table for row in found)
    return found


def test_methods_and_their_options():
    """Each with what it is; options with default and meaning."""
    assert {row["method"] for row in rows("methods")} >= set(METHODS)
    for name in METHODS:
        options = {row["option"]: row for row in rows("methods", name)}
        assert set(options) == set(METHODS[name].Options.model_fields)
        assert all(row["what"] for row in options.values()), name


def test_tasks_and_their_aspects():
    """With the words that a judge is given."""
    assert [row["task"] for row in rows("tasks")] == list(TASKS)
    assert {row["aspect"] for row in rows("tasks", "summarization")} == {
        "coherence",
        "consistency",
        "fluency",
        "relevance",
    }
    assert "did you mean 'dialogue'" in textassay("tasks", "dialog").err


def test_settings_say_how_they_are_given():
    """Flags, keys of --set and tables."""
    # `batch` is a flag and, for local models, a key of --set: a name may be given in two ways
    ways = {(row["setting"], row["given by"]) for row in rows("settings")}
    assert all((name, f"--{name.replace('_', '-')}") in ways for name in FLAGGED)
    keys = (*SETTABLE, *LocalSettings.model_fields)
    assert all((name, f"--set {name}=") in ways for name in keys)
    assert "batch_tokens=8192 " in textassay("settings").out  # no default is broken in two


def test_runs_estimates_and_caches_as_json(server, data, run):
    """One document on standard output, whatever the outcome."""
    flags = (
        "--method",
        "llm-score",
        "-m",
        "direct/mock",
        "--api-base",
        server.url,
        "-a",
        "fluency",
    )
    dry = json.loads(textassay("score", data, *flags, "--dry-run", "--json").out)
    assert (dry["examples"], dry["estimate"]["calls"]) == (6, 6)
    done = json.loads(textassay("score", data, *flags, "-o", run, "--json").out)
    assert done["run"] == str(run)
    assert done["outcomes"]["scored"] == 6
    again = json.loads(textassay("resume", run, "--api-base", server.url, "--json").out)
    assert again["aspects"] == done["aspects"]
    assert json.loads(textassay("cache", "info", run / "answers", "--json").out)["answers"] == 6


def test_caches_are_verified_and_cleared_as_json(server, data, run):
    """Before, only `cache info` knew --json."""
    asked = ("--method", "llm-score", "-m", "direct/mock", "--api-base", server.url)
    textassay("score", data, *asked, "-a", "fluency", "-o", run)
    found = json.loads(textassay("cache", "verify", run / "answers", "--json").out)
    assert found == {"sound": 6, "problems": []}
    assert json.loads(textassay("cache", "clear", run / "answers", "--json").out)["deleted"] == 6


def test_tools_and_runs_are_shown_as_json(data, run):
    """The summary of the scores, the means of a run, and one text with its scores."""
    done = textassay("tools", "score", data, "--tools", "length", "-o", run, "--json")
    assert json.loads(done.out)["outcomes"]["scored"] == 6
    means = json.loads(textassay("show", run, "--json").out)["rows"]
    assert means[0]["n"] == 6
    assert means[0]["mean"] > 0
    one = json.loads((run / "scores.jsonl").read_text().splitlines()[0])["id"]
    shown = json.loads(textassay("show", run, one, "--json").out)
    assert shown["scores"][0]["value"] > 0
    assert shown["example"]["output"]


def test_calibrations_and_fits_are_told_as_json(tmp_path):
    """What their reports hold."""
    rows_, scores = [], []
    for number in range(60):
        place = {"id": f"e{number}", "group": f"g{number // 3}"}
        human = number % 5 + 1
        rows_.append(
            {**place, "output": "x", "human": {"a": human}, "metrics": {"m": human + number % 2}}
        )
        scores.append({"id": f"e{number}", "aspect": "a", "value": human + number % 2 / 2})
    data, judged = tmp_path / "data.jsonl", tmp_path / "scores.jsonl"
    for path, lines in ((data, rows_), (judged, scores)):
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    flags = ("--scale", "a=1,5", "-o", tmp_path / "cal", "--json")
    done = textassay("calibrate", judged, data, *flags)
    assert done.code == 0, done.err
    assert json.loads(done.out)["aspects"][0]["n"] == 60
    fitted = textassay("fit", data, "--features", "m", "-o", tmp_path / "evaluator", "--json")
    assert fitted.code == 0, fitted.err
    assert json.loads(fitted.out) == json.loads((tmp_path / "evaluator/report.json").read_text())


TABLES = (
    "alt-test", "cache clear", "cache info", "cache verify", "calibrate", "cascade", "compare",
    "demo", "doctor", "estimate", "fit", "jurors", "label-plan", "merge", "meta", "methods",
    "resume", "score", "settings", "show", "stress", "tasks", "tools list", "tools score",
)  # fmt: skip


@pytest.mark.parametrize("command", TABLES)
def test_every_command_with_a_table_speaks_json(command):
    """Those that are left out draw, serve or write files."""
    assert "--json" in textassay(*command.split(), "--help").out


@pytest.mark.parametrize("command", [("tools", "list")])
def test_tools_are_listed_as_json(command):
    """With range, extra and whether it is installed."""
    found = rows(*command)
    assert {"kind", "scale", "installed", "extra", "description"} <= set(found[0])

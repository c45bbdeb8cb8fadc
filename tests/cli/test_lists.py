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


@pytest.mark.parametrize("command", [("tools", "list")])
def test_tools_are_listed_as_json(command):
    """With range, extra and whether it is installed."""
    found = rows(*command)
    assert {"kind", "scale", "installed", "extra", "description"} <= set(found[0])

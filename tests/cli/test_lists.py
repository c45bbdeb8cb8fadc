"""What there is to choose from, graphs and caches; every table is also one JSON document."""

from __future__ import annotations

import re

import pytest
from typer.main import get_command

from tests.cli.harness import document, score, textassay, write_lines
from tests.fitting.made_texts import rows_of, write
from textassay import ScriptedModel
from textassay.cli.app import app
from textassay.methods import METHODS, build
from textassay.prompts import TASKS
from textassay.runtime import Capabilities
from textassay.runtime.settings import FLAGGED, OF_ROLES, SETTABLE, LocalSettings


def rows(*command):
    """The rows of a command, from its JSON; the table names the same things."""
    found = document(*command)["rows"]
    table = textassay(*command).out
    assert all(str(next(iter(row.values()))) in table for row in found)
    return found


def test_methods_and_their_options():
    assert {row["method"] for row in rows("methods")} >= set(METHODS)
    for name in METHODS:
        options = {row["option"]: row for row in document("methods", name)["rows"]}
        assert set(options) == set(METHODS[name].Options.model_fields)
        assert all(row["what"] for row in options.values()), name
    assert rows("methods", "g-eval")


def test_tasks_and_their_aspects():
    assert [row["task"] for row in rows("tasks")] == list(TASKS)
    aspects = {row["aspect"] for row in rows("tasks", "summarization")}
    assert aspects == {"coherence", "consistency", "fluency", "relevance"}
    assert "did you mean 'dialogue'" in textassay("tasks", "dialog").err


def test_settings_say_how_they_are_given():
    # `batch` is a flag and, for local models, a key of --set: a name may be given in two ways
    ways = {(row["setting"], row["given by"]) for row in rows("settings")}
    assert all((name, f"--{name.replace('_', '-')}") in ways for name in FLAGGED)
    assert all((name, "[models.ROLE] in --config") in ways for name in OF_ROLES)
    keys = (*SETTABLE, *LocalSettings.model_fields)
    assert all((name, f"--set {name}=") in ways for name in keys)
    assert "batch_tokens=8192 " in textassay("settings").out  # no default is broken in two


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_picture(name):
    judge = ScriptedModel(["3"], capabilities=Capabilities(choices=True, continuation=True))
    drawn = textassay("graph", name, "--task", "dialogue")
    assert (drawn.code, drawn.err) == (0, "")
    assert drawn.out.startswith("flowchart LR\n")
    names = re.findall(r'n\d+\["(\w+)"\]', drawn.out)
    assert names == [node.name for node in build(name, judge, task="dialogue").graph.nodes]
    assert names[-1] == "scores"


def test_an_evaluator_from_recorded_scores_has_a_picture(tmp_path):
    data, out = write(tmp_path / "data.jsonl", rows_of()), tmp_path / "recorded"
    textassay("fit", data, "--out", out, "--features", "*", "--aggregator", "ridge").ok()
    assert re.findall(r'n\d+\["(\w+)"\]', textassay("graph", out).ok().out) == ["scores"]
    empty = textassay("graph", tmp_path)
    assert (empty.code, "contains no evaluator.json" in empty.err) == (2, True)
    assert textassay("graph", "nothing").code == 2


def test_a_cache_tells_what_it_holds_and_can_be_cleared(server, data, run):
    assert document(
        *("score", data, "--method", "llm-score", "-m", "direct/mock", "--api-base", server.url),
        *("--aspects", "fluency", "--out", run),
    )["run"] == str(run)
    answers = run / "answers"
    assert textassay("cache", "info", answers).out.startswith("6 answers in 1 files, ")
    assert document("cache", "info", answers)["answers"] == 6
    verified = textassay("cache", "verify", answers)
    assert (verified.code, verified.out) == (0, "6 answers are sound\n")
    assert document("cache", "verify", answers) == {"sound": 6, "problems": []}
    refused = textassay("cache", "clear", data.parent)
    assert (refused.code, data.exists()) == (2, True)
    assert "is not a cache folder" in refused.err
    assert textassay("cache", "clear", answers).out.startswith("deleted 6 answers, ")
    assert textassay("cache", "info", answers).out.startswith("0 answers ")
    assert document("cache", "clear", answers)["deleted"] == 0


def test_calibrations_and_fits_are_told_as_json(tmp_path):
    rated, judged = [], []
    for number in range(60):
        place, human = {"id": f"e{number}", "group": f"g{number // 3}"}, number % 5 + 1
        metrics = {"m": human + number % 2}
        rated.append({**place, "output": "x", "human": {"a": human}, "metrics": metrics})
        judged.append({"id": f"e{number}", "aspect": "a", "value": human + number % 2 / 2})
    data = write_lines(tmp_path / "data.jsonl", rated)
    scores = write_lines(tmp_path / "scores.jsonl", judged)
    found = document("calibrate", scores, data, "--scale", "a=1,5", "-o", tmp_path / "cal")
    assert found["aspects"][0]["n"] == 60
    out = tmp_path / "evaluator"
    fitted = textassay("fit", data, "--features", "m", "-o", out, "--json").ok()
    assert fitted.out == (out / "report.json").read_text()


def test_every_command_with_a_table_speaks_json():
    expected = {
        "alt-test", "cache clear", "cache info", "cache verify", "calibrate", "cascade", "compare",
        "demo", "doctor", "estimate", "fit", "jurors", "label-plan", "merge", "meta", "methods",
        "rank", "ratings agreement", "resume", "score", "settings", "show", "stress", "tasks",
        "tools list", "tools score",
    }  # fmt: skip
    commands = dict(get_command(app).commands)
    for group in ("cache", "ratings", "tools"):
        inner = commands.pop(group).commands
        commands |= {f"{group} {name}": command for name, command in inner.items()}
    speak = {name for name, one in commands.items() if any("--json" in p.opts for p in one.params)}
    assert speak == expected


def test_runs_and_estimates_as_json(server, data, run):
    dry = score(data, run, server, "--dry-run", "--json", aspects="fluency")
    assert '"examples": 6' in dry.out
    score(data, run, server, aspects="fluency").ok()
    again = document("resume", run, "--api-base", server.url)
    assert (again["outcomes"]["scored"], again["aspects"]["fluency"]["n"]) == (6, 6)

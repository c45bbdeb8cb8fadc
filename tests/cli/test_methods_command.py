"""What there is to choose from, and what a model writes for it; every table is also JSON."""

from __future__ import annotations

import json
import re

import pytest
from typer.main import get_command

from tests.cli.harness import document, score, served, textassay, write_lines
from tests.fitting.made_texts import rows_of, write
from textassay import ScriptedModel
from textassay.cli.app import app
from textassay.cli.console import print_tables
from textassay.methods import METHODS, build
from textassay.methods.library import plans, tasks, trees
from textassay.prompts import TASKS
from textassay.runtime import Capabilities
from textassay.runtime.settings import FLAGGED, OF_ROLES, SETTABLE, LocalSettings
from textassay.table import Column, Note, Table

TOOLS = ("chrf", "length")


def rows(*command):
    """The rows of a command, from its JSON; the table names the same things."""
    found = document(*command)["rows"]
    table = textassay(*command).out
    assert all(str(next(iter(row.values()))) in table for row in found)
    return found


def test_a_document_has_the_notes_of_its_tables(capsys):
    table = Table((Column("name", "Name"),), [("a",)], (Note("few rows"),))
    print_tables([table], {"rows": [{"name": "a"}]}, as_json=True, notes=(Note("of all"),))
    found = json.loads(capsys.readouterr().out)
    assert found == {"rows": [{"name": "a"}], "notes": ["of all", "few rows"]}


def test_methods_and_their_options():
    assert {row["method"] for row in rows("list", "methods")} >= set(METHODS)
    for name in METHODS:
        options = {row["option"]: row for row in document("list", "methods", name)["rows"]}
        assert set(options) == set(METHODS[name].Options.model_fields)
        assert all(row["what"] for row in options.values()), name
    assert rows("list", "methods", "g-eval")


def test_tasks_and_their_aspects():
    assert [row["task"] for row in rows("list", "tasks")] == list(TASKS)
    aspects = {row["aspect"] for row in rows("list", "tasks", "summarization")}
    assert aspects == {"coherence", "consistency", "fluency", "relevance"}
    assert "did you mean 'dialogue'" in textassay("list", "tasks", "dialog").err
    # the help of --task says where all of them are
    assert "textassay list tasks" in re.sub(r"[\s│]+", " ", textassay("score", "--help").out)


def test_settings_say_how_they_are_given():
    # `batch` is a flag and, for local models, a key of --set: a name may be given in two ways
    ways = {(row["setting"], row["given by"]) for row in rows("list", "settings")}
    assert all((name, f"--{name.replace('_', '-')}") in ways for name in FLAGGED)
    assert all((name, "[models.ROLE] in --config") in ways for name in OF_ROLES)
    keys = (*SETTABLE, *LocalSettings.model_fields)
    assert all((name, f"--set {name}=") in ways for name in keys)
    assert "batch_tokens=8192 " in textassay("list", "settings").out  # no default is broken in two


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
    textassay("graph", tmp_path).ends(2, "contains no evaluator.json")
    assert textassay("graph", "nothing").code == 2


def test_a_cache_shows_what_it_holds_and_can_be_cleared(server, data, run):
    assert document(
        *("score", data, "--method", "llm-score", "-m", "direct/mock", "--api-base", server.url),
        *("--aspects", "fluency", "--out", run),
    )["run"] == str(run)
    answers = run / "answers"
    assert textassay("cache", "info", answers).out.startswith("6 answers, ")
    assert document("cache", "info", answers)["answers"] == 6
    verified = textassay("cache", "verify", answers)
    assert (verified.code, verified.out) == (0, "6 answers are sound\n")
    assert document("cache", "verify", answers) == {"sound": 6, "problems": []}
    refused = textassay("cache", "clear", data.parent)
    assert (refused.code, data.exists()) == (2, True)
    assert "is not a cache folder" in refused.err
    assert textassay("cache", "clear", answers).out.startswith("deleted 6 answers, ")
    assert textassay("cache", "info", answers).out.startswith("0 answers, ")
    assert document("cache", "clear", answers)["deleted"] == 0


def test_calibrations_and_fits_print_json(tmp_path):
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
        "agreement", "alt-test", "cache clear", "cache info", "cache verify", "calibrate", "check",
        "compare",
        "demo", "doctor", "estimate", "fit", "label-plan", "list methods", "list settings",
        "list tasks", "merge", "rank", "ratings agreement", "resume", "score", "show", "stress",
        "tools list", "tools score",
    }  # fmt: skip
    commands = dict(get_command(app).commands)
    for group in ("cache", "list", "ratings", "tools"):
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


def drafted(command, server, out, *flags):
    """Run `tree`, or `plan` with its tools."""
    tools = ("--tools", ",".join(TOOLS)) if command == "plan" else ()
    asked = ("--model", "direct/mock", "--api-base", server.url, "--set", "attempts=1")
    return textassay("draft", command, *tools, "--out", out, *asked, *flags)


def test_a_tree_is_grown_written_and_shown(server, tmp_path):
    out = tmp_path / "tree.toml"
    growth = ("--set", "depth=3", "--set", "children=2", "--aspects", "fluency")
    printed = drafted("tree", server, out, "--task", "translation", *growth)
    below = ("  Respect 1", "    Respect 2", "  Respect 2", "    Respect 1")
    assert printed.out.splitlines() == ["fluency", *below]
    ids = ["fluency", "fluency/respect-1", "fluency/respect-1/respect-2"]
    assert [aspect.id for aspect in trees.load(str(out))][:3] == ids
    assert 'source = "hd-eval for translation, by direct/mock"' in out.read_text()
    assert server.counters.requests == 3


def test_chains_of_relevant_aspects_are_written_as_a_tree(server, tmp_path):
    out = tmp_path / "chains.json"
    flags = ("--method", "coascore", "--task", "dialogue", "--set", "n_aspects=5")
    drafted("tree", server, out, *flags).ok()
    grown = trees.load(str(out))
    assert [len(grown.children(root.id)) for root in grown.roots] == [5] * 6
    assert grown["engagingness/respect-1"].scale == (1, 5)  # a scale of their own


@pytest.mark.parametrize("name", ["plan.toml", "plan.json"])
def test_a_plan_is_written_saved_and_shown(name, server, tmp_path):
    out = tmp_path / name
    printed = drafted("plan", server, out, "--task", "translation").ok()
    task = tasks.load("translation")
    read = plans.load(str(out), task, TOOLS)
    assert set(read.assistants) == {aspect.name for aspect in task.aspects}
    assert all(len(read.assistants[name]) == 1 for name in ("adequacy", "fluency", "accuracy"))
    assert read.steps[0].endswith("form a first impression of the text for its Adequacy.")
    assert read.steps[-1].startswith("Decide on the rating by the definition")
    assert '"adequacy" = ["' in printed.out
    assert "written for translation by direct/mock" in out.read_text()
    assert server.counters.requests == 1


@pytest.mark.parametrize(
    ("command", "name", "flags", "message"),
    [
        ("tree", "mine.toml", (), "exists; trees are edited by hand and never overwritten"),
        ("tree", "tree.yaml", (), "saved as .toml or .json"),
        ("tree", "none/tree.toml", (), "there is no folder"),
        ("tree", "tree.json", ("--method", "g-eval"), "known: hd-eval, coascore"),
        ("plan", "mine.toml", (), "exists; plans are edited by hand and never overwritten"),
        ("plan", "other.toml", ("--tools", "chrff"), "unknown tool 'chrff'"),
    ],
)
def test_nothing_is_asked_where_something_does_not_fit(
    command, name, flags, message, server, tmp_path
):
    (tmp_path / "mine.toml").write_text("mine")
    drafted(command, server, tmp_path / name, *flags).ends(2, message)
    assert (tmp_path / "mine.toml").read_text() == "mine"
    assert server.counters.requests == 0


@pytest.mark.parametrize(
    ("command", "message"),
    [("tree", "returned no list"), ("plan", "does not say which assistant evaluators")],
)
def test_nothing_is_written_where_the_answer_is_refused(command, message, tmp_path):
    with served(reply="text") as server:
        # Of several aspects, others may be asked about before the refusal of one ends the run.
        drafted(command, server, tmp_path / "out.toml", "--aspects", "fluency").ends(3, message)
        assert server.counters.requests == 2
    assert not (tmp_path / "out.toml").exists()

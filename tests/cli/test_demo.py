"""`textassay demo`: one task, run once on the embedded model; `make demo` runs all."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textassay.demo.pipeline import (
    BASELINES,
    FITTED,
    NODES,
    SEED,
    TASKS,
    TRAIN_FRACTION,
    TRIVIAL,
    DemoFolder,
    list_recipes,
)

from tests.cli.harness import Outcome, document, read_json, rows_of, textassay
from textassay.fitting.learn import read_table, split
from textassay.fitting.request import FitFromScores
from textassay.methods.fitted.evaluator import read_files
from textassay.methods.library import tasks
from textassay.runtime.data.dataset import Examples

TASK, COUNT = TASKS[0], 36
pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed"
    ),
    # 2,000 calls of the model: far more than a minute on a loaded machine
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("demo"),
]


@dataclass(frozen=True)
class Done:
    """The demo's folder and what it printed."""

    layout: DemoFolder
    outcome: Outcome


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Done:
    """The demo of one task, run once to its end."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    return Done(DemoFolder(folder, (TASK,)), textassay("demo", "--quick", "--out", folder))


def agreement_of(done: Done) -> dict[str, Any]:
    found: dict[str, Any] = read_json(done.layout.agreement)
    return found


def test_everything_is_scored_and_every_run_is_a_run_folder(done):
    """One score for every text and aspect of every method; progress goes to standard error."""
    done.outcome.ok()
    judged = len(tasks.load(TASK).aspects)
    for recipe in list_recipes(TASK):
        folder = done.layout.run(TASK, recipe.name)
        # claims judges facts alone, and a tool has one number
        scored = COUNT * (1 if recipe.name in ("claims", "embedding") else judged)
        outcomes = {"scored": scored, "abstained": 0, "invalid": 0, "error": 0}
        assert read_json(folder / "summary.json")["outcomes"] == outcomes
        if recipe.method == BASELINES.method:
            continue
        manifest = read_json(folder / "manifest.json")
        assert manifest["models"][""]["name"] == "embedded"
        signed = f"method:{recipe.method}|model:embedded|"
        assert all(signed in row["signature"] for row in rows_of(folder))
    assert len(rows_of(done.layout.run(TASK, BASELINES.name))) == COUNT * len(TRIVIAL)
    assert len({row["aspect"] for row in rows_of(done.layout.run(TASK, NODES.name))}) > judged
    assert (done.layout.evaluator(TASK) / "report.txt").exists()
    assert len(done.outcome.err.splitlines()) == len(list_recipes(TASK)) + 3
    assert [found["task"] for found in agreement_of(done)["tasks"]] == [TASK]


def test_every_method_stands_beside_the_trivial_measures_and_what_is_not_above_them_is_marked(done):
    table = done.outcome.out.partition("2. Agreement")[2].partition("3. Learning")[0]
    for found in agreement_of(done)["tasks"]:
        part = table.partition(f"{found['task']}: ")[2].splitlines()
        for line in found["lines"]:
            row = next(text for text in part if text.split()[:1] == [line["name"]])
            if line["trivial"]:
                assert " x" not in row
                continue
            rhos, best = line["spearman"], found["best_trivial"]
            above = [a for a, rho in rhos.items() if rho is not None and rho > best[a]]
            assert line["beats_best_trivial"] == above
            assert row.count(" x") == len(line["spearman"]) - len(above)
    assert "All tasks: Above the best trivial measure on " in table


def test_agreement_is_what_the_command_meta_finds(done):
    """Held against another door of the same package: the run folder and the data file alone."""
    run, data = done.layout.run("summarization", "gptscore"), done.layout.data("summarization")
    rows = document("agreement", run, data, "--bootstrap", 0)["rows"]
    lines = agreement_of(done)["tasks"][0]["lines"]
    printed = next(line for line in lines if line["name"] == "gptscore")
    assert {row["aspect"]: row["spearman"] for row in rows} == pytest.approx(printed["spearman"])


def test_the_fitted_evaluator_judges_only_what_it_has_not_learnt_from(done):
    """The split is the one that `fit` made, by source, and the scores are on people's scale."""
    nodes = f"{NODES.method}={done.layout.run(TASK, NODES.name)}"
    table = read_table(Examples(done.layout.data(TASK)), scores=read_files([nodes]))
    parts = split(table, FitFromScores(train_fraction=TRAIN_FRACTION, seed=SEED))
    rows = rows_of(done.layout.run(TASK, FITTED))
    assert {row["id"] for row in rows} == set(parts.test.ids)
    assert len(rows) == COUNT / 2 * len(tasks.load(TASK).aspects)
    sources = [{id_.split("-")[0] for id_ in part.ids} for part in (parts.test, parts.train)]
    assert not sources[0] & sources[1]
    assert all(row["scale"][0] <= row["value"] <= row["scale"][1] for row in rows)
    assert agreement_of(done)["tasks"][0]["held_out"]["examples"] == COUNT / 2


def test_the_evidence_of_one_example_is_shown(done):
    """Sub-questions with P(yes), sub-aspects and tools, as they stand in the runs."""
    shown = done.outcome.out.partition("4. Evidence")[2].partition("5. Decisions")[0]
    rows = rows_of(done.layout.run("summarization", "decomp-eval"))
    place = "bridge-wrong", "consistency"
    (row,) = [row for row in rows if (row["id"], row["aspect"]) == place]
    for piece in row["evidence"]:
        assert f"{piece['answer']} {piece['p_yes']:.2f}" in shown
    assert re.search(r"of 1 to 5 +\S* +Factuality", shown)
    assert re.search(r"of 0 to 1 +\S* +rougeL", shown)


def test_it_ends_with_decisions(done):
    """Calibrated and estimated from some ratings, tested against all raters as `alt-test` does."""
    shown = done.outcome.out.partition("5. Decisions")[2].partition("6. Where")[0]
    run, data = done.layout.run(TASK, "g-eval"), done.layout.data(TASK)
    rows = document("alt-test", run, data)["rows"]
    by_command = {row["score"]: row for row in rows}
    for aspect in tasks.load("summarization").aspects:
        means, tested = (line for line in shown.splitlines() if line.split()[:1] == [aspect.name])
        assert means.count("[") == 2, means
        row = by_command[aspect.name]
        assert (row["groups"], row["raters"], row["n"]) == (6, 3, COUNT)
        constant, gap = row["constant"], row["over_constant"]
        assert tested.split() == [
            aspect.name, *(f"{row[name]:.2f}" for name in ("omega", "rho")),
            f"{constant['value']:g}", *(f"{constant[name]:.2f}" for name in ("omega", "rho")),
            f"{gap['value']:.2f}", f"[{gap['low']:.2f},", f"{gap['high']:.2f}]",
            "yes" if row["may_stand_in"] else "no",
        ]  # fmt: skip
    words = " ".join(shown.split())
    able = [name for name, row in by_command.items() if row["may_stand_in"]]
    verdict = ", ".join(able) or f"none of {len(by_command)} aspects"
    assert f"It may stand in on {verdict}." in words
    assert "36 texts, 24 of 4 sources rated" in words
    assert "the project's own, not people's" in words


def test_the_commands_to_try_next_are_commands(done, server):
    lines = done.outcome.out.partition("7. Next")[2].splitlines()
    commands = [shlex.split(line) for line in lines if " --model " in line]
    assert [command[1] for command in commands] == ["score", "fit"]
    for command in commands:
        words = ["direct/mock" if word.startswith("openai/") else word for word in command[1:]]
        words += [] if "--dry-run" in words else ["--dry-run"]
        found = textassay(*words, "--api-base", server.url, "--progress", "none").ok()
        assert "no model was asked" in found.out


def test_going_on_in_the_folder_of_a_finished_demo_asks_nothing_again(done):
    run = done.layout.run("summarization", "g-eval") / "scores.jsonl"
    before = run.read_bytes()
    again = textassay("demo", "--quick", "--out", done.layout.folder).ok()
    assert run.read_bytes() == before
    tables = [
        out.partition("1. Scores")[2].partition("6. Where")[0]
        for out in (done.outcome.out, again.out)
    ]
    assert tables[0] == tables[1]


def test_a_folder_with_something_else_is_refused(tmp_path):
    """Before anything is asked."""
    (tmp_path / "thesis.txt").write_text("mine")
    found = textassay("demo", "--out", tmp_path)
    assert (found.code, "contains something else" in found.err) == (2, True)


def test_without_llama_cpp_it_says_what_to_install(tmp_path):
    code = "import sys; sys.modules['llama_cpp'] = None; from textassay.cli import main; main()"
    command = [sys.executable, "-c", code, "demo", "--out", str(tmp_path / "out")]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 2
    assert 'pip install "textassay[llamacpp]"' in done.stderr
    assert not (tmp_path / "out").exists()

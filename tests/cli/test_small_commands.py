"""`graph`, `cache`, `--version` and help."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import textassay as package
from tests.cli.harness import served, textassay, write_examples
from tests.fitting.made_texts import Planted, rows_of, write
from textassay import ScriptedModel
from textassay.methods import METHODS, build
from textassay.runtime import Capabilities


def test_graphs_are_drawn_without_a_model():
    """Mermaid on stdout, equal each time."""
    drawn = textassay("graph", "g-eval")
    assert (drawn.code, drawn.err) == (0, "")
    assert drawn.out.startswith("flowchart LR\n")
    assert "steps" in drawn.out
    assert "==>" in drawn.out
    assert textassay("graph", "g-eval").out == drawn.out
    assert textassay("graph", "nothing").code == 2


def test_a_cache_tells_what_it_holds_and_can_be_cleared(server, data, run):
    """`cache info`, `verify` and `clear`, also while nobody writes; a foreign folder is never
    cleared."""
    flags = (
        "--method",
        "llm-score",
        "--model",
        "direct/mock",
        "--api-base",
        server.url,
        "--aspects",
        "fluency",
    )
    assert textassay("score", data, *flags, "--out", run).code == 0
    answers = run / "answers"
    assert textassay("cache", "info", answers).out.startswith("6 answers in 1 files, ")
    verified = textassay("cache", "verify", answers)
    assert (verified.code, verified.out) == (0, "6 answers are sound\n")
    assert textassay("cache", "clear", answers).out.startswith("deleted 6 answers, ")
    assert textassay("cache", "info", answers).out.startswith("0 answers ")
    refused = textassay("cache", "clear", data.parent)
    assert (refused.code, data.exists()) == (2, True)
    assert "is not a cache folder" in refused.err


def test_version_and_help_go_to_standard_output():
    """Exit 0; every command is listed."""
    version = textassay("--version")
    assert (version.code, version.out) == (0, f"textassay {package.__version__}\n")
    shown = textassay("--help")
    assert shown.code == 0
    for command in ("score", "resume", "meta", "graph", "cache"):
        assert command in shown.out


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_picture(name):
    """Its agents by name, ending with the scores, for every built-in task."""
    judge = ScriptedModel(["3"], capabilities=Capabilities(choices=True, continuation=True))
    for task in ("summarization", "dialogue", "data-to-text", "translation"):
        drawn = textassay("graph", name, "--task", task)
        assert (drawn.code, drawn.err) == (0, "")
        names = re.findall(r'n\d+\["(\w+)"\]', drawn.out)
        nodes = build(name, judge, task=task).graph.nodes
        assert names == [node.name for node in nodes]
        assert names[-1] == "scores"


def test_a_fitted_evaluator_has_a_picture(tmp_path):
    """Both kinds, without any model; what is no evaluator is refused, and so is a task beside its
    own."""
    data = write(tmp_path / "data.jsonl", rows_of())
    assert (
        textassay(
            "fit", data, "--out", tmp_path / "recorded", "--features", "*", "--aggregator", "ridge"
        ).code
        == 0
    )
    drawn = textassay("graph", tmp_path / "recorded")
    assert (drawn.code, drawn.err) == (0, "")
    assert re.findall(r'n\d+\["(\w+)"\]', drawn.out) == ["scores"]
    planted = Planted(60)
    data = write(tmp_path / "rated.jsonl", planted.rows)

    def reply(body, draw):
        return planted.answer(
            SimpleNamespace(text="\n".join(m["content"] for m in body["messages"]))
        )

    with served(reply=reply) as judge:
        model = ("--model", "direct/mock", "--api-base", judge.url, "--task", "summarization")
        learning = (
            "--method",
            "hd-eval",
            "--layers",
            2,
            "--aggregator",
            "ridge",
            "--out",
            tmp_path / "tree",
        )
        assert textassay("fit", data, *model, *learning, "--progress", "none").code == 0
    drawn = textassay("graph", tmp_path / "tree")
    assert (drawn.code, drawn.err) == (0, "")
    assert re.findall(r'n\d+\["(\w+)"\]', drawn.out) == ["criteria", "ratings", "scores"]
    (tmp_path / "empty").mkdir()
    empty = textassay("graph", tmp_path / "empty")
    assert empty.code == 2
    assert "contains no evaluator.json" in empty.err
    tasked = textassay("graph", tmp_path / "tree", "--task", "dialogue")
    assert tasked.code == 2
    assert "leave out --task dialogue" in tasked.err


def test_a_reader_that_goes_away_is_no_crash(tmp_path, server):
    """Nothing on standard error, and the status that shells report of other programs:
    `textassay ... | true`; the export fails while answers are read, the help in rich."""
    data, run = write_examples(tmp_path / "data.jsonl", 30), tmp_path / "run"
    score = ("--method", "llm-score", "--model", "direct/mock", "--api-base", server.url)
    assert textassay("score", data, *score, "--aspects", "fluency", "--out", run).code == 0
    for command in (("--help",), ("cache", "export", run)):
        read, write = os.pipe()
        os.close(read)  # before the command begins, so that it cannot be faster
        done = subprocess.run(
            [sys.executable, "-m", "textassay", *map(str, command)],
            stdout=write, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
            check=False,
        )  # fmt: skip
        os.close(write)
        assert (done.stderr, done.returncode) == ("", 141), command


def test_only_the_command_line_changes_how_garbage_is_collected():
    """The process of whoever imports textassay is left as it is."""
    code = (
        "import gc, sys; sys.argv = ['textassay', '--version']; before = "
        "gc.get_threshold()\nimport textassay; textassay.evaluate; from textassay.cli import "
        "main; print(gc.get_threshold() == before)\ntry: main()\nexcept SystemExit: "
        "print(gc.get_threshold()[0] > before[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    shown = done.stdout.split()
    assert (shown[0], shown[-1]) == ("True", "True")

"""What single methods send and show from the command line, those of other packages too."""

from __future__ import annotations

import json
import re
import sys

import pytest

from tests.cli.harness import read_json, read_lines, rows_of, score, served, textassay, write_lines
from tests.runtime.test_conversation import long_chat
from textassay.demo import data_file
from textassay.methods import METHODS, build, method_names
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.calls.adaptation import KNOWN
from textassay.runtime.errors import ConfigurationError, UnknownName

EXAMPLES = [
    {"id": "a", "output": "The cat sat on the mat.", "source": "In 1987 a cat sat on a mat.",
     "context": "Cats sit."},
    {"id": "b", "output": "It rained. All day.", "source": "It rained all day long in Rome."},
    {"id": "c", "output": " ", "source": "Nothing was said."},
]  # fmt: skip
TREE = """
[[aspects]]
name = "suspense"
definition = "whether one wants to know how it goes on."
scale = [1, 7]
[[aspects]]
name = "style"
definition = "whether it is well told."
"""


def examples(path, task, count):
    return write_lines(path, read_lines(data_file(task))[:count])


def test_corrw_asks_the_direct_evaluator_about_rated_and_judged_examples(recorded, tmp_path, run):
    """Once each; every score has the correlations, the run folder has the weights."""
    server, asked = recorded
    rated = examples(tmp_path / "rated.jsonl", "summarization", 12)
    data = examples(tmp_path / "d.jsonl", "summarization", 3)
    more = ("-t", "summarization", "--tools", "rougeL,coverage", "--n", 2, "--no-cache")
    options = ("fusion=corrw", f"ratings={rated}", "direct=true")
    more = (*more, *(part for option in options for part in ("--set", option)))
    score(data, run, server, *more, method="fusion-eval", aspects="coherence").ok()
    direct = [text for text in asked if "Evaluation Form" in text]
    ids = {re.search(r"Summary:\s+(.+)", text, re.S)[1][:200] for text in direct}
    assert len(ids) == 12  # the three are among the twelve
    weights = read_json(run / "weights.json")["aspects"]["coherence"]
    assert set(weights["correlations"]) == {"rougeL", "coverage", "direct"}
    shown = rows_of(run)[0]["evidence"]
    assert {one["text"]: one["correlation"] for one in shown} == weights["correlations"]


def test_the_profile_paper_sends_texts_bare(recorded, tmp_path, run):
    server, asked = recorded
    data = examples(tmp_path / "d.jsonl", "summarization", 1)
    more = ("-t", "summarization", "--set", "profile=paper")
    score(data, run, server, *more, method="hd-eval", aspects="coherence").ok()
    (row,) = read_lines(data)
    assert len(asked) == 4
    for text in asked:  # nothing but the label stands before it, and nothing behind it
        assert f"\n\nSummary:\n\n{row['output']}\n\n## Evaluation\n\n" in text


def test_a_run_by_a_tree_file_resumes_from_any_folder(server, tmp_path, monkeypatch):
    write_lines(tmp_path / "data.jsonl", EXAMPLES)
    (tmp_path / "tree.toml").write_text(TREE)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    asked = ("score", "data.jsonl", "--method", "hd-eval", "--task", "general", "--out", "run")
    model = ("--model", "direct/mock", "--api-base", server.url)
    assert textassay(*asked, *model, "--set", "tree=tree.toml", "--set", "output=nodes").code == 1
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert textassay("resume", tmp_path / "run").code == 1
    assert server.counters.requests == 4


def told(run):
    names = ("id", "value", "evidence", "signature")
    return sorted(json.dumps([row[name] for name in names]) for row in rows_of(run))


@pytest.mark.parametrize("model", ["direct/mock", "openai/mock"])
@pytest.mark.parametrize(
    ("options", "asking", "roles", "signed"),
    [
        ({"call_tools": True}, "auto", ["user", "assistant", "tool", "tool"], "functions|"),
        ({}, "auto", ["user", "assistant", "user"], "functions|"),
        ({"refuse_tools": True}, "auto", ["user", "assistant", "user"], "functions:words"),
        ({"call_tools": True}, "words", ["user", "assistant", "user"], "asking:words|"),
    ],
)
def test_an_agent_judge_calls_functions_or_answers_in_words(
    tmp_path, model, options, asking, roles, signed
):
    """As the server takes it, and the signature says which; a replay needs no server."""
    one, two = tmp_path / "one", tmp_path / "two"
    row = {"id": "a", "output": "It rained.", "source": "It rained."}
    data, named = write_lines(tmp_path / "data.jsonl", [row]), {"method": "agent-judge"}
    named, more = {**named, "aspects": "overall"}, ("--set", f"asking={asking}")
    with served(**options) as server:
        bodies = []
        server.listener = bodies.append
        score(data, one, server, *more, model=model, **named).ok()
    [row] = rows_of(one)
    assert (row["outcome"], row["evidence"][0]["found_in"]) == ("scored", "output")
    assert signed in row["signature"]
    assert [message["role"] for message in bodies[-1]["messages"]] == roles
    offered = [tool["function"]["name"] for tool in bodies[-1].get("tools", ())]
    is_offered = asking == "auto" and not options.get("refuse_tools")
    assert offered == (["list", "find", "read", "verdict"] if is_offered else [])
    if roles[-1] == "tool":
        first, second = bodies[-1]["messages"][-2:]
        assert "That is all of it." in first["content"]
        assert second["content"] == "Not done: call one function at a time."
    shown = textassay("show", one, "a", "--prompts").out
    assert "read" in shown
    assert "no answer in the cache" not in shown
    KNOWN.clear()  # as in another process
    score(data, two, server, *more, model=f"replay/{one}", **named).ok()
    assert told(one) == told(two)


def test_a_run_of_agent_judge_is_counted_before_and_replayed_after(server, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    rows = [{"id": f"c{n}", "messages": long_chat(6 + 2 * n, 90_000)} for n in range(3)]
    chats, more = write_lines(tmp_path / "chats.jsonl", rows), ("--set", "max_steps=4")
    named = {"method": "agent-judge", "aspects": "overall"}
    dry = score(chats, one, server, *more, "--dry-run", **named).ok()
    assert server.counters.requests == 0
    assert "up to 12" in dry.out
    assert "up to 4 calls per score" in dry.out
    score(chats, one, server, *more, **named).ok()
    score(chats, two, server, *more, model=f"replay/{one}", **named).ok()
    assert server.counters.requests == 6  # each judge looks once
    assert told(one) == told(two)
    assert all(row["outcome"] == "scored" for row in rows_of(one))
    assert "step 1: read output" in textassay("show", one, "c0").out


MODULE = '''
from textassay.methods import METHODS

class Theirs(METHODS["llm-score"]):
    """A plain judge under a name of its own."""
    name = "theirs"
'''
POINTS = """
[textassay.methods]
theirs = their_package:Theirs
llm-score = their_package:Theirs
gone = their_package:Gone
broken = their_broken_module:Theirs
number = their_package:__name__
"""


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """An installed package with a method, and entry points that lead nowhere."""
    site = tmp_path / "site"
    info = site / "their_package-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    (site / "their_package.py").write_text(MODULE)
    (site / "their_broken_module.py").write_text("raise RuntimeError('no license')\n")
    monkeypatch.syspath_prepend(str(site))
    yield
    for name in ("their_package", "their_broken_module"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("distribution")
def test_a_method_of_another_package_runs_from_the_command_line(server, data, run):
    assert method_names() == (*METHODS, "tools", "broken", "gone", "number", "theirs")
    assert type(build("llm-score", ScriptedModel())) is METHODS["llm-score"]
    assert "their_package" not in sys.modules
    with pytest.raises(UnknownName, match="theirs"):
        build("their", ScriptedModel())
    done = score(data, run, server, "--progress", "none", method="theirs", aspects="coherence")
    assert (done.code, done.err) == (0, "")
    assert {row["signature"].split("|")[0] for row in rows_of(run)} == {"method:theirs"}
    assert 'n1["scores"]' in textassay("graph", "theirs").out


@pytest.mark.usefixtures("distribution")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gone", r"cannot be loaded from 'their_package:Gone': AttributeError"),
        ("broken", r"cannot be loaded .*: RuntimeError: no license"),
        ("number", r"is not a method: .*must be a class"),
    ],
)
def test_unusable_plugins_are_refused_with_the_package_and_the_reason(name, says):
    with pytest.raises(ConfigurationError, match=f"'{name}' of their-package {says}"):
        build(name, ScriptedModel())

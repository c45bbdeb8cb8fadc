"""Fusion-Eval as whole runs against a server: every built-in task, one of the user's own, run
folders, dry runs."""

import sys

import pytest

import textassay
from tests.cli.harness import read_json, rows_of, served, write_lines
from tests.cli.harness import textassay as command
from textassay.evaluation.api import open_evaluation
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import ConfigurationError
from textassay.tools import tool
from textassay.tools.registry import has_extra

ROWS = [
    {
        "id": str(number),
        "output": f'It rained {number} times. "Never again," she said. '
        "It was the wettest May ever.",
        "source": f"A: How was May?\nB: It rained {number} times in May.",
        "context": "Rain is wet.",
        "references": ["It rained in May.", "May was wet."],
    }
    for number in range(3)
]


def test_a_run_keeps_its_plan_which_another_run_takes(tmp_path):
    out = tmp_path / "run"
    flags = [
        "score", write_lines(tmp_path / "data.jsonl", ROWS), "--method", "fusion-eval", "--task",
        "dialogue", "--tools", "rouge,repetition", "--model", "direct/mock", "--progress", "none",
    ]  # fmt: skip
    with served() as server:
        command(*flags, "--api-base", server.url, "--out", out).ok()
        assert server.counters.ok == 1 + len(ROWS)
        plan = ("--set", f"plan={out / 'plan.toml'}", "--out", tmp_path / "again")
        command(*flags, "--api-base", server.url, *plan).ok()
        assert server.counters.ok == 1 + 2 * len(ROWS)
    scores = rows_of(out)
    assert len(scores) == 3 * 6
    assert {tuple(score["scale"]) for score in scores} == {(1, 3), (0, 1), (1, 5)}
    manifest = manifest_in(out)
    tools = ["rouge1", "rouge2", "rougeL", "repetition"]
    assert [item["name"] for item in manifest["method"]["tools"]] == tools
    assert manifest["spec"]["tools"] == ["rouge", "repetition"]


async def test_a_resumed_run_asks_only_where_a_tool_had_failed_and_keeps_an_edited_plan(
    tmp_path, mock_server
):
    server, out = await mock_server(), tmp_path / "run"
    broken = {"1"}

    @tool(name="mood", description="The mood, 0 to 1.", scale=(0.0, 1.0))
    def mood(example):
        if example.id in broken:
            raise TimeoutError("the mood service is away")
        return 0.5

    expected = {"method": "fusion-eval", "task": "summarization", "aspects": ["fluency"],
                "tools": [mood], "out": out}  # fmt: skip
    async with textassay.connect("direct/mock", api_base=server.url) as model:
        first = await textassay.evaluate(ROWS, model=model, **expected)
        outcomes = {score.id: score.outcome for score in first.scores}
        assert outcomes == {"0": "scored", "1": "error", "2": "scored"}
        assert server.counters.ok == 3
        (out / "plan.toml").write_text("# mine\n", encoding="utf-8")
        broken.clear()
        second = await textassay.evaluate(ROWS, model=model, resume=True, **expected)
    assert second.summary()["outcomes"]["scored"] == 3
    assert server.counters.ok == 4
    assert (out / "plan.toml").read_text() == "# mine\n"


async def test_a_dry_run_measures_nothing():
    measured = []

    @tool(name="mood", description="The mood.", scale=(0.0, 1.0))
    def mood(example):
        measured.append(example.id)
        return 0.5

    model = ScriptedModel([])
    expected = {"method": "fusion-eval", "task": "summarization", "model": model, "tools": [mood]}
    async with open_evaluation(ROWS, **expected, dry=True) as session:
        scores = [score async for score in session.engine.scores()]
        assert session.usage.calls == 1 + len(ROWS)
    assert {score.outcome for score in scores} == {"scored"}
    assert measured == []


async def test_tools_do_not_go_with_a_method_object():
    method = textassay.methods.build("fusion-eval", ScriptedModel([]), tools=["chrf"])
    with pytest.raises(
        ConfigurationError, match="tools= can only be given with the name of a method"
    ):
        await textassay.evaluate(ROWS, method=method, tools=["coverage"])


LEXICAL = ["rougeL", "chrf", "coverage", "repetition"]
EMBEDDING = "embedding?engine=static&per=sentence"


def average(tmp_path, *more):
    """Judge without tools named, by a fusion that asks no model."""
    data = write_lines(tmp_path / "data.jsonl", ROWS)
    return command("score", data, "--method", "fusion-eval", "--aspects", "coherence", "--task",
                   "summarization", "--set", "fusion=avg", "--progress", "none",
                   *more)  # fmt: skip


def manifest_in(run):
    return read_json(run / "manifest.json")


def test_a_run_says_and_keeps_which_tools_it_took(tmp_path, monkeypatch):
    """With the extra static one more; a resumed run takes the same ones or stops."""
    if not has_extra("static"):
        pytest.skip("the extra static is not installed")
    run, other = tmp_path / "with", tmp_path / "without"
    told = f"tools: {', '.join([*LEXICAL, EMBEDDING])} (the default; --tools names others)"
    for more in (["--dry-run"], ["--out", run]):
        assert average(tmp_path, *more).ok().messages == told
    assert manifest_in(run)["spec"]["tools"] == [*LEXICAL, EMBEDDING]
    monkeypatch.setitem(sys.modules, "wordllama", None)  # what Python does for a missing module
    (run / "scores.jsonl").write_bytes(b"")
    refused = command("resume", run, "--progress", "none")
    assert refused.code == 2
    assert "pip install 'textassay[static]'" in refused.messages
    words = average(tmp_path, "--out", other).ok().messages
    assert words.startswith(f"tools: {', '.join(LEXICAL)} (the default; --tools names others; pip")
    assert f"pip install 'textassay[static]' adds {EMBEDDING})" in words
    assert manifest_in(other)["signature"] != manifest_in(run)["signature"]
    monkeypatch.undo()
    (other / "scores.jsonl").write_bytes(b"")
    assert command("resume", other, "--progress", "none").ok().err == ""
    assert average(tmp_path, "--out", tmp_path / "named", "--tools", "chrf").ok().err == ""

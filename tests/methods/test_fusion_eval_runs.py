"""Fusion-Eval as whole runs against a server: every built-in task, one of the user's own, run
folders, dry runs."""

import sys

import orjson
import pytest

import textassay
from tests.cli.harness import served
from tests.cli.harness import textassay as command
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


def written(tmp_path):
    data = tmp_path / "data.jsonl"
    data.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in ROWS))
    return data


def test_a_run_keeps_its_plan_which_another_run_takes(tmp_path):
    out = tmp_path / "run"
    flags = [
        "score", written(tmp_path), "--method", "fusion-eval", "--task", "dialogue", "--tools",
        "rouge,repetition", "--model", "direct/mock", "--progress", "none",
    ]  # fmt: skip
    with served() as server:
        done = command(*flags, "--api-base", server.url, "--out", out)
        assert done.code == 0, done.err + done.out
        assert server.counters.ok == 1 + len(ROWS)
        plan = ("--set", f"plan={out / 'plan.toml'}", "--out", tmp_path / "again")
        again = command(*flags, "--api-base", server.url, *plan)
        assert again.code == 0, again.err
        assert server.counters.ok == 1 + 2 * len(ROWS)
    scores = [orjson.loads(line) for line in (out / "scores.jsonl").read_bytes().splitlines()]
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
    from textassay.evaluation.api import open_evaluation

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
    return command("score", written(tmp_path), "--method", "fusion-eval", "--aspects", "coherence",
                   "--task", "summarization", "--set", "fusion=avg", "--progress", "none",
                   *more)  # fmt: skip


def manifest_in(run):
    return orjson.loads((run / "manifest.json").read_bytes())


def test_a_run_says_and_keeps_which_tools_it_took(tmp_path, monkeypatch):
    """With the extra static one more; a resumed run takes the same ones or stops."""
    if not has_extra("static"):
        pytest.skip("the extra static is not installed")
    run, other = tmp_path / "with", tmp_path / "without"
    dry = average(tmp_path, "--dry-run")
    done = average(tmp_path, "--out", run)
    assert (dry.code, done.code) == (0, 0), done.err
    told = f"tools: {', '.join([*LEXICAL, EMBEDDING])} (the default; --tools names others)\n"
    assert " ".join(dry.err.split()) == " ".join(done.err.split()) == told.strip()
    assert manifest_in(run)["spec"]["tools"] == [*LEXICAL, EMBEDDING]
    monkeypatch.setitem(sys.modules, "wordllama", None)  # what Python does for a missing module
    (run / "scores.jsonl").write_bytes(b"")
    refused = command("resume", run, "--progress", "none")
    assert refused.code == 2
    assert "pip install 'textassay[static]'" in " ".join(refused.err.split())
    done = average(tmp_path, "--out", other)
    assert done.code == 0, done.err
    words = " ".join(done.err.split())
    assert words.startswith(f"tools: {', '.join(LEXICAL)} (the default; --tools names others; pip")
    assert f"pip install 'textassay[static]' adds {EMBEDDING})" in words
    assert manifest_in(other)["signature"] != manifest_in(run)["signature"]
    monkeypatch.undo()
    (other / "scores.jsonl").write_bytes(b"")
    done = command("resume", other, "--progress", "none")
    assert (done.code, done.err) == (0, "")
    done = average(tmp_path, "--out", tmp_path / "named", "--tools", "chrf")
    assert (done.code, done.err) == (0, "")


async def test_a_run_of_an_earlier_version_resumes_with_the_tools_it_had(tmp_path):
    """Its manifest names no tools in the request, and those it took where the method is."""
    call = {"method": "fusion-eval", "task": "summarization", "aspects": "coherence",
            "options": {"fusion": "avg"}, "out": tmp_path / "run"}  # fmt: skip
    await textassay.evaluate(ROWS, tools=LEXICAL, **call)
    manifest = manifest_in(tmp_path / "run")
    manifest["spec"]["tools"] = []
    (tmp_path / "run" / "manifest.json").write_bytes(orjson.dumps(manifest))
    (tmp_path / "run" / "scores.jsonl").write_bytes(b"")
    run = await textassay.evaluate(ROWS, resume=True, **call)
    assert {score.signature for score in run} == {manifest["signature"]}

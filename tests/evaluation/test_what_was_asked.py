"""A run keeps the user's files that say what is asked, so that its prompts can be read later."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from textassay import Run, ScriptedModel, evaluate
from textassay.evaluation.exchanges import exchanges_of_run

TASK = """
name = "release"
intro = "You will be given release notes."

[[aspects]]
name = "clarity"
definition = "whether a user understands them."
scale = [1, 5]
"""
PROMPT = '{# ours #}\nRate {{ aspect.definition }}\n{% include "part.jinja" %}\nScore:'


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_text(
        "".join(json.dumps({"id": f"x{i}", "output": f"Text {i}."}) + "\n" for i in (1, 2))
    )
    return path


@pytest.fixture
def task(tmp_path: Path) -> Path:
    path = tmp_path / "release.toml"
    path.write_text(TASK)
    return path


async def made(data: Path, task: Path, **more: object) -> Path:
    """A run of two texts by a task of the user's."""
    out = data.parent / "run"
    judge = ScriptedModel(lambda request: "Score: 4")
    await evaluate(data, method="llm-score", task=str(task), model=judge, out=out, **more)
    return out


async def words(run: Path, caplog: pytest.LogCaptureFixture) -> tuple[str, list[str]]:
    """What was asked about one text, and what was warned of."""
    caplog.clear()
    with caplog.at_level(logging.WARNING, "textassay"):
        exchanges = [exchange async for exchange in exchanges_of_run(run, ["x1"])]
    (only,) = exchanges
    assert only.answers == ("Score: 4",)
    text = "\n".join(turn["content"] for turn in only.prompt)
    return text, [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("change", ["edited", "removed"])
async def test_a_task_that_changed_since_is_shown_as_it_was(data, task, change, caplog):
    run = await made(data, task)
    if change == "edited":
        task.write_text(TASK.replace("understands them", "likes them"))
    else:
        task.unlink()
    text, warned = await words(run, caplog)
    assert "whether a user understands them." in text
    assert warned == []


async def test_a_prompt_and_what_it_includes_are_shown_as_they_were(data, task, tmp_path, caplog):
    prompt, part = tmp_path / "own.jinja", tmp_path / "part.jinja"
    prompt.write_text(PROMPT)
    part.write_text("The text: {{ material.output if material is mapping else '' }}")
    run = await made(data, task, options={"prompt": str(prompt)})
    files = Run(run).manifest["files"]
    assert {Path(path).name for path in files} == {"release.toml", "own.jinja", "part.jinja"}
    prompt.write_text(PROMPT.replace("Rate", "Judge"))
    part.unlink()
    text, warned = await words(run, caplog)
    assert text.startswith("Rate whether a user understands them.")
    assert warned == []


async def test_data_that_changed_since_are_named(data, task, caplog):
    run = await made(data, task)
    assert (await words(run, caplog))[1] == []
    data.write_text(data.read_text().replace("Text 2", "Other 2"))
    _, warned = await words(run, caplog)
    assert warned == ["the data changed since the run, which may have sent other prompts"]


async def test_packaged_words_are_not_kept(data):
    """The version in the manifest says what they were."""
    out = data.parent / "run"
    judge = ScriptedModel(lambda request: "Score: 4")
    await evaluate(
        data, method="llm-score", task="summarization", aspects=["fluency"], model=judge, out=out
    )  # fmt: skip
    assert "files" not in Run(out).manifest


async def test_a_foreign_manifest_writes_nowhere_else(data, task, caplog):
    run = await made(data, task)
    manifest = json.loads((run / "manifest.json").read_text())
    outside = data.parent / "outside"
    manifest["files"] = {**manifest["files"], f"../../../../../../{outside}/evil.toml": "x"}
    (run / "manifest.json").write_text(json.dumps(manifest))
    await words(run, caplog)
    assert not outside.exists()

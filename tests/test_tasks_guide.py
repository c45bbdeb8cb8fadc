"""The guide to tasks of one's own works as it stands: its files, its commands and its Python."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path

from tests.cli.harness import rows_of, served, textassay
from textassay.methods.library import tasks
from textassay.runtime.backends.scripted import ScriptedModel

GUIDE = (Path(__file__).parents[1] / "docs" / "tasks.md").read_text(encoding="utf-8")


def blocks(language):
    """All blocks of one language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def test_every_block_of_the_guide_runs(tmp_path, monkeypatch):
    """The files are taken, the commands exit 0, the Python gives scores on its own scales."""
    monkeypatch.chdir(tmp_path)
    (Path("support.toml")).write_text(blocks("toml")[0], encoding="utf-8")
    (Path("replies.jsonl")).write_text(blocks("json")[0], encoding="utf-8")
    with served(reply=lambda body, draw: "Rating: 2") as judge:
        for line in blocks("console")[0].splitlines():
            words = shlex.split(line.removeprefix("$ ").replace("$URL", judge.url))
            assert words[0] == "textassay"
            done = textassay(*words[1:])
            assert done.code == 0, done
    scales = {row["aspect"]: row["scale"] for row in rows_of(Path("runs/support"))}
    assert scales == {"helpfulness": [1, 5], "tone": [1, 3], "jargon": [0, 10]}
    assert {row["aspect"] for row in rows_of(Path("runs/tone"))} == {"tone"}
    scope: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, "docs/tasks.md", "exec"), scope)
    asyncio.run(scope["main"](ScriptedModel(lambda request: "Rating: 2")))
    assert {row["aspect"] for row in rows_of(Path("runs/brevity"))} == {"tone", "brevity"}
    run = asyncio.run(scope["measure"]())
    assert [score.value for score in run] == [4.0, 5.0]


def test_the_guide_names_every_key():
    """Keys of the tables are the keys that a file may have, and no others."""
    keys = [line.split("|")[1] for line in GUIDE.splitlines() if line.startswith("| `")]
    named = set(re.findall(r"`(\w+)`", "".join(keys)))
    known = {*tasks._TASK_KEYS, *tasks._ASPECT_KEYS}
    assert named == known

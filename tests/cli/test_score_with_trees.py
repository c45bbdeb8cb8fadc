"""`textassay score` with the methods that take aspects apart: every task, and calls as the dry run
foretells."""

import json
import re

import pytest

from textassay.cli.exits import UNSCORED
from textassay.cli.scoring import build_command, command_to_resume, execute

EXAMPLES = [
    {
        "id": "a",
        "output": "The cat sat on the mat.",
        "source": "In 1987 a cat sat on a mat.",
        "context": "Cats sit.",
    },
    {"id": "b", "output": "It rained. All day.", "source": "It rained all day long in Rome."},
    {"id": "c", "output": " ", "source": "Nothing was said."},
]
STORY = """
name = "story"
intro = "You will be given a short story."
output_name = "Story"
[[aspects]]
name = "suspense"
definition = "whether one wants to know how it goes on."
scale = [1, 7]
[[aspects]]
name = "style"
definition = "whether it is well told."
"""
METHODS = [
    ("coascore", {}),
    ("coascore", {"variant": "average", "n_aspects": 5}),
    ("hd-eval", {"children": 2}),
]

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize(
    "task", ["summarization", "dialogue", "data-to-text", "translation", "general", "story.toml"]
)
@pytest.mark.parametrize(("method", "options"), METHODS)
async def test_every_task_is_judged_with_the_calls_that_the_dry_run_foretells(
    mock_server, tmp_path, capsys, method, options, task
):
    server = await mock_server()
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, EXAMPLES)))
    (tmp_path / "story.toml").write_text(STORY)
    task = str(tmp_path / task) if task.endswith(".toml") else task
    flags = {
        "data": tmp_path / "data.jsonl", "method": method, "model": {"": "direct/mock"},
        "task": task, "api_base": server.url, "progress": "none", "out": tmp_path / "run",
    }  # fmt: skip
    assert await execute(build_command(flags | {"dry_run": True}, options)) == 0
    foretold = int(re.search(r"calls +(\d+)", capsys.readouterr().out)[1])
    assert server.counters.requests == 0
    assert await execute(build_command(flags, options)) == UNSCORED
    assert server.counters.requests == foretold
    scores = [
        json.loads(line) for line in (tmp_path / "run" / "scores.jsonl").read_text().splitlines()
    ]
    assert {(score["id"], score["outcome"]) for score in scores} == {
        ("a", "scored"),
        ("b", "scored"),
        ("c", "abstained"),
    }
    assert sum(score["usage"]["calls"] for score in scores) == foretold
    assert all(item["text"] for score in scores for item in score["evidence"])


async def test_a_run_by_a_tree_file_resumes_from_any_folder(mock_server, tmp_path, monkeypatch):
    server = await mock_server()
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, EXAMPLES)))
    (tmp_path / "tree.toml").write_text(STORY.partition("[[aspects]]")[2].join(("[[aspects]]", "")))
    monkeypatch.chdir(tmp_path)
    flags = {
        "data": "data.jsonl", "method": "hd-eval", "model": {"": "direct/mock"}, "task": "general",
        "api_base": server.url, "progress": "none", "out": "run",
    }  # fmt: skip
    assert await execute(build_command(flags, {"tree": "tree.toml", "output": "nodes"})) == UNSCORED
    asked = server.counters.requests
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert await execute(command_to_resume(tmp_path / "run", {"progress": "none"})) == UNSCORED
    assert server.counters.requests == asked == 4

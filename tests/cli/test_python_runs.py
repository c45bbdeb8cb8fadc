"""Runs that were made in Python are resumed on the command line."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.cli.harness import textassay, write_examples
from textassay import Aspect, Example, Graph, Node, Score, connect, each, evaluate, evaluate_sync
from textassay.runtime.messages import Assignment


async def make(data, run, **settings):
    async with connect("direct/judge", **settings) as model:
        await evaluate(
            data,
            method="llm-score",
            task="summarization",
            aspects=["fluency"],
            model=model,
            out=run,
            progress=False,
        )


def test_the_settings_of_a_connected_model_are_recorded(server, tmp_path):
    """Before, the manifest held the defaults, and `resume` asked for the address."""
    data, run = write_examples(tmp_path / "data.jsonl", 3), tmp_path / "run"
    asyncio.run(make(data, run, api_base=server.url, rpm=5000, attempts=2))
    settings = json.loads((run / "manifest.json").read_text())["settings"]
    assert (settings["api_base"], settings["rpm"], settings["attempts"]) == (server.url, 5000, 2)
    done = textassay("resume", run)
    assert (done.code, "fluency  3" in done.out) == (0, True), done.err


@pytest.mark.parametrize("known", [True, False])
def test_a_key_of_a_connected_model_is_asked_for_again(server, tmp_path, monkeypatch, known):
    """Its name is recorded, its headers are not; nothing is sent by itself."""
    monkeypatch.setenv("JUDGE_KEY", "sk-a-key-of-this-test-0123456789")
    data, run = write_examples(tmp_path / "data.jsonl", 2), tmp_path / "run"
    given = {"api_key_env": "JUDGE_KEY"} if known else {"headers": {"X-Key": "secret-of-this-test"}}
    asyncio.run(make(data, run, api_base=server.url, **given))
    text = (run / "manifest.json").read_text()
    assert "sk-a-key" not in text
    assert "secret-of" not in text
    before = server.counters.requests
    done = textassay("resume", run)
    if known:
        assert done.code == 2
        assert f"--api-base {server.url} --api-key-env JUDGE_KEY" in done.err
    assert server.counters.requests == before


def test_a_run_of_a_graph_is_resumed_in_python(tmp_path):
    """Which the message says; also if a method has the graph's name and would judge the rest."""

    async def length(example: Example, aspect: Aspect) -> Score:
        value = float(len(example.output) % 5)
        return Score(id=example.id, aspect=aspect.label, value=value, scale=(0, 4), how="tool")

    node = Node("length", length, example="input.example", aspect=each("input.aspects"))
    data = write_examples(tmp_path / "data.jsonl", 3)
    for name in ("lengths", "llm-score"):
        graph = Graph(name, input=Assignment, nodes=[node], output="length")
        evaluate_sync(data, method=graph, aspects=["fluency"], out=tmp_path / name, limit=1)
        done = textassay("resume", tmp_path / name)
        assert done.code == 2
        assert f"made by the graph {name!r}, which is Python code" in " ".join(done.err.split())

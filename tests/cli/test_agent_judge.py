"""A judge that looks things up, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from examples.mock_server import MockServer
from tests.cli.harness import rows_of, served, textassay
from tests.runtime.test_conversation import long_chat
from textassay.runtime.calls.adaptation import KNOWN


def told(run: Path) -> list[Any]:
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
def test_a_judge_calls_functions_or_answers_in_words(
    tmp_path: Path, model: str, options: dict[str, Any], asking: str, roles: Any, signed: str
) -> None:
    """As the server takes it, and the signature says which; a replay needs no server."""
    data, one, two = tmp_path / "data.jsonl", tmp_path / "one", tmp_path / "two"
    data.write_text(json.dumps({"id": "a", "output": "It rained.", "source": "It rained."}))
    flags = ("--method", "agent-judge", "-a", "overall", "--set", f"asking={asking}")
    with served(**options) as server:
        bodies: list[dict[str, Any]] = []
        server.listener = bodies.append
        key = ("--api-base", server.url)
        done = textassay("score", data, *flags, "-m", model, *key, "-o", one)
        assert done.code == 0, (done.out, done.err)
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
    done = textassay("score", data, *flags, "-m", f"replay/{one}", "-o", two)
    assert done.code == 0, done.err
    assert told(one) == told(two)


def test_a_run_is_counted_before_and_replayed_after_without_calls(
    server: MockServer, tmp_path: Path
) -> None:
    chats, one, two = tmp_path / "chats.jsonl", tmp_path / "one", tmp_path / "two"
    rows = [{"id": f"c{n}", "messages": long_chat(6 + 2 * n, 90_000)} for n in range(3)]
    chats.write_text("".join(json.dumps(row) + "\n" for row in rows))
    flags = ("--method", "agent-judge", "-a", "overall", "--set", "max_steps=4")
    asked = (*flags, "-m", "direct/mock", "--api-base", server.url)
    dry = textassay("score", chats, *asked, "--dry-run")
    assert (dry.code, server.counters.requests) == (0, 0), dry.err
    assert "up to 12" in dry.out
    assert "up to 4 calls per score" in dry.out
    done = textassay("score", chats, *asked, "-o", one)
    assert done.code == 0, done.err
    assert server.counters.requests == 6  # each judge looks once
    done = textassay("score", chats, *flags, "-m", f"replay/{one}", "-o", two)
    assert done.code == 0, done.err
    assert server.counters.requests == 6
    assert told(one) == told(two)
    assert all(row["outcome"] == "scored" for row in rows_of(one))
    assert "step 1: read output" in textassay("show", one, "c0").out

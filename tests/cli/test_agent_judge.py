"""A judge that looks things up, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from examples.mock_server import MockServer
from tests.cli.harness import rows_of, textassay
from tests.runtime.test_conversation import long_chat


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

    def told(run: Path) -> list[Any]:
        names = ("id", "value", "evidence", "signature")
        return sorted(json.dumps([row[name] for name in names]) for row in rows_of(run))

    assert told(one) == told(two)
    assert all(row["outcome"] == "scored" for row in rows_of(one))
    assert "step 1: read output" in textassay("show", one, "c0").out

"""`--log json`: every line on standard error is an object that a collector can read."""

from __future__ import annotations

import json

from tests.cli.harness import served, textassay, write_examples


def test_every_line_is_json(tmp_path):
    """The last tells all counters; results stay on standard output as they are."""
    data = write_examples(tmp_path / "data.jsonl", 4)
    with served() as server:
        done = textassay(
            "score", data, "--method", "llm-score", "--model", "direct/mock", "--api-base",
            server.url, "--aspects", "fluency", "--out", tmp_path / "run", "--log", "json",
        )  # fmt: skip
    assert done.code == 0, done.err
    assert "error: " in textassay("show", tmp_path / "none").err  # which says so in text
    lines = [json.loads(line) for line in done.err.splitlines()]
    assert all({"time", "level", "message"} <= set(line) for line in lines)
    (last,) = [line for line in lines if line["message"] == "progress"][-1:]
    assert last["outcomes"] == {"scored": 4}
    assert last["usage"]["calls"] == 4
    assert (last["done"], last["total"]) == (4, 4)
    assert last["limiters"]["direct/mock"]["in_flight"] == 0

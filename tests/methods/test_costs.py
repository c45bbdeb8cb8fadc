"""The table of costs: what a dry run tells of each method is what the server counts."""

from pathlib import Path

import pytest

import textassay
from benchmarks.method_costs import COMMAND, MethodCost, cost_of, table_of
from textassay.demo.bundled import data_file
from textassay.methods import METHODS

DOCS = (Path(__file__).parents[2] / "docs" / "methods.md").read_text(encoding="utf-8")


async def check(method: str, task: str, server) -> MethodCost:
    """Hold the foretold cost against a run."""
    foretold = await cost_of(method, task)
    async with textassay.connect("direct/mock", api_base=server.url) as model:
        run = await textassay.evaluate(data_file(task), method=method, task=task, model=model)
    usage = run.summary()["usage"]
    assert server.counters.requests == usage["calls"] == foretold.whole.calls
    assert usage["completion_tokens"] <= foretold.whole.completion + usage["calls"]
    assert foretold.once.calls + foretold.examples * foretold.each.calls == pytest.approx(foretold.whole.calls)
    return foretold


@pytest.mark.asyncio
@pytest.mark.parametrize("method", METHODS)
async def test_calls_are_what_the_server_counts_and_the_docs_say(method, mock_server):
    """Calls are exact on the task of the table; the row of the docs is the one that the command prints."""
    foretold = await check(method, "summarization", await mock_server())
    row = table_of([foretold]).splitlines()[-1]
    assert row in DOCS, f"docs/methods.md is behind; run {COMMAND}"
    assert COMMAND in DOCS


def test_every_method_has_its_section():
    """By name, in the order of their names."""
    sections = [line.removeprefix("## ").strip("`") for line in DOCS.splitlines() if line.startswith("## `")]
    assert sections == sorted(METHODS)

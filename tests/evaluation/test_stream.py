"""`stream`: scores as they are found, and an end that leaves nothing running."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

import pytest

from tests.waiting import eventually
from textassay import evaluate, stream
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import ConfigurationError, ModelNotFound
from textassay.runtime.settings import Settings

pytestmark = pytest.mark.asyncio

ROWS = [{"id": f"x{i}", "output": f"Text number {i}."} for i in range(200)]
WANTED = {"method": "llm-score", "aspects": ["fluency"]}


async def test_scores_come_while_the_run_goes_on(mock_server):
    """The first is there long before the last is asked for."""
    server = await mock_server(latency_ms=5)
    seen = 0
    settings = Settings(api_base=server.url, concurrency=4)
    async for score in stream(ROWS[:40], **WANTED, model="direct/mock", settings=settings):
        if not seen:
            assert server.counters.requests < 40
        seen += 1
        assert score.outcome == "scored"
    assert seen == 40


async def test_leaving_early_stops_the_workers_and_leaves_a_resumable_run(mock_server, tmp_path):
    """Nothing is asked afterwards; what was seen is in the folder; resume asks the rest only."""
    server = await mock_server(latency_ms=5)
    expected = {
        **WANTED,
        "model": "direct/mock",
        "settings": Settings(api_base=server.url, concurrency=4),
    }
    seen = []
    async with aclosing(stream(ROWS, **expected, out=tmp_path / "run")) as scores:
        async for score in scores:
            seen.append(score)
            if len(seen) == 10:
                break
    asked = server.counters.requests
    assert asked < 40
    await asyncio.sleep(0.05)
    await eventually(lambda: server.counters.in_flight == 0)
    assert server.counters.requests == asked
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert 10 <= summary["outcomes"]["scored"] <= asked
    run = await evaluate(ROWS, **expected, out=tmp_path / "run", resume=True)
    assert len(run.scores) == 200
    assert {score.id for score in seen} <= {score.id for score in run}
    assert server.counters.requests <= 200 + 4


async def test_a_slow_reader_slows_the_run(mock_server):
    """Scores do not pile up: the run is at most a few examples ahead of whoever reads."""
    server = await mock_server()
    settings = Settings(api_base=server.url, concurrency=4)
    read, ahead = 0, 0
    async with aclosing(stream(ROWS, **WANTED, model="direct/mock", settings=settings)) as scores:
        async for _ in scores:
            read += 1
            await asyncio.sleep(0.002)
            ahead = max(ahead, server.counters.requests - read)
    assert read == 200
    assert ahead < 40


async def test_what_stops_a_run_reaches_the_reader(tmp_path):
    """The error tells how to go on, and the folder holds what was yielded."""
    calls = 0

    def reply(request):
        nonlocal calls
        calls += 1
        return ModelNotFound("no such model") if calls > 5 else "Rating: 3"

    seen = []
    with pytest.raises(ModelNotFound) as stopped:  # noqa: PT012
        async for score in stream(ROWS, **WANTED, model=ScriptedModel(reply), out=tmp_path / "run"):
            seen.append(score)  # noqa: PERF401
    assert f"textassay resume {tmp_path / 'run'}" in stopped.value.__notes__[0]
    kept = [
        json.loads(line)["id"]
        for line in (tmp_path / "run" / "scores.jsonl").read_text().splitlines()
    ]
    assert {score.id for score in seen} <= set(kept)


async def test_what_cannot_be_done_is_refused_at_the_first_step():
    """Making the iterator does nothing; its first step raises."""
    scores = stream(ROWS, method="llm-score")
    with pytest.raises(ConfigurationError, match="no model"):
        await anext(scores)

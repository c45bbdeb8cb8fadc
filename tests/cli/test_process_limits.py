"""Limits of `--processes`: what all processes send together keeps to each, wherever it was set."""

from __future__ import annotations

import pytest

from tests.cli.harness import served, write_examples
from tests.cli.test_shards import score
from textassay.cli.processes import orders_to_resume
from textassay.evaluation.request import RunRequest
from textassay.evaluation.session import open_session
from textassay.evaluation.shards import Shard
from textassay.runtime.settings import OneOfEndpoints, Settings
from textassay.runtime.storage.run_files import read_manifest

HERE, THERE = "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"
LIMITED = Settings(
    rpm=600,
    max_cost=6,
    price=(1.0, 1.0),
    endpoints=(OneOfEndpoints(api_base=HERE, rpm=90, concurrency=5), {"api_base": THERE}),
    roles={
        "scorer": {"tpm": 9000, "endpoints": [{"api_base": THERE, "tpm": 300}]},
        "decomposer": {"concurrency": 4},
    },
)


@pytest.mark.asyncio
@pytest.mark.parametrize("count", [1, 2, 3, 4])
async def test_limits_of_roles_and_endpoints_are_divided_among_processes(count):
    """What all processes send together keeps to each limit, wherever it was set."""
    request = RunRequest(
        method="hd-eval",
        aspects=("coherence",),
        models=dict.fromkeys(("scorer", "decomposer"), "direct/m"),
        settings=LIMITED,
    )
    limits = []
    for shard in (Shard(number, count) for number in range(1, count + 1)):
        async with open_session([{"output": "A text."}], request) as session:
            session.begin_as(shard)
            calls = [model.limiter_state.concurrency for model in session.connected]
            assert min(calls) >= 1
            limits.append([session.budget.max_cost, *calls, session.engine.workers])
    *sums, in_work = (sum(each) for each in zip(*limits, strict=True))
    assert sums == pytest.approx([6, 64, 5 + 4])
    assert 80 <= in_work < 80 + count


def test_all_processes_together_keep_to_the_limit_that_is_recorded(tmp_path):
    """The run and its shards record what was asked for, and `resume` divides that again."""
    data, run = write_examples(tmp_path / "data.jsonl", 40), tmp_path / "run"
    (tmp_path / "c.toml").write_text("rpm = 60000")
    with served(latency_ms=20) as server:
        done = score(
            data, run, server, "--processes", "2", "--config", tmp_path / "c.toml", "-c", "5"
        )
        assert done.code == 0, done.err
        assert 2 < server.counters.max_in_flight <= 5
    for folder in (run, run / "shard-1", run / "shard-2"):
        recorded = read_manifest(folder)["settings"]
        assert (recorded["concurrency"], recorded["rpm"]) == (5, 60000)
    given = orders_to_resume(run, {"tpm": 800})
    assert {(s.concurrency, s.tpm) for s in (one.request.settings for one in given.values())} == {
        (5, 800)
    }


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("[models.scorer]\nconcurrency = 2", "[models.scorer] concurrency 2"),
        (
            '[[models.scorer.endpoints]]\napi_base = "http://127.0.0.1:1/v1"\nconcurrency = 2',
            "[[models.scorer.endpoints]] (1) concurrency 2",
        ),
        ("concurrency = 2", "--concurrency 2"),
    ],
)
def test_more_processes_than_calls_in_flight_are_refused(table, name, server, data, run, tmp_path):
    """Wherever the limit was set; each process has a call in flight at least."""
    (tmp_path / "c.toml").write_text(table)
    done = score(data, run, server, "--processes", "3", "--config", tmp_path / "c.toml")
    assert done.code == 2
    assert f"3 processes cannot keep to {name}," in done.err
    assert not run.exists()

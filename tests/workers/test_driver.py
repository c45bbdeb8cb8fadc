"""A run whose workers are elsewhere: each score once, whatever becomes of the workers."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable, Sequence

import pytest

from tests.cli.harness import rows_of, textassay, verdicts, write_examples
from tests.waiting import eventually
from textassay.evaluation.progress import line
from textassay.evaluation.request import RunRequest
from textassay.runtime.errors import BudgetReached, ClusterLost, ConfigurationError, FatalModelError
from textassay.runtime.settings import Settings
from textassay.workers.driver import Cluster, run_with_workers
from textassay.workers.worker import (
    Instructions,
    Job,
    OpenedSession,
    Report,
    Worker,
    WorkerLost,
    WorkerSession,
)


class InProcess(Worker):
    """A worker in this process."""

    def __init__(
        self, name: str, loses: Callable[[InProcess], bool], all_open: asyncio.Barrier
    ) -> None:
        self.name, self._loses, self._all_open = name, loses, all_open
        self.worker = WorkerSession()
        self.scores = 0
        self.reports: list[Report] = []
        self.sent: list[Instructions] = []

    async def call(self, method, *arguments):
        arguments = pickle.loads(pickle.dumps(arguments))
        return pickle.loads(pickle.dumps(await getattr(self.worker, method)(*arguments)))

    async def open(self, job: Job) -> OpenedSession | Exception:
        opened = await super().open(job)
        # so that none has judged everything before the others take part
        await self._all_open.wait()
        return opened

    async def exchange(self, instructions: Instructions) -> Report:
        self.sent.append(instructions)
        report = await super().exchange(instructions)
        # as when a node dies: what it had done since its last report reaches nobody
        if self._loses(self):
            await self.worker.stop()
            raise WorkerLost(f"the worker on {self.name} is lost")
        self.scores += len(report.scores)
        self.reports.append(report)
        return report

    def kill(self) -> None:
        self.is_alive = False


class Pool:
    """Room for some workers."""

    def __init__(
        self, room: int = 2, *, loses: Callable[[InProcess], bool] = lambda worker: False
    ) -> None:
        self.room, self._loses = room, loses
        self.started: list[InProcess] = []

    async def start_workers(self, most: int) -> Sequence[InProcess]:
        alive = sum(worker.is_alive for worker in self.started)
        missing = max(0, min(most, self.room) - alive)
        all_open = asyncio.Barrier(max(1, missing))
        new = [
            InProcess(f"node {len(self.started) + number}", self._loses, all_open)
            for number in range(missing)
        ]
        self.started += new
        return new


ASPECTS = ("coherence", "fluency")
UNIT = 20


async def judge(
    data,
    run,
    server,
    pool,
    *,
    resume=False,
    method="llm-score",
    kept=None,
    options=None,
    **settings,
):
    """Judge on a pool with units of 20 examples; return the run."""
    settings = {"concurrency": 4, "api_base": server.url, **settings}
    request = RunRequest(
        method=method,
        task="summarization",
        aspects=ASPECTS,
        models={"": "direct/mock"},
        data=str(data),
        options=options or {},
        settings=Settings(**settings),
        out=run,
        resume=resume,
    )
    return await run_with_workers(
        str(data), request, Cluster(), pool=pool, unit=UNIT, start_seconds=0.05, **(kept or {}),
    )  # fmt: skip


@pytest.fixture
def data(tmp_path):
    """Enough examples for several units."""
    return write_examples(tmp_path / "data.jsonl", 70)


@pytest.fixture
def run(tmp_path):
    """The folder for a run."""
    return tmp_path / "run"


async def test_two_workers_make_the_run_of_one_process(mock_server, data, run, tmp_path):
    # one worker alone would take longer than the other needs to take part
    server = await mock_server(latency_ms=20)
    pool = Pool(2)
    made = await judge(data, run, server, pool)
    assert server.counters.requests == 140
    assert len(pool.started) == 2
    assert all(worker.scores for worker in pool.started)
    assert len(rows_of(run)) == len(verdicts(run)) == 140
    progress = made.progress
    assert (progress.done, progress.total, progress.usage.calls) == (70, 70, 140)
    # what was counted stays when workers end
    limiter = progress.limiters["direct/mock"]
    assert (limiter.answered, limiter.in_flight, limiter.limit) == (140, 0, 0)
    assert "in flight" not in line(progress)
    server.options.latency_ms = 0
    command = (
        "score", data, "--method", "llm-score", "--task", "summarization", "--model", "direct/mock",
        "--api-base", server.url, "--aspects", ",".join(ASPECTS),
    )  # fmt: skip
    whole = tmp_path / "whole"
    done = await asyncio.to_thread(textassay, *command, "--cache", run / "answers", "--out", whole)
    assert done.code == 0, done.err
    assert server.counters.requests == 140
    assert verdicts(whole) == verdicts(run)
    ours, theirs = (json.loads((folder / "manifest.json").read_text()) for folder in (run, whole))
    for key in ("spec", "method", "signature", "models", "data"):
        assert ours[key] == theirs[key], key
    ours, theirs = (json.loads((folder / "summary.json").read_text()) for folder in (run, whole))
    assert ours["aspects"] == theirs["aspects"]
    assert ours["outcomes"] == theirs["outcomes"]


async def test_a_lost_worker_costs_at_most_a_unit(mock_server, data, run):
    server = await mock_server(latency_ms=20)
    pool = Pool(2, loses=lambda worker: worker.name == "node 0" and worker.scores >= 10)
    made = await judge(data, run, server, pool)
    assert not pool.started[0].is_alive
    assert len(rows_of(run)) == len(verdicts(run)) == 140
    assert pool.started[0].scores >= 10
    assert server.counters.requests <= 140 + 2 * UNIT
    assert made.progress.done == 70


async def test_a_worker_never_has_more_than_a_unit_in_hand_and_reports_half(mock_server, data, run):
    """Counted in scores, as an example has several: so that it is sent more before it has none."""
    server = await mock_server(latency_ms=20)
    pool = Pool(3)
    await judge(data, run, server, pool)
    for worker in pool.started:
        held = 0
        # the first exchange's examples are reported by later ones: sent is never shorter
        for sent, report in zip(worker.sent, [None, *worker.reports], strict=False):
            held -= 0 if report is None else len(report.scores)
            held += len(sent.examples) * len(ASPECTS)
            assert sent.report_at == max(1, held // 2)
            assert held <= (UNIT + 1) * len(ASPECTS)


async def test_an_example_that_kills_every_worker_stops_the_run(mock_server, data, run):
    server = await mock_server()
    pool = Pool(1, loses=lambda worker: bool(worker.sent[-1].examples or len(worker.sent) > 1))
    with pytest.raises(ClusterLost, match="workers keep failing") as sent:
        await judge(data, run, server, pool)
    assert "textassay resume" in sent.value.__notes__[0]
    assert len(pool.started) <= 4
    await judge(data, run, server, Pool(2), resume=True)
    assert len(rows_of(run)) == len(verdicts(run)) == 140


async def test_answers_too_large_for_workers_are_reported(mock_server, data, run):
    server, lines = await mock_server(), []
    await judge(data, run, server, Pool(1))
    sent = {"most_sent": 100, "notify": lines.append}
    await judge(data, run, server, Pool(1), resume=True, kept=sent)
    assert any("too large to be sent to workers" in line for line in lines)
    lines.clear()
    await judge(data, run, server, Pool(1), resume=True, kept={"notify": lines.append})
    assert not lines


async def test_an_interrupted_run_keeps_what_workers_finished_and_resumes(mock_server, data, run):
    server = await mock_server(latency_ms=20)
    task: asyncio.Task | None = None

    def interrupting(worker):
        # a loss is asked about after every report, which makes the moment certain
        if worker.scores >= 20:
            task.cancel()
            server.options.latency_ms = 60_000
        return False

    task = asyncio.create_task(judge(data, run, server, Pool(2, loses=interrupting)))
    with pytest.raises(asyncio.CancelledError):
        await task
    kept = len(rows_of(run))
    assert 20 <= kept < 140
    assert json.loads((run / "summary.json").read_text())["outcomes"]["scored"] == kept
    server.options.latency_ms = 0
    made = await judge(data, run, server, Pool(2), resume=True)
    assert len(rows_of(run)) == len(verdicts(run)) == 140
    assert made.progress.settled_before > 0
    # answered calls whose example was not finished come from the run's answers
    assert server.counters.requests <= 140 + 4
    everything = await judge(data, run, server, Pool(1), resume=True)
    assert everything.progress.done == everything.progress.settled_before == 70


async def test_the_budget_counts_over_all_workers(mock_server, data, run):
    server = await mock_server()
    with pytest.raises(BudgetReached, match="all workers") as sent:
        await judge(data, run, server, Pool(3), price=(10.0, 10.0), max_cost=0.1)
    summary = json.loads((run / "summary.json").read_text())
    assert 0.05 < summary["usage"]["cost"] <= 0.1
    assert "textassay resume" in sent.value.__notes__[0]
    await judge(data, run, server, Pool(2), price=(10.0, 10.0), max_cost=100, resume=True)
    assert len(verdicts(run)) == 140


async def test_without_a_limit_no_amount_that_a_lost_worker_spent_stops_the_run(
    mock_server, data, run
):
    server = await mock_server(latency_ms=20)
    pool = Pool(2, loses=lambda worker: worker.name == "node 0" and worker.scores >= 10)
    await judge(data, run, server, pool, price=(10.0, 10.0))
    assert not pool.started[0].is_alive
    assert len(verdicts(run)) == 140


async def test_a_budget_that_one_process_keeps_to_is_enough_for_workers(
    mock_server, data, run, tmp_path
):
    """Requests reserve much more than they cost: what one worker has over goes to another."""
    server = await mock_server()
    how = {"price": (10.0, 10.0), "options": {"max_tokens": 4000}}
    await judge(data, tmp_path / "free", server, Pool(1), **how)
    cost = json.loads((tmp_path / "free" / "summary.json").read_text())["usage"]["cost"]
    await judge(data, run, server, Pool(3), **how, max_cost=cost + 0.05)
    assert len(verdicts(run)) == 140


class LatePool(Pool):
    """A second worker that cannot take part joins once the first has scores."""

    refused = 0

    async def start_workers(self, most):
        if not self.started:
            return await super().start_workers(1)
        if self.refused or not self.started[0].scores:
            return ()
        self.refused += 1
        return [RefusingWorker("node 1", lambda worker: False, asyncio.Barrier(1))]


class RefusingWorker(InProcess):
    """Lacks what the run needs."""

    async def open(self, job):
        return ConfigurationError("the variable KEY is not set")


async def test_a_node_that_cannot_take_part_is_left_out(mock_server, data, run):
    server = await mock_server(latency_ms=20)
    told = []
    pool = LatePool(2)
    await judge(data, run, server, pool, kept={"notify": told.append})
    assert pool.refused == 1
    assert told == ["node 1 cannot take part, and is left out: the variable KEY is not set"]
    assert len(verdicts(run)) == 140


class ShrinkingPool(Pool):
    """Nothing replaces its only worker, which is lost."""

    async def start_workers(self, most):
        if self.started and not any(worker.is_alive for worker in self.started):
            raise ConfigurationError("no node has a CPU for a worker")
        return await super().start_workers(1)


async def test_a_run_whose_nodes_are_gone_can_be_resumed(mock_server, data, run):
    server = await mock_server()
    pool = ShrinkingPool(1, loses=lambda worker: worker.scores >= 40)
    with pytest.raises(ClusterLost, match="no node has a CPU") as lost:
        await judge(data, run, server, pool)
    assert "textassay resume" in lost.value.__notes__[0]
    assert 40 <= len(verdicts(run)) < 140
    await judge(data, run, server, Pool(1), resume=True)
    assert len(verdicts(run)) == 140


async def test_limits_are_divided_among_those_that_take_part(mock_server, data, run):
    server = await mock_server(latency_ms=20)
    pool = Pool(3)
    await judge(data, run, server, pool, concurrency=5, rpm=60_000)
    parts = {}
    for worker in pool.started:
        for sent, report in zip(worker.sent, worker.reports, strict=True):
            number, count = sent.part.number, sent.part.count
            limiter = report.progress.limiters["direct/mock"]
            assert report.part == sent.part or limiter.in_flight > limiter.concurrency
            assert limiter.concurrency == 5 * (number + 1) // count - 5 * number // count
            parts.setdefault(count, {})[number] = limiter.concurrency
    assert sorted(parts[3].values()) == [1, 2, 2]


class JoinedPool(Pool):
    """A second worker joins once as many calls of the first as may be in flight are held."""

    def __init__(self, server, concurrency):
        super().__init__(2)
        self._server, self._concurrency = server, concurrency

    async def start_workers(self, most):
        asked = self._server.options.hold_after + self._concurrency
        are_held = self._server.counters.requests == asked
        if len(self.started) == 2 or (self.started and not are_held):
            return ()
        return await super().start_workers(len(self.started) + 1)


async def test_a_worker_that_joins_waits_for_calls_that_are_too_many_now(mock_server, data, run):
    server = await mock_server(hold_after=20, latency_ms=100)
    pool = JoinedPool(server, 8)
    judging = asyncio.create_task(judge(data, run, server, pool, concurrency=8))
    await eventually(lambda: len(pool.started) == 2 and len(pool.started[1].sent) == 3)
    assert not any(sent.examples for sent in pool.started[1].sent)
    server.options.hold_after = 0
    await judging
    assert any(sent.examples for sent in pool.started[1].sent)
    assert server.counters.max_in_flight == 8
    assert len(verdicts(run)) == 140


async def test_requests_that_workers_refuse_are_refused(mock_server, data, run):
    server = await mock_server()
    with pytest.raises(ConfigurationError, match="unknown method 'g-evil'"):
        await judge(data, run, server, Pool(2), method="g-evil")
    assert not run.exists()
    with pytest.raises(ConfigurationError, match="batch"):
        await judge(data, run, server, Pool(2), batch=True)
    assert server.counters.requests == 0


async def test_a_wrong_key_is_not_in_the_way_of_the_next_run(mock_server, data, run, monkeypatch):
    monkeypatch.setenv("A_KEY", "wrong")
    server = await mock_server(require_key="right")
    with pytest.raises(FatalModelError):
        await judge(data, run, server, Pool(2), api_key_env="A_KEY")
    monkeypatch.setenv("A_KEY", "right")
    await judge(data, run, server, Pool(2), api_key_env="A_KEY")

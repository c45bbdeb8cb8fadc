"""`evaluate` and `stream`: what goes in, what comes out, and what is refused."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

import textassay
from tests.waiting import HANGS_AFTER, eventually
from textassay import Aspect, Example, Graph, Node, Score, each, evaluate, evaluate_sync, stream
from textassay.evaluation.run import Run
from textassay.methods.library import tasks
from textassay.methods.llm_score import LLMScore
from textassay.runtime.backends.scripted import ScriptedModel
from textassay.runtime.errors import (
    AgentExited,
    AuthenticationFailed,
    BudgetReached,
    ConfigurationError,
    DataError,
    ModelNotFound,
    RequestRefused,
    RunFolderError,
    UnknownName,
)
from textassay.runtime.messages import Assignment
from textassay.runtime.settings import Settings

ROOT = Path(__file__).parents[2]
ROWS = [{"id": f"x{i}", "output": f"Text number {i}.", "source": "A source."} for i in range(5)]
RATED = {"method": "llm-score", "aspects": ["fluency"]}
WIT = Aspect(name="wit", definition="whether it makes one laugh.", scale=(0, 10))


def judge(said="Rating: 4", **options):
    """A model that always says the same."""
    return ScriptedModel(lambda request: said, **options)


def values(run):
    """What a run says by example and aspect."""
    return {(score.id, score.aspect): score.value for score in run}


async def test_any_number_may_be_in_flight():
    """A limit far above the number of examples costs nothing, also one from a foreign manifest."""
    run = await evaluate(ROWS, **RATED, model=judge(), settings=Settings(concurrency=10**400))
    assert len(run.scores) == 5


async def test_scores_come_back_typed_and_nothing_is_written(tmp_path, monkeypatch):
    """Without `out` the run lives in memory only; it iterates, sums up and turns into a table."""
    monkeypatch.chdir(tmp_path)
    run = await evaluate(ROWS, method="llm-score", model=judge(), aspects=["coherence", "fluency"])
    assert list(tmp_path.iterdir()) == []
    assert len(run.scores) == 10
    assert all(isinstance(score, Score) for score in run)
    assert set(values(run).values()) == {4.0}
    assert run.folder is None
    assert run.summary()["aspects"] == {
        "coherence": {"n": 5, "mean": 4.0},
        "fluency": {"n": 5, "mean": 4.0},
    }
    assert run.summary()["usage"]["calls"] == 10
    table = run.to_pandas()
    assert list(table.columns) == [*Score.model_fields, "system", "group", "human"]
    assert table.groupby("aspect")["value"].mean().to_dict() == {"coherence": 4.0, "fluency": 4.0}


async def test_a_folder_says_the_same_as_memory(tmp_path):
    """With `out` scores, summary and table are read from the folder, which anybody may read."""
    kept = await evaluate(ROWS, **RATED, model=judge(), out=tmp_path / "run")
    here = await evaluate(ROWS, **RATED, model=judge())
    ours, theirs = (sorted(run, key=lambda score: score.id) for run in (kept, here))
    assert ours == theirs
    assert kept.summary() == here.summary()
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert datetime.now(UTC) - datetime.fromisoformat(summary.pop("started")) < timedelta(minutes=5)
    assert 0 < summary.pop("seconds") < 300
    assert summary == {"format": 1, **kept.summary()}
    assert all(0 <= score.seconds < 300 for score in kept)
    assert len(kept.to_pandas()) == 5


class Split:
    """What a Hugging Face `Dataset` is to us: rows and the names of columns."""

    def __init__(self, rows):
        self.rows, self.column_names = rows, list(rows[0])

    def __iter__(self):
        return iter(self.rows)


@pytest.mark.parametrize(
    "kind", ["path", "text path", "examples", "dicts", "generator", "pandas", "csv", "one split"]
)
async def test_examples_may_come_in_many_forms(tmp_path, kind):
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    pd.DataFrame(ROWS).to_csv(tmp_path / "data.csv", index=False)
    examples = {
        "path": path,
        "text path": str(path),
        "examples": [Example(**row) for row in ROWS],
        "dicts": ROWS,
        "generator": (row for row in ROWS),
        "pandas": pd.DataFrame(ROWS),
        "csv": tmp_path / "data.csv",
        "one split": {"test": Split(ROWS)},
    }[kind]
    run = await evaluate(examples, **RATED, model=judge())
    assert values(run) == {(row["id"], "fluency"): 4.0 for row in ROWS}


async def test_a_model_may_be_a_name_an_object_or_one_by_role(mock_server):
    """All reach the server; a connected model serves several evaluations at once, stays open."""
    server = await mock_server()
    settings = Settings(api_base=server.url)
    await evaluate(ROWS, **RATED, model="direct/mock", settings=settings)
    assert server.counters.requests == 5
    roles = {"scorer": "direct/mock", "steps": judge("1. Read. 2. Rate from 1 to 5.")}
    run = await evaluate(ROWS, method="g-eval", model=roles, settings=settings, aspects=["fluency"])
    assert server.counters.requests == 10
    assert {score.how for score in run} == {"logprob"}
    async with (
        textassay.connect("direct/mock", api_base=server.url) as model,
        asyncio.TaskGroup() as group,
    ):
        both = [
            group.create_task(evaluate(ROWS, method="llm-score", model=model, aspects=[name]))
            for name in ("coherence", "relevance")
        ]
    assert [len(task.result().scores) for task in both] == [5, 5]


async def test_the_cost_of_all_lines_is_what_the_server_counted(mock_server):
    server = await mock_server()
    async with textassay.connect("direct/mock", api_base=server.url, price=(1.0, 10.0)) as model:
        run = await evaluate(ROWS, method="g-eval", model=model, aspects=["coherence", "fluency"])
    usage, calls = run.summary()["usage"], sum(score.usage.calls for score in run)
    assert usage["calls"] == calls == server.counters.requests == 12
    cost = (usage["prompt_tokens"] + 10 * usage["completion_tokens"]) / 1e6
    assert usage["cost"] == pytest.approx(cost)


@pytest.mark.parametrize("folder", [None, "run"])
async def test_a_spent_budget_is_a_short_error_that_says_how_to_go_on(
    folder, mock_server, tmp_path
):
    server, out = await mock_server(), folder and tmp_path / folder

    async def begin(max_cost: float | None) -> Run:
        settings = Settings(api_base=server.url, price=(1000, 1000), max_cost=max_cost)
        return await evaluate(
            pd.DataFrame(ROWS), **RATED, model="direct/mock", out=out, settings=settings,
            resume=bool(out),
        )  # fmt: skip

    with pytest.raises(BudgetReached) as caught:
        await begin(0.6)
    assert "graph.py" not in {Path(entry.path).name for entry in caught.traceback}
    [advice] = caught.value.__notes__
    assert ("textassay resume" in advice) if out else ("out=" in advice)
    if out:
        assert len((await begin(None)).scores) == len(ROWS)


async def test_aspects_of_ones_own_need_no_file():
    """An `Aspect` is judged beside the task's; its scale and definition reach the judge."""
    model = judge("Rating: 9")
    run = await evaluate(ROWS[:1], method="llm-score", model=model, aspects=[WIT])
    [found] = run
    assert (found.aspect, found.value, found.scale) == ("wit", 9.0, (0.0, 10.0))
    assert "whether it makes one laugh" in model.requests[0].text
    other = await evaluate(ROWS[:1], method="llm-score", model=judge(), aspects=["coherence", WIT])
    assert [score.aspect for score in other] == ["coherence", "wit"]
    builtin = await evaluate(ROWS[:1], method="llm-score", model=judge(), aspects=["coherence"])
    assert other.scores[0].signature != builtin.scores[0].signature
    both = [WIT, WIT.model_copy(update={"scale": (1, 5)})]
    with pytest.raises(ConfigurationError, match="two aspects are called 'wit'"):
        await evaluate(ROWS, method="llm-score", model=model, aspects=both)


async def test_a_run_with_own_aspects_can_be_resumed(tmp_path):
    wanted = {"method": "llm-score", "model": judge("Rating: 3"), "out": tmp_path / "run"}
    wanted["aspects"] = [WIT]
    for _ in range(2):  # a script that is run again; the first time there is nothing to resume
        again = await evaluate(ROWS, **wanted, resume=True)
        assert len(again.scores) == 5
    assert len(wanted["model"].requests) == 5
    changed = {**wanted, "aspects": [WIT.model_copy(update={"scale": (0, 5)})]}
    with pytest.raises(ConfigurationError, match="cannot be resumed"):
        await evaluate(ROWS, **changed, resume=True)


def page_of(run, path):
    return Path(run.report(path)).read_text(encoding="utf-8")


class RenamedModel(ScriptedModel):
    """A server that reports the name of what it serves, and fails on one text."""

    served, fails = "old", True

    async def generate(self, request):
        if self.fails and ROWS[0]["output"] in request.text:
            raise RequestRefused("no")
        answer = await super().generate(request)
        return answer.model_copy(update={"model": self.served})


async def test_a_model_that_changes_before_a_run_is_resumed_is_told(tmp_path, caplog):
    wanted = {"method": "llm-score", "aspects": [WIT], "out": tmp_path / "run", "resume": True}
    for served in ("old", "new"):
        assert "come from another model" not in caplog.text
        model = RenamedModel(lambda request: "Rating: 3")
        model.served, model.fails = served, served == "old"
        async with textassay.connect(model) as connected:
            run = await evaluate(ROWS, model=connected, **wanted)
    assert "before from 'old', now from 'new'" in caplog.text
    assert run.manifest["sent"] == {model.name: {"answered_as": ["old", "new"]}}
    assert "old, then new" in page_of(run, tmp_path / "page.html")


async def test_a_method_object_is_used_as_it_is(tmp_path):
    """It brings its model, task and options; what it would not heed is refused."""
    method = LLMScore(judge("Rating: 2"), tasks.load("dialogue", ["coherence"]))
    run = await evaluate(ROWS, method=method, out=tmp_path / "run")
    assert {(score.value, score.scale) for score in run} == {(2.0, (1.0, 3.0))}
    extra = {"model": judge(), "options": {"n": 3}, "task": "dialogue", "aspects": ["coherence"]}
    for name, value in extra.items():
        words = f"{name}= can only be given with the name of a method"
        with pytest.raises(ConfigurationError, match=words):
            await evaluate(ROWS, method=method, **{name: value})
    with pytest.raises(ConfigurationError, match="a method object or a graph, not 3"):
        await evaluate(ROWS, method=3)


async def count_words(example: Example, aspect: Aspect) -> Score:
    """Rate by the number of words; refuse the third example."""
    if example.id == "x2":
        raise ValueError("I cannot count this")
    value = float(min(len(example.output.split()), 5))
    place = {"id": example.id, "aspect": aspect.label}
    return Score(**place, value=value, scale=aspect.scale, how="tool")


def word_counter():
    """A graph of the user's own."""
    nodes = [Node("count", count_words, example="input.example", aspect=each("input.aspects"))]
    return Graph("words", input=Assignment, nodes=nodes, output="count")


async def test_a_graph_of_ones_own_is_a_method(tmp_path):
    """Over the task's aspects; a node that fails gives an error score that names it."""
    wanted = {"method": word_counter(), "aspects": ["fluency", WIT], "out": tmp_path / "run"}
    run = await evaluate(ROWS, **wanted)
    assert values(run) == {
        (row["id"], name): None if row["id"] == "x2" else 3.0
        for row in ROWS
        for name in ("fluency", "wit")
    }
    failed = [(score.error.type, score.error.message) for score in run if score.outcome == "error"]
    assert failed == [("ValueError", "count: I cannot count this")] * 2
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["method"]["graph"] == word_counter().to_mermaid()
    again = await evaluate(ROWS, **wanted, resume=True)
    assert again.progress.outcomes == {"error": 2}


async def one_less(score: Score) -> Score:
    """Edit a score as users do."""
    return score.model_copy(update={"value": None if score.value is None else score.value - 1})


async def test_a_graph_that_edits_scores_has_a_signature_of_its_own():
    """Edited scores do not pass for the judge's; a graph of built-in agents keeps theirs."""
    scorer = LLMScore(judge(), tasks.load("general", [WIT])).scorer
    rate = Node("rate", scorer, example="input.example", aspect=each("input.aspects"))
    plain = Graph("plain", input=Assignment, nodes=[rate], output="rate")
    edits = [rate, Node("edit", one_less, score=each("rate"))]
    edited = Graph("edited", input=Assignment, nodes=edits, output="edit")
    [before], [after] = [
        list(await evaluate(ROWS[:1], method=graph, aspects=[WIT])) for graph in (plain, edited)
    ]
    assert (before.value, after.value) == (4, 3)
    assert before.signature == scorer.signature
    assert after.signature.startswith(f"{before.signature}|graph:")


async def test_a_graph_must_take_an_assignment_and_give_a_score_an_aspect():
    """A graph that does not fit is refused before, or while it runs, as a fault of the graph."""

    async def one(example: Example) -> Score:
        return Score(id=example.id, aspect="fluency", value=1.0)

    graph = Graph("one", input=Example, nodes=[Node("one", one, example="input")], output="one")
    with pytest.raises(ConfigurationError, match="must take an Assignment"):
        await evaluate(ROWS, method=graph)

    async def none(example: Example) -> list[Score]:
        return []

    nodes = [Node("none", none, example="input.example")]
    empty = Graph("none", input=Assignment, nodes=nodes, output="none")
    with pytest.raises(TypeError, match="method 'none' yielded 0 scores for 1 aspects"):
        await evaluate(ROWS, method=empty, aspects=["fluency"])


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        ({}, ConfigurationError, "no model is named: give model="),
        ({"method": "nothing"}, UnknownName, "unknown method 'nothing'"),
        ({"method": "llm_score"}, UnknownName, "did you mean 'llm-score'"),
        ({"method": "geval"}, UnknownName, "did you mean 'g-eval'"),
        ({**RATED, "model": judge(), "task": "sumarization"}, UnknownName, "'summarization'"),
        (
            {**RATED, "model": judge(), "task": "summarization", "aspects": "coherance"},
            UnknownName,
            "did you mean 'coherence'",
        ),
        ({**RATED, "model": judge(), "options": {"temprature": 1}}, UnknownName, "'temperature'"),
        ({"method": "llm-score"}, ConfigurationError, "no model for the role 'scorer'"),
        ({"method": "llm-score", "model": judge(), "task": "poetry"}, UnknownName, "unknown task"),
        ({**RATED, "model": judge(), "aspects": ["colour"]}, UnknownName, "aspect 'colour'"),
        ({**RATED, "model": judge(), "options": {"m": 1}}, UnknownName, "unknown option 'm'"),
        ({**RATED, "model": judge(), "limit": 0}, ConfigurationError, "limit="),
        ({**RATED, "model": judge(), "fields": {"a": "colour"}}, DataError, "colour"),
        ({"method": "llm-score", "model": "direct/mock"}, ConfigurationError, "api_base"),
    ],
)
async def test_impossible_requests_are_refused_before_anything_is_made(
    tmp_path, wanted, error, message
):
    with pytest.raises(error, match=message):
        await evaluate(ROWS, **wanted, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{"id": "a"}],
        [{"output": "x"}, {"output": "x"}],
        3,
        dict.fromkeys(("train", "test"), Split(ROWS)),
    ],
)
async def test_unusable_examples_are_refused(rows):
    with pytest.raises(DataError):
        await evaluate(rows, method="llm-score", model=judge())


async def test_cancelling_stops_all_work_and_leaves_a_resumable_run(mock_server, tmp_path):
    server = await mock_server(latency_ms=20)
    rows = [{"id": f"x{i}", "output": f"Text {i}."} for i in range(200)]
    settings = Settings(api_base=server.url, concurrency=8)
    wanted = {
        "method": "llm-score", "model": "direct/mock", "aspects": ["fluency"],
        "out": tmp_path / "run", "settings": settings,
    }  # fmt: skip
    task = asyncio.create_task(evaluate(rows, **wanted))
    scores = tmp_path / "run" / "scores.jsonl"
    await eventually(lambda: scores.exists() and scores.read_bytes().count(b"\n") >= 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    asked = server.counters.requests
    await asyncio.sleep(0.05)
    assert server.counters.requests == asked
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert 10 <= summary["outcomes"]["scored"] < 200
    server.options.latency_ms = 0
    run = await evaluate(rows, **wanted, resume=True)
    assert len(run.scores) == 200
    assert server.counters.requests <= 200 + 8
    assert run.progress.settled_before == summary["outcomes"]["scored"]
    assert run.progress.done == run.progress.total == 200


async def test_evaluate_sync_says_what_to_do_in_a_running_loop():
    words = r"write `await textassay.evaluate\(\.\.\.\)` instead"
    with pytest.raises(ConfigurationError, match=words):
        evaluate_sync(ROWS, method="llm-score", model=judge())


def test_a_script_that_uses_evaluate_sync_ends_cleanly(tmp_path):
    program = (
        "import textassay\nfrom textassay.runtime.backends.scripted import ScriptedModel\nmodel = "
        "ScriptedModel(lambda request: 'Rating: 3')\nrun = "
        "textassay.evaluate_sync([{'output': 'x'}], method='llm-score', model=model, "
        "out='run')\nprint(len(run.scores))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", program], cwd=tmp_path, capture_output=True,
        text=True, timeout=HANGS_AFTER, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "5\n", "")


def test_a_run_is_read_from_a_folder_that_holds_one(tmp_path):
    for folder in (tmp_path / "missing", tmp_path):
        with pytest.raises(RunFolderError, match="contains no run"):
            Run(folder=folder)


async def test_a_start_without_any_answer_is_not_in_the_way_of_the_next(tmp_path):
    wanted = {**RATED, "out": tmp_path / "run"}
    for refusal in (ModelNotFound("no such model"), AuthenticationFailed("wrong key")):
        model = ScriptedModel(lambda request, refusal=refusal: refusal)
        with pytest.raises(type(refusal)) as stopped:
            await evaluate(ROWS, model=model, **wanted)
        assert "fix this and repeat the command" in stopped.value.__notes__[0]
        assert not (tmp_path / "run" / "summary.json").exists()
    calls = iter(["Rating: 3", *[ModelNotFound("gone")] * 9])
    with pytest.raises(ModelNotFound):
        await evaluate(
            ROWS, model=ScriptedModel(lambda request: next(calls)), settings=None, **wanted
        )
    assert len(Run(folder=tmp_path / "run").scores) == 1
    resumed = await evaluate(ROWS, model=judge(), resume=True, **wanted)
    assert len(resumed.scores) == 5


async def test_a_stop_waits_for_what_is_paid_for(tmp_path):
    """Rows that are being answered while one is refused are journaled before the stop."""
    asked = asyncio.Event()

    async def judge_text(example: Example, aspect: Aspect) -> Score:
        if example.id == "x0":
            await asked.wait()
            raise ModelNotFound("refused")
        asked.set()
        for _ in range(20):  # its answer comes some turns later
            await asyncio.sleep(0)
        return Score(id=example.id, aspect=aspect.label, value=3.0, scale=aspect.scale)

    with pytest.raises(ModelNotFound):
        await evaluate(ROWS, method=by(judge_text), aspects=[WIT], out=tmp_path / "run")
    assert {score.id for score in Run(folder=tmp_path / "run")} == {"x1", "x2", "x3", "x4"}


def by(agent):
    """A graph of one agent."""
    node = Node("scores", agent, example="input.example", aspect=each("input.aspects"))
    return Graph("own", input=Assignment, nodes=[node], output="scores")


@pytest.mark.parametrize("exit_", [SystemExit(0), KeyboardInterrupt()])
def test_an_agent_that_ends_the_process_frees_the_folder(tmp_path, exit_):
    well = tmp_path / "well"

    async def agent(example: Example, aspect: Aspect) -> Score:
        if not well.exists() and example.id == "x3":
            raise exit_
        return Score(id=example.id, aspect=aspect.label, value=3.0, scale=aspect.scale)

    async def main(**more):
        return await evaluate(ROWS, method=by(agent), aspects=[WIT], out=tmp_path / "run", **more)

    loop = asyncio.new_event_loop()
    try:
        expected = KeyboardInterrupt if isinstance(exit_, KeyboardInterrupt) else AgentExited
        with pytest.raises(expected):
            loop.run_until_complete(main())
        well.touch()
        run = loop.run_until_complete(main(resume=True))
        assert len(run.scores) == 5
    finally:
        loop.close()


async def test_cancelled_resumes_leave_nothing_open(tmp_path):
    """Wherever the cancellation comes, threads end, and the folder is free for the next."""
    wanted = {"method": "llm-score", "model": judge(), "aspects": ["fluency"]}
    await evaluate(ROWS[:2], **wanted, out=tmp_path / "run")
    (tmp_path / "run" / "scores.jsonl").write_bytes(b"")
    threads = {thread for thread in threading.enumerate() if "journal" in thread.name}
    for turns in range(30):
        task = asyncio.create_task(evaluate(ROWS[:2], **wanted, out=tmp_path / "run", resume=True))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        left = {thread for thread in threading.enumerate() if "journal" in thread.name}
        assert left == threads
    run = await evaluate(ROWS[:2], **wanted, out=tmp_path / "run", resume=True)
    assert len(run.scores) == 2


MANY = [{"id": f"x{i}", "output": f"Text number {i}."} for i in range(200)]


async def test_leaving_early_stops_the_workers_and_leaves_a_resumable_run(mock_server, tmp_path):
    """Nothing is asked afterwards; what was seen is in the folder; resume asks the rest only."""
    server = await mock_server(latency_ms=5)
    settings = Settings(api_base=server.url, concurrency=4)
    expected = {**RATED, "model": "direct/mock", "settings": settings}
    seen = []
    async with aclosing(stream(MANY, **expected, out=tmp_path / "run")) as scores:
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
    run = await evaluate(MANY, **expected, out=tmp_path / "run", resume=True)
    assert len(run.scores) == 200
    assert {score.id for score in seen} <= {score.id for score in run}
    assert server.counters.requests <= 200 + 4


async def test_a_slow_reader_slows_the_run(mock_server):
    """Scores do not pile up: the run is at most a few examples ahead of the reader."""
    server = await mock_server()
    settings = Settings(api_base=server.url, concurrency=4)
    read, ahead = 0, 0
    # the first score is there long before the last is asked for
    async with aclosing(stream(MANY, **RATED, model="direct/mock", settings=settings)) as scores:
        async for _ in scores:
            read += 1
            await asyncio.sleep(0.002)
            ahead = max(ahead, server.counters.requests - read)
    assert read == 200
    assert ahead < 40


async def test_the_error_that_stops_a_run_reaches_the_reader(tmp_path):
    calls = 0

    def reply(request):
        nonlocal calls
        calls += 1
        return ModelNotFound("no such model") if calls > 5 else "Rating: 3"

    seen = []
    with pytest.raises(ModelNotFound) as stopped:  # noqa: PT012
        async for score in stream(MANY, **RATED, model=ScriptedModel(reply), out=tmp_path / "run"):
            seen.append(score)  # noqa: PERF401
    assert f"textassay resume {tmp_path / 'run'}" in stopped.value.__notes__[0]
    assert {score.id for score in seen} <= {score.id for score in Run(folder=tmp_path / "run")}


async def test_impossible_requests_are_refused_at_the_first_step():
    scores = stream(MANY, method="llm-score")
    with pytest.raises(ConfigurationError, match="no model"):
        await anext(scores)

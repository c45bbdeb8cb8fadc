"""`--processes`: one run by several processes of this machine, whatever dies meanwhile."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.cli.harness import rows_of, served, textassay, verdicts, write_examples
from tests.cli.test_interruptions import MAIN, ROOT, in_terminal
from tests.cli.test_shards import flags, score
from tests.runtime.processes import killed_after, start
from tests.waiting import until
from textassay.evaluation.request import RunRequest
from textassay.evaluation.session import open_session
from textassay.runtime.garbage import NEW_OBJECTS
from textassay.runtime.settings import OneOfEndpoints, Settings
from textassay.runtime.storage.answer_admin import info
from textassay.runtime.storage.run_files import read_manifest
from textassay.workers.worker import scratch_folder


def test_processes_make_the_same_run(server, data, run, tmp_path):
    whole = tmp_path / "whole"
    assert score(data, whole, server).code == 0
    asked = server.counters.requests
    done = score(data, run, server, "--processes", "2", "--concurrency", "9").ok()
    assert re.search(r"6/6 \| ", done.err)
    assert verdicts(run) == verdicts(whole)
    assert info(run / "answers").entries == asked
    scores = run / "scores.jsonl"
    scores.write_text("".join(scores.read_text().splitlines(keepends=True)[:5]))
    textassay("resume", run, "--processes", "2").ok()
    assert verdicts(run) == verdicts(whole)
    assert server.counters.requests == 2 * asked


def test_a_warning_is_printed_once(server, data, run, tmp_path):
    """Which tools, task and probabilities, and what each process warns of, as by one process."""
    (tmp_path / "c.toml").write_text("[models.planner]\ntimeout = 5")
    done, alone = (
        textassay(*flags(data, out, server, "--config", tmp_path / "c.toml", *more))
        for out, more in ((run, ("--processes", "2")), (run.with_name("alone"), ()))
    )
    assert done.code == 0, done.err
    told = [line for line in alone.err.splitlines() if "/6 |" not in line]
    assert any("warning: role 'planner' is not used" in line for line in told)
    for line in told:
        assert done.err.count(line) == 1, line


def test_the_run_folder_is_named_once_it_is_there(server, data, tmp_path, monkeypatch):
    """A run that the workers cannot open has none."""
    monkeypatch.chdir(tmp_path)
    at = ("score", data, "-m", "direct/mock", "--api-base", server.url, "--processes", "2")
    refused = textassay(*at, "--set", "form=words")
    assert (refused.code, "run folder" in refused.err) == (2, False), refused.err
    assert not list(tmp_path.glob("runs/*"))
    done = textassay(*at).ok()
    [run] = tmp_path.glob("runs/*")
    assert done.err.count(f"run folder: runs/{run.name}\n") == 1


def test_processes_hold_a_local_model_each(data, run, tmp_path):
    pytest.importorskip("llama_cpp", reason="llama.cpp is not installed")
    from tests.gguf_fixture import write_model

    write_model(tmp_path / "tiny.gguf")
    command = [
        "score", data, "--method", "gptscore", "--model", f"llamacpp/{tmp_path / 'tiny.gguf'}",
        "--aspects", "coherence", "--set", "threads=1",
    ]  # fmt: skip
    textassay(*command, "--processes", "2", "--out", run).ok()
    textassay(*command, "--out", tmp_path / "alone").ok()
    assert verdicts(run) == verdicts(tmp_path / "alone")


def test_output_of_libraries_in_a_process_is_not_a_report(server, data, run, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "os.write(1, b'42\\n')\n"
        "def chat(event, arguments):\n"
        "    if event == 'open' and 'cache.db' in str(arguments[0]):\n"
        "        os.write(1, b'loading ...')\n"
        "sys.addaudithook(chat)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    score(data, run, server, "--processes", "2").ok()
    assert len(rows_of(run)) == 12


def test_a_folder_that_was_left_before_any_had_begun_is_taken(server, data, run):
    run.mkdir()
    (run / ".lock").touch()
    (run / "notes.txt").touch()
    score(data, run, server, "--processes", "2").ends(2, f"{run} contains other files (notes.txt)")
    (run / "notes.txt").unlink()
    assert score(data, run, server, "--processes", "2").code == 0
    assert len(rows_of(run)) == 12


PROGRAM = """
import gc
own = gc.get_threshold()[0]
from textassay.workers.ray import Actor
assert gc.get_threshold()[0] == own, "the import alone changes what the host has set"
Actor(".")
print(gc.get_threshold()[0], gc.get_freeze_count() > 0)
"""


def test_a_worker_collects_garbage_as_rarely_as_the_command_line() -> None:
    """Its process is its own, so what it has imported by then is never looked at again."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(NEW_OBJECTS), "True"]


HOLD = """
import sys, tempfile
from textassay.workers.worker import scratch_folder
tempfile.tempdir = sys.argv[1]
with scratch_folder() as folder:
    (folder / "answers").write_text("paid")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_the_next_worker_removes_what_a_killed_one_left_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    other = tmp_path / "textassay-worker-notes"
    other.mkdir()
    with start(HOLD, tmp_path) as living:
        assert living.stdout is not None
        kept = Path(living.stdout.readline().strip())
        [line] = killed_after(1, HOLD, tmp_path)
        dead = Path(line)
        assert dead.exists()
        with scratch_folder() as own:
            assert not dead.exists()
            assert {path for path in tmp_path.iterdir() if path.is_dir()} == {kept, own, other}
        assert (kept / "answers").read_text() == "paid"
        living.communicate()
    assert list(tmp_path.iterdir()) == [other]


HERE, THERE = "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"
LIMITED = Settings(
    rpm=600,
    endpoints=(OneOfEndpoints(api_base=HERE, rpm=90, concurrency=5), {"api_base": THERE}),
    roles={
        "scorer": {"tpm": 9000, "endpoints": [{"api_base": THERE, "tpm": 300}]},
        "decomposer": {"concurrency": 4},
    },
)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
async def test_limits_of_roles_and_endpoints_are_divided_among_workers(count):
    spec = RunRequest(
        method="hd-eval",
        aspects=("coherence",),
        models=dict.fromkeys(("scorer", "decomposer"), "direct/m"),
        settings=LIMITED,
    )
    limits = []
    for number in range(count):
        async with open_session([{"output": "A text."}], spec) as session:
            session.divide_limits(number, count)
            calls = [model.limiter_state.concurrency for model in session.connected]
            assert min(calls) >= 1
            limits.append(calls)
    assert [sum(each) for each in zip(*limits, strict=True)] == [64, 64 + 5 - 64 + 4]


def test_all_processes_together_keep_to_the_limit_that_is_recorded(tmp_path):
    data, run = write_examples(tmp_path / "data.jsonl", 40), tmp_path / "run"
    (tmp_path / "c.toml").write_text("rpm = 60000")
    with served(latency_ms=20) as server:
        done = score(
            data, run, server, "--processes", "2", "--config", tmp_path / "c.toml", "-c", "5"
        )
        assert done.code == 0, done.err
        assert 2 < server.counters.max_in_flight <= 5
    recorded = read_manifest(run)["settings"]
    assert (recorded["concurrency"], recorded["rpm"], recorded["cache"]) == (5, 60000, None)


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
    (tmp_path / "c.toml").write_text(table)
    done = score(data, run, server, "--processes", "3", "--config", tmp_path / "c.toml")
    assert done.code == 2
    assert f"3 processes cannot respect {name}," in done.err
    assert not run.exists()


pytest_posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


def children_of(parent: int) -> list[int]:
    """The processes that a process has started."""
    found = subprocess.run(["pgrep", "-P", str(parent)], capture_output=True, text=True).stdout
    return [int(pid) for pid in found.split()]


def kill_one(parent: int, rng: random.Random) -> None:
    """Kill one of the processes that a process has started; one that just ended does not count."""

    def killed() -> bool:
        children = children_of(parent)
        try:
            os.kill(rng.choice(children), signal.SIGKILL)
        except (IndexError, ProcessLookupError):  # one that ended is started again, or was done
            return False
        return True

    until(killed)


@pytest_posix
def test_four_processes_that_are_killed_at_random_make_the_undisturbed_run(run, tmp_path):
    data = write_examples(tmp_path / "data.jsonl", 60)
    rng = random.Random(5)
    with served(hold_after=10) as server:
        command = flags(data, run, server, "--processes", "4", "--concurrency", "8")
        arguments = [sys.executable, "-c", MAIN, *map(str, command)]
        said = tmp_path / "standard-error"
        with (
            said.open("w") as stderr,
            subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr) as parent,
        ):

            def have_asked(requests: int) -> bool:
                assert parent.poll() is None
                return server.counters.requests >= requests

            def has_noticed(kills: int) -> bool:
                return said.read_text().count("ended with status -9; its ") == kills

            kills = 1  # the last one, of all
            for requests in (10, 40):
                server.options.hold_after = requests
                until(lambda: have_asked(requests))  # noqa: B023  # called in this turn only
                kill_one(parent.pid, rng)
                until(lambda: has_noticed(kills))  # noqa: B023
                kills += 1
            server.options.hold_after = 60
            until(lambda: have_asked(60))
            orphans = children_of(parent.pid)
            parent.kill()
            parent.wait()
            server.options.hold_after = 0
        textassay("resume", run, "--processes", "2").ok()
        told = said.read_text()
        assert "Traceback" not in told
        assert told.count("ended with status -9; its ") == 2
        assert server.counters.requests <= 120 + 8 * kills
        assert len(rows_of(run)) == len(verdicts(run)) == 120
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in orphans))
        whole = tmp_path / "whole"
        assert score(data, whole, server).code == 0
        assert verdicts(run) == verdicts(whole)


@pytest_posix
def test_ctrl_c_leaves_a_run_that_resumes(run, tmp_path):
    data = write_examples(tmp_path / "data.jsonl", 80)
    with served(hold_after=20) as server:
        command = flags(data, run, server, "--processes", "2", "--concurrency", "4")
        code, told = in_terminal(
            [sys.executable, "-c", MAIN, *map(str, command)],
            columns=300, typed=b"\x03", after=b"in flight",
        )  # fmt: skip
        assert code == 3, told
        assert f"textassay resume {run}" in re.sub(r"\s+", " ", told)
        server.options.hold_after = 0
        textassay("resume", run).ok()
        assert len(rows_of(run)) == 160
        assert server.counters.requests <= 160 + 4

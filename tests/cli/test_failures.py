"""Servers, keys and disks that fail: exit 3, what to do, nothing paid for lost, no key anywhere."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from aiohttp import web

from tests.cli.harness import (
    flags,
    read_json,
    rows_of,
    score,
    served,
    textassay,
    verdicts,
    write_examples,
)
from tests.loopback import in_thread, listening
from tests.waiting import HANGS_AFTER

ROOT = Path(__file__).parents[2]
MAIN = "from textassay.cli import main; main()"


def test_a_server_that_is_not_there_stops_the_run_soon(data, run, server):
    """Exit 3 without the wait for servers that answered before; once it is there, resume works."""
    endless = ("--set", "outage_wait=1e9", "--set", "attempts=2")  # the test would time out in it
    stopped = score(data, run, "http://127.0.0.1:9/v1", *endless)
    assert (stopped.code, stopped.out) == (3, "")
    assert "stopped: nothing answers at http://127.0.0.1:9/v1" in stopped.err
    assert "is --api-base right?" in stopped.err
    assert f"nothing is finished yet; continue with: textassay resume {run}" in stopped.err
    assert "ssl" not in stopped.err
    textassay("resume", run, "--api-base", server.url).ok()
    assert len(verdicts(run)) == 12


def test_a_wrong_key_stops_the_run_and_shows_nowhere(data, run, tmp_path, monkeypatch):
    """The server echoes it in its refusal; neither output nor any file holds it."""
    monkeypatch.setenv("JUDGE_KEY", "sk-wrong-0123456789")
    kept = ("--cache", tmp_path / "cache", "--api-key-env", "JUDGE_KEY")
    with served(require_key="sk-right-9876543210") as server:
        stopped = score(data, run, server, *kept).ends(
            3, "401", "--api-key-env names the variable that holds it"
        )
        assert "fix this and repeat the command" in stopped.err
        monkeypatch.setenv("JUDGE_KEY", "sk-right-9876543210")
        score(data, run, server, *kept).ok()
    for path in [*run.rglob("*"), *(tmp_path / "cache").rglob("*")]:
        content = path.read_bytes() if path.is_file() else b""
        assert b"sk-wrong" not in content, path
        assert b"sk-right" not in content, path
    assert "sk-" not in stopped.out + stopped.err


def test_other_parts_of_an_address_than_the_server_stay_out_of_the_manifest(data, run, server):
    score(data, run, server.url.replace("http://", "http://me:secret-word@")).ok()
    assert all(b"secret-word" not in path.read_bytes() for path in run.rglob("*") if path.is_file())
    manifest = read_json(run / "manifest.json")
    assert manifest["settings"]["api_base"] == server.url
    assert manifest["models"][""]["identity"]["api_base"] == server.url


@pytest.mark.parametrize(
    ("model", "base", "message"),
    [
        ("direct/other", "", "answered 404: “The model `other` does not exist."),
        ("direct/mock", "/../", "answered 404: “no such path"),
    ],
)
def test_an_unknown_model_stops_the_run(data, run, model, base, message):
    with served(models="mock") as server:
        score(data, run, server.url + base, "--concurrency", 1, model=model).ends(
            3, message, "check the model's name, and that --api-base ends in /v1"
        )
        assert server.counters.requests <= 2


@pytest.mark.parametrize("said", ["use n=20, seed= or max_cost=5", "” (n=20, seed=) “max_cost=5"])
def test_words_of_a_server_are_not_translated(data, run, said):
    """They are printed as they came, beside flags in place of the parameters that we name."""

    async def refuse(request):
        return web.json_response({"error": {"message": said}}, status=401)

    with in_thread(lambda: listening(refuse)) as url:
        stopped = score(data, run, url)
    assert stopped.code == 3
    quoted = said.replace("“", '"').replace("”", '"')
    assert f"answered 401: “{quoted}” (check the key: --api-key-env names" in stopped.err


@pytest.mark.parametrize("lack", ["refuse_logprobs", "omit_logprobs"])
def test_g_eval_samples_a_server_without_log_probabilities_unless_told_not_to(data, run, lack):
    """Two requests find it out; `reading=logprob` stops the run there and names the way out."""
    with served(**{lack: True}) as server:
        stopped = score(data, run, server, "--set", "reading=logprob", method="g-eval")
        assert stopped.code == 2
        assert "--n 20" in stopped.err
        assert "resume" not in stopped.err  # it would stop in the same way
        assert server.counters.requests == 2  # no steps were paid for
    with served(**{lack: True}) as server:
        done = score(data, run.with_name("either"), server, method="g-eval").ok()
        assert "else 20 samples" in done.err
        assert done.err.count("warning: samples take the place of log-probabilities: ") == 1
    rows = rows_of(run.with_name("either"))
    assert {(row["how"], row["samples"]) for row in rows} == {("sampled", 20)}
    assert all("|how:sampled|n:20|temp:1|" in row["signature"] for row in rows)


@pytest.mark.parametrize("method", ["g-eval", "decomp-eval", "decide"])
def test_a_dry_run_counts_the_samples_of_a_server_without_log_probabilities(data, run, method):
    with served() as server:
        done = score(data, run, server, "--dry-run", method=method).ok()
        assert server.counters.requests == 0
    assert "without log-probabilities: up to " in done.out


def limited(size: int):
    """Return what keeps a child process from writing files beyond so many bytes."""
    import resource
    import signal

    def apply() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return apply


@pytest.mark.skipif(sys.platform == "win32", reason="file sizes are limited by setrlimit")
@pytest.mark.parametrize("size", [150, 300_000])
def test_a_full_disk_stops_the_run_and_loses_nothing(tmp_path, run, size):
    """Exit 2 where not even an empty run fits, else 3; with room again no score was lost."""
    data = write_examples(tmp_path / "data.jsonl", 600)
    with served() as server:
        command = [sys.executable, "-c", MAIN, *flags(data, run, server, "--progress", "none")]
        stopped = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, preexec_fn=limited(size),
            timeout=HANGS_AFTER,
        )  # fmt: skip
        assert "Traceback" not in stopped.stderr
        assert str(run) in stopped.stderr
        if size < 100_000:
            assert stopped.returncode == 2
            assert not (run / "manifest.json").exists()
            assert server.counters.requests == 0
            return
        assert stopped.returncode == 3
        kept = verdicts(run)
        assert textassay("resume", run).code == 0
        assert set(kept) <= set(verdicts(run))
        assert len(verdicts(run)) == len(rows_of(run)) == 1200
        assert server.counters.requests - 1200 <= 64  # what was in flight when the disk was full


UNPRIVILEGED = """
import os, sys
import rich.text, textassay.cli.app, textassay.evaluation.session
from textassay.runtime.backends.scripted import ScriptedModel
# loads the rest while the interpreter's files can be read
run = textassay.cli.app.application(["score"])
textassay.methods.build("llm-score", ScriptedModel())
if os.geteuid() == 0:
    os.setuid(65534)
run()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="folders are closed to a user by their mode")
def test_a_folder_without_leave_to_write_is_refused(tmp_path, server):
    """A run folder, or one above it, that belongs to somebody else: exit 2, and why."""
    with tempfile.TemporaryDirectory() as name:  # where everybody may look
        place = Path(name)
        data = write_examples(place / "data.jsonl", 2)
        (place / "empty").mkdir()
        for folder in (place / "empty", place):
            folder.chmod(0o555)
        for out in (place / "run", place / "empty"):
            command = [sys.executable, "-c", UNPRIVILEGED, *flags(data, out, server)]
            done = subprocess.run(
                command, capture_output=True, text=True, cwd=ROOT, timeout=HANGS_AFTER
            )
            assert done.returncode == 2, done.stderr
            assert "Traceback" not in done.stderr
            assert str(out) in done.stderr
            assert "is not writable" in done.stderr
        for folder in (place, place / "empty"):
            folder.chmod(0o755)
    assert server.counters.requests == 0


def test_a_damaged_cache_is_named_and_never_answers_wrongly(data, run, server):
    """`cache verify` finds the damage, resume refuses to use it, and without it the run goes on."""
    with served(p500=1.0, retry_after=0.0) as ill:
        assert score(data, run, ill, "--set", "attempts=1", "--limit", 3).code == 1
    textassay("resume", run, "--api-base", server.url).ok()
    file = run / "answers" / "cache.db"
    intact = file.read_bytes()
    assert textassay("cache", "verify", run / "answers").code == 0
    file.write_bytes(intact[:100] + b"\xff" * 2000 + intact[2100:])
    verified = textassay("cache", "verify", run / "answers")
    assert verified.code == 1
    assert str(file) in verified.out
    (run / "scores.jsonl").write_text("")
    stopped = textassay("resume", run, "--api-base", server.url)
    assert stopped.code in (2, 3)
    assert str(file) in stopped.err
    assert "textassay cache verify" in stopped.err
    shutil.rmtree(run / "answers")
    assert textassay("resume", run, "--api-base", server.url).code == 0


@pytest.mark.parametrize("command", ["score", "fit"])
def test_a_dry_run_refuses_the_place_that_the_run_would_refuse(tmp_path, command):
    """Before anything is asked: a file, or a folder that holds something."""
    data = write_examples(tmp_path / "data.jsonl", 40)
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    method = ("--method", "hd-eval", "--task", "summarization", "-m", "direct/x", "--dry-run")
    for place in (tmp_path / "file", tmp_path / "file" / "run", tmp_path / "full"):
        asked = (command, data, *method, "--api-base", "http://127.0.0.1:9/v1", "-o", place)
        done = textassay(*asked)
        assert done.code == 2, done
        assert str(tmp_path / place.name) in done.err or str(tmp_path / "file") in done.err

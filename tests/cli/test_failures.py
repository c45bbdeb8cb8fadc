"""Servers, keys and disks that fail: exit 3, what to do, nothing paid for lost, no key anywhere."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from aiohttp import web

from tests.cli.harness import rows_of, served, textassay, verdicts, write_examples
from tests.loopback import in_thread, listening
from tests.waiting import HANGS_AFTER

ROOT = Path(__file__).parents[2]
MAIN = "from textassay.cli import main; main()"


def flags(url, *, method="llm-score", name="direct/mock"):
    """The flags of most runs here."""
    return (
        "--method",
        method,
        "--model",
        name,
        "--api-base",
        url,
        "--aspects",
        "coherence,fluency",
    )


def test_a_server_that_is_not_there_stops_the_run_soon(data, run, server):
    """Exit 3 without the wait for servers that answered before, with the address and what to check;
    once the server is there, resume finishes."""
    endless = ("--set", "outage_wait=1e9", "--set", "attempts=2")  # the test would time out in it
    stopped = textassay("score", data, *flags("http://127.0.0.1:9/v1"), "--out", run, *endless)
    assert stopped.code == 3
    assert stopped.out == ""
    assert "stopped: nothing answers at http://127.0.0.1:9/v1" in stopped.err
    assert "is --api-base right?" in stopped.err
    assert f"nothing is finished yet; continue with: textassay resume {run}" in stopped.err
    assert "ssl" not in stopped.err
    assert textassay("resume", run, "--api-base", server.url).code == 0
    assert len(verdicts(run)) == 12


def test_a_wrong_key_stops_the_run_and_shows_nowhere(data, run, tmp_path, monkeypatch):
    """The server echoes the key in its refusal; neither output nor any file holds it. The right one
    finishes."""
    monkeypatch.setenv("JUDGE_KEY", "sk-wrong-0123456789")
    with served(require_key="sk-right-9876543210") as server:
        kept = ("--out", run, "--cache", tmp_path / "cache", "--api-key-env", "JUDGE_KEY")
        command = ("score", data, *flags(server.url), *kept)
        stopped = textassay(*command)
        assert stopped.code == 3
        assert "401" in stopped.err
        assert "--api-key-env names the variable that holds it" in stopped.err
        assert not run.exists()  # nothing was answered: the same command can be typed again
        monkeypatch.setenv("JUDGE_KEY", "sk-right-9876543210")
        again = textassay(*command)
        assert again.code == 0, again.err
    for path in [*run.rglob("*"), *(tmp_path / "cache").rglob("*")]:
        if path.is_file():
            assert b"sk-wrong" not in path.read_bytes(), path
            assert b"sk-right" not in path.read_bytes(), path
    assert "sk-" not in stopped.out + stopped.err


def test_what_an_address_holds_beside_the_server_stays_out_of_the_manifest(data, run, server):
    """User and password in --api-base are used and not written."""
    address = server.url.replace("http://", "http://me:secret-word@")
    assert textassay("score", data, *flags(address), "--out", run).code == 0
    assert all(b"secret-word" not in path.read_bytes() for path in run.rglob("*") if path.is_file())
    manifest = json.loads((run / "manifest.json").read_text())
    assert (
        manifest["settings"]["api_base"]
        == manifest["models"][""]["identity"]["api_base"]
        == server.url
    )


@pytest.mark.parametrize(
    ("name", "base", "message"),
    [
        ("direct/other", "", "answered 404: “The model `other` does not exist."),
        ("direct/mock", "/../", "answered 404: “no such path"),
    ],
)
def test_an_unknown_model_stops_the_run(data, run, name, base, message):
    """Exit 3 after the first answer, not one error a score."""
    with served(models="mock") as server:
        stopped = textassay(
            "score", data, *flags(server.url + base, name=name), "--out", run, "--concurrency", 1
        )
        assert stopped.code == 3
        assert message in stopped.err
        assert "check the model's name, and that --api-base ends in /v1" in stopped.err
        assert server.counters.requests <= 2


@pytest.mark.parametrize("said", ["use n=20, seed= or max_cost=5", "” (n=20, seed=) “max_cost=5"])
def test_words_of_a_server_are_not_translated(data, run, said):
    """They are printed as they came, beside flags in place of the parameters that we name."""

    async def refuse(request):
        return web.json_response({"error": {"message": said}}, status=401)

    with in_thread(lambda: listening(refuse)) as url:
        stopped = textassay("score", data, *flags(url), "--out", run)
    assert stopped.code == 3
    assert (
        "answered 401: “{}” (check the key: --api-key-env names".format(
            said.replace("“", '"').replace("”", '"')
        )
        in stopped.err
    )


@pytest.mark.parametrize("lack", ["refuse_logprobs", "omit_logprobs"])
def test_g_eval_samples_a_server_without_log_probabilities_unless_told_not_to(data, run, lack):
    """One request finds it out; `reading=logprob` stops the run there and names the way out."""
    with served(**{lack: True}) as server:
        only = ("--set", "reading=logprob")
        stopped = textassay("score", data, *flags(server.url, method="g-eval"), *only, "--out", run)
        assert stopped.code == 2
        assert "--n 20" in stopped.err
        assert "resume" not in stopped.err  # it would stop in the same way
        assert rows_of(run) == []
    with served(**{lack: True}) as server:
        out = run.with_name("either")
        done = textassay("score", data, *flags(server.url, method="g-eval"), "--out", out)
        assert done.code == 0, done.err
        assert "else 20 samples" in done.err
        rows = rows_of(out)
    assert {(row["how"], row["samples"]) for row in rows} == {("sampled", 20)}
    assert all("|how:sampled|n:20|temp:1|" in row["signature"] for row in rows)


def limited(size: int):
    """Return what makes a child process unable to write files beyond so many bytes, as on a full
    disk."""
    import resource
    import signal

    def apply() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return apply


@pytest.mark.skipif(sys.platform == "win32", reason="file sizes are limited by setrlimit")
@pytest.mark.parametrize("size", [150, 20_000, 300_000])
def test_a_full_disk_stops_the_run_and_loses_nothing(tmp_path, run, size):
    """Exit 2 where not even an empty run fits, else 3; with room again the run is finished, and no
    score was lost."""
    data = write_examples(tmp_path / "data.jsonl", 600)
    with served() as server:
        command = [
            sys.executable,
            "-c",
            MAIN,
            "score",
            data,
            *flags(server.url),
            "--out",
            run,
            "--progress",
            "none",
        ]
        stopped = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=ROOT,
            preexec_fn=limited(size),
            timeout=HANGS_AFTER,
        )
        assert "Traceback" not in stopped.stderr
        assert str(run) in stopped.stderr
        if size < 100_000:
            assert stopped.returncode == 2
            assert not run.exists()
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
import textassay.cli.app, textassay.cli.run_result, textassay.cli.scoring
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
    """A run folder, or one above it, that belongs to somebody else: exit 2, and what is wrong with
    it."""
    with tempfile.TemporaryDirectory() as name:  # where everybody may look
        place = Path(name)
        data = write_examples(place / "data.jsonl", 2)
        (place / "empty").mkdir()
        for folder in (place / "empty", place):
            folder.chmod(0o555)
        command = [sys.executable, "-c", UNPRIVILEGED, "score", data, *flags(server.url)]
        for out in (place / "run", place / "empty"):
            done = subprocess.run(
                [*command, "--out", out],
                capture_output=True,
                text=True,
                cwd=ROOT,
                timeout=HANGS_AFTER,
            )
            assert done.returncode == 2, done.stderr
            assert "Traceback" not in done.stderr
            assert str(out) in done.stderr
            assert "Permission denied" in done.stderr
        for folder in (place, place / "empty"):
            folder.chmod(0o755)
    assert server.counters.requests == 0


def test_a_damaged_cache_is_named_and_never_answers_wrongly(data, run, server):
    """`cache verify` finds the damage, resume refuses to use it, and without it the run goes on."""
    with served(p500=1.0, retry_after=0.0) as ill:
        assert (
            textassay(
                "score", data, *flags(ill.url), "--out", run, "--set", "attempts=1", "--limit", 3
            ).code
            == 1
        )
    assert textassay("resume", run, "--api-base", server.url).code == 0
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
    method = ("--method", "hd-eval", "--task", "summarization", "-m", "direct/x")
    for place in (tmp_path / "file", tmp_path / "file" / "run", tmp_path / "full"):
        done = textassay(
            command, data, *method, "--api-base", "http://127.0.0.1:9/v1", "-o", place, "--dry-run"
        )
        assert done.code == 2, done
        assert str(tmp_path / place.name) in done.err or str(tmp_path / "file") in done.err

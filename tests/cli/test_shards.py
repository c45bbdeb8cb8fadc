"""`score --shard`, `merge` and `score --processes`: one run out of parts, whatever dies
meanwhile."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys

import pytest

from tests.cli.harness import rows_of, served, textassay, verdicts, write_examples
from tests.cli.test_interruptions import MAIN, ROOT, in_terminal
from tests.interleaving import before
from tests.waiting import until
from textassay.cli.processes import ShardProcess
from textassay.cli.scoring import ScoreCommand
from textassay.evaluation.counted import CountedScores
from textassay.evaluation.merging import merge
from textassay.evaluation.request import RunRequest
from textassay.evaluation.shards import Shard
from textassay.runtime.errors import RunFolderError
from textassay.runtime.storage.answers import info
from textassay.runtime.storage.run_files import tally_of


def score(data, out, server, *more, aspects="coherence,fluency"):
    """Score with the usual flags."""
    return textassay(*flags(data, out, server, *more, aspects=aspects))


def flags(data, out, server, *more, aspects="coherence,fluency"):
    """The arguments of `score`."""
    return [
        "score", data, "--method", "llm-score", "--model", "direct/mock", "--api-base", server.url,
        "--aspects", aspects, "--out", out, *more,
    ]  # fmt: skip


def shards(data, run, server, count, *more, **options):
    """Score all shards, one after the other."""
    for number in range(1, count + 1):
        done = score(
            data, run / f"shard-{number}", server, "--shard", f"{number}/{count}", *more, **options
        )
        assert done.code == 0, done.err


def test_merged_shards_are_the_undisturbed_run(server, data, run, tmp_path):
    """The same lines in the data's order, the same summary; answers merged, so nothing is asked
    again."""
    whole = tmp_path / "whole"
    assert score(data, whole, server).code == 0
    asked = server.counters.requests
    shards(data, run, server, 4)
    assert server.counters.requests == 2 * asked
    done = textassay("merge", run)
    assert done.code == 0, done.err
    assert verdicts(run) == verdicts(whole)
    assert [row["id"] for row in rows_of(run)] == [f"x{i}" for i in range(6) for _ in range(2)]
    ours, theirs = (json.loads((folder / "summary.json").read_text()) for folder in (run, whole))
    for key in ("outcomes", "errors", "aspects", "usage"):
        assert ours[key] == theirs[key]
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["spec"]["shard"] is None
    assert list(manifest["merged"]["shards"]) == ["1/4", "2/4", "3/4", "4/4"]
    assert info(run / "answers").entries == asked
    assert textassay("resume", run).code == 0
    assert textassay("meta", run, data, "--bootstrap", "0").code == 0
    assert textassay("report", run, "--out", tmp_path / "report.html").code == 0
    again = score(data, tmp_path / "again", server, "--cache", run / "answers")
    assert again.code == 0
    assert server.counters.requests == 2 * asked


def test_scores_that_their_writers_have_counted_are_merged_without_being_read(server, data, run):
    """The same files as if they were read; a shard that changed since is read."""
    shards(data, run, server, 2, "--price", "1,2")
    textassay("merge", run)
    read = {name: (run / name).read_bytes() for name in ("scores.jsonl", "summary.json")}
    counted = {
        path: CountedScores((path / "scores.jsonl").stat().st_size, told)
        for path in (run / "shard-1", run / "shard-2")
        # as it comes through a pipe
        for told in [json.loads(json.dumps(tally_of(path).counts()))]
    }
    assert merge(run, counted=counted).scores == 12
    assert read == {name: (run / name).read_bytes() for name in read}
    scores = run / "shard-2/scores.jsonl"
    scores.write_bytes(scores.read_bytes().replace(b'"x5"', b'"x4"'))  # as long as it was
    assert merge(run, counted=counted).scores == 12  # not read
    scores.write_bytes(scores.read_bytes() + b" ")
    with pytest.raises(RunFolderError, match="has 4 of 6 scores"):
        merge(run, counted=counted)


def test_a_torn_line_is_not_merged_though_its_writer_counted_it(server, data, run):
    """It was there when the size was taken; in the middle of the merged file it would be damage."""
    shards(data, run, server, 2)
    scores = run / "shard-1/scores.jsonl"
    scores.write_bytes(scores.read_bytes() + b'{"id": "x')
    counted = {
        path: CountedScores((path / "scores.jsonl").stat().st_size, tally_of(path).counts())
        for path in (run / "shard-1", run / "shard-2")
    }
    assert merge(run, counted=counted).scores == 12
    assert len(rows_of(run)) == 12
    assert b'{"id": "x{' not in (run / "scores.jsonl").read_bytes()


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "-1/4", "1/0"])
def test_a_shard_that_is_none_is_refused(server, data, run, text):
    """Exit 2, saying what one looks like; nothing is asked."""
    done = score(data, run, server, f"--shard={text}")
    assert done.code == 2
    assert "1/4" in done.err
    assert server.counters.requests == 0


@pytest.mark.parametrize(("total", "count"), [(10, 3), (2, 5), (1, 1), (100, 7)])
def test_shards_cover_the_data_once_and_evenly(total, count):
    """Every example in one shard, and no shard longer than another by more than one."""
    bounds = [Shard(number, count).bounds(total) for number in range(1, count + 1)]
    assert [i for start, stop in bounds for i in range(start, stop)] == list(range(total))
    sizes = [stop - start for start, stop in bounds]
    assert max(sizes) - min(sizes) <= 1


def test_shards_that_do_not_belong_together_are_refused(server, data, run, tmp_path):
    """Other data, prompts, models or divisions: exit 2, saying what differs, and no run is made."""
    shards(data, run, server, 2)
    first, second = run / "shard-1", run / "shard-2"
    kept = (second / "manifest.json").read_text()

    def with_second(**changes):
        manifest = json.loads(kept)
        for key, value in changes.items():
            part, _, name = key.partition("__")
            (manifest[part] if name else manifest)[name or part] = value
        (second / "manifest.json").write_text(json.dumps(manifest))
        done = textassay("merge", run)
        assert done.code == 2
        assert not (run / "manifest.json").exists()
        return done.err

    models = json.loads(kept)["models"]
    models[""]["identity"]["model"] = "other"
    assert "data have changed" in with_second(data__digest="other")
    assert "prompts" in with_second(method__prompts="other")
    assert "models" in with_second(models=models)
    assert "divided in different ways" in with_second(spec__shard="2/3")
    assert "both shard" in with_second(spec__shard="1/2")
    assert "not of a shard" in with_second(spec__shard=None)
    assert first.exists()
    (second / "manifest.json").write_text(kept)
    assert textassay("merge", run).code == 0


def test_what_reads_runs_says_how_to_make_one_of_shards(server, data, run):
    """Where `--processes` was stopped, for example."""
    shards(data, run, server, 2)
    shown = textassay("show", run)
    assert shown.code == 2
    assert f"but shards of one: `textassay resume {run}`" in " ".join(shown.err.split())


def test_missing_and_unfinished_shards_are_named_and_may_be_left_to_resume(server, data, run):
    """Merge refuses what is not whole; `--partial` takes it, and resume asks only for the rest."""
    shards(data, run, server, 3)
    lines = (run / "shard-2/scores.jsonl").read_text().splitlines(keepends=True)
    (run / "shard-2/scores.jsonl").write_text("".join(lines[:3]))
    done = textassay("merge", run)
    assert done.code == 2
    assert "3 of 4 scores" in done.err
    # as many lines as there should be scores, but one pair twice
    (run / "shard-2/scores.jsonl").write_text("".join([*lines[:3], lines[0]]))
    done = textassay("merge", run)
    assert done.code == 2
    assert "3 of 4 scores" in done.err
    (run / "shard-3").rename(run / "later")
    done = textassay("merge", run)
    assert done.code == 2
    assert "lacks 1 of 3 shards (3/3)" in done.err
    asked = server.counters.requests
    done = textassay("merge", run, "--partial")
    assert done.code == 1
    assert "5 scores are missing" in done.err
    assert textassay("resume", run).code == 0
    assert len(rows_of(run)) == 12
    # shard 3 was left out with its answers; the lost line of shard 2 is answered from the merged
    # ones
    assert server.counters.requests - asked == 4
    (run / "later").rename(run / "shard-3")
    done = textassay("merge", run)
    assert done.code == 2
    assert "would lose them" in done.err


def test_shards_that_are_begun_by_resume_are_named(server, data, run):
    """They may be on their way from another machine; more shards than calls are refused."""
    shards(data, run, server, 3)
    shutil.rmtree(run / "shard-2")
    refused = textassay("resume", run, "--concurrency", "2")
    assert refused.code == 2
    assert "3 processes cannot keep to --concurrency 2" in refused.err
    done = textassay("resume", run, "--rpm", "6000")
    assert done.code == 0, done.err
    assert f"{run} has no shard 2/3: started now" in " ".join(done.err.split())
    assert len(verdicts(run)) == len(rows_of(run)) == 12


def test_merging_again_takes_what_a_shard_has_got_meanwhile(server, data, run):
    """The merged run is replaced; a line that a later one replaced is paid for, and gone."""
    shards(data, run, server, 2)
    path = run / "shard-1/scores.jsonl"
    row = json.loads(path.read_text().splitlines()[0])
    row |= {"value": None, "outcome": "error", "error": {"type": "X", "message": "x"}}
    path.write_text(json.dumps(row) + "\n" + path.read_text())
    assert textassay("merge", run).code == 0
    assert textassay("merge", run).code == 0
    assert len(rows_of(run)) == 12
    summary = json.loads((run / "summary.json").read_text())
    assert summary["outcomes"]["scored"] == 12
    assert summary["usage"]["calls"] == 13
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["merged"]["replaced"]["calls"] == 1
    assert textassay("resume", run).code == 0
    assert json.loads((run / "summary.json").read_text())["usage"] == summary["usage"]


def test_files_that_are_no_text_are_merged_too(server, data, run):
    """Such as a plot that somebody keeps with a shard."""
    shards(data, run, server, 2)
    (run / "shard-1/plot.png").write_bytes(b"\x89PNG one")
    (run / "shard-2/plot.png").write_bytes(b"\x89PNG two")
    assert textassay("merge", run).code == 0
    assert (run / "plot.shard-2.png").read_bytes() == b"\x89PNG two"


def test_a_shard_that_needs_a_batch_is_not_merged(server, data, run):
    """The merged run would ask, and pay for, the same again."""
    shards(data, run, server, 2)
    facts = {"model": "m", "group": "g", "requests": 1, "since": 0.0, "attempt": 1, "known": []}
    rows = [
        {"tag": "t", "state": "prepared", **facts},
        {"tag": "t", "state": "submitted", "id": "batch-1"},
    ]
    (run / "shard-2/batches.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    scores = run / "shard-2/scores.jsonl"
    whole = scores.read_text()
    scores.write_text(whole.partition("\n")[2])
    for more in ((), ("--partial",)):
        done = textassay("merge", run, *more)
        assert done.code == 2
        assert f"continue with `textassay resume {run / 'shard-2'}`" in done.err
        assert not (run / "manifest.json").exists()
    scores.write_text(whole)  # answered otherwise, such as from a shared cache
    done = textassay("merge", run)
    assert done.code == 0
    assert "1 batch of the shards is left at the provider" in done.err


def test_processes_make_the_same_run(server, data, run, tmp_path):
    """`--processes 2`: one command, one run, the same lines."""
    assert score(data, tmp_path / "whole", server).code == 0
    done = score(data, run, server, "--processes", "2", "--concurrency", "9")
    assert done.code == 0, done.err
    assert re.search(r"6/6 \| ", done.err)
    assert verdicts(run) == verdicts(tmp_path / "whole")
    refused = score(data, tmp_path / "no", server, "--processes", "2", "--shard", "1/2")
    assert refused.code == 2


def test_what_libraries_print_in_a_process_is_no_report(server, data, run, tmp_path, monkeypatch):
    """Neither while Python starts nor later, without a line break."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "os.write(1, b'42\\n')\n"
        "def chat(event, arguments):\n"
        "    if event == 'open' and 'scores.jsonl' in str(arguments[0]):\n"
        "        os.write(1, b'loading ...')\n"
        "sys.addaudithook(chat)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = score(data, run, server, "--processes", "2")
    assert done.code == 0, done.err
    assert len(rows_of(run)) == 12


def test_processes_that_were_killed_before_any_had_begun_can_be_started_again(server, data, run):
    """By the same command: what they left is no run."""
    for number in (1, 2):
        (run / f"shard-{number}").mkdir(parents=True)
    (run / "shard-1/.lock").touch()
    (run / "shard-2/notes.txt").touch()
    done = score(data, run, server, "--processes", "2")
    assert done.code == 2
    assert f"{run / 'shard-2'} contains other files (notes.txt)" in done.err
    (run / "shard-2/notes.txt").rename(run / "notes.txt")
    done = score(data, run, server, "--processes", "2")
    assert done.code == 2
    assert "contains other files" in done.err
    (run / "notes.txt").unlink()
    assert score(data, run, server, "--processes", "2").code == 0
    assert len(rows_of(run)) == 12


def test_a_shard_that_an_orphan_begins_meanwhile_is_resumed(server, data, run):
    """It held no run when `resume` looked, and holds scores when its process looks."""
    shards(data, run, server, 2)
    begun = run / "shard-2" / "scores.jsonl"
    begun.write_text("".join(begun.read_text().splitlines(keepends=True)[:3]))
    (run / "shard-2").rename(run / "later")

    def begin():
        (run / "later").rename(run / "shard-2")

    with before(("open", run / "shard-1" / "manifest.json", begin)):
        done = textassay("resume", run)
    assert done.code == 0, done.err
    assert len(rows_of(run)) == 12
    assert server.counters.requests == 12


class ContestedShard(ShardProcess):
    """A shard that others begin before its process makes it, and remove before that resumes it.

    Says what such a process writes; four of them would take seconds to start.
    """

    async def _run(self, order):
        request = order.request
        manifest = request.out / "manifest.json"
        if request.resume:
            manifest.unlink(missing_ok=True)
        else:
            manifest.write_text("{}")
        why = "contains no run" if request.resume else "already contains a run"
        self._read(json.dumps({"ended": "refused", "message": f"{request.out} {why}"}).encode())


@pytest.mark.asyncio
async def test_a_shard_that_is_refused_each_time_ends_with_the_reason(tmp_path):
    """Its process was never killed."""
    order = ScoreCommand(
        request=RunRequest(method="llm-score", shard="1/1", out=tmp_path, resume=True)
    )
    shard = ContestedShard(Shard(1, 1), order, shared=True)
    await shard.work()
    assert shard.end == {"ended": "refused", "message": f"{tmp_path} already contains a run"}


def test_advice_on_shards_names_the_run(server, data, run, tmp_path):
    """Whose `resume` finishes and merges all of them."""
    file = tmp_path / "c.toml"
    file.write_text(f'[[endpoints]]\napi_base = "{server.url}"')
    command = flags(data, run, server, "--processes", "2", "--config", file, "--price", "1,1")
    place = command.index("--api-base")
    done = textassay(*command[:place], *command[place + 2 :], "--max-cost", "0.0001")
    assert done.code == 3
    assert "the cost limit is divided: each of 2 processes keeps to its part" in done.err
    done = textassay("resume", run)
    assert done.code == 2
    assert f"textassay resume {run} --config FILE" in " ".join(done.err.split())
    assert textassay("resume", run, "--config", file).code == 0
    assert len(rows_of(run)) == 12


def test_what_every_process_refuses_is_refused(server, data, run):
    """Exit 2 with the reason, once, and nothing is left behind."""
    done = score(data, run, server, "--processes", "2", aspects="beauty")
    assert done.code == 2
    assert done.err.count("beauty") == 1
    assert not list(run.glob("shard-*/manifest.json"))


pytest_posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


def children_of(parent: int) -> list[int]:
    """The processes that a process has started."""
    found = subprocess.run(["pgrep", "-P", str(parent)], capture_output=True, text=True).stdout
    return [int(pid) for pid in found.split()]


def kill_one(parent: int, rng: random.Random) -> None:
    """Kill one of the processes that a process has started; one that just ended is none of them."""

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
    """Children die, then all of it dies, and resume finishes; nothing lost, little asked twice."""
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

            kills = 1  # the last one, of all
            for requests in (10, 40):
                server.options.hold_after = requests
                until(lambda: have_asked(requests))  # noqa: B023  # called in this turn only
                kill_one(parent.pid, rng)
                kills += 1
            server.options.hold_after = 60
            until(lambda: have_asked(60))
            parent.kill()
            parent.wait()
            server.options.hold_after = 0
        # Orphans stop by themselves, one sooner than another: then the shards of some are resumed
        # (3), and not of all (2).
        while (done := textassay("resume", run)).code in {2, 3}:
            assert "in use by another process" in done.err, done.err
        assert done.code == 0, done.err
        assert "Traceback" not in said.read_text()
        assert server.counters.requests <= 120 + 8 * kills
        assert len(rows_of(run)) == len(verdicts(run)) == 120
        whole = tmp_path / "whole"
        assert score(data, whole, server).code == 0
        assert verdicts(run) == verdicts(whole)


@pytest_posix
def test_ctrl_c_leaves_processes_that_resume(run, tmp_path):
    """Typed in a terminal: exit 3, how to go on, and no process stays behind."""
    data = write_examples(tmp_path / "data.jsonl", 80)
    with served(hold_after=20) as server:
        command = flags(data, run, server, "--processes", "2", "--concurrency", "4")
        code, told = in_terminal(
            [sys.executable, "-c", MAIN, *map(str, command)],
            columns=300, typed=b"\x03", after=b"/80",
        )  # fmt: skip
        assert code == 3, told
        assert f"textassay resume {run}" in re.sub(r"\s+", " ", told)
        server.options.hold_after = 0
        done = textassay("resume", run)
        assert done.code == 0, done.err
        assert len(rows_of(run)) == 160
        assert server.counters.requests <= 160 + 4

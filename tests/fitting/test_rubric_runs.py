"""`fit --method rubric` as a command: killed in the middle of a round, or stopped by its budget, it
continues where it was and pays for nothing twice."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.harness import served, textassay
from tests.fitting.dated import Dated
from tests.waiting import until

ROOT = Path(__file__).parents[2]
IN_FLIGHT = 4


def flags(data, out, server, *more):
    return [
        "fit", data, "--method", "rubric", "--model", "direct/mock", "--api-base", server.url,
        "--task", "summarization", "--out", out, "--aggregator", "ridge", "--labels", "30",
        "--concurrency", IN_FLIGHT, "--progress", "none", *more,
    ]  # fmt: skip


def written(tmp_path, dated):
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in dated.rows), encoding="utf-8")
    return data


def rounds(out):
    return json.loads((out / "report.json").read_text(encoding="utf-8"))["rubric"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_killed_rubric_repeats_only_what_was_in_flight(tmp_path):
    dated = Dated(60)
    data, out = written(tmp_path, dated), tmp_path / "ev"
    # 30 texts on the aspect, a proposal, then in the middle of the first round's ratings
    with served(reply=dated.reply, hold_after=70) as server:
        arguments = [sys.executable, "-m", "textassay", *map(str, flags(data, out, server))]
        with subprocess.Popen(arguments, cwd=ROOT, stderr=subprocess.PIPE) as process:
            try:
                until(lambda: process.poll() is not None or server.counters.requests > 70)
                assert process.poll() is None, process.stderr.read()
                process.send_signal(signal.SIGKILL)
            finally:
                process.kill()
        assert not (out / "evaluator.json").exists()
        server.options.hold_after = 0
        resumed = textassay(*flags(data, out, server))
        assert resumed.code == 0, resumed.err
        repeated = server.counters.requests - len(server.counters.bodies)
        assert repeated <= IN_FLIGHT
        whole = textassay(*flags(data, tmp_path / "whole", server))
        assert whole.code == 0, whole.err
    assert rounds(out) == rounds(tmp_path / "whole")
    assert len(rounds(out)) > 1


def test_a_rubric_stops_at_its_budget_and_continues_with_a_larger_one(tmp_path):
    dated = Dated(60)
    data, out = written(tmp_path, dated), tmp_path / "ev"
    with served(reply=dated.reply) as server:
        priced = ("--price", "1,1")
        first = textassay(*flags(data, out, server, *priced, "--max-cost", "0.02"))
        assert first.code == 3, first.err
        assert "repeat the same command to continue" in " ".join(first.err.split())
        before = server.counters.requests
        assert before
        assert not (out / "evaluator.json").exists()
        rest = textassay(*flags(data, out, server, *priced, "--max-cost", "5"))
        assert rest.code == 0, rest.err
        assert server.counters.requests == len(server.counters.bodies) > before

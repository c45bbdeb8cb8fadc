"""`score --batch`: the same scores as live, at half the price, over any number of deaths."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.batch_server import Faults, batches_served
from tests.cli.harness import (
    document,
    read_json,
    read_lines,
    rows_of,
    score,
    textassay,
    verdicts,
    write_examples,
    write_lines,
)
from tests.cli.harness import flags as arguments_of
from tests.cli.test_interruptions import MAIN, ROOT
from tests.waiting import until
from textassay import connect, evaluate
from textassay.methods.by_name import build
from textassay.runtime.errors import ConfigurationError

BATCH = ("--batch",)


def flags(data, run, server, *more, **named):
    """The arguments of `score` over summaries."""
    return arguments_of(data, run, server, "--task", "summarization", *more, **named)


@pytest.mark.parametrize(
    ("method", "waves"), [("llm-score", 1), ("g-eval", 2), ("hd-eval", 1), ("fusion-eval", 2)]
)
def test_batches_score_as_single_calls_do(data, run, tmp_path, method, waves):
    """Equal scores, one batch a wave of the graph, no single call, half the cost."""
    more = ("--temperature", "0") if method in ("llm-score", "g-eval") else ()
    with batches_served() as server:
        for out, how in ((tmp_path / "live", ()), (run, BATCH)):
            asked = server.counters.requests
            textassay(*flags(data, out, server, "--price", "1,2", *how, *more, method=method)).ok()
        assert verdicts(run) == verdicts(tmp_path / "live")
        assert (server.counters.requests, len(server.batches)) == (asked, waves)
    half, full = (read_json(f / "summary.json")["usage"]["cost"] for f in (run, tmp_path / "live"))
    assert half == pytest.approx(full / 2)
    states = [row["state"] for row in read_lines(run / "batches.jsonl")]
    assert states == ["prepared", "uploaded", "submitted", "ended", "collected"] * waves


@pytest.mark.parametrize(("option", "waves"), [("true", 4), ("parallel", 2)])
def test_a_chain_is_warned_of_and_its_waves_are_counted(tmp_path, run, option, waves):
    """A dry run counts the requests: for DecompEval's chain, one per sentence and one."""
    data = write_examples(tmp_path / "data.jsonl", 3, output="It rained. It snowed. It hailed.")
    more = (*BATCH, "--set", f"subquestions={option}")
    with batches_served() as server:
        command = flags(data, run, server, *more, method="decomp-eval", aspects="coherence")
        dry = textassay(*command, "--dry-run", "--json")
        assert json.loads(dry.out)["waves"] == waves
        done = textassay(*command).ok()
        assert len(server.batches) == waves
    for said in (dry.err, done.err):
        assert ("--set subquestions=parallel" in said) == (option == "true")


def test_submitting_only_stops_with_3_and_resume_collects(data, run):
    with batches_served(Faults(hold=True)) as server:
        full, half = (
            document(*flags(data, run, server, *more, "--price", "1,2", "--dry-run"))["estimate"]
            for more in ((), ("--batch",))
        )
        assert half["cost"] == pytest.approx(full["cost"] / 2)
        textassay(*flags(data, run, server, *BATCH, "--submit-only")).ends(
            3, "12 requests to direct/mock are submitted in 1 batch", f"textassay resume {run}"
        )
        assert textassay("resume", run, "--submit-only").code == 3
        server.faults.hold = False
        textassay("resume", run).ok()
        assert (len(rows_of(run)), len(server.batches)) == (12, 1)
        assert set(server.billed.values()) == {1}


def test_one_role_is_asked_in_batches_and_others_singly(data, run, tmp_path):
    """`--submit-only` stops once what is batched is submitted; the rest is asked as usual."""
    config = tmp_path / "roles.toml"
    config.write_text(
        '[models.steps]\nmodel = "direct/mock"\n'
        '[models.scorer]\nmodel = "direct/mock"\nbatch = true\n'
    )
    with batches_served(Faults(hold=True)) as server:
        more = ("--config", config, "--temperature", "0", "--submit-only")
        done = textassay(*flags(data, run, server, *more, method="g-eval"))
        assert done.code == 3, done.err
        assert "12 requests to direct/mock are submitted in 1 batch" in done.err
        assert server.counters.requests == 2  # the steps of two aspects
        server.faults.hold = False
        textassay("resume", run).ok()
        assert (len(rows_of(run)), server.counters.requests) == (12, 2)


@pytest.mark.parametrize(
    "roles",
    [
        "",
        "[models.scoorer]\nbatch = true\n",
        "batch = true\n[models.scorer]\nbatch = false\n[models.steps]\nbatch = false\n",
    ],
)
def test_submitting_only_needs_a_model_in_batches(data, run, server, tmp_path, roles):
    config = tmp_path / "roles.toml"
    config.write_text(roles)
    done = score(data, run, server, "--submit-only", "--config", config, method="g-eval")
    assert (done.code, "--submit-only needs" in done.err) == (2, True)
    assert (run.exists(), server.counters.requests) == (False, 0)


def test_waiting_for_room_is_reported(data, run):
    with batches_served(Faults(postponed=2)) as server:
        said = textassay(*flags(data, run, server, *BATCH)).ok().messages
    assert said.count("direct/mock has no capacity for another batch yet") == 1
    assert "Enqueued token limit reached" in said


def test_a_budget_holds_over_the_sessions_that_submit_and_collect(data, run):
    """What is submitted with a limit is collected with it, and stops before the next wave."""
    with batches_served() as server:
        priced = flags(data, run, server, *BATCH, "--price", "1,2", method="g-eval")
        cap = document(*priced, "--dry-run")["estimate"]["cost"] / 2
        assert textassay(*priced, "--submit-only", "--max-cost", f"{cap:.6f}").code == 3
        textassay("resume", run).ends(3, "the cost limit of $")
        assert 2 <= len(server.billed) < 14
        textassay("resume", run, "--max-cost", "1").ok()
        assert len(rows_of(run)) == 12
        assert set(server.billed.values()) == {1}


def test_a_recorded_run_is_not_asked_in_batches(data, run, tmp_path):
    with batches_served() as other:
        textassay(*flags(data, run, other)).ok()
        named = flags(data, tmp_path / "again", other, "--batch", model=f"replay/{run}")
        done = textassay(*named)
        assert done.code == 2
        assert "answers from a recorded run, without any call: leave out --batch" in done.err
        assert not other.billed


def test_a_request_that_no_batch_answers_is_an_error_that_resume_asks_again(data, run):
    with batches_served(Faults(missing=1)) as server:
        done = textassay(*flags(data, run, server, *BATCH))
        assert (done.code, "MissingAnswer x2" in done.out) == (1, True)
        textassay("resume", run).ok()
        assert server.counters.requests == 0


def test_a_run_whose_only_batch_is_refused_leaves_nothing_in_the_way(data, run):
    with batches_served(Faults(most=0)) as server:
        done = textassay(*flags(data, run, server, *BATCH))
        assert (done.code, (run / "batches.jsonl").exists()) == (3, False)
        assert "fix this and repeat the command" in done.err
        server.faults.most = None
        textassay(*flags(data, run, server, *BATCH)).ok()
        assert set(server.billed.values()) == {1}


def test_a_run_with_a_submitted_batch_is_kept_when_another_is_refused(data, run):
    with batches_served(Faults(most=1, hold=True)) as server:
        jurors = ("--model", "juror2=direct/two", *BATCH)
        named = {"method": "jury", "model": "juror1=direct/one", "aspects": "coherence"}
        textassay(*flags(data, run, server, *jurors, **named)).ends(3, f"textassay resume {run}")
        server.faults.most, server.faults.hold = None, False
        textassay("resume", run).ok()
        assert len(server.batches) == 2
        assert list(server.billed.values()) == [1] * 12


def test_models_and_servers_without_a_batch_api_are_refused(server, data, run):
    """A server that answers single calls is distinguished from a wrong address."""
    done = score(data, run, server, *BATCH)
    assert (done.code, (run / "batches.jsonl").exists()) == (3, False)
    assert "if this server has no batch API, leave out --batch" in done.err
    named = ("--method", "llm-score", "--model", "hosted_vllm/x", "--batch", "--out", run)
    done = textassay("score", data, *named).ends(2, "no batch API is known")


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_killed_processes_find_their_batches(run, tmp_path):
    """`kill -9` in each state of two waves, then resume: nothing is paid for twice."""
    data = write_examples(tmp_path / "data.jsonl", 40)
    rng = random.Random(5)

    def states() -> list[str]:
        path = run / "batches.jsonl"
        return [row["state"] for row in read_lines(path)] if path.exists() else []

    with batches_served() as server:
        textassay(*flags(data, tmp_path / "live", server, method="g-eval")).ok()
        command = [sys.executable, "-c", MAIN]
        first = flags(data, run, server, *BATCH, method="g-eval")
        arguments, killed, code = [*command, *map(str, first)], 0, -1
        while code != 0:
            assert code < 0, "it was killed"
            # at a random time after the next state
            reached, seconds = len(states()) + 1, rng.uniform(0, 0.02)
            with subprocess.Popen(arguments, cwd=ROOT, stderr=subprocess.PIPE) as process:
                until(
                    lambda: process.poll() is not None or len(states()) >= reached,  # noqa: B023
                    every=0.002,
                )
                with suppress(subprocess.TimeoutExpired):
                    process.wait(seconds)
                killed += process.poll() is None
                process.kill()
            code = process.returncode
            arguments = [*command, "resume", str(run)]
        assert killed >= 3
        assert verdicts(run) == verdicts(tmp_path / "live")
        assert len(server.batches) == 2
        assert set(server.billed.values()) == {1}


def test_the_doctor_probes_batches():
    with batches_served() as server:
        asked = ("doctor", "direct/mock", "--api-base", server.url, "--batch", "--json")
        done = textassay(*asked)
        rows = {row["ability"]: row["verdict"] for row in json.loads(done.out)["rows"]}
        assert rows["batch chat"] == rows["batch n"] == rows["batch logprobs"] == "yes"
        assert "batch json_schema" in rows
        assert len(server.batches) == 2  # one asks whether it takes messages, one all the rest
    with batches_served(omit_logprobs=True, only_one=True) as server:
        done = textassay(*asked[:3], server.url, *asked[4:])
        rows = {row["ability"]: row["verdict"] for row in json.loads(done.out)["rows"]}
        assert rows["batch chat"] == "yes"
        assert rows["batch n"] == rows["batch logprobs"] == "no"


@pytest.mark.parametrize("by_role", [False, True])
def test_fit_asks_through_batches_too(run, tmp_path, by_role):
    """A wave per layer and one for each decomposition; the evaluator is that of single calls."""
    config = tmp_path / "roles.toml"
    config.write_text('[models.scorer]\nmodel = "direct/mock"\nbatch = true\n')
    how = ("--config", config) if by_role else ("--batch",)
    rows = [
        {"id": f"x{i}", "output": f"It rained {i} times.", "source": f"s{i}",
         "human": {"coherence": i * 7 % 5 + 1}}
        for i in range(24)
    ]  # fmt: skip
    data = write_lines(tmp_path / "rated.jsonl", rows)

    def fit(out, *more):
        return textassay(
            "fit", data, "--method", "hd-eval", "--task", "summarization", "--model", "direct/mock",
            "--api-base", server.url, "--layers", "2", "--children", "2", "--keep", "1",
            "--aggregator", "linear", "--aspects", "coherence", "--out", out, *more,
        )  # fmt: skip

    with batches_served(Faults(hold=True)) as server:
        done = fit(run, *how, "--submit-only")
        assert done.code == 3, done.err
        assert "24 requests to direct/mock are submitted in 1 batch" in done.err
        server.faults.hold = False
        fit(run, *how).ok()
        # two layers, and between them a decomposition, which another role asks for
        assert (len(server.batches), server.counters.requests) == ((2, 1) if by_role else (3, 0))
        assert set(server.billed.values()) == {1}
        fit(tmp_path / "live").ok()
    made = [read_json(out / "evaluator.json") for out in (run, tmp_path / "live")]
    assert made[0]["tree"] == made[1]["tree"]
    assert made[0]["aggregator"] == made[1]["aggregator"]


async def test_a_graph_with_its_own_model_is_told_how_to_use_batches(data, run):
    """It is not the run that asks its model, so nobody would record its batches."""
    with batches_served() as server:
        how = {"api_base": server.url, "batch": True}
        async with connect("direct/mock", **how) as model:
            method = build("llm-score", model, task="summarization", aspects=["fluency"])
            with pytest.raises(ConfigurationError, match="make a graph of your own a named method"):
                await evaluate(
                    data, method=method.graph, task="summarization", aspects=["fluency"], out=run
                )
        assert not server.files


def test_abilities_that_batches_lack_leave_no_folder(data, run, monkeypatch):
    """Exit 2, and nothing was submitted; the corrected command takes the same folder."""
    monkeypatch.setenv("GROQ_API_KEY", "none")
    only = {"g-eval": ("--set", "reading=logprob"), "gptscore": ()}
    for method, options in only.items():
        for dry in ((), ("--dry-run",)):
            done = textassay(
                "score", data, "--method", method, *options, "--model", "groq/x",
                "--aspects", "fluency", "--batch", "--out", run, *dry,
            )  # fmt: skip
            assert (done.code, run.exists()) == (2, False)
            assert "log-probabilit" in done.err

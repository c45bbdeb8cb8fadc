"""`textassay score` and `resume` against a real server, from arguments to files, output and exit
status."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from tests.cli.harness import rows_of, served, textassay, verdicts, write_examples
from textassay.methods.library import tasks


def ask(server, name="direct/mock"):
    """The flags that name the model."""
    return ("--model", name, "--api-base", server.url)


def score(data, run, server, *more, method="llm-score", aspects="coherence,fluency"):
    """Score with the usual flags."""
    return textassay(
        "score", data, "--method", method, *ask(server), "--aspects", aspects, "--out", run, *more
    )


def test_scores_go_to_the_folder_and_results_to_standard_output(server, data, run):
    """Exit 0; a table and the cost on stdout, progress on stderr, one line a score in the
    folder."""
    done = score(data, run, server, "--price", "1,2")
    assert done.code == 0
    assert done.out.splitlines()[0] == str(run)
    assert re.search(r"^coherence +6 +\d\.\d{4}$", done.out, re.MULTILINE)
    assert re.search(
        r"12 calls answered, 0 from the cache, \d+ \+ \d+ tokens, cost \$0\.00", done.out
    )
    assert re.fullmatch(r"6/6 \| .*12 calls \| \$0\.00\d\d .*\n", done.err)
    assert len(rows_of(run)) == 12
    assert {row["outcome"] for row in rows_of(run)} == {"scored"}
    assert sorted(path.name for path in run.iterdir()) == [
        ".lock", "answers", "manifest.json", "scores.jsonl", "summary.json",
    ]  # fmt: skip


def test_what_each_score_cost_adds_up_to_what_the_server_counted(server, data, run):
    """Calls and tokens of the lines, of the summary and of the server are the same numbers."""
    assert score(data, run, server, method="g-eval").code == 0
    rows, summary = rows_of(run), json.loads((run / "summary.json").read_text())
    assert (
        sum(row["usage"]["calls"] for row in rows) == server.counters.requests == 14
    )  # steps of two aspects
    for key in ("calls", "prompt_tokens", "completion_tokens", "cached_calls"):
        assert sum(row["usage"][key] for row in rows) == summary["usage"][key]
    assert summary["usage"]["cost"] is None


@pytest.mark.parametrize("priced", [True, False])
@pytest.mark.parametrize("more", [("--dry-run",), ()])
def test_a_cost_is_told_as_far_as_prices_are_known(server, data, run, tmp_path, priced, more):
    """The known part, and whose price is missing; nothing known is `unknown`."""
    price = "price = [1, 4]\n" if priced else ""
    config = tmp_path / "jury.toml"
    config.write_text(
        f'[models.juror1]\nmodel = "direct/one"\n{price}[models.juror2]\nmodel = "direct/two"\n'
    )
    command = (
        "score", data, "--method", "jury", "--config", config, "--api-base", server.url,
        "--aspects", "coherence", "--out", run, "--progress", "none", *more,
    )  # fmt: skip
    done = textassay(*command)
    told = r"[$]\d\.\d{4} without direct/two \(price" if priced else r"unknown \(give --price"
    assert done.code == 0
    assert re.search(rf"cost +{told}", done.out)
    shutil.rmtree(run, ignore_errors=True)
    costs = json.loads(textassay(*command, "--json").out)["costs"]
    assert costs["direct/two"] is None
    assert (costs["direct/one"] is not None) == priced


def test_the_cost_of_calls_without_an_answer_is_unknown(data, run):
    """What ran out of time may be charged, so it is not nothing."""
    with served(latency_ms=2000) as slow:
        done = textassay(
            "score", data, "--method", "llm-score", "-m", "direct/m", "--api-base", slow.url,
            "-a", "coherence", "-o", run, "--set", "timeout=0.05", "--set", "attempts=1",
            "--set", "failure_limit=99", "--set", "outage_wait=0",
        )  # fmt: skip
    assert done.code == 1
    assert "cost unknown (no request was answered" in done.out


def test_gptscore_says_first_what_only_asking_shows(server, data, run):
    """Also a dry run, which asks nothing."""
    done = textassay(
        "score", data, "--method", "gptscore", "-m", "direct/m", "--api-base", server.url,
        "-a", "fluency", "-o", run, "--dry-run",
    )  # fmt: skip
    assert done.code == 0
    assert "needs log-probabilities of a given text" in done.err


STEPS = "\n".join(
    f"{i}. {step}" for i, step in enumerate(tasks.load("summarization").steps["coherence"], start=1)
)
"""As long as a model's own: those of G-Eval, figure 1."""


@pytest.mark.parametrize(
    ("method", "calls"), [("llm-score", 12), ("llm-score-cot", 12), ("g-eval", 14)]
)
def test_a_dry_run_foretells_what_the_server_then_counts(data, run, method, calls):
    """Calls are exact, prompt tokens within 10 %, the cost is a bound; nothing is asked and nothing
    written."""

    def reply(body, draw):
        return "Rating: 3" if "logprobs" in body or method != "g-eval" else STEPS

    with served(reply=reply) as judge:
        foretold = score(
            data, run, judge, "--dry-run", "--price", "1,2", "--progress", "none", method=method
        )
        way = "g-eval reads log-probabilities if direct/mock sends usable ones, else 20 samples"
        assert foretold.code == 0
        assert foretold.err.startswith(way) if method == "g-eval" else foretold.err == ""
        assert judge.counters.requests == 0
        assert not run.exists()
        said = dict(re.findall(r"^(\w[\w ]*?) +\$?([\d.]+)", foretold.out, re.MULTILINE))
        assert score(data, run, judge, "--price", "1,2", method=method).code == 0
        usage = json.loads((run / "summary.json").read_text())["usage"]
        assert int(said["calls"]) == usage["calls"] == judge.counters.requests == calls
        assert int(said["prompt tokens"]) == pytest.approx(usage["prompt_tokens"], rel=0.1)
        assert float(said["cost"]) >= usage["cost"] > 0


def test_a_dry_run_knows_what_a_shared_cache_holds(server, data, run, tmp_path):
    """What an earlier run paid for is not counted again."""
    assert score(data, run, server, "--cache", tmp_path / "cache").code == 0
    foretold = textassay(
        "score", data, "--method", "llm-score", *ask(server), "--aspects",
        "coherence,fluency,relevance", "--cache", tmp_path / "cache", "--dry-run",
    )  # fmt: skip
    assert re.search(r"^calls +6$", foretold.out, re.MULTILINE)
    assert re.search(r"^answers in the cache +12$", foretold.out, re.MULTILINE)


@pytest.mark.parametrize("method", ["llm-score", "g-eval"])
def test_litellm_and_our_own_client_ask_and_read_the_same(server, data, run, tmp_path, method):
    """Equal values, equal usage, nothing of litellm's on the terminal."""
    assert score(data, run, server, method=method).code == 0
    flags = (
        "--method",
        method,
        *ask(server, "openai/mock"),
        "--aspects",
        "coherence,fluency",
        "--progress",
        "none",
    )
    done = textassay("score", data, *flags, "--out", tmp_path / "litellm")
    way = "g-eval reads log-probabilities of openai/mock\n" if method == "g-eval" else ""
    assert (done.code, done.err) == (0, way)
    assert verdicts(tmp_path / "litellm") == verdicts(run)
    usages = [
        json.loads((folder / "summary.json").read_text())["usage"]
        for folder in (run, tmp_path / "litellm")
    ]
    assert usages[0] == usages[1]


def test_a_shared_cache_answers_a_second_run(server, data, run, tmp_path):
    """The second run makes no call and says the same."""
    assert score(data, run, server, "--cache", tmp_path / "cache").code == 0
    calls = server.counters.requests
    again = score(data, tmp_path / "again", server, "--cache", tmp_path / "cache")
    assert again.code == 0
    assert "0 calls answered, 12 from the cache, 0 + 0 tokens, cost $0.0000" in again.out
    assert server.counters.requests == calls
    assert verdicts(tmp_path / "again") == verdicts(run)
    assert not (run / "answers").exists()


def test_without_a_cache_nothing_but_the_scores_is_kept(server, data, run):
    """`--no-cache` leaves no answers on the disk."""
    assert score(data, run, server, "--no-cache").code == 0
    assert not (run / "answers").exists()


def test_a_replay_answers_from_a_recorded_run(server, data, run, tmp_path):
    """Same values, same signature, no calls, with the server gone; what was never asked is an error
    and exit 1."""
    assert score(data, run, server, method="g-eval").code == 0
    calls = server.counters.requests
    before = {
        path: path.read_bytes()
        for path in run.rglob("*")
        if path.is_file() and path.suffix != ".db-shm"
    }
    flags = ("--model", f"replay/{run}", "--progress", "none")
    replayed = textassay(
        "score",
        data,
        "--method",
        "g-eval",
        "--aspects",
        "coherence,fluency",
        *flags,
        "--out",
        tmp_path / "replay",
    )
    assert replayed.code == 0
    assert "0 calls answered, 14 from the cache" in replayed.out
    assert verdicts(tmp_path / "replay") == verdicts(run)
    assert {row["signature"] for row in rows_of(tmp_path / "replay")} == {
        row["signature"] for row in rows_of(run)
    }
    assert server.counters.requests == calls
    assert {path: path.read_bytes() for path in before} == before
    other = textassay(
        "score",
        data,
        "--method",
        "llm-score",
        "--aspects",
        "coherence",
        *flags,
        "--out",
        tmp_path / "b",
    )
    assert other.code == 1
    assert "unscored: 6 error (RequestRefused x6)" in other.out


def test_replays_need_a_run_that_kept_its_answers(server, data, run, tmp_path):
    """A run with --no-cache cannot be replayed, and says so before anything is made."""
    assert score(data, run, server, "--no-cache").code == 0
    refused = textassay(
        "score",
        data,
        "--method",
        "llm-score",
        "--model",
        f"replay/{run}",
        "--out",
        tmp_path / "replay",
    )
    assert refused.code == 2
    assert "--no-cache" in refused.err
    assert not (tmp_path / "replay").exists()


def test_a_file_of_flags_is_read_and_the_command_line_wins(server, data, run, tmp_path):
    """`--config` takes every flag, `set` and `fields`; what is given as a flag replaces it."""
    config = tmp_path / "flags.toml"
    config.write_text(
        f"data = {json.dumps(str(data))}\n"
        f'method = "llm-score"\nmodel = "direct/mock"\napi-base = "{server.url}"\n'
        f'aspects = "coherence,fluency"\n'
        f"limit = 5\nn = 3\nprice = [1, 2]\nout = {json.dumps(str(tmp_path / 'other'))}\n"
        f"progress = 'none'\n"
        "[set]\nattempts = 2\nparse_retries = 0\n[fields]\nsystem = 'meta.system'\n".replace(
            "[fields]\nsystem = 'meta.system'\n", ""
        )
    )
    done = textassay(
        "score", "--config", config, "--out", run, "--limit", 2, "--set", "parse_retries=4"
    )
    assert (done.code, done.err) == (0, "")
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["spec"]["limit"] == 2
    assert manifest["spec"]["aspects"] == ["coherence", "fluency"]
    assert manifest["method"]["options"]["parse_retries"] == 4
    assert manifest["method"]["options"]["n"] == 3
    assert manifest["settings"]["attempts"] == 2
    assert {row["id"] for row in rows_of(run)} == {"x0", "x1"}
    assert {row["how"] for row in rows_of(run)} == {"sampled"}


def test_what_is_typed_wins_in_whichever_form_a_file_has_it(server, data, run, tmp_path):
    """As a flag or by --set; given twice at one place, it is refused."""
    config = tmp_path / "flags.toml"
    command = (
        "score", data, "--method", "llm-score", "--model", "direct/mock", "--api-base", server.url,
        "--aspects", "coherence", "--config", config, "--limit", "1",
    )  # fmt: skip

    def samples(content, *more):
        config.write_text(content)
        shutil.rmtree(run, ignore_errors=True)
        done = textassay(*command, "--out", run, *more)
        assert done.code == 0, done.err
        return json.loads((run / "manifest.json").read_text())["method"]["options"]["n"]

    assert samples("n = 2", "--set", "n=5") == 5
    assert samples("[set]\nn = 2", "-n", "4") == 4
    assert samples("[set]\nn = 2", "--set", "n=3") == 3
    config.write_text("")
    done = textassay(*command, "--dry-run", "-n", "4", "--set", "n=5")
    assert (done.code, "n is given twice, by its flag and by --set n=" in done.err) == (2, True)
    config.write_text("n = 2\n[set]\nn = 3")
    done = textassay(*command, "--dry-run")
    assert (done.code, "gives n twice" in done.err) == (2, True)


def test_flags_that_do_not_hold_for_a_role_are_named(server, data, run, tmp_path):
    """The file's role has settings of its own, also of its endpoints."""
    config = tmp_path / "flags.toml"
    command = (
        "score", data, "--method", "llm-score", "--model", "direct/mock", "--aspects", "coherence",
        "--config", config, "--api-base", "http://127.0.0.1:9/v1", "-c", "9", "--dry-run",
    )  # fmt: skip
    config.write_text(f'[models.scorer]\napi_base = "{server.url}"\nconcurrency = 3')
    told = "[models.scorer] has settings of its own in place of {}"
    assert told.format("--api-base, --concurrency") in " ".join(textassay(*command).err.split())
    config.write_text(f'[[models.scorer.endpoints]]\napi_base = "{server.url}"')
    assert told.format("--api-base") in " ".join(textassay(*command).err.split())
    config.write_text("[endpoints]\nrpm = 3")
    assert "each beginning with [[endpoints]]" in " ".join(textassay(*command).err.split())
    config.write_text("[models.scorer]\nrpm = 3")
    assert "of its own" not in textassay(*command).err


def test_a_file_describes_the_tools_of_a_method(server, data, run, tmp_path):
    """`[tools.NAME]` tables stand for --tools, and those that --tools names are taken from
    there."""
    config = tmp_path / "flags.toml"
    config.write_text("[tools.lower]\nkind = 'bleu'\nlowercase = true\n[tools.chrf]\n")
    flags = (
        "--method",
        "fusion-eval",
        "--set",
        "fusion=avg",
        "--config",
        config,
        "--dry-run",
        "--limit",
        1,
    )
    assert textassay("score", data, *flags).code == 0
    done = textassay("score", data, *flags, "--tools", "lower,nothing")
    assert (done.code, "nothing" in done.err) == (2, True)


def test_fields_may_have_other_names(server, run, tmp_path):
    """A field map in the file of flags says what the data's names mean."""
    data = tmp_path / "odd.jsonl"
    data.write_text('{"nr": "a", "told": "It rained."}\n')
    config = tmp_path / "flags.toml"
    config.write_text('[fields]\nnr = "id"\ntold = "output"\n')
    assert score(data, run, server, "--config", config).code == 0
    assert [row["id"] for row in rows_of(run)] == ["a", "a"]


def test_models_may_differ_by_role(server, data, run):
    """The steps are asked of one model and the scores of another; both stand in the manifest."""
    done = textassay(
        "score", data, "--method", "g-eval", "--aspects", "fluency", "--out", run, "--api-base",
        server.url, "--model", "direct/judge", "--model", "steps=direct/writer",
    )  # fmt: skip
    assert done.code == 0
    models = json.loads((run / "manifest.json").read_text())["models"]
    assert {role: model["name"] for role, model in models.items()} == {
        "": "direct/judge",
        "steps": "direct/writer",
    }
    assert all("model:direct/judge" in row["signature"] for row in rows_of(run))


def test_a_task_is_found_for_the_aspects(server, data, run):
    """Without --task the first built-in task that has all aspects is taken, and that is said
    once."""
    with served(reply=lambda body, draw: "Rating: 2") as judge:
        done = score(data, run, judge, aspects="engagingness,coherence")
    assert done.code == 0
    assert done.err.count("task: dialogue") == 1
    assert [
        a["scale"] for a in json.loads((run / "manifest.json").read_text())["method"]["aspects"]
    ] == [[1, 3]] * 2
    quiet = score(data, run.with_name("general"), server, aspects="overall")
    assert "task:" not in quiet.err


def test_what_is_unscored_is_counted_with_its_reasons(data, run):
    """Exit 1, with the count and the reasons, and how errors may be asked again."""
    replies = {"x1": "I cannot tell.", "x2": "Rating: 9"}

    def reply(body, draw):
        prompt = body["messages"][0]["content"]
        return next(
            (said for key, said in replies.items() if f"Text number {key[1:]} " in prompt),
            "Rating: 4",
        )

    with served(reply=reply) as judge:
        done = score(data, run, judge, aspects="coherence")
    assert done.code == 1
    assert re.search(r"^unscored: .*\bOffScale x1", done.out, re.MULTILINE)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["outcomes"]["scored"] == 4
    assert summary["aspects"]["coherence"] == {"n": 4, "mean": 4.0}
    assert "resume" not in done.out  # nothing to ask again: the judge has answered


@pytest.mark.parametrize(
    ("count", "varies", "said"), [(10, False, True), (10, True, False), (4, False, False)]
)
def test_samples_that_never_differ_are_reported(tmp_path, run, count, varies, said):
    """Further samples are worthless if a server ignores temperature; few scores show nothing."""
    data = write_examples(tmp_path / "some.jsonl", count)
    drawn = iter(range(10_000))
    with served(reply=lambda body, draw: f"Rating: {2 + next(drawn) % 2 * varies}") as judge:
        done = score(data, run, judge, "--n", 3, "--temperature", 1)
    assert done.code == 0
    text = " ".join(done.out.split())
    assert ("in each of 20 scores all samples agree" in text) == said


def test_errors_are_asked_again_by_resume(data, run):
    """A server that fails gives errors and exit 1; once it is well, resume asks those and nothing
    else."""
    with served(p500=1.0, retry_after=0.0) as ill:
        done = score(data, run, ill, "--set", "attempts=2")
        assert done.code == 1
        assert f"retry the errors with: textassay resume {run}" in done.out
        assert "0 calls answered, 24 failed, 0 from the cache" in " ".join(done.out.split())
        assert ill.counters.requests == 24
        ill.options.p500 = 0.0
        again = textassay("resume", run)
        assert again.code == 0
        assert ill.counters.requests == 36
        assert len(verdicts(run)) == 12
        assert textassay("resume", run).code == 0
        assert ill.counters.requests == 36


def test_a_budget_stops_the_run_and_resume_finishes_it(server, data, run):
    """Exit 3 before the cap is passed, with what to do; a resume without a cap finishes and repeats
    no call."""
    stopped = score(
        data, run, server, "--price", "1000,1000", "--max-cost", "2", "--concurrency", 2
    )
    assert stopped.code == 3
    assert "stopped: the cost limit of $2 is reached" in stopped.err
    assert f"textassay resume {run}" in stopped.err
    summary = json.loads((run / "summary.json").read_text())
    assert 0 < summary["usage"]["cost"] <= 2
    assert 0 < summary["outcomes"]["scored"] < 12
    paid = server.counters.requests
    done = textassay("resume", run)
    assert done.code == 0
    assert "the cost limit was that of an earlier session; this one has none" in done.err
    assert server.counters.requests == 12 >= paid
    assert len(verdicts(run)) == len(rows_of(run)) == 12


def test_a_run_can_be_resumed_at_another_address_and_from_another_folder(
    server, run, tmp_path, monkeypatch
):
    """Answers keep their keys where only the server's address changes; paths in the manifest are
    absolute."""
    monkeypatch.chdir(tmp_path)
    write_examples(tmp_path / "data.jsonl", 6)
    with served(latency_ms=1) as first:
        stopped = score(
            "data.jsonl", run, first, "--price", "1000,1000", "--max-cost", "2", "--concurrency", 2
        )
        assert stopped.code == 3
        paid = first.counters.requests
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    done = textassay("resume", run, "--api-base", server.url)
    assert done.code == 0
    assert paid + server.counters.requests == 12
    assert len({row["signature"] for row in rows_of(run)}) == 1


def test_resume_refuses_what_would_not_be_comparable(server, data, run):
    """Other data, or another prompt by hand in the manifest, are named; the run stays as it is."""
    assert score(data, run, server).code == 0
    before = (run / "scores.jsonl").read_bytes()
    write_examples(data, 7)
    changed = textassay("resume", run)
    assert changed.code == 2
    assert "the data have changed" in changed.err
    write_examples(data, 6)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["method"]["options"]["parse_retries"] = 7
    (run / "manifest.json").write_text(json.dumps(manifest))
    changed = textassay("resume", run)
    assert changed.code == 2
    assert "method options parse_retries changed from 7 to 1" in changed.err
    assert (run / "scores.jsonl").read_bytes() == before


@pytest.mark.parametrize("name", ["manifest.json", "summary.json"])
def test_a_newer_format_is_refused(server, data, run, name):
    """A run of a later version is not touched."""
    assert score(data, run, server).code == 0
    content = json.loads((run / name).read_text()) | {"format": 2}
    (run / name).write_text(json.dumps(content))
    done = textassay("resume", run)
    assert done.code == (2 if name == "manifest.json" else 0)
    if done.code:
        assert "format 2" in done.err


def test_plain_progress_ends_in_one_line_and_none_is_silent(server, data, run, tmp_path):
    """Progress never reaches standard output."""
    plain = score(data, run, server, "--progress", "plain")
    assert plain.err.count("\n") == 1
    none = score(data, tmp_path / "b", server, "--progress", "none")
    assert none.err == ""
    assert "/s" not in plain.out

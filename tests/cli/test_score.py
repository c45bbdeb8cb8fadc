"""`textassay score` and `resume` against a real server: files, output and exit status."""

from __future__ import annotations

import json
import re
import shutil
from importlib.util import find_spec

import pytest

from tests.cli.harness import (
    document,
    read_json,
    rows_of,
    score,
    served,
    textassay,
    verdicts,
    write_examples,
)
from textassay.cli.commands.score import SHOWN_WARNINGS
from textassay.methods.library import tasks


def test_scores_go_to_the_folder_and_results_to_standard_output(server, data, run):
    """A table and the cost on stdout, progress on stderr, one line a score in the folder."""
    done = score(data, run, server, "--price", "1,2").ok()
    assert done.out.splitlines()[0] == str(run)
    assert re.search(r"^coherence +6 +\d\.\d{4}$", done.out, re.MULTILINE)
    told = r"12 calls answered, 0 from the cache, \d+ \+ \d+ tokens, cost \$0\.00"
    assert re.search(told, done.out)
    assert re.fullmatch(r"6/6 \| .*12 calls \| \$0\.00\d\d .*\n", done.err)
    assert len(rows_of(run)) == 12
    assert {row["outcome"] for row in rows_of(run)} == {"scored"}
    files = [".lock", "answers", "manifest.json", "scores.jsonl", "summary.json"]
    assert sorted(path.name for path in run.iterdir()) == files


@pytest.mark.parametrize("priced", [True, False])
def test_a_cost_is_reported_as_far_as_prices_are_known(server, data, run, tmp_path, priced):
    price = "price = [1, 4]\n" if priced else ""
    config = tmp_path / "jury.toml"
    config.write_text(
        f'[models.juror1]\nmodel = "direct/one"\n{price}[models.juror2]\nmodel = "direct/two"\n'
    )
    told = r"[$]\d\.\d{4} without direct/two \(price" if priced else r"unknown \(give --price"
    command = ("score", data, "--method", "jury", "--config", config, "--api-base", server.url)
    command = (*command, "--aspects", "coherence", "--out", run, "--progress", "none")
    costs = document(*command, "--dry-run")["costs"]
    assert (costs["direct/two"], costs["direct/one"] is not None) == (None, priced)
    for more in (("--dry-run",), ()):
        assert re.search(rf"cost +{told}", textassay(*command, *more).ok().out)
    shutil.rmtree(run)
    assert document(*command)["costs"].keys() == costs.keys()


def test_the_cost_of_calls_without_an_answer_is_unknown(data, run):
    patience = ("timeout=0.05", "attempts=1", "outage_wait=0")
    more = [part for each in patience for part in ("--set", each)]
    with served(latency_ms=2000) as slow:
        # as many failures in a row as stop a run are more
        done = score(data, run, slow, *more, "--limit", 10, aspects="coherence")
    assert done.code == 1
    assert "cost unknown (no request was answered" in done.out


STEPS = "\n".join(
    f"{i}. {step}" for i, step in enumerate(tasks.load("summarization").steps["coherence"], start=1)
)
"""As long as a model's own: those of G-Eval, figure 1."""


@pytest.mark.parametrize(
    ("method", "calls"), [("llm-score", 12), ("llm-score-cot", 12), ("g-eval", 14)]
)
def test_a_dry_run_foretells_what_the_server_then_counts(data, run, method, calls):
    """Calls are exact, prompt tokens within 10 %, the cost is a bound; nothing is asked."""

    def reply(body, draw):
        return "Rating: 3" if "logprobs" in body or method != "g-eval" else STEPS

    more = ("--price", "1,2", "--progress", "none")
    with served(reply=reply) as judge:
        foretold = score(data, run, judge, "--dry-run", *more, method=method).ok()
        way = "g-eval reads log-probabilities if direct/mock sends usable ones, else 20 samples"
        assert foretold.err.startswith(way) if method == "g-eval" else foretold.err == ""
        assert (judge.counters.requests, run.exists()) == (0, False)
        said = dict(re.findall(r"^(\w[\w ]*?) +\$?([\d.]+)", foretold.out, re.MULTILINE))
        score(data, run, judge, *more, method=method).ok()
        rows, usage = rows_of(run), read_json(run / "summary.json")["usage"]
        assert int(said["calls"]) == usage["calls"] == judge.counters.requests == calls
    assert int(said["prompt tokens"]) == pytest.approx(usage["prompt_tokens"], rel=0.1)
    assert float(said["cost"]) >= usage["cost"] > 0
    for key in ("calls", "prompt_tokens", "completion_tokens", "cached_calls"):
        assert sum(row["usage"][key] for row in rows) == usage[key]


def test_gptscore_says_first_what_only_asking_shows(server, data, run):
    done = score(data, run, server, "--dry-run", method="gptscore", aspects="fluency").ok()
    assert "needs log-probabilities of a given text" in done.err


@pytest.mark.parametrize("method", ["llm-score", "g-eval"])
def test_litellm_and_our_own_client_ask_and_read_the_same(server, data, run, tmp_path, method):
    score(data, run, server, method=method).ok()
    other, more = tmp_path / "litellm", ("--progress", "none")
    done = score(data, other, server, *more, method=method, model="openai/mock")
    way = "g-eval reads log-probabilities of openai/mock\n" if method == "g-eval" else ""
    assert (done.code, done.err) == (0, way)
    assert verdicts(other) == verdicts(run)
    usages = [read_json(folder / "summary.json")["usage"] for folder in (run, other)]
    assert usages[0] == usages[1]


def test_a_shared_cache_answers_a_second_run(server, data, run, tmp_path):
    """It makes no call and says the same; a dry run knows what the cache holds."""
    cache = ("--cache", tmp_path / "cache")
    score(data, run, server, *cache).ok()
    aspects = "coherence,fluency,relevance"
    more = score(data, tmp_path / "more", server, *cache, "--dry-run", aspects=aspects).ok()
    assert re.search(r"^calls +6$", more.out, re.MULTILINE)
    assert re.search(r"^answers in the cache +12$", more.out, re.MULTILINE)
    calls = server.counters.requests
    again = score(data, tmp_path / "again", server, *cache).ok()
    assert "0 calls answered, 12 from the cache, 0 + 0 tokens, cost $0.0000" in again.out
    assert server.counters.requests == calls
    assert verdicts(tmp_path / "again") == verdicts(run)
    assert not (run / "answers").exists()


def replay(data, run, out, *more, method="g-eval", aspects="coherence,fluency"):
    named = ("--method", method, "--model", f"replay/{run}", "--aspects", aspects)
    return textassay("score", data, *named, "--out", out, "--progress", "none", *more)


def test_a_replay_answers_from_a_recorded_run(server, data, run, tmp_path):
    """Same values and signature, no calls; what was never asked is an error and exit 1."""
    score(data, run, server, method="g-eval").ok()
    calls = server.counters.requests
    files = [path for path in run.rglob("*") if path.is_file() and path.suffix != ".db-shm"]
    before = {path: path.read_bytes() for path in files}
    replayed = replay(data, run, tmp_path / "replay").ok()
    assert "0 calls answered, 14 from the cache" in replayed.out
    assert verdicts(tmp_path / "replay") == verdicts(run)
    ours, theirs = ({row["signature"] for row in rows_of(d)} for d in (run, tmp_path / "replay"))
    assert ours == theirs
    assert server.counters.requests == calls
    assert {path: path.read_bytes() for path in before} == before
    other = replay(data, run, tmp_path / "b", method="llm-score", aspects="coherence")
    assert other.code == 1
    assert "unscored: 6 error (RequestRefused x6)" in other.out


def test_without_cache_and_progress_nothing_but_the_scores_is_left(server, data, run, tmp_path):
    assert score(data, run, server, "--no-cache", "--progress", "none").ok().err == ""
    assert not (run / "answers").exists()
    replay(data, run, tmp_path / "replay", method="llm-score").ends(2, "kept no answers")
    assert not (tmp_path / "replay").exists()


def test_a_file_of_flags_is_read_and_the_command_line_wins(server, data, run, tmp_path):
    """`--config` takes every setting by its name; what is given as a flag replaces it."""
    config = tmp_path / "flags.toml"
    config.write_text(
        f"data = {json.dumps(str(data))}\nout = {json.dumps(str(tmp_path / 'other'))}\n"
        f'method = "llm-score"\nmodel = "direct/mock"\napi-base = "{server.url}"\n'
        'aspects = "coherence,fluency"\nlimit = 5\nn = 3\nprice = [1, 2]\nprogress = "none"\n'
        "attempts = 2\n[options]\nparse_retries = 0\n"
    )
    typed = ("--out", run, "--limit", 2, "--set", "parse_retries=4")
    assert textassay("score", "--config", config, *typed).ok().err == ""
    manifest = read_json(run / "manifest.json")
    assert manifest["spec"]["limit"] == 2
    assert manifest["spec"]["aspects"] == ["coherence", "fluency"]
    assert manifest["method"]["options"]["parse_retries"] == 4
    assert manifest["method"]["options"]["n"] == 3
    assert manifest["settings"]["attempts"] == 2
    assert {(row["id"], row["how"]) for row in rows_of(run)} == {
        ("x0", "sampled"),
        ("x1", "sampled"),
    }


def test_what_is_typed_wins_in_whichever_form_a_file_has_it(server, data, run, tmp_path):
    config = tmp_path / "flags.toml"
    asked = ("--config", config, "--limit", 1)
    for content, more, expected in (
        ("n = 2", ("--set", "n=5"), 5),
        ("[options]\nn = 2", ("-n", "4"), 4),
        ("[options]\nn = 2", ("--set", "n=3"), 3),
    ):
        config.write_text(content)
        shutil.rmtree(run, ignore_errors=True)
        score(data, run, server, *asked, *more, aspects="coherence").ok()
        assert read_json(run / "manifest.json")["method"]["options"]["n"] == expected
    for content, more, told in (
        ("", ("-n", "4", "--set", "n=5"), "n is given twice, by its flag and by --set n="),
        ("n = 2\n[options]\nn = 3", (), "gives n twice"),
    ):
        config.write_text(content)
        score(data, run, server, *asked, "--dry-run", *more).ends(2, told)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('[models.scorer]\napi_base = "{}"\nconcurrency = 3', "--api-base, --concurrency"),
        ('[[models.scorer.endpoints]]\napi_base = "{}"', "--api-base"),
        ("[models.scorer]\nrpm = 3", None),
    ],
)
def test_flags_that_do_not_hold_for_a_role_are_named(server, data, run, tmp_path, content, told):
    config = tmp_path / "flags.toml"
    config.write_text(content.format(server.url))
    more = ("--config", config, "-c", "9", "--dry-run")
    said = score(data, run, "http://127.0.0.1:9/v1", *more).messages
    words = f"[models.scorer] has settings of its own in place of {told}"
    assert words in said if told else "of its own" not in said


def test_models_may_differ_by_role(server, data, run):
    """The steps are asked of one model and the scores of another; both stand in the manifest."""
    steps = ("--model", "steps=direct/writer")
    score(data, run, server, *steps, method="g-eval", aspects="fluency").ok()
    models = read_json(run / "manifest.json")["models"]
    assert {role: model["name"] for role, model in models.items()} == {
        "": "direct/mock", "steps": "direct/writer",
    }  # fmt: skip
    assert all("model:direct/mock" in row["signature"] for row in rows_of(run))


def test_a_task_is_found_for_the_aspects(server, data, run):
    """The first built-in task that has all of them, which is said once, and not of the default."""
    with served(reply=lambda body, draw: "Rating: 2") as judge:
        done = score(data, run, judge, aspects="engagingness,coherence").ok()
    assert done.err.count("task: dialogue") == 1
    aspects = read_json(run / "manifest.json")["method"]["aspects"]
    assert [aspect["scale"] for aspect in aspects] == [[1, 3]] * 2
    quiet = score(data, run.with_name("general"), server, aspects="overall")
    assert "task:" not in quiet.err


def test_unscored_texts_are_counted_with_their_reasons(data, run):
    replies = {"1": "I cannot tell.", "2": "Rating: 9"}

    def reply(body, draw):
        number = re.search(r"Text number (\d)", body["messages"][0]["content"])[1]
        return replies.get(number, "Rating: 4")

    with served(reply=reply) as judge:
        done = score(data, run, judge, aspects="coherence")
    assert done.code == 1
    assert re.search(r"^unscored: .*\bOffScale x1", done.out, re.MULTILINE)
    summary = read_json(run / "summary.json")
    assert summary["outcomes"]["scored"] == 4
    assert summary["aspects"]["coherence"] == {"n": 4, "mean": 4.0}
    assert "resume" not in done.out


@pytest.mark.parametrize(
    ("count", "varies", "said"), [(10, False, True), (10, True, False), (4, False, False)]
)
def test_samples_that_never_differ_are_reported(tmp_path, run, count, varies, said):
    """Further samples are worthless if a server ignores temperature; few scores show nothing."""
    data = write_examples(tmp_path / "some.jsonl", count)
    drawn = iter(range(10_000))
    with served(reply=lambda body, draw: f"Rating: {2 + next(drawn) % 2 * varies}") as judge:
        done = score(data, run, judge, "--n", 3, "--temperature", 1).ok()
    assert ("in each of 20 scores all samples agree" in " ".join(done.out.split())) == said


@pytest.mark.parametrize(("n", "temperature", "said"), [(8, 0, True), (8, 1, False), (1, 0, False)])
def test_samples_at_temperature_0_are_advised_against(data, run, server, n, temperature, said):
    done = score(data, run, server, "--n", n, "--temperature", temperature).ok()
    assert ("samples at temperature 0 are nearly the same answer" in done.err) == said
    assert ("leave out --temperature" in done.err) == said


def test_errors_are_asked_again_by_resume(data, run):
    """A server that fails gives errors and exit 1; once it is well, resume asks those alone."""
    with served(p500=1.0, retry_after=0.0) as ill:
        done = score(data, run, ill, "--set", "attempts=2")
        assert done.code == 1
        assert f"retry the errors with: textassay resume {run}" in done.out
        assert "0 calls answered, 24 failed, 0 from the cache" in " ".join(done.out.split())
        assert ill.counters.requests == 24
        ill.options.p500 = 0.0
        for _ in range(2):
            textassay("resume", run).ok()
            assert ill.counters.requests == 36
            assert len(verdicts(run)) == 12


CAPPED = ("--price", "1000,1000", "--max-cost", "2", "--concurrency", 2)


def test_a_budget_stops_the_run_and_resume_finishes_it(server, data, run):
    score(data, run, server, *CAPPED).ends(
        3, "stopped: the cost limit of $2 is reached", f"textassay resume {run}"
    )
    summary = read_json(run / "summary.json")
    assert 0 < summary["usage"]["cost"] <= 2
    assert 0 < summary["outcomes"]["scored"] < 12
    paid = server.counters.requests
    done = textassay("resume", run).ok()
    assert "the cost limit applied to an earlier session; this one has no limit" in done.err
    assert server.counters.requests == 12 >= paid
    assert len(verdicts(run)) == len(rows_of(run)) == 12


def test_a_run_can_be_resumed_at_another_address_and_from_another_folder(
    server, run, tmp_path, monkeypatch
):
    """Answers keep their keys where only the address changes; paths are recorded absolute."""
    monkeypatch.chdir(tmp_path)
    write_examples(tmp_path / "data.jsonl", 6)
    with served(latency_ms=1) as first:
        assert score("data.jsonl", run, first, *CAPPED).code == 3
        paid = first.counters.requests
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    textassay("resume", run, "--api-base", server.url).ok()
    assert paid + server.counters.requests == 12
    assert len({row["signature"] for row in rows_of(run)}) == 1


def test_resume_refuses_what_would_not_be_comparable(server, data, run):
    """Other data, another option or a later format are named; the run stays as it is."""
    score(data, run, server).ok()
    before, kept = (run / "scores.jsonl").read_bytes(), read_json(run / "manifest.json")

    def refused(said, **changes):
        (run / "manifest.json").write_text(json.dumps({**kept, **changes}))
        textassay("resume", run).ends(2, said)

    write_examples(data, 7)
    refused("the data have changed")
    write_examples(data, 6)
    options = {**kept["method"]["options"], "parse_retries": 7}
    changed = "method options parse_retries changed from 7 to 1"
    refused(changed, method={**kept["method"], "options": options})
    refused("format 2", format=2)
    assert (run / "scores.jsonl").read_bytes() == before
    # a summary is written anew
    (run / "manifest.json").write_text(json.dumps(kept))
    summary = read_json(run / "summary.json")
    (run / "summary.json").write_text(json.dumps({**summary, "format": 2}))
    textassay("resume", run).ok()


def test_every_line_of_a_json_log_is_json(server, data, run, tmp_path):
    """The last one shows all counters; standard output has only results."""
    done = score(data, run, server, "--log", "json", aspects="fluency").ok()
    assert "error: " in textassay("show", tmp_path / "none").err  # which says so in text
    lines = [json.loads(line) for line in done.err.splitlines()]
    assert all({"time", "level", "message"} <= set(line) for line in lines)
    last = [line for line in lines if line["message"] == "progress"][-1]
    assert last["outcomes"] == {"scored": 6}
    assert last["usage"]["calls"] == 6
    assert (last["done"], last["total"]) == (6, 6)
    assert last["limiters"]["direct/mock"]["in_flight"] == 0


def test_loggers_whose_warnings_are_shown_are_modules():
    """A warning of a module that was renamed would be lost."""
    assert all(map(find_spec, SHOWN_WARNINGS))

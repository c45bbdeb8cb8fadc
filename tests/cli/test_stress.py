"""`textassay stress`: stress.json as documented, a gate, resuming, and refusals that help."""

from __future__ import annotations

import json

import pytest

from tests.cli.harness import flags, read_json, textassay, write_examples

KEYS = {
    "test", "family", "aspect", "n", "groups", "expects", "shift", "low", "high", "noise", "moved",
    "flip_rate", "verdict",
}  # fmt: skip


def stressed(server, data, run, *more):
    asked = ("-t", "summarization", "--progress", "none", *more)
    return textassay("stress", *flags(data, run, server, *asked, aspects="coherence")[1:])


def test_a_run_writes_its_verdicts_and_can_be_repeated_from_its_answers(server, tmp_path, run):
    """`resume` asks nothing more."""
    data = write_examples(tmp_path / "data.jsonl", 24)
    done = stressed(server, data, run, "--tests", "letters,number", "--fail-above", "0.2")
    assert (done.code, "invariance: " in done.out) == (1, True), done.err
    tests = read_json(run / "stress.json")["tests"]
    assert all(set(row) >= KEYS for row in tests)
    assert {row["test"] for row in tests} >= {"repeat", "letters", "number"}
    asked = server.counters.requests
    again = textassay("resume", run, "--api-base", server.url, "--progress", "none")
    assert (again.code, server.counters.requests) == (1, asked)
    assert read_json(run / "stress.json")["tests"] == tests


def test_a_dry_run_counts_all_sessions_and_asks_nothing(server, data, run):
    done = stressed(server, data, run, "--tests", "padded", "--dry-run", "--json")
    assert json.loads(done.out)["estimate"]["calls"] == 18
    assert server.counters.requests == 0


@pytest.mark.parametrize(
    ("profile", "without"),
    # six texts and their edits; again, in another order, and question by question; in each session
    # one more call shows whether the model thinks
    [("typed", 12 + 6 + 6 + 6 * 2), ("none", (12 + 6) * 2 + 2)],
)
def test_a_dry_run_counts_the_calls_without_log_probabilities_too(
    server, data, run, profile, without
):
    options = ("--method", "decide", "--set", f"profile={profile}")
    options = (*options, "--aspects", "coherence,fluency")
    tests = ("--tests", "padded,question-order,alone", "--dry-run", "--json")
    done = stressed(server, data, run, *options, *tests)
    counts = json.loads(done.out)
    assert counts["estimate"]["calls"] > 0
    assert counts["without_logprobs"]["calls"] == without


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--tests", "nothing"), "must-see"),
        (("--must-see", "number"), "TEST=ASPECT"),
        (("--must-see", "number=tone"), "coherence"),
        (("--fail-above", "-1"), "0 or more"),
        (("--confidence", "2"), "between 0 and 1"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_asked(server, data, run, more, said):
    stressed(server, data, run, *more).ends(2, said)
    assert (server.counters.requests, run.exists()) == (0, False)

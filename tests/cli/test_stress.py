"""`textassay stress`: stress.json as documented, a gate, resuming, and refusals that help."""

from __future__ import annotations

import json

from tests.cli.harness import textassay, write_examples

KEYS = {
    "test",
    "family",
    "aspect",
    "n",
    "groups",
    "expects",
    "shift",
    "low",
    "high",
    "noise",
    "moved",
    "flip_rate",
    "verdict",
}


def stressed(server, data, run, *flags):
    return textassay(
        "stress", data, "--method", "llm-score", "-t", "summarization", "-a", "coherence",
        "--model", "direct/mock", "--api-base", server.url, "--out", run, "--progress", "none",
        *flags,
    )  # fmt: skip


def test_a_run_writes_its_verdicts_and_can_be_repeated_from_its_answers(server, tmp_path):
    """The mock judge rates empty phrases as it rates texts: status 1; `resume` asks nothing
    more."""
    data = write_examples(tmp_path / "data.jsonl", 24)
    run = tmp_path / "run"
    done = stressed(server, data, run, "--tests", "bold,master-keys", "--fail-above", "0.2")
    assert done.code == 1, done.err
    assert "invariance: " in done.out
    tests = json.loads((run / "stress.json").read_text())["tests"]
    assert all(set(row) >= KEYS for row in tests)
    assert {row["test"] for row in tests} >= {"repeat", "bold", "colon"}
    assert next(row for row in tests if row["test"] == "colon")["expects"] == "lowest"
    asked = server.counters.requests
    again = textassay("resume", run, "--api-base", server.url, "--progress", "none")
    assert (again.code, server.counters.requests) == (1, asked)
    assert json.loads((run / "stress.json").read_text())["tests"] == tests


def test_a_dry_run_counts_all_sessions_and_asks_nothing(server, data, run):
    """Six originals, six copies, and six originals once more."""
    done = stressed(server, data, run, "--tests", "bold", "--dry-run", "--json")
    assert json.loads(done.out)["estimate"]["calls"] == 18
    assert server.counters.requests == 0


def test_bad_requests_are_refused_before_anything_is_asked(server, data, run):
    """What is wrong, and what there is instead."""
    for flags, said in (
        (("--tests", "nothing"), "must-see"),
        (("--must-see", "number"), "TEST=ASPECT"),
        (("--must-see", "number=tone"), "coherence"),
        (("--fail-above", "-1"), "0 or more"),
        (("--confidence", "2"), "between 0 and 1"),
    ):
        done = stressed(server, data, run, *flags)
        assert done.code == 2, (flags, done.err)
        assert said in done.err
    assert server.counters.requests == 0
    assert not run.exists()

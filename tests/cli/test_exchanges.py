"""What was asked and answered can be read back, and what would be asked can be seen, without
asking."""

from __future__ import annotations

import json

import pytest

from tests.cli.harness import textassay


@pytest.fixture
def scored(server, data, run):
    """A run with steps, which are asked for once."""
    flags = ("--method", "g-eval", "-m", "direct/mock", "--api-base", server.url, "-a", "fluency")
    assert textassay("score", data, *flags, "--n", 2, "--temperature", 1, "-o", run).code == 0
    return run


def test_prompts_and_answers_of_one_example(server, scored):
    """The text stands in the prompt; nobody is asked, and no server is needed."""
    before = server.counters.requests
    done = textassay("show", scored, "x3", "--prompts")
    assert done.code == 0, done.err
    assert "Text number 3 says that it rained." in done.out
    assert "Text number 2" not in done.out
    assert done.out.count("--- answer ---") >= 2
    assert "no answer in the cache" not in done.out
    assert server.counters.requests == before
    assert "unknown example 'y'" in textassay("show", scored, "y", "--prompts").err


@pytest.mark.parametrize(
    "setting",
    [("--effort", "low"), ("--set", "top_p=0.9"), ("--set", "thinking_tokens=64"),
     ("--extra", 'user="me"')],
)  # fmt: skip
def test_answers_are_found_under_the_settings_of_the_run(server, data, run, setting):
    """Keys of answers hold what was sent, so the settings of the models count."""
    flags = ("--method", "llm-score", "-m", "direct/mock", "--api-base", server.url)
    done = textassay("score", data, *flags, "-a", "fluency", *setting, "-o", run)
    assert done.code == 0, done.err
    shown = textassay("show", run, "x3", "--prompts")
    assert "--- answer ---" in shown.out
    assert "no answer in the cache" not in shown.out
    assert textassay("cache", "export", run, "-o", run / "asked.jsonl").code == 0
    rows = (run / "asked.jsonl").read_text().splitlines()
    assert all(json.loads(row)["answers"] for row in rows)


def test_all_of_a_run_can_be_exported(server, scored, tmp_path):
    """As JSON Lines: every request that was asked, with its answers."""
    before = server.counters.requests
    done = textassay("cache", "export", scored, "-o", tmp_path / "asked.jsonl")
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in (tmp_path / "asked.jsonl").read_text().splitlines()]
    assert {row["id"] for row in rows} == {f"x{i}" for i in range(6)}
    assert all(row["answers"] and row["model"] == "direct/mock" for row in rows)
    assert any("Text number 5" in turn["content"] for row in rows for turn in row["prompt"])
    assert server.counters.requests == before
    again = textassay("cache", "export", scored, "-o", tmp_path / "asked.jsonl")
    assert again.code == 2


def test_without_a_cache_the_prompts_are_shown_and_the_gap_is_said(server, data, run):
    """Nothing is invented."""
    flags = (
        "--method",
        "llm-score",
        "-m",
        "direct/mock",
        "--api-base",
        server.url,
        "-a",
        "fluency",
    )
    assert textassay("score", data, *flags, "--no-cache", "-o", run).code == 0
    done = textassay("show", run, "x1", "--prompts")
    assert "Text number 1" in done.out
    assert "--- no answer in the cache ---" in done.out
    assert not (run / "answers").exists()


FLAGS = ("--method", "llm-score", "-m", "direct/mock", "-a", "fluency", "--api-base")


def test_a_run_is_read_back_without_a_write(server, data, run):
    """It may be archived, or on a disk that is mounted read-only."""
    assert textassay("score", data, *FLAGS, server.url, "-o", run).code == 0

    def files():
        # SQLite makes files of these endings for readers, too, where it can
        paths = (path for path in run.rglob("*") if path.is_file())
        return {
            path: path.stat().st_mtime_ns
            for path in paths
            if not path.name.endswith(("-shm", "-wal"))
        }

    before = files()
    assert "Text number 1" in textassay("show", run, "x1", "--prompts").out
    assert textassay("cache", "export", run).out.count("\n") == 6
    assert files() == before


def test_a_dry_run_makes_no_cache(server, data, tmp_path):
    """And takes the answers of one that is there."""
    cache = tmp_path / "cache"
    command = ("score", data, *FLAGS, server.url, "--cache", cache)
    dry = (*command, "--dry-run", "--json")
    assert json.loads(textassay(*dry).out)["estimate"]["calls"] == 6
    assert not cache.exists()
    assert textassay(*command, "-o", tmp_path / "run").code == 0
    assert json.loads(textassay(*dry).out)["estimate"]["calls"] == 0
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    done = textassay(*command[:-1], tmp_path / "other", "--dry-run")
    assert (done.code, "other" in done.err) == (2, True)


def test_prompts_can_be_seen_before_anything_is_asked(server, data):
    """For the first N examples, without a run folder."""
    flags = (
        "--method",
        "llm-score",
        "-m",
        "direct/mock",
        "--api-base",
        server.url,
        "-a",
        "fluency",
    )
    done = textassay("score", data, *flags, "--show-prompts", 2)
    assert done.code == 0, done.err
    assert "Text number 1" in done.out
    assert "Text number 2" not in done.out
    done = textassay("score", data, *flags, "--show-prompts", 1, "--shard", "2/2")
    assert "Text number 3" in done.out
    assert "Text number 4" not in done.out
    assert server.counters.requests == 0

"""`score --shard` and `merge`: one run out of parts."""

from __future__ import annotations

import json
import shutil

from tests.cli.harness import flags, read_json, rows_of, score, textassay, verdicts, write_lines
from textassay.runtime.storage.answer_admin import info

__all__ = ["flags", "score"]


def shards(data, run, server, count, *more, **options):
    """Score all shards, one after the other."""
    for number in range(1, count + 1):
        part = ("--shard", f"{number}/{count}", *more)
        score(data, run / f"shard-{number}", server, *part, **options).ok()


def test_merged_shards_are_the_undisturbed_run(server, data, run, tmp_path):
    """Lines in the shards' order, the same summary; answers merged, so nothing is asked again."""
    whole = tmp_path / "whole"
    score(data, whole, server).ok()
    asked = server.counters.requests
    shards(data, run, server, 4)
    assert server.counters.requests == 2 * asked
    textassay("merge", run).ok()
    assert verdicts(run) == verdicts(whole)
    shard_of = dict(zip((f"x{i}" for i in range(6)), (1, 2, 2, 3, 4, 4), strict=True))
    order = [shard_of[row["id"]] for row in rows_of(run)]
    assert order == sorted(order)
    ours, theirs = (read_json(folder / "summary.json") for folder in (run, whole))
    for key in ("outcomes", "errors", "aspects", "usage"):
        assert ours[key] == theirs[key]
    manifest = read_json(run / "manifest.json")
    assert manifest["spec"]["shard"] is None
    assert list(manifest["merged"]["shards"]) == ["1/4", "2/4", "3/4", "4/4"]
    assert info(run / "answers").entries == asked
    textassay("resume", run).ok()
    textassay("agreement", run, data, "--bootstrap", "0").ok()
    textassay("report", run, "--out", tmp_path / "report.html").ok()
    score(data, tmp_path / "again", server, "--cache", run / "answers").ok()
    assert server.counters.requests == 2 * asked


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
    assert "its models are {'': 'other'}" in with_second(spec__models={"": "other"})
    assert "divided in different ways" in with_second(spec__shard="2/3")
    assert "both shard" in with_second(spec__shard="1/2")
    assert "not of a shard" in with_second(spec__shard=None)
    assert first.exists()
    (second / "manifest.json").write_text(kept)
    assert textassay("merge", run).code == 0


def test_an_id_that_is_not_in_the_data_is_refused_where_they_can_be_read(server, data, run):
    shards(data, run, server, 2)
    scores = run / "shard-2" / "scores.jsonl"
    scores.write_text(scores.read_text().replace('"id":"x4"', '"id":"y4"'))
    textassay("merge", run).ends(2, "'y4' is not one of this shard's examples")
    assert not (run / "manifest.json").exists()
    data.unlink()
    assert textassay("merge", run).code == 0


def keep_lines(shard, count, *more):
    """Take scores of a shard away; `more` are added by number."""
    path = shard / "scores.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:count], *(lines[at] for at in more)]))


def test_missing_and_unfinished_shards_are_named_and_may_be_left_to_resume(server, data, run):
    """Merge refuses what is not whole; `--partial` takes it, and resume asks only for the rest."""

    def refused(said):
        textassay("merge", run).ends(2, said)

    shards(data, run, server, 3)
    keep_lines(run / "shard-2", 3)
    refused("3 of 4 scores")
    # as many lines as there should be scores, but one pair twice
    keep_lines(run / "shard-2", 3, 0)
    refused("3 of 4 scores")
    (run / "shard-3").rename(run / "later")
    refused("lacks 1 of 3 shards (3/3)")
    asked = server.counters.requests
    textassay("merge", run, "--partial").ends(1, "5 scores are missing")
    textassay("resume", run).ok()
    assert len(rows_of(run)) == 12
    # shard 3 was left out with its answers; the lost line of shard 2 has an answer
    assert server.counters.requests - asked == 4
    (run / "later").rename(run / "shard-3")
    refused("would lose them")


def test_resume_merges_shards_and_judges_what_they_lack(server, data, run):
    shards(data, run, server, 3)
    shutil.rmtree(run / "shard-2")
    keep_lines(run / "shard-3", 3)
    textassay("show", run).ends(2, f"but shards of one: `textassay resume {run}`")
    asked = server.counters.requests
    done = textassay("resume", run, "--rpm", "6000").ok()
    assert f"{run} has no shard 2/3: its scores are requested now" in done.messages
    assert len(verdicts(run)) == len(rows_of(run)) == 12
    assert server.counters.requests == asked + 4  # the lost line of shard 3 has an answer


def test_merging_again_takes_what_a_shard_has_got_meanwhile(server, data, run):
    """A line that a later one replaced is paid for, and gone; other files are kept per shard.

    Models of other names that answered are told and kept.
    """
    shards(data, run, server, 2)
    for number in (1, 2):
        (run / f"shard-{number}/plot.png").write_bytes(b"\x89PNG %d" % number)
        manifest = read_json(run / f"shard-{number}/manifest.json")
        manifest["sent"] = {"m": {"answered_as": ["old", f"new-{number}"]}}
        (run / f"shard-{number}/manifest.json").write_text(json.dumps(manifest))
    path = run / "shard-1/scores.jsonl"
    row = json.loads(path.read_text().splitlines()[0])
    row |= {"value": None, "outcome": "error", "error": {"type": "X", "message": "x"}}
    path.write_text(json.dumps(row) + "\n" + path.read_text())
    textassay("merge", run).ok()
    merged = textassay("merge", run).ok()
    assert "answers of m come from several models: 'old', 'new-1', 'new-2'" in merged.err
    assert len(rows_of(run)) == 12
    assert (run / "plot.shard-2.png").read_bytes() == b"\x89PNG 2"
    summary = read_json(run / "summary.json")
    assert summary["outcomes"]["scored"] == 12
    assert summary["usage"]["calls"] == 13
    manifest = read_json(run / "manifest.json")
    assert manifest["merged"]["replaced"]["calls"] == 1
    assert manifest["sent"] == {"m": {"answered_as": ["old", "new-1", "new-2"]}}
    textassay("resume", run).ok()
    assert read_json(run / "summary.json")["usage"] == summary["usage"]


def test_a_shard_that_needs_a_batch_is_not_merged(server, data, run):
    shards(data, run, server, 2)
    facts = {"model": "m", "group": "g", "requests": 1, "since": 0.0, "attempt": 1, "known": []}
    rows = [
        {"tag": "t", "state": "prepared", **facts},
        {"tag": "t", "state": "submitted", "id": "batch-1"},
    ]
    write_lines(run / "shard-2/batches.jsonl", rows)
    scores = run / "shard-2/scores.jsonl"
    whole = scores.read_text()
    scores.write_text(whole.partition("\n")[2])
    for more in ((), ("--partial",)):
        done = textassay("merge", run, *more)
        assert done.code == 2
        assert f"continue with `textassay resume {run / 'shard-2'}`" in done.err
        assert not (run / "manifest.json").exists()
    scores.write_text(whole)  # answered otherwise, such as from a shared cache
    done = textassay("merge", run).ok()
    assert "1 batch of the shards is left at the provider" in done.err

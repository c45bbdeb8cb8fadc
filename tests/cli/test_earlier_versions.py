"""Files of an earlier version are read, resumed and applied by this one."""

import gzip
import json
import shutil
from pathlib import Path

import pytest

from examples.mock_server import MockServer
from tests.cli.harness import rows_of, textassay, verdicts
from textassay.evaluation.run import Run
from textassay.runtime.storage.cache_folder import info
from textassay.runtime.storage.run_files import read_manifest, read_summary

WRITTEN = Path(__file__).parents[1] / "fixtures" / "44212fc"


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A copy of what was written, moved from where it was written."""
    folder = tmp_path / "earlier"
    shutil.copytree(WRITTEN, folder)
    database = folder / "cache" / "shard-000" / "cache.db"
    database.write_bytes(gzip.decompress(database.with_suffix(".db.gz").read_bytes()))
    database.with_suffix(".db.gz").unlink()
    manifest = folder / "run" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("/tmp/fixture", str(folder)))
    return folder


def test_a_run_is_read(earlier: Path) -> None:
    """Its scores, summary and table; what it did not record is none."""
    run = Run(folder=earlier / "run")
    for score, row in zip(run, rows_of(earlier / "run"), strict=True):
        now = score.model_dump(mode="json")
        # counts that were not known then are 0 now
        now["usage"] = {name: now["usage"][name] for name in row["usage"]}
        assert {name: now[name] for name in row} == row
        assert {now[name] for name in set(now) - set(row)} <= {None}
    assert {score.seconds for score in run} == {None}
    summary = read_summary(earlier / "run")
    now = run.summary()
    now["usage"] = {name: now["usage"][name] for name in summary["usage"]}
    assert summary == {"format": 1, **now}
    assert summary["aspects"]["coherence"]["n"] == 6
    assert len(run.to_pandas()) == 6


def test_its_agreement_is_measured(earlier: Path) -> None:
    """`meta` takes the run as it does those of today."""
    shown = textassay("meta", earlier / "run", earlier / "data.jsonl", "--bootstrap", 0, "--json")
    assert shown.code == 0, shown.err
    (row,) = json.loads(shown.out)["rows"]
    assert row["n"] == 6


def test_a_run_is_resumed_and_its_answers_are_used(earlier: Path, server: MockServer) -> None:
    """Of two scores that are missing both are answered from the cache: a key that changed would ask
    again."""
    whole = verdicts(earlier / "run")
    scores = earlier / "run" / "scores.jsonl"
    scores.write_bytes(b"".join(scores.read_bytes().splitlines(keepends=True)[:-2]))
    done = textassay("resume", earlier / "run", "--api-base", server.url)
    assert done.code == 0, done.err
    assert server.counters.requests == 0
    assert verdicts(earlier / "run") == whole
    assert len({row["signature"] for row in rows_of(earlier / "run")}) == 1
    assert read_manifest(earlier / "run")["textassay"] == "0.1.0"


def test_a_cache_is_verified_and_replayed(earlier: Path, tmp_path: Path) -> None:
    """Every answer decodes, and a replay gives the run's scores."""
    assert info(earlier / "cache").entries == 6
    assert textassay("cache", "verify", earlier / "cache").code == 0
    replayed = textassay(
        *("score", earlier / "data.jsonl", "--method", "llm-score", "--limit", 6),
        *("--model", f"replay/{earlier / 'run'}", "--aspects", "coherence"),
        *("--out", tmp_path / "replayed"),
    )
    assert replayed.code == 0, replayed.err
    assert verdicts(tmp_path / "replayed") == verdicts(earlier / "run")


def test_an_evaluator_is_applied(earlier: Path, tmp_path: Path) -> None:
    """Each value is what that version gave."""
    out = tmp_path / "applied"
    done = textassay(
        "score", earlier / "data.jsonl", "--method", earlier / "evaluator", "--out", out
    )
    assert done.code == 0, done.err
    expected = json.loads((earlier / "applied.json").read_text())
    assert {row["id"]: row["value"] for row in rows_of(out)} == pytest.approx(expected, abs=1e-9)

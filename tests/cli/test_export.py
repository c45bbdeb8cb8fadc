"""`textassay export`."""

import json

from tests.cli.harness import score, textassay


def test_a_run_is_exported_in_every_format(server, data, run, tmp_path):
    score(data, run, server).ok()
    for form, name, count in (
        ("inspect", "s.json", 6),
        ("mlflow", "s.jsonl", 12),
        ("langfuse", "l.jsonl", 12),
        ("promptfoo", "s.cjs", 6),
    ):
        out = tmp_path / name
        textassay("export", form, run, "--out", out).ends(0, f"wrote {count} records to {out}")
    rows = json.loads((tmp_path / "s.json").read_text())
    assert [row["id"] for row in rows] == [f"x{i}" for i in range(6)]
    assert set(rows[0]["value"]) == {"coherence", "fluency"}


def test_data_that_moved_are_named(server, data, run, tmp_path):
    score(data, run, server).ok()
    moved, out = data.rename(tmp_path / "moved.jsonl"), tmp_path / "s.json"
    textassay("export", "inspect", run, "--out", out).ends(2, "no longer at")
    textassay("export", "inspect", run, "--out", out, "--data", moved).ok()


def test_a_place_is_needed_and_one_alone(server, data, run, tmp_path):
    score(data, run, server).ok()
    both = ("--out", tmp_path / "s.json", "--to", "http://127.0.0.1:9")
    for flags in ((), both):
        textassay("export", "mlflow", run, *flags).ends(2, "--out FILE, or a server with --to URL")
    textassay("export", "inspect", run, "--to", "http://127.0.0.1:9").ends(
        2, "unknown server 'inspect'; known: mlflow, langfuse"
    )
    refused = textassay("export", "mlflow", run, "--to", "http://127.0.0.1:9")
    refused.ends(2, "127.0.0.1:9")

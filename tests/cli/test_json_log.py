"""`--log json`: every line on standard error is an object that a collector can read."""

from __future__ import annotations

import json
from importlib.util import find_spec

from tests.cli.harness import served, textassay, write_examples
from textassay.cli.scoring import SHOWN_WARNINGS


def test_every_line_is_json(tmp_path):
    """The last tells all counters; results stay on standard output as they are."""
    data = write_examples(tmp_path / "data.jsonl", 4)
    with served() as server:
        done = textassay(
            "score", data, "--method", "llm-score", "--model", "direct/mock", "--api-base",
            server.url, "--aspects", "fluency", "--out", tmp_path / "run", "--log", "json",
        )  # fmt: skip
    assert done.code == 0, done.err
    assert "error: " in textassay("show", tmp_path / "none").err  # which says so in text
    lines = [json.loads(line) for line in done.err.splitlines()]
    assert all({"time", "level", "message"} <= set(line) for line in lines)
    (last,) = [line for line in lines if line["message"] == "progress"][-1:]
    assert last["outcomes"] == {"scored": 4}
    assert last["usage"]["calls"] == 4
    assert (last["done"], last["total"]) == (4, 4)
    assert last["limiters"]["direct/mock"]["in_flight"] == 0


def test_prometheus_reads_a_file(tmp_path):
    """From the command line; the last figures are those of the run's end."""
    data, file = write_examples(tmp_path / "data.jsonl", 4), tmp_path / "textassay.prom"
    flags = ("--method", "llm-score", "--model", "direct/mock", "--aspects", "fluency")
    with served() as server:
        asked = (*flags, "--api-base", server.url, "--prometheus")
        run = tmp_path / "run"
        lost = textassay("score", data, *asked, tmp_path / "no" / "x.prom", "--out", run)
        assert (lost.code, "x.prom cannot be written" in lost.err) == (2, True)
        assert server.counters.requests == 0
        done = textassay("score", data, *asked, file, "--out", tmp_path / "second")
    assert done.code == 0, done.err
    shown = file.read_text(encoding="utf-8")
    label = f'run="{tmp_path / "second"}"'
    assert f"textassay_examples_done_total{{{label}}} 4\n" in shown
    assert f'textassay_call_duration_seconds_count{{{label},model="direct/mock"}} 4\n' in shown
    # a name ends in _total if it only grows, and nothing else does
    kinds = dict(line.split()[2:] for line in shown.splitlines() if line.startswith("# TYPE"))
    assert {name for name in kinds if name.endswith("_total")} == {
        name for name, kind in kinds.items() if kind == "counter"
    }


def test_loggers_whose_warnings_are_shown_are_modules():
    """A warning of a module that was renamed would be lost."""
    assert all(map(find_spec, SHOWN_WARNINGS))

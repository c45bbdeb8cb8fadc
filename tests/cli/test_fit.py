"""`textassay fit --method hd-eval` against a real server: budget, dry run, going on, and the folder applied."""

import json
from types import SimpleNamespace

import pytest

from tests.cli.harness import served, textassay
from tests.fitting.judge import Planted
from tests.fitting.making import write


@pytest.fixture
def planted():
    return Planted(60)


@pytest.fixture
def judge(planted):
    def reply(body, draw):
        return planted.answer(SimpleNamespace(text="\n".join(m["content"] for m in body["messages"])))

    with served(reply=reply) as server:
        yield server


def fit(data, out, judge, *more):
    model = ("--model", "direct/mock", "--api-base", judge.url)
    learning = ("--aggregator", "ridge", "--keep", 2, "--task", "summarization", "--progress", "none")
    return textassay(
        "fit", data, "--method", "hd-eval", *model, *learning, *([] if out is None else ["--out", out]), *more
    )


def test_a_fit_and_its_use_from_the_command_line(planted, judge, tmp_path):
    data = write(tmp_path / "data.jsonl", planted.rows)
    done = fit(data, tmp_path / "ev", judge)
    assert done.code == 0, done.err
    assert "layer 3: 8 criteria" in done.out
    assert judge.counters.requests == 60 * 18 + 4
    assert f"textassay score DATA --method {tmp_path / 'ev'} --model direct/mock" in done.err
    kept = json.loads((tmp_path / "ev" / "evaluator.json").read_text())
    assert (kept["format"], kept["kind"], kept["model"]) == (1, "hd-eval", "direct/mock")
    flags = ("--method", tmp_path / "ev", "--api-base", judge.url, "--limit", 5, "--progress", "none")
    done = textassay("score", data, *flags, "--model", "direct/mock", "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert done.err == ""
    other = textassay("score", data, *flags, "--model", "direct/other", "--out", tmp_path / "other")
    assert other.code == 2
    assert "'direct/mock' and is now 'direct/other'" in other.err
    allowed = ("--set", "allow_change=true", "--out", tmp_path / "other")
    assert textassay("score", data, *flags, "--model", "direct/other", *allowed).code == 0


def test_a_dry_run_foretells_the_calls(planted, judge, tmp_path):
    data = write(tmp_path / "data.jsonl", planted.rows)
    done = fit(data, None, judge, "--dry-run", "--price", "1,2")
    assert done.code == 0, done.err
    assert "1084" in done.out
    assert judge.counters.requests == 0


def test_a_spent_budget_stops_resumably(planted, judge, tmp_path):
    data = write(tmp_path / "data.jsonl", planted.rows)
    done = fit(data, tmp_path / "ev", judge, "--price", "100,100", "--max-cost", "5")
    assert done.code == 3
    assert "go on by giving the same command again" in done.err
    before = judge.counters.requests
    assert 0 < before < 60 * 18
    done = fit(data, tmp_path / "ev", judge)
    assert done.code == 0, done.err
    assert judge.counters.requests == 60 * 18 + 4


def test_what_fit_needs_is_named(planted, judge, tmp_path):
    data = write(tmp_path / "data.jsonl", planted.rows)
    assert "--model MODEL" in textassay("fit", data, "--method", "hd-eval", "--out", tmp_path / "ev").err
    assert "known: hd-eval" in textassay("fit", data, "--method", "g-eval", "--model", "x/y", "--out", "ev").err
    assert "keep lies between" in fit(data, tmp_path / "ev", judge, "--keep", "0").err
    assert "option tree does not go with fit" in fit(data, tmp_path / "ev", judge, "--set", "tree=model").err
    assert "--features and --scores from recorded" in fit(data, tmp_path / "ev", judge, "--features", "*").err
    assert not (tmp_path / "ev").exists()
    assert judge.counters.requests == 0

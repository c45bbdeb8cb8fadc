"""`textassay fit --method hd-eval` against a real server: budget, dry run, going on, and the folder
applied."""

import hashlib
import json
import re
from types import SimpleNamespace

import pytest

from tests.cli.harness import served, textassay
from tests.fitting.made_texts import Planted, write
from textassay.demo import data_file
from textassay.runtime.data.dataset import Examples


@pytest.fixture
def planted():
    return Planted(60)


@pytest.fixture
def judge(planted):
    def reply(body, draw):
        return planted.answer(
            SimpleNamespace(text="\n".join(m["content"] for m in body["messages"]))
        )

    with served(reply=reply) as server:
        yield server


def fit(data, out, judge, *more, aggregator="ridge"):
    model = ("--model", "direct/mock", "--api-base", judge.url)
    learning = (
        "--aggregator",
        aggregator,
        "--keep",
        2,
        "--task",
        "summarization",
        "--progress",
        "none",
    )
    return textassay(
        "fit",
        data,
        "--method",
        "hd-eval",
        *model,
        *learning,
        *([] if out is None else ["--out", out]),
        *more,
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
    flags = (
        "--method",
        tmp_path / "ev",
        "--api-base",
        judge.url,
        "--limit",
        5,
        "--progress",
        "none",
    )
    done = textassay("score", data, *flags, "--model", "direct/mock", "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert done.err == ""
    other = textassay("score", data, *flags, "--model", "direct/other", "--out", tmp_path / "other")
    assert other.code == 2
    assert "changed from 'direct/mock' to 'direct/other'" in other.err
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
    assert "repeat the same command to continue" in done.err
    before = judge.counters.requests
    assert 0 < before < 60 * 18
    done = fit(data, tmp_path / "ev", judge)
    assert done.code == 0, done.err
    assert judge.counters.requests == 60 * 18 + 4


@pytest.fixture
def contrary(planted):
    """A judge whose ratings fall as quality rises, which weights of at least 0 cannot learn
    from."""

    def reply(body, draw):
        said = planted.answer(
            SimpleNamespace(text="\n".join(m["content"] for m in body["messages"]))
        )
        return f"{6 - int(said)}" if said.isdecimal() else said

    with served(reply=reply) as server:
        yield server


def test_ratings_that_could_not_be_learnt_from_are_kept_and_serve_another_aggregator(
    planted, contrary, tmp_path
):
    data, out = write(tmp_path / "data.jsonl", planted.rows), tmp_path / "ev"
    done = fit(data, out, contrary, aggregator="nnls")
    assert done.code == 3
    assert "stopped: aspect 'coherence': nnls gives every feature the weight 0" in done.err
    assert f"ratings are kept in {out / 'layers'}" in done.err.replace("\n", "")
    assert "another aggregator" in done.err
    assert contrary.counters.requests == 60 * 2
    assert not (out / "evaluator.json").exists()
    done = fit(data, out, contrary)
    assert done.code == 0, done.err
    assert contrary.counters.requests == 60 * 18 + 4
    assert json.loads((out / "report.json").read_text())["aggregators"]["chosen"] == "ridge"


def test_with_more_rows_only_the_new_ones_are_asked_for(planted, contrary, tmp_path):
    few, all_ = (write(tmp_path / f"{n}.jsonl", planted.rows[:n]) for n in (48, 60))
    assert fit(few, tmp_path / "few", contrary, aggregator="nnls").code == 3
    assert contrary.counters.requests == 48 * 2
    done = fit(all_, tmp_path / "all", contrary, "--cache", tmp_path / "few" / "answers")
    assert done.code == 0, done.err
    assert contrary.counters.requests == 60 * 18 + 4


def test_a_judge_that_always_says_the_same_is_told(planted, tmp_path):
    data = write(tmp_path / "data.jsonl", planted.rows)
    with served(reply=lambda body, draw: "3") as server:
        done = fit(data, tmp_path / "ev", server)
    assert done.code == 3
    assert "no feature varies over the training rows" in done.err
    assert "ratings are kept" in done.err


def test_a_judge_that_knows_the_answer_is_leakage(planted, judge, tmp_path):
    for i, row in enumerate(planted.rows):
        row["human"]["fluency"] = planted.rating("fluency", i)
    done = fit(write(tmp_path / "data.jsonl", planted.rows), tmp_path / "ev", judge)
    assert done.code == 3
    assert "leakage: 'fluency' is as good as the ratings of 'fluency'" in done.err
    assert "ratings are kept" in done.err


def test_what_fit_needs_is_named(planted, judge, tmp_path):
    data = write(tmp_path / "data.jsonl", planted.rows)
    assert (
        "--model MODEL"
        in textassay("fit", data, "--method", "hd-eval", "--out", tmp_path / "ev").err
    )
    assert (
        "known: hd-eval"
        in textassay("fit", data, "--method", "g-eval", "--model", "x/y", "--out", "ev").err
    )
    assert (
        "--keep: Input should be greater than or equal to 1"
        in fit(data, tmp_path / "ev", judge, "--keep", "0").err
    )
    assert (
        "option depth cannot be combined with fit"
        in fit(data, tmp_path / "ev", judge, "--set", "depth=3").err
    )
    assert (
        "--features and --scores from recorded"
        in fit(data, tmp_path / "ev", judge, "--features", "*").err
    )
    assert not (tmp_path / "ev").exists()
    assert judge.counters.requests == 0


def judge_of(examples):
    """Return a judge that names four parts of any criterion, and rates near the human mean."""

    def reply(body, draw):
        text = "\n".join(message["content"] for message in body["messages"])
        if of := re.search(r"I would like to to evaluate its (.+?): ", text):
            return "\n".join(f"{k}. {of[1]} {k}: whether part {k} is good." for k in range(1, 5))
        judged = max((e for e in examples if e.output in text), key=lambda e: len(e.output))
        mean = sum(judged.human.values()) / len(judged.human)
        noise = hashlib.sha256(text.encode()).digest()[0] % 3 - 1
        return str(min(5, max(1, round(mean) + noise)))

    return reply


@pytest.mark.parametrize("task", ["summarization", "dialogue", "data-to-text"])
def test_the_fit_that_the_demo_advises_succeeds(task, tmp_path):
    """Three sources to learn from are enough, with the default aggregator."""
    with served(reply=judge_of(list(Examples(data_file(task))))) as server:
        flags = ("--method", "hd-eval", "-t", task, "-m", "direct/mock", "--api-base", server.url)
        done = textassay("fit", data_file(task), *flags, "-o", tmp_path / "ev", "--layers", "2")
        assert done.code == 0, done.err
        assert (tmp_path / "ev" / "evaluator.json").exists()


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_too_few_groups_are_refused_before_anything_is_asked(planted, judge, tmp_path, dry):
    """One group to learn from allows no folds: status 2, no call, no folder, in a dry run too."""
    rows = [{**row, "group": f"g{i % 2}"} for i, row in enumerate(planted.rows[:12])]
    data = write(tmp_path / "data.jsonl", rows)
    done = fit(data, tmp_path / "ev", judge, *dry, aggregator="auto")
    assert done.code == 2, done
    assert "rows to learn from, in 1 groups, are not enough" in done.err
    assert "--aggregator avg" in done.err
    assert judge.counters.requests == 0
    assert not (tmp_path / "ev").exists()


def test_values_that_cannot_be_are_refused_in_the_words_of_the_command(tmp_path):
    """With exit status 2, before anything is asked."""
    data = data_file("summarization")
    recorded = ("--features", "*", "--out", tmp_path / "ev")
    by_model = ("--method", "hd-eval", "--model", "direct/mock", "--out", tmp_path / "ev")
    for flags, message in (
        (
            (*recorded, "--seed", "-1"),
            "--seed: Input should be greater than or equal to 0",
        ),
        ((*recorded, "--repeats", "3"), "--repeats is for the curves of --report full"),
        (
            (*by_model, "--limit", "-1"),
            "--limit: Input should be greater than or equal to 1",
        ),
    ):
        done = textassay("fit", data, *flags)
        assert (done.code, message in " ".join(done.err.split())) == (2, True), done.err
    assert not (tmp_path / "ev").exists()

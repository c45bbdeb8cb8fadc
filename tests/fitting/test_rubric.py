"""Rubrics from few labels: a planted criterion is found, others are dropped with a reason."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.harness import served, textassay
from tests.fitting.made_texts import Dated, write
from tests.waiting import until
from textassay import evaluate
from textassay.fitting.fit_rubric import Rubric, spread, weed
from textassay.fitting.learn import Fitter
from textassay.fitting.read_table import read_table
from textassay.fitting.report import report_text
from textassay.fitting.request import FitRubric
from textassay.runtime.data.dataset import Examples
from textassay.runtime.messages import Aspect


def rubric(dated, out, *, model=None, **order):
    fields = {"aggregator": ("ridge",), "task": "summarization", **order}
    request = FitRubric(model=model or dated.model(), out=out, **fields)
    return Rubric(request, Examples(dated.rows))


async def test_a_planted_criterion_is_found_and_the_others_die_with_a_reason(tmp_path):
    dated = Dated()
    found = await rubric(dated, tmp_path / "ev").run()
    found.save(tmp_path / "ev")
    assert found.evaluator.features == (
        "coherence", "coherence/mentions-a-date", "coherence/ends-well",
    )  # fmt: skip
    first, second, third = found.report["rubric"]
    fates = {row["criterion"]: row["reason"] for row in first["criteria"]}
    assert fates["coherence/mentions-a-date"] is None
    assert re.fullmatch(r"importance .+ to .+: not above 0", fates["coherence/length"])
    # proposed again, it is left out rather than rated twice
    assert [note["text"] for note in second["unused"]] == ["Politeness: whether it does."]
    assert [row["criterion"] for row in third["criteria"] if row["new"]] == ["coherence/shape"]
    assert third["criteria"][-1]["reason"] == "every text has the same rating"
    kept = {row["criterion"]: row["ci"] for row in third["criteria"] if row["kept"]}
    assert all(low > 0 for low, _ in kept.values())
    message = report_text(found.report)
    assert re.search(r"coherence/shape +new +every text has the same rating", message)
    assert "no new criterion helps: the rubric is finished" in message
    pearson = found.report["held_out"]["mean"]
    assert pearson["evaluator"]["pearson"] > 0.7
    run = await evaluate(dated.rows[:6], method=str(tmp_path / "ev"), model=dated.model())
    assert {score.outcome for score in run.scores} == {"scored"}


async def test_few_rows_are_rated_and_no_held_out_rating_reaches_any_prompt(tmp_path):
    """Each rating is a number that no other text has, so that it would be seen in a prompt."""
    dated = Dated(120, per_group=2)
    for at, row in enumerate(dated.rows):
        row["human"]["coherence"] = round(min(row["human"]["coherence"], 4.9) + at / 10_000, 4)
    ratings = {row["id"]: f"{row['human']['coherence']:g}" for row in dated.rows}
    assert len(set(ratings.values())) == len(ratings)
    model = dated.model()
    fit = rubric(dated, tmp_path / "ev", model=model, labels=30)
    assert len(np.unique(fit.people.groups[fit.train])) == fit.train.sum() == 30  # spread
    train = set(np.array(fit.people.ids)[fit.train])
    found = await fit.run()
    assert found.report["split"]["held_out"]["rows"] == 60
    prompts = [request.text for request in model.requests]
    seen = {
        id_ for id_, rating in ratings.items() if any(f"rated {rating}\n" in one for one in prompts)
    }
    assert seen
    assert seen <= train
    held_out = {rating for id_, rating in ratings.items() if id_ not in train}
    assert not [one for one in prompts if held_out & set(re.findall(r"\d+\.\d+", one))]
    # 6 rated texts a round, and no request but those for criteria names a rating
    asked = [one for one in prompts if "Propose criteria" in one]
    assert {len(re.findall(r"Text \d+, rated ", one)) for one in asked} == {6}
    assert not [one for one in prompts if ", rated " in one and one not in asked]


@pytest.mark.parametrize("human", [[2.0] * 12 + [4.0] * 18, [0.1] * 28 + [0.5, 0.1]])
def test_a_criterion_that_differs_on_one_text_alone_is_weeded(human):
    """Without that text nothing varies, and nothing but the mean can be learned."""
    ids = [f"r{at}" for at in range(30)]
    rows = [
        {"id": id_, "output": "x", "group": id_, "human": {"coherence": rating}}
        for id_, rating in zip(ids, human, strict=True)
    ]
    people = read_table(Examples(rows), aspects=None)
    root = Aspect(name="coherence", definition="d", scale=(1, 5))
    criterion = Aspect(name="tone", definition="d", scale=(1, 5), parent="coherence")
    ratings = {root.id: dict.fromkeys(ids, 5.0), criterion.id: dict.fromkeys(ids, 5.0)}
    ratings[criterion.id]["r29"] = 4.0
    fitter = Fitter({"coherence": (0, 5)}, 0, 1)
    reason = weed(people, [root], [criterion], ratings, fitter)[criterion.id].reason
    assert reason is not None
    assert "not above 0" in reason


async def test_a_dry_run_counts_at_least_what_is_asked(tmp_path):
    dated = Dated()
    foretold = await rubric(dated, None).dry_run()
    assert dated.rounds == 0
    model = dated.model()
    await rubric(dated, tmp_path / "ev", model=model).run()
    assert len(model.requests) <= foretold.calls
    assert foretold.calls <= 3 * len(model.requests)


async def test_without_any_criterion_that_helps_the_aspects_ratings_remain(tmp_path):
    dated = Dated()
    dated.rounds = 9  # proposes Shape alone
    found = await rubric(dated, tmp_path / "ev").run()
    assert found.evaluator.features == ("coherence",)
    [warning] = found.report["warnings"]
    assert "none of 1 criteria has an importance above 0" in warning


def test_rows_are_spread_over_the_groups():
    groups = np.repeat(np.arange(8), [1, 2, 3, 40, 5, 6, 7, 8])
    rows = np.ones(len(groups), bool)
    chosen = spread(rows, groups, 20, seed=3)
    assert chosen.sum() == 20
    counts = np.bincount(groups[chosen], minlength=8)
    assert counts[0] == 1
    assert counts.max() <= 4
    assert spread(rows, groups, 1000, seed=3) is rows


ROOT = Path(__file__).parents[2]
IN_FLIGHT = 4


def flags(data, out, server, *more):
    return [
        "fit", data, "--method", "rubric", "--model", "direct/mock", "--api-base", server.url,
        "--task", "summarization", "--out", out, "--aggregator", "ridge", "--labels", "30",
        "--concurrency", IN_FLIGHT, "--progress", "none", *more,
    ]  # fmt: skip


def rounds(out):
    return json.loads((out / "report.json").read_text(encoding="utf-8"))["rubric"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_killed_rubric_repeats_only_what_was_in_flight(tmp_path):
    dated = Dated(60)
    data, out = write(tmp_path / "data.jsonl", dated.rows), tmp_path / "ev"
    # 30 texts on the aspect, a proposal, then in the middle of the first round's ratings
    with served(reply=dated.reply, hold_after=70) as server:
        arguments = [sys.executable, "-m", "textassay", *map(str, flags(data, out, server))]
        with subprocess.Popen(arguments, cwd=ROOT, stderr=subprocess.PIPE) as process:
            try:
                until(lambda: process.poll() is not None or server.counters.requests > 70)
                assert process.poll() is None, process.stderr.read()
                process.send_signal(signal.SIGKILL)
            finally:
                process.kill()
        assert not (out / "evaluator.json").exists()
        server.options.hold_after = 0
        resumed = textassay(*flags(data, out, server))
        assert resumed.code == 0, resumed.err
        repeated = server.counters.requests - len(server.counters.bodies)
        assert repeated <= IN_FLIGHT
        whole = textassay(*flags(data, tmp_path / "whole", server))
        assert whole.code == 0, whole.err
    assert rounds(out) == rounds(tmp_path / "whole")
    assert len(rounds(out)) > 1

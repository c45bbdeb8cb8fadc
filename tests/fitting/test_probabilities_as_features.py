"""`fit` on a run of a decision model: it learns from the probabilities of all its questions."""

from __future__ import annotations

import asyncio
import math
from hashlib import sha256

import numpy as np
import pytest
from scipy.special import softmax

from tests.cli.harness import write_lines
from textassay import ScriptedModel, evaluate, fit_sync
from textassay.learning.training import features_for
from textassay.methods.fitted.evaluator import read_files

WEIGHTS = {"order": 0.6, "grammar": 0.3, "style": 0.0}


def line(id_: str, aspect: str, shares: dict[str, float], value: float, top: int) -> dict:
    """Return a line of a run of a decision model."""
    return {
        "id": id_, "aspect": aspect, "value": value, "scale": [0, top], "how": "decision",
        "signature": "method:decide|model:jev|how:decision",
        "evidence": [{"text": level, "probability": p} for level, p in shares.items()],
    }  # fmt: skip


@pytest.fixture
def planted(tmp_path):
    """Ratings that are a weighted sum of three questions' mean levels."""
    rng = np.random.default_rng(0)
    lines, data = [], []
    for number in range(240):
        total = 0.0
        for aspect, weight in WEIGHTS.items():
            p = softmax(rng.normal(scale=1.5, size=5))
            mean = float(p @ np.arange(5))
            total += weight * mean
            shares = {str(level): float(share) for level, share in enumerate(p)}
            lines.append(line(f"t{number}", aspect, shares, mean, 4))
        data.append(
            {
                "id": f"t{number}",
                "human": {"quality": float(np.clip(total + rng.normal(scale=0.05), 0, 4))},
            }
        )
    return write_lines(tmp_path / "scores.jsonl", lines), write_lines(tmp_path / "d.jsonl", data)


def test_a_rating_has_the_probability_of_its_highest_level_and_its_entropy(planted):
    columns = read_files([planted[0]])
    assert set(columns) == {
        name
        for aspect in WEIGHTS
        for name in (aspect, f"{aspect}: highest level", f"{aspect}: entropy")
    }
    assert 0 <= columns["order: highest level"]["t0"] <= 1
    assert 0 < columns["order: entropy"]["t0"] <= math.log(5)
    assert set(read_files([planted[0]], level_features=False)) == set(WEIGHTS)


def test_planted_weights_are_found_again(planted):
    scores, data = planted
    found = fit_sync(str(data), scores=[str(scores)], aggregator="ridge",
                     scales={"quality": (0, 4)}, train_fraction=0.5)  # fmt: skip
    learned = found.evaluator.aggregator
    [quality] = learned["aspects"]
    weights = np.array(quality["predictor"]["weights"]) * learned["inverse_sds"] * quality["sd"]
    by_name = dict(zip(learned["features"], weights, strict=True))
    for aspect, weight in WEIGHTS.items():
        assert by_name[aspect] == pytest.approx(weight, abs=0.05)
        # what the mean level says already is not counted a second time
        sd = 1 / learned["inverse_sds"][learned["features"].index(f"{aspect}: entropy")]
        assert abs(by_name[f"{aspect}: entropy"] * sd) < 0.05


def test_averages_are_of_ratings_alone():
    names = ["order", "order: highest level", "order: entropy", "grammar"]
    assert [*features_for("quality", names, ["quality"])] == [True, False, False, True]
    assert [*features_for("order", names, ["order", "grammar"])] == [True, False, False, False]
    assert features_for("order", names[1:3], ["order"]).all()


def test_a_rating_that_lacks_probabilities_in_a_later_line_has_no_features(tmp_path):
    shares = {str(level): 0.2 for level in range(5)}
    lines = [
        line("t", "order", shares, 2.0, 4),
        {**line("t", "order", shares, 2.0, 4), "evidence": []},
    ]
    columns = read_files([write_lines(tmp_path / "scores.jsonl", lines)])
    assert columns["order"] == {"t": 2.0}
    assert columns["order: entropy"] == {}


async def test_planted_weights_of_a_whole_tree_are_found_again(tmp_path):
    """25 nodes that a decision model rates, 120 rated texts to learn from."""

    def decide(request):
        text = request.texts[-1].text
        digests = (sha256(f"{text}|{q.text}".encode()).hexdigest() for q in request.questions)
        seeds = [int(digest[:15], 16) for digest in digests]
        drawn = (softmax(np.random.default_rng(seed).normal(scale=1.5, size=5)) for seed in seeds)
        return [dict(zip(q.names, map(float, p), strict=True))
                for q, p in zip(request.questions, drawn, strict=True)]  # fmt: skip

    rows = [{"id": f"t{n}", "source": f"Source {n}.", "output": f"Output {n}."} for n in range(240)]
    run = await evaluate(
        rows, method="hd-eval", task="summarization", model=ScriptedModel(decide=decide),
        options={"output": "nodes"}, out=tmp_path / "run",
    )  # fmt: skip
    ratings: dict[str, dict[str, float]] = {}
    for score in run.scores:
        ratings.setdefault(score.aspect, {})[score.id] = score.value
    nodes, rng = sorted(ratings), np.random.default_rng(2)
    weights = np.random.default_rng(1).dirichlet(np.full(len(nodes), 0.5))
    for row in rows:
        total = math.fsum(w * ratings[n][row["id"]] for w, n in zip(weights, nodes, strict=True))
        row["human"] = {"quality": float(np.clip(total + rng.normal(scale=0.1), 1, 5))}
    data = write_lines(tmp_path / "d.jsonl", rows)
    found = await asyncio.to_thread(
        fit_sync, str(data), scores=[str(tmp_path / "run")], aggregator="nnls",
        scales={"quality": (1, 5)}, train_fraction=0.5,
    )  # fmt: skip
    learned = found.evaluator.aggregator
    [quality] = learned["aspects"]
    raw = np.array(quality["predictor"]["weights"]) * learned["inverse_sds"] * quality["sd"]
    by_name = dict(zip(learned["features"], raw, strict=True))
    again = np.array([by_name[node] for node in nodes])
    assert len(nodes) == 25
    assert again == pytest.approx(weights, abs=0.05)
    assert np.corrcoef(again, weights)[0, 1] > 0.95

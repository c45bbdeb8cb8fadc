"""Systems whose scores lie where hardly anything was rated are refused, and only they."""

from __future__ import annotations

import numpy as np
import pytest

from textassay.calibration import Columns, Estimates, Scales, estimate_means
from textassay.calibration.correction import rated_range

# How often each judge's score occurs in the arena sample of cje (MIT), 1,000 prompts answered by
# each policy, and of the 480 rated answers of `base` their number and the sum of their ratings.
BASE = {
    0.1: 6, 0.2: 7, 0.3: 3, 0.45: 5, 0.5: 14, 0.55: 16, 0.65: 6, 0.7: 79, 0.75: 2, 0.85: 608,
    0.9: 50, 0.95: 123, 1.0: 81,
}  # fmt: skip
CLONE = {
    0.0: 1, 0.1: 3, 0.2: 6, 0.3: 1, 0.4: 1, 0.45: 7, 0.5: 13, 0.55: 15, 0.65: 3, 0.7: 71, 0.75: 2,
    0.8: 1, 0.85: 588, 0.9: 57, 0.95: 141, 1.0: 90,
}  # fmt: skip
UNHELPFUL = {
    0.0: 7, 0.05: 6, 0.1: 583, 0.15: 64, 0.2: 107, 0.25: 1, 0.3: 4, 0.35: 24, 0.4: 2, 0.45: 35,
    0.5: 7, 0.55: 17, 0.65: 7, 0.7: 38, 0.85: 83, 0.95: 3, 1.0: 12,
}  # fmt: skip
RATED = {
    0.1: (4, 2.25), 0.2: (5, 0.84), 0.45: (2, 1.11), 0.5: (7, 4.83), 0.55: (4, 2.75),
    0.65: (2, 1.31), 0.7: (41, 23.69), 0.75: (1, 0.92), 0.85: (293, 219.02), 0.9: (29, 23.44),
    0.95: (57, 49.74), 1.0: (35, 32.05),
}  # fmt: skip


def arena(*names: str) -> Estimates:
    counts = {"base": BASE, "clone": CLONE, "unhelpful": UNHELPFUL}
    rng, scores, ratings, groups, systems = np.random.default_rng(0), [], [], [], []
    for name in names:
        values = np.repeat(list(counts[name]), list(counts[name].values()))
        given = np.full(len(values), np.nan)
        for score, (count, total) in RATED.items() if name == "base" else ():
            given[np.flatnonzero(values == score)[:count]] = total / count
        order = rng.permutation(len(values))
        scores.append(values[order])
        ratings.append(given[order])
        groups.append(np.arange(len(values)))
        systems += [name] * len(values)
    n = len(systems)
    columns = Columns(
        "quality", "quality", [str(at) for at in range(n)], np.concatenate(scores),
        np.concatenate(ratings), np.empty((n, 0)), np.concatenate(groups), True, systems,
        np.zeros(n), None, (0.0, 1.0), (), {}, 0, 0,
    )  # fmt: skip
    return estimate_means(columns, scales=Scales((0.0, 1.0), (0.0, 1.0)), by_system=True)


def test_the_unhelpful_policy_of_a_known_sample_is_refused():
    """Only 1.3 % of its scores lie below the lowest rated one, but two thirds where 4 are rated.

    Its mean would come out as .41; its own 50 ratings, which are not used here, have a mean of
    .16. The others agree with what cje-eval 0.9.3 finds: base .754, clone .764.
    """
    found = {row.system: row for row in arena("base", "clone", "unhelpful").rows}
    unhelpful = found["unhelpful"]
    assert unhelpful.refused is not None
    assert "66% of its scores lie outside 0.2 to 1" in unhelpful.refused
    assert unhelpful.outside == pytest.approx(0.013)
    assert unhelpful.corrected.value is unhelpful.rank is None
    assert found["base"].refused is found["clone"].refused is None
    assert found["base"].corrected.value == pytest.approx(0.754, abs=0.004)
    assert found["clone"].corrected.value == pytest.approx(0.764, abs=0.004)
    # nor is the mean of all, for nothing of the other two was rated
    assert found[None].refused is not None


def test_a_refused_system_is_compared_with_none():
    """And the mean of systems that are alike is not refused for being rated in one of them."""
    pairs = {(one.a, one.b) for one in arena("base", "clone", "unhelpful").differences}
    assert pairs == {("base", "clone")}
    assert all(row.refused is None for row in arena("base", "clone").rows)


@pytest.mark.parametrize("rated", [8, 20, 60, 300])
@pytest.mark.parametrize("digits", [0, 3])
def test_rows_drawn_by_chance_are_seldom_refused(rated, digits):
    """However few were rated, and whether scores are whole numbers or not."""
    refused = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        scores = np.round(np.clip(rng.normal(3.6, 1, 1000), 1, 5), digits)
        range_ = rated_range(rng.choice(scores, rated, replace=False))
        reasons = (
            range_.refusal(range_.outside(scores)),
            range_.refusal_of_few(range_.sparse(scores)),
        )
        refused += any(reasons)
    assert refused <= 0.05 * 200


def test_rows_drawn_less_often_count_for_more():
    """High scores drawn for rating a tenth as often: the share there is that of all rows."""
    scores = np.repeat([3.0, 5.0], [540, 6])
    drawn = np.repeat([0.1, 0.01], [540, 6])
    plain, weighted = rated_range(scores), rated_range(scores, drawn)
    assert plain.ends == weighted.ends == (3.0, 3.0)
    assert plain.by_chance == pytest.approx(6 / 546)
    assert weighted.by_chance == pytest.approx(0.1)

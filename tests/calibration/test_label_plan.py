"""The forecast of a label plan is what `estimate` finds once the ratings are there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.calibration.columns import SCALES, columns_of
from textassay.calibration import Columns, estimate_means, next_rows, plan_labels


def world(sources: int = 60, seed: int = 0, *, even: bool = True) -> Columns:
    """Rated in full; the judge errs by source and by row."""
    rng = np.random.default_rng(seed)
    sizes = np.full(sources, 6) if even else rng.integers(2, 11, sources)
    groups = np.repeat(np.arange(sources), sizes)
    n = len(groups)
    ratings = 3 + rng.normal(0, 0.4, sources)[groups] + rng.normal(0, 0.8, n)
    scores = ratings + rng.normal(0, 0.2, sources)[groups] + rng.normal(0, 0.7, n)
    return columns_of(np.clip(scores, 1, 5), np.clip(np.round(ratings), 1, 5), groups)


def rated_in_part(columns: Columns, share: float, seed: int = 0) -> Columns:
    drawn = np.random.default_rng(seed).random(len(columns.ids)) < share
    return replace(columns, ratings=np.where(drawn, columns.ratings, np.nan))


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("share", [0.15, 0.5, 0.9])
def test_the_half_width_is_that_of_the_estimate(share, even):
    """However many rows are rated already, and with sources of any size."""
    ratios = []
    for seed in range(8):
        columns = rated_in_part(world(seed=seed, even=even), share, seed)
        row = estimate_means(columns, scales=SCALES).rows[0]
        ratios.append(
            plan_labels(columns, 0.1, scales=SCALES).half_width / row.corrected.half_width
        )
    assert np.mean(ratios) == pytest.approx(1, abs=0.06)


def test_as_many_ratings_as_forecast_reach_the_target():
    """Within what 180 pilot ratings can tell."""
    reached = []
    for seed in range(20):
        columns = world(120, seed=seed)
        pilot = rated_in_part(columns, 0.25, seed)
        now = plan_labels(pilot, 1.0, scales=SCALES)
        target = (now.half_width + now.with_all) / 2
        plan = plan_labels(pilot, target, scales=SCALES)
        assert plan.more
        free = np.flatnonzero(np.isnan(pilot.ratings))
        drawn = np.random.default_rng(seed).choice(free, plan.more, replace=False)
        ratings = pilot.ratings.copy()
        ratings[drawn] = columns.ratings[drawn]
        row = estimate_means(replace(pilot, ratings=ratings), scales=SCALES).rows[0]
        reached.append(row.corrected.half_width / target)
    assert np.mean(reached) == pytest.approx(1, abs=0.08)


def test_with_every_row_rated_the_interval_is_that_of_the_ratings():
    """The judge adds nothing, and no further rating of these rows does."""
    columns = world(even=False)
    row = estimate_means(columns, scales=SCALES).rows[0]
    plan = plan_labels(columns, 0.01, scales=SCALES)
    assert plan.half_width == pytest.approx(row.labels_only.half_width, rel=0.1)
    assert plan.half_width == plan.with_all > 0
    assert (plan.rated, plan.more, plan.labels_only) == (plan.n, None, None)


def test_more_ratings_never_widen_the_forecast():
    """From eight on, to all of them; each target asks for at least as many as a wider one."""
    pilot = rated_in_part(world(seed=3, even=False), 0.2)
    plans = [plan_labels(pilot, target, scales=SCALES) for target in (0.3, 0.2, 0.15, 0.12, 0.1)]
    more = [plan.more for plan in plans if plan.more is not None]
    assert more == sorted(more)
    assert more[0] == 0 < more[-1]
    assert plans[0].half_width > plans[0].with_all


def test_a_second_plan_keeps_the_probabilities_of_the_first():
    """After four draws, rated rows stand for as many rows as there are, of either kind."""
    stand_for = []
    for seed in range(20):
        columns = world(100, seed=seed)
        # the judge tells nothing about texts below 3, so more of them are drawn
        chance = np.random.default_rng(seed).integers(1, 6, len(columns.ids))
        columns = replace(
            columns, ratings=np.where(columns.scores < 3, chance, np.round(columns.scores))
        )
        plan = rated_in_part(columns, 0.1, seed)
        for round_ in range(4):
            rows = {row["id"]: row for row in next_rows(plan, 40, scales=SCALES, seed=round_)}
            known = np.array([id_ in rows for id_ in columns.ids])
            drawn = [rows[id_]["sampling_probability"] if id_ in rows else np.nan
                     for id_ in columns.ids]  # fmt: skip
            plan = replace(
                columns,
                ratings=np.where(known, columns.ratings, np.nan),
                probabilities=np.array(drawn),
            )
        parts = (columns.scores < 3, columns.scores >= 3)
        stand_for.append([np.nansum(1 / plan.probabilities[part]) / part.sum() for part in parts])
    assert np.mean(stand_for, axis=0) == pytest.approx([1, 1], abs=0.03)


@pytest.mark.parametrize("known", [False, True])
def test_a_second_plan_knows_what_is_rated_and_has_no_score(known):
    """It is in the file with its probability, or no estimate could take the ratings again."""
    columns = rated_in_part(world(), 0.3)
    given = np.flatnonzero(columns.rated)
    lost = int(given[0])
    columns.scores[lost] = np.nan
    if known:
        columns = replace(columns, probabilities=np.full(len(columns.ids), 0.25))
    rows = next_rows(columns, 20, scales=SCALES)
    rated = {row["id"]: row["sampling_probability"] for row in rows if row["rated"]}
    assert set(rated) == {columns.ids[at] for at in given}
    assert rated[columns.ids[lost]] == pytest.approx(0.25 if known else 0.3, abs=0.05)

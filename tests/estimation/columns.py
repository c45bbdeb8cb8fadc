"""Columns as `join_columns` makes them, from arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from textassay.estimation import Columns, MapScales

SCALE = (1.0, 5.0)
SCALES = MapScales(SCALE, SCALE)


def columns_of(scores: Any, ratings: Any, groups: Any, **fields: Any) -> Columns:
    """Scores and ratings of one aspect; no single ratings, systems, words and probabilities."""
    n = len(scores)
    made: dict[str, Any] = {
        "score": "tone", "human": "tone", "ids": [f"x{at}" for at in range(n)],
        "scores": np.asarray(scores, float), "ratings": np.asarray(ratings, float),
        "raters": np.empty((n, 0)), "groups": groups, "has_groups": True, "systems": [None] * n,
        "words": np.zeros(n), "probabilities": None, "scale": SCALE, "signatures": (),
        "unjudged": 0, "unknown": 0,
    }  # fmt: skip
    return Columns(**{**made, **fields})

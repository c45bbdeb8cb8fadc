"""Scores and ratings of sources that differ in quality and size."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import norm

from textassay.arrays import Codes, Floats

HEAVIEST = 40
"""Texts of the largest source where sizes are heavy: one source in forty has as many."""


def sizes(rng: np.random.Generator, sources: int, heaviest: int | None) -> Codes:
    """Draw how many texts each source has: five, or mostly one and for a few up to `heaviest`."""
    if heaviest is None:
        return np.full(sources, 5, np.intp)
    drawn = 1 + np.floor(rng.pareto(1.0, sources))
    return np.asarray(np.minimum(drawn, heaviest), np.intp)


def even(
    rng: np.random.Generator, sources: int, texts: int, skew: float, judged: float = 3.0
) -> tuple[Floats, Floats, Floats, Codes]:
    """Draw two judges' scores, near `judged`, ratings and sources, (sources * texts,) each."""
    source, own = rng.normal(size=(sources, 1)), rng.normal(size=(sources, texts))
    quality = 0.7 * source + 0.7 * own
    ratings = skew + quality + rng.normal(0, 0.5, quality.shape)
    errors = 0.4 * rng.normal(size=(sources, 1))
    first = judged + 0.8 * quality + errors + rng.normal(0, 0.8, quality.shape)
    second = judged - 0.2 + 0.6 * quality + errors + rng.normal(0, 0.8, quality.shape)
    graded = (np.clip(np.round(one), 1, 5).ravel() for one in (first, second, ratings))
    a, b, y = graded
    return a, b, y, np.repeat(np.arange(sources), texts)


def uneven(
    rng: np.random.Generator, per_source: Codes, top: float, falls: float = 0.0
) -> tuple[Floats, Floats, Codes]:
    """Draw scores, ratings of which a share of about `top` is 5, and sources.

    `falls` is how much worse the texts of larger sources are.
    """
    at = np.repeat(np.arange(len(per_source)), per_source)
    n, errors = len(at), 0.4 * rng.normal(size=len(per_source))[at]
    quality = 0.7 * rng.normal(size=len(per_source))[at] + 0.7 * rng.normal(size=n)
    quality -= falls * np.log(per_source)[at]
    felt = quality + rng.normal(0, 0.5, n)
    limit = float(norm.ppf(1 - top)) * math.sqrt(2 * 0.7**2 + 0.5**2)
    ratings = np.where(felt > limit, 5.0, np.clip(np.ceil(5 + (felt - limit) / 0.6) - 1, 1, 4))
    scores = 5 - 2 * (1 - top) + 0.8 * quality + errors + rng.normal(0, 0.8, n)
    return np.clip(np.round(scores), 1, 5), ratings, at

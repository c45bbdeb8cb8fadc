"""Weighs scorers by their correlation with human ratings: Fusion-Eval's CorrW.

Knows scores and ratings of the same examples; nothing of files, tools or models.

The weight of a scorer is its Pearson correlation with the ratings (section 3.2). One whose scores
fall as ratings rise is reversed, so that the weighted mean stays on 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textassay.meta.correlation import pearson
from textassay.runtime.errors import DataError
from textassay.runtime.messages import Message

MIN_RATED = 3
"""Fewest examples with a score and a rating from which a correlation is taken."""


class ScorerWeights(Message):
    """What scorers weigh on one aspect."""

    aspect: str
    """Name of the aspect."""
    correlations: dict[str, float | None]
    """Correlation with the ratings by scorer; `None` if a scorer does not vary, or has too few
    scores: it weighs nothing."""
    rated: int
    """Number of examples with a rating of the aspect."""

    def weight(self, scorer: str) -> float:
        """Return what a scorer weighs, 0 or above."""
        return abs(self.correlations[scorer] or 0.0)

    def is_turned(self, scorer: str) -> bool:
        """Whether a scorer's values fall as ratings rise."""
        return (self.correlations[scorer] or 0.0) < 0


def weights_from(
    aspect: str,
    scores: Mapping[str, Sequence[float | None]],
    ratings: Sequence[float | None],
) -> ScorerWeights:
    """Return weights for one aspect.

    Args:
        aspect: Its name.
        scores: By scorer, the values of the rated examples, mapped so that high is good.
        ratings: People's ratings of the same examples.

    Raises:
        DataError: Fewer than 3 examples are rated, or no scorer varies with the ratings.
    """
    rated = sum(rating is not None for rating in ratings)
    if rated < MIN_RATED:
        raise DataError(
            f"fusion=corrw: {rated} examples are rated on {aspect}; at least {MIN_RATED} are needed"
        )
    correlations = {name: _correlation(values, ratings) for name, values in scores.items()}
    if not any(correlations.values()):
        raise DataError(
            f"fusion=corrw: no scorer varies with the ratings of {aspect}: {', '.join(scores)};"
            f" rate"
            " more examples, or use fusion=avg"
        )
    return ScorerWeights(aspect=aspect, correlations=correlations, rated=rated)


def _correlation(values: Sequence[float | None], ratings: Sequence[float | None]) -> float | None:
    pairs = [
        (value, rating)
        for value, rating in zip(values, ratings, strict=True)
        if value is not None and rating is not None
    ]
    if len(pairs) < MIN_RATED:
        return None
    return pearson([value for value, _ in pairs], [rating for _, rating in pairs])

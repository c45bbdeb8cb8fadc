"""Decides whether a mean score reaches a threshold, with the source as the sampled unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from textassay.calibration.intervals import Estimate, mean_over_groups
from textassay.evaluation.run import Run
from textassay.gates.checks import Check, JudgeError, verdict_of
from textassay.gates.wording import worst
from textassay.learning.splits import group_codes
from textassay.meta.correlation import Floats
from textassay.runtime.errors import UnknownName
from textassay.runtime.messages import Example, Scale, Score

MAX_UNSCORED = 0.05
"""Share of texts without a score up to which a check decides on the others."""


def check_at_least(
    run: Run,
    aspect: str,
    threshold: float,
    *,
    confidence: float = 0.95,
    max_unscored: float = MAX_UNSCORED,
) -> Check:
    """Check that the mean score of an aspect reaches a threshold.

    The interval is a t-interval over sources (`group` of the data). If all sources have the same
    mean, t would give an interval of length 0 however few they are; then it is the exact binomial
    interval for how many sources may differ, taken to the ends of the scale.

    Args:
        run: What was judged.
        aspect: Which of its aspects.
        threshold: On the score's own scale.
        confidence: Confidence of the two-sided interval.
        max_unscored: Share of texts without a score up to which the others decide.

    Raises:
        UnknownName: The run did not judge the aspect.
        JudgeError: More texts than that have no score.
    """
    scores = scores_of(run, aspect, max_unscored=max_unscored)
    examples = {example.id: example for example in run.examples()}
    scored = [score for score in scores if score.value is not None]
    values = np.array([score.value for score in scored], float)
    codes = group_codes(_group(examples.get(score.id)) for score in scored)
    mean = mean_over_groups(values, codes, int(codes.max()) + 1)
    interval = mean.estimate(confidence)
    # three sources that all score 5 do not prove that every other source does
    if mean.clusters > 1 and mean.variance == 0:
        interval = unanimous(mean.value, scored[0].scale, mean.clusters, confidence)
    verdict = verdict_of(interval.low, interval.high, threshold)
    return Check(
        kind="at_least",
        aspect=aspect,
        n=len(scored),
        groups=mean.clusters,
        unscored=len(scores) - len(scored),
        value=mean.value,
        low=interval.low,
        high=interval.high,
        threshold=threshold,
        confidence=confidence,
        verdict=verdict,
        texts=() if verdict == "holds" else worst(scored, examples, _losses(values)),
    )


def scores_of(run: Run, aspect: str, *, max_unscored: float = MAX_UNSCORED) -> list[Score]:
    """Return all scores of one aspect.

    Raises:
        UnknownName: The run did not judge the aspect.
        JudgeError: None, or more than `max_unscored` of them, have no value.
    """
    scores = [score for score in run if score.aspect == aspect]
    if not scores:
        raise UnknownName("aspect of the run", aspect, sorted({score.aspect for score in run}))
    unscored = [score for score in scores if score.value is None]
    # few missing scores cannot change a verdict much; many may be exactly the bad texts
    if len(unscored) == len(scores) or len(unscored) > max_unscored * len(scores):
        raise JudgeError(_unscored(aspect, unscored, len(scores)))
    return scores


def unanimous(value: float, scale: Scale | None, sources: int, confidence: float) -> Estimate:
    """Return an interval for sources that all agree.

    What else there is may lie anywhere on the scale.

    With n sources that agree, the share of others is at most `1 - (alpha / 2) ** (1 / n)`
    (Clopper and Pearson, 1934).
    """
    if scale is None:
        return Estimate(value)
    low, high = scale
    share = 1 - ((1 - confidence) / 2) ** (1 / sources)
    return Estimate(value, value - share * (value - low), value + share * (high - value))


def _losses(values: Floats) -> Sequence[float]:
    return [-value for value in values.tolist()]


def _group(example: Example | None) -> str | None:
    return None if example is None else example.group


def _unscored(aspect: str, unscored: Sequence[Score], total: int) -> str:
    outcomes = Counter(score.outcome for score in unscored)
    listed = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    reasons = Counter(
        f"{score.error.type}: {score.error.message}" for score in unscored if score.error
    )
    commonest = f"; most often: {reasons.most_common(1)[0][0]}" if reasons else ""
    return (
        f"{aspect}: {len(unscored)} of {total} texts have no score ({listed}), so nothing can be "
        f"concluded about the system{commonest}"
    )

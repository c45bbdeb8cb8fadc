"""Decides whether a run is worse than a recorded one by more than a margin, text by text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from textassay.calibration.columns import Judged, People, read_judged
from textassay.calibration.compare_runs import CompareRow, compare_runs
from textassay.evaluation.run import Run
from textassay.gates.checks import Check, JudgeError, verdict_of
from textassay.gates.threshold import MAX_UNSCORED, scores_of
from textassay.gates.wording import worst
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Score

Baseline = Run | str | Path
"""A run, or the path of a run folder or of a file of scores."""


def check_not_worse(
    run: Run,
    baseline: Baseline,
    *,
    by: float,
    aspects: str | Iterable[str] | None = None,
    confidence: float = 0.95,
    max_unscored: float = MAX_UNSCORED,
) -> list[Check]:
    """Check that scores did not fall by more than a margin since a baseline, paired by source.

    Args:
        run: The new run.
        baseline: The recorded one; its texts have the ids of the same sources.
        by: Margin on the score's own scale; 0 asks for an improvement.
        aspects: What to compare; all that both judged if left out.
        confidence: Confidence of the two-sided intervals.
        max_unscored: Share of texts that may lack one of the two scores.

    Returns:
        One check per aspect, whose value is new minus old and whose threshold is `-by`.

    Raises:
        ConfigurationError: The margin is negative, or the runs' judges differ.
        DataError: The runs share no aspect or no text.
        JudgeError: Too many texts lack a score.
    """
    if by < 0:
        raise ConfigurationError(f"by= must be a margin of at least 0, not {by:g}")
    new, old = judged(run), judged(baseline) if isinstance(baseline, Run) else read_judged(baseline)
    names = [aspects] if isinstance(aspects, str) else aspects
    # sources come from the new run's data: the baseline may be a bare file of scores
    rows = compare_runs(new, old, People(run.examples()), aspects=names, confidence=confidence)
    return [_check(row, run, new, old, by, confidence, max_unscored) for row in rows]


def judged(run: Run) -> dict[str, Judged]:
    """Return a run's scores by aspect, as `read_judged` does for a folder."""
    by_aspect: dict[str, Judged] = {}
    for score in run:
        one = by_aspect.setdefault(score.aspect, Judged())
        one.values[score.id] = score.value
        if score.value is None:
            one.outcomes[score.id] = score.outcome
        else:
            one.signatures[score.signature] = None
            one.scales[score.scale] = None
    return by_aspect


def _check(
    row: CompareRow,
    run: Run,
    new: Mapping[str, Judged],
    old: Mapping[str, Judged],
    by: float,
    confidence: float,
    max_unscored: float,
) -> Check:
    scores = scores_of(run, row.aspect, max_unscored=max_unscored)
    if row.unscored > max_unscored * (row.n + row.unscored):
        raise JudgeError(
            f"{row.aspect}: {row.unscored} of {row.n + row.unscored} texts have no score in one of "
            "the two runs, so their difference is unknown"
        )
    first, second = row.signatures
    # a score of another judge can differ without any change of the system under test
    if first != second:
        raise ConfigurationError(
            f"{row.aspect}: the baseline was judged differently, so the scores are not comparable; "
            f"record it again (now {first!r}, baseline {second!r})"
        )
    difference = row.difference
    verdict = verdict_of(difference.low, difference.high, -by)
    return Check(
        kind="not_worse",
        aspect=row.aspect,
        n=row.n,
        groups=row.groups,
        unscored=row.unscored,
        value=row.a - row.b,
        low=difference.low,
        high=difference.high,
        threshold=-by,
        confidence=confidence,
        verdict=verdict,
        texts=() if verdict == "holds" else _texts(scores, run, old[row.aspect]),
    )


def _texts(scores: Iterable[Score], run: Run, old: Judged) -> tuple[str, ...]:
    paired = [
        (score, before)
        for score in scores
        if score.value is not None and (before := old.values.get(score.id)) is not None
    ]
    examples = {example.id: example for example in run.examples()}
    losses = [before - (score.value or 0.0) for score, before in paired]
    return worst([score for score, _ in paired], examples, losses, [old for _, old in paired])

"""Checks of scores, decided on the end of an interval: against a threshold, or against a baseline.

A check that fails names the texts behind its verdict: id, scores, the beginning of the text and the
judge's reason. Knows runs; knows nothing of pytest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from textassay.calibration.columns import Judged, read_judged, with_labels
from textassay.calibration.compare_runs import CompareRow, GateVerdict, compare_runs
from textassay.calibration.means import Estimate, mean_over_groups
from textassay.evaluation.run import Run
from textassay.learning.splits import group_codes
from textassay.meta.correlation import Floats
from textassay.meta.people import People
from textassay.runtime.errors import ConfigurationError, TextassayError, UnknownName
from textassay.runtime.labels import member_name
from textassay.runtime.messages import Example, Scale, Score

SHOWN = 3
"""Texts that a message names."""
WIDTH = 160
"""Characters of a text or reason that a message shows."""
MAX_UNSCORED = 0.05
"""Share of texts without a score up to which a check decides on the others."""
Baseline = Run | str | Path
"""A run, or the path of a run folder or of a file of scores."""


class CheckFailed(AssertionError):
    """The whole interval is on the wrong side of the threshold."""


class Inconclusive(AssertionError):
    """The interval spans the threshold, or there is none: more texts would decide."""


class JudgeError(TextassayError):
    """Too many texts have no score, so nothing can be said of the system; it is not a bad score."""


@dataclass(frozen=True, slots=True)
class Check:
    """One decision on the end of an interval.

    Attributes:
        kind: `at_least`, or `not_worse` for the paired difference to a baseline.
        aspect: What was judged.
        n: Texts with a score.
        groups: Independent sources among them.
        unscored: Texts without a score.
        value: The mean over sources, or the mean difference.
        low: Lower end of its interval; `None` if no interval can be promised.
        high: Upper end, likewise.
        threshold: What `value` must reach.
        confidence: Confidence of the interval.
        verdict: `holds`, `fails` or `inconclusive`.
        texts: The texts with the lowest scores or largest losses, in words.
    """

    kind: str
    aspect: str
    n: int
    groups: int
    unscored: int
    value: float
    low: float | None
    high: float | None
    threshold: float
    confidence: float
    verdict: GateVerdict
    texts: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values, without texts."""
        return {name: value for name, value in asdict(self).items() if name != "texts"}

    def __str__(self) -> str:
        what = self.aspect if self.kind == "at_least" else f"{self.aspect}, difference to baseline"
        span = (
            "no interval from one source"
            if self.low is None or self.high is None
            else f"{self.confidence:.0%} interval [{self.low:.3f}, {self.high:.3f}]"
        )
        sources = "" if self.groups == self.n else f" from {self.groups} sources"
        return (
            f"{what}: {self.value:.3f}, {span}, of {self.n} texts{sources}; "
            f"at least {self.threshold:g} {self.verdict}"
        )

    def raise_for_verdict(self, *, inconclusive: bool = True) -> None:
        """Raise unless the check holds."""
        __tracebackhide__ = True  # pytest's: the test's own line is what to look at
        if self.verdict == "fails":
            raise CheckFailed("\n".join([str(self), *self.texts]))
        if self.verdict == "inconclusive" and inconclusive:
            raise Inconclusive("\n".join([str(self), *self.texts]))


def verdict_of(low: float | None, high: float | None, threshold: float) -> GateVerdict:
    """Return what an interval says of a threshold that the value must reach."""
    # the mean alone decides nothing: with one source it may lie anywhere
    if low is None or high is None:
        return "inconclusive"
    if high < threshold:
        return "fails"
    return "holds" if low >= threshold else "inconclusive"


def worst_texts(
    scores: Sequence[Score],
    examples: Mapping[str, Example],
    losses: Sequence[float],
    before: Sequence[float] | None = None,
) -> tuple[str, ...]:
    """Return lines about the texts with the largest losses."""
    # stable: of equal losses the first in the data, so that the message does not change between
    # runs
    order = sorted(range(len(scores)), key=lambda at: -losses[at])[:SHOWN]
    lines = ["the lowest scores:" if before is None else "the largest losses:"]
    for at in order:
        score, example = scores[at], examples.get(scores[at].id)
        was = "" if before is None else f" (baseline {before[at]:g})"
        lines.append(f"  {score.id}: {score.value:g}{was}")
        if example is not None:
            lines.append(f"    text: {_short(example.output)}")
        if score.explanation:
            lines.append(f"    reason: {_short(score.explanation)}")
    return tuple(lines)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


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
    """
    scores = select_scores(run, aspect, max_unscored=max_unscored)
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
        texts=() if verdict == "holds" else worst_texts(scored, examples, _losses(values)),
    )


def select_scores(run: Run, aspect: str, *, max_unscored: float = MAX_UNSCORED) -> list[Score]:
    """Return the scores of an aspect, or of a label of one: 1 where it was given, else 0."""
    if aspect in run.without_mean:
        labels = run.labels[aspect].names
        shares = " or ".join(repr(member_name(aspect, label)) for label in labels)
        raise ConfigurationError(
            f"the labels of {aspect!r} have no order, and so no mean to check; check the share of"
            f" one, {shares}, or compare them with people's (textassay meta)"
        )
    scores = _of_label(run, aspect) or [score for score in run if score.aspect == aspect]
    if not scores:
        raise UnknownName("aspect of the run", aspect, sorted({score.aspect for score in run}))
    unscored = [score for score in scores if score.value is None]
    # few missing scores cannot change a verdict much; many may be exactly the bad texts
    if len(unscored) == len(scores) or len(unscored) > max_unscored * len(scores):
        raise JudgeError(_unscored(aspect, unscored, len(scores)))
    return scores


def _of_label(run: Run, name: str) -> list[Score]:
    """Return whether each text was given the label that a share is named by; empty if it is none.

    Shares are named as by `with_labels`.
    """
    numbers = {
        member_name(aspect, label): (aspect, at)
        for aspect in run.without_mean
        for at, label in enumerate(run.labels[aspect].names)
    }
    aspect, at = numbers.get(name, (None, 0))
    return [
        score.model_copy(update={"value": float(score.value == at), "scale": (0.0, 1.0)})
        if score.value is not None
        else score
        for score in run
        if score.aspect == aspect
    ]


def unanimous(value: float, scale: Scale | None, sources: int, confidence: float) -> Estimate:
    """Return an interval for sources that all agree; others may lie anywhere on the scale.

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

    Of labels without an order the share of each is checked, named `ASPECT/LABEL`.
    """
    if by < 0:
        raise ConfigurationError(f"by= must be a margin of at least 0, not {by:g}")
    new, old = judged(run), judged(baseline) if isinstance(baseline, Run) else read_judged(baseline)
    names = [aspects] if isinstance(aspects, str) else aspects
    # sources come from the new run's data: the baseline may be a bare file of scores
    rows = compare_runs(new, old, People(run.examples()), aspects=names, confidence=confidence)
    return [_check(row, run, old, by, confidence, max_unscored) for row in rows]


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
    return with_labels(by_aspect, run.labels)


def _check(
    row: CompareRow,
    run: Run,
    old: Mapping[str, Judged],
    by: float,
    confidence: float,
    max_unscored: float,
) -> Check:
    scores = select_scores(run, row.aspect, max_unscored=max_unscored)
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
    return worst_texts([score for score, _ in paired], examples, losses, [old for _, old in paired])

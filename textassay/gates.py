"""Checks of scores in a test suite, decided on the end of an interval, and recorded judges.

A check compares scores with a threshold or a baseline; one that fails names the texts behind its
verdict: id, scores, the beginning of the text and the judge's reason. Judges are recorded once and
replayed without a key:

FOLDER/                         a cache folder of answers
FOLDER/models/NAME-DIGEST.json  a model's facts, so that a replay needs neither key nor server

Knows nothing of pytest, so that any test runner can use it.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import math
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from textassay.agreement.intervals import least_mean
from textassay.agreement.joined import People
from textassay.arrays import Floats
from textassay.estimation.columns import Judged, read_judged
from textassay.estimation.compare import compare_runs
from textassay.estimation.compare_rows import CompareRow, rare_change
from textassay.estimation.gate_verdict import GateVerdict, advantage, verdict_on
from textassay.estimation.means import group_means, mean_over_groups
from textassay.evaluation.api import ModelsByRole, evaluate, models_by_role
from textassay.evaluation.run import Run
from textassay.learning.splits import group_codes
from textassay.runtime.api import connect
from textassay.runtime.backends.by_name import load_backend
from textassay.runtime.backends.replay import RecordedModel
from textassay.runtime.base import Usage
from textassay.runtime.calls.budget import Budget
from textassay.runtime.calls.traits import Sampling
from textassay.runtime.data.digests import may_be_one_text, sources_by_id, text_digest
from textassay.runtime.data.ratings import LabelReader
from textassay.runtime.errors import (
    ConfigurationError,
    RequestRefused,
    StorageError,
    TextassayError,
    UnknownName,
    UnknownParameter,
)
from textassay.runtime.labels import member_name
from textassay.runtime.messages import Example, Scale, Score
from textassay.runtime.model import Capabilities, Model
from textassay.runtime.settings import Settings
from textassay.runtime.stack import ConnectedModel
from textassay.runtime.storage.answer_admin import prepare
from textassay.runtime.storage.files import read_regular, write_json
from textassay.runtime.storage.run_files import lower_is_better
from textassay.table import Estimate

__all__ = [
    "Assay", "CheckFailed", "GateCheck", "Inconclusive", "Judge", "JudgeError",
    "scores_by_aspect",
]  # fmt: skip

SHOWN = 3
"""Number of texts that a message names."""
MAX_UNSCORED = 0.05
"""Largest share of texts without a score with which a check still decides."""
Baseline = Run | str | Path
"""A run, or the path of a run folder or of a file of scores."""


class CheckFailed(AssertionError):
    """The whole interval is on the wrong side of the threshold."""


class Inconclusive(AssertionError):
    """The interval spans the threshold or is missing: more texts would decide."""


class JudgeError(TextassayError):
    """Too many texts have no score for a decision on the system; this is not a bad score."""


@dataclass(frozen=True, slots=True)
class GateCheck:
    """One decision on the end of an interval."""

    kind: Literal["at_least", "at_most", "not_worse"]
    """Whether the mean must reach a threshold or stay below it, or `not_worse` for the paired
    difference to a baseline."""
    aspect: str
    """Name of the aspect."""
    n: int
    """Texts with a score."""
    groups: int
    """Independent sources among them."""
    unscored: int
    """Texts without a score."""
    value: float
    """The mean over sources, or the mean gain: the difference to the baseline, with the sign
    reversed if a low score is good.
    """
    low: float | None
    """Lower end of its interval; `None` if no interval can be promised."""
    high: float | None
    """Upper end; `None` if no interval can be promised."""
    threshold: float
    """The threshold that `value` must reach, or not exceed."""
    confidence: float
    """Confidence of the interval."""
    verdict: GateVerdict
    """`holds`, `fails` or `inconclusive`."""
    texts: tuple[str, ...] = ()
    """The texts with the lowest scores or largest losses, in words."""
    note: str = ""
    """Ratings of the same texts by people that contradict, or what few texts do not show."""
    worse: int = 0
    """Number of texts whose score is below the baseline's."""
    regressed: tuple[str, ...] = ()
    """Ids of these, the largest losses first, at most 20."""

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values, without texts."""
        return {name: value for name, value in asdict(self).items() if name != "texts"}

    def __str__(self) -> str:
        is_mean = self.kind != "not_worse"
        subject = self.aspect if is_mean else f"{self.aspect}, difference to baseline"
        span = (
            "no interval from one source"
            if self.low is None or self.high is None
            else f"{self.confidence:.0%} interval [{self.low:.3f}, {self.high:.3f}]"
        )
        sources = "" if self.groups == self.n else f" from {self.groups} sources"
        return (
            f"{subject}: {self.value:.3f}, {span}, of {self.n} texts{sources}; "
            f"{self.requirement} {self.threshold:g} {self.verdict}{self.note}"
        )

    @property
    def requirement(self) -> str:
        """The required relation of value and threshold, in words."""
        return "at most" if self.kind == "at_most" else "at least"

    def raise_for_verdict(self, *, inconclusive: bool = True) -> None:
        """Raise unless the check holds."""
        __tracebackhide__ = True  # for pytest: the relevant line is the test's own
        if self.verdict == "fails":
            raise CheckFailed("\n".join([str(self), *self.texts]))
        if self.verdict == "inconclusive" and inconclusive:
            raise Inconclusive("\n".join([str(self), *self.texts]))


class _Loss(NamedTuple):
    """How much a score is below the best one, or below its baseline."""

    loss: float
    score: Score
    was: str = ""
    """The baseline in words."""


def _sort_losses(losses: Iterable[_Loss], examples: Iterable[str]) -> list[_Loss]:
    """Return the largest losses first, equal ones in the order of the data.

    Scores come as judges answer, and the message must not change between runs.
    """
    places = {id_: place for place, id_ in enumerate(examples)}
    return sorted(losses, key=lambda loss: (-loss.loss, places.get(loss.score.id, len(places))))


def _worst(
    heading: str, losses: Sequence[_Loss], examples: Mapping[str, Example]
) -> tuple[str, ...]:
    """Return lines about the texts with the largest losses."""
    lines = [heading]
    for _, score, was in losses[:SHOWN]:
        example = examples.get(score.id)
        lines.append(f"  {score.id}: {score.value:g}{was}")
        if example and may_be_one_text(text_digest(example), score.text_digest):
            lines.append(f"    text: {_short(example.output)}")
        if score.explanation:
            lines.append(f"    reason: {_short(score.explanation)}")
    return tuple(lines)


def _short(text: str, width: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def check_mean(
    run: Run,
    aspect: str,
    threshold: float,
    kind: Literal["at_least", "at_most"] = "at_least",
    *,
    confidence: float = 0.95,
    max_unscored: float = MAX_UNSCORED,
) -> GateCheck:
    """Check that the mean score of an aspect reaches a threshold, or does not exceed it.

    The interval is over sources (`group` of the data) and allows for scores that none of them
    shows (`least_mean`): by Student's t, if one source in twenty has a 2 and the others score about
    4.9, a check at the mean of both would hold in 45 % of the draws of 15 sources. Scores without a
    scale have Student's interval.

    A check that would hold is inconclusive if people rated some of the texts on the same scale and
    the mean of their ratings is on the other side: then the judge is not to be relied on here.

    Raises:
        ConfigurationError: No score could be on the wrong side of the threshold, or on the right
            one; or `at_least` is given for an aspect on which a low score is good.
    """
    _check_shares(confidence, max_unscored)
    if kind == "at_least" and aspect in lower_is_better(run.manifest):
        raise ConfigurationError(
            f"lower is better on {aspect!r}, so a check of at_least= would let bad texts through;"
            " give at_most="
        )
    scores = _select_scores(run, aspect, max_unscored=max_unscored)
    examples = {example.id: example for example in run.examples()}
    scored = [score for score in scores if score.value is not None]
    _check_threshold(scored[0].scale, aspect, threshold, kind)
    values = np.array([score.value for score in scored], float)
    sources = sources_by_id(examples.values())
    codes = group_codes(sources.get(score.id) for score in scored)
    mean = mean_over_groups(values, codes)
    scale = scored[0].scale
    if mean.clusters > 1 and scale is not None:
        means = group_means(values, codes, mean.clusters)
        interval = _interval_on_scale(means, scale, confidence)
    elif mean.variance == 0:  # sources that all score 5 do not prove that every other one does
        interval = Estimate(mean.value)
    else:
        interval = mean.estimate(confidence)
    # at most a threshold is at least its opposite, of opposite scores
    sign = -1 if kind == "at_most" else 1
    verdict, note = verdict_on(advantage(interval, falls=sign < 0), sign * threshold), ""
    if verdict == "holds" and (note := _objection(run, aspect, scale, threshold, sign)):
        verdict = "inconclusive"
    losses = map(_Loss, (-sign * values).tolist(), scored)
    lines = _worst("the worst scores:", _sort_losses(losses, examples), examples)
    texts = () if verdict == "holds" else lines
    return GateCheck(
        kind, aspect, len(scored), mean.clusters, len(scores) - len(scored), mean.value,
        interval.low, interval.high, threshold, confidence, verdict, texts, note,
    )  # fmt: skip


def _check_shares(confidence: float, max_unscored: float) -> None:
    if not 0 < confidence < 1:
        raise ConfigurationError(f"confidence= takes a share such as 0.95, not {confidence!r}")
    if not 0 <= max_unscored <= 1:
        raise ConfigurationError(
            f"max_unscored= takes a share of the texts such as {MAX_UNSCORED:g}, not"
            f" {max_unscored!r}"
        )


def _check_threshold(scale: Scale | None, aspect: str, threshold: float, kind: str) -> None:
    """Raise unless scores can be on either side of a threshold: else a check decides nothing."""
    low, high = scale or (-math.inf, math.inf)
    if not (low <= threshold <= high and math.isfinite(threshold)):
        of_scale = "" if scale is None else f"; scores of {aspect!r} are from {low:g} to {high:g}"
        raise ConfigurationError(
            f"{kind}={threshold:g} decides nothing: its result is the same for all scores{of_scale}"
        )


def _objection(
    run: Run,
    aspect: str,
    scale: Scale | None,
    threshold: float,
    sign: int,
) -> str:
    """Return in words that people's mean is on the wrong side of a threshold, else an empty text.

    Also empty if there are no ratings of the judged texts, or they have another scale, such as pass
    and fail: `join` would raise then, but a gate decides by the scores alone.
    """
    if scale is None:
        return ""
    people = People(run.judged).of_texts({score.id: score.text_digest for score in run})
    if aspect not in run.labels and scale != (0, 1) and people.are_words(aspect):
        return ""
    ratings = people.ratings(aspect)
    rated = np.isfinite(ratings)
    values = ratings[rated]
    if not len(values) or values.min() < scale[0] or values.max() > scale[1]:
        return ""
    groups = people.groups_of(aspect) or [None] * len(ratings)
    codes = group_codes(group for group, is_rated in zip(groups, rated, strict=True) if is_rated)
    mean = mean_over_groups(values, codes).value
    if sign * mean >= sign * threshold:
        return ""
    return (
        f": the judge's scores meet it, and the mean of people's ratings of {len(values)} of the"
        f" texts is {mean:.3f}; textassay estimate combines both"
    )


def _select_scores(run: Run, aspect: str, *, max_unscored: float = MAX_UNSCORED) -> list[Score]:
    """Return the scores of an aspect, or of a label of one: 1 where it was given, else 0."""
    if aspect in run.without_mean:
        labels = run.labels[aspect].names
        shares = " or ".join(repr(member_name(aspect, label)) for label in labels)
        raise ConfigurationError(
            f"the labels of {aspect!r} have no order, and so no mean to check; check the share of"
            f" one, {shares}, or compare them with people's (textassay agreement)"
        )
    scores = _of_label(run, aspect) or [score for score in run if score.aspect == aspect]
    if not scores:
        raise UnknownName("aspect of the run", aspect, sorted({score.aspect for score in run}))
    unscored = [score for score in scores if score.value is None]
    # few missing scores cannot change a verdict much; many may be exactly the bad texts
    if len(unscored) == len(scores) or len(unscored) > max_unscored * len(scores):
        outcomes = Counter(score.outcome for score in unscored)
        listed = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        errors = (score.error for score in unscored if score.error)
        reasons = Counter(f"{error.type}: {error.message}" for error in errors).most_common(1)
        commonest = f"; most often: {reasons[0][0]}" if reasons else ""
        raise JudgeError(
            f"{aspect}: {len(unscored)} of {len(scores)} texts have no score ({listed}), so nothing"
            f" can be concluded about the system{commonest}"
        )
    return scores


def _of_label(run: Run, name: str) -> list[Score]:
    """Return whether each text got the label in a name of `with_labels`; empty for other names."""
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


def _interval_on_scale(means: Floats, scale: Scale, confidence: float) -> Estimate:
    """Return the mean of sources, and an interval that allows for scores that none shows."""
    low, high = scale
    shares = (means - low) / (high - low)
    tail = (1 - confidence) / 2
    below, above = least_mean(shares, tail), 1 - least_mean(1 - shares, tail)
    return Estimate(
        math.fsum(means) / len(means), low + below * (high - low), low + above * (high - low)
    )


def check_not_worse(
    run: Run,
    baseline: Baseline,
    *,
    by: float,
    aspects: str | Iterable[str] | None = None,
    confidence: float = 0.95,
    max_unscored: float = MAX_UNSCORED,
) -> list[GateCheck]:
    """Check that scores did not fall by more than a margin since a baseline, paired by source.

    If a low score is good, they must not rise by more. For labels without an order, the share of
    each label is checked, named `ASPECT/LABEL`.
    """
    _check_shares(confidence, max_unscored)
    if not 0 <= by < math.inf:
        raise ConfigurationError(f"by= must be a margin of at least 0, not {by:g}")
    new = scores_by_aspect(run)
    old = scores_by_aspect(baseline) if isinstance(baseline, Run) else read_judged(baseline)
    names = [aspects] if isinstance(aspects, str) else aspects
    # sources come from the new run's data: the baseline may be a bare file of scores
    rows = compare_runs(new, old, People(run.examples()), aspects=names, confidence=confidence)
    return [_check(row, run, old[row.aspect], by, confidence, max_unscored) for row in rows]


def scores_by_aspect(run: Run) -> dict[str, Judged]:
    """Return a run's scores by aspect, as `read_judged` does for a folder."""
    return read_judged(run, LabelReader(run.labels))


def _check(
    row: CompareRow, run: Run, old: Judged, by: float, confidence: float, max_unscored: float
) -> GateCheck:
    scores = _select_scores(run, row.aspect, max_unscored=max_unscored)
    if row.unscored > max_unscored * (row.n + row.unscored):
        raise JudgeError(
            f"{row.aspect}: {row.unscored} of {row.n + row.unscored} texts have no score in one of "
            "the two runs, so their difference is unknown"
        )
    scale = scores[0].scale
    if scale is not None and by >= scale[1] - scale[0]:
        raise ConfigurationError(
            f"by={by:g} is as wide as the scale of {row.aspect!r}, so the check could never fail"
        )
    first, second = row.signatures
    # a score of another judge can differ without any change of the system under test
    if first != second:
        raise ConfigurationError(
            f"{row.aspect}: the baseline was judged differently, so the scores are not comparable; "
            f"record it again (now {first!r}, baseline {second!r})"
        )
    falls = row.aspect in lower_is_better(run.manifest)
    gain = advantage(row.difference, falls=falls)
    verdict = verdict_on(gain, -by)
    rare = rare_change(row.groups) if verdict == "holds" else ""
    up = -1 if falls else 1
    examples = {example.id: example for example in run.examples()}
    paired = (
        _Loss(up * (before - score.value), score, f" (baseline {before:g})")
        for score in scores
        if score.value is not None and (before := old.values.get(score.id)) is not None
    )
    losses = _sort_losses(paired, examples)
    worse = [loss.score.id for loss in losses if loss.loss > 0]
    lines = _worst("the largest losses:", losses, examples)
    return GateCheck(
        "not_worse", row.aspect, row.n, row.groups, row.unscored, up * (row.a - row.b), gain.low,
        gain.high, -by, confidence, verdict,
        () if verdict == "holds" else lines, f": {rare}" if rare else "",
        worse=len(worse), regressed=tuple(worse[:20]),
    )  # fmt: skip


def _move_settings(keywords: dict[str, Any]) -> None:
    """Replace single settings among the arguments by `settings`."""
    arguments = tuple(inspect.signature(evaluate).parameters)
    single = {name: keywords.pop(name) for name in list(keywords) if name not in arguments}
    of_session = {
        "cache": "textassay_answers in pytest's configuration",
        "max_cost": "--textassay-max-cost",
    }
    for name in single:
        if name not in Settings.model_fields:
            raise UnknownParameter("evaluate", name, [*arguments, *Settings.model_fields])
        if name in of_session:
            raise ConfigurationError(
                f"{name}= is set once for all tests of a session: {of_session[name]}"
            )
    if single:
        general: Settings = keywords.get("settings") or Settings()
        set_before = {name: getattr(general, name) for name in general.model_fields_set}
        keywords["settings"] = Settings(**{**set_before, **single})


class Assay:
    """Judges texts and checks their scores; one per test.

    In an async test `run = await assay("data.jsonl")`, in any other one
    `run = assay.evaluate_sync("data.jsonl")`.
    """

    def __init__(
        self, judge: Judge, report: Callable[[GateCheck], object], defaults: Mapping[str, Any]
    ) -> None:
        """Store the objects that tests share.

        Args:
            judge: How models are asked.
            report: Called with every check that was decided; raises if the test is to end there.
            defaults: Arguments of `textassay.evaluate` that the test need not repeat.
        """
        self.judge = judge
        self._report, self._defaults = report, dict(defaults)

    async def evaluate(self, examples: Any, **arguments: Any) -> Run:
        """Judge every example and return the run.

        Args:
            examples: As `textassay.evaluate`.
            **arguments: Keyword arguments of `textassay.evaluate`, and settings of how models are
                asked (`api_base`, `price`, ...), in place of the test's own.

        Raises:
            TextassayError: As `textassay.evaluate`.
            ConfigurationError: A setting has no effect in tests.
            JudgeError: In a replay, a text was never judged; names it.
        """
        # test suites capture standard error, where a progress line would be noise
        keywords = {"progress": False, **self._defaults, **arguments}
        _move_settings(keywords)
        # taken out, because the session's judge opens the models: they share one recording and one
        # budget
        model, settings = keywords.pop("model", None), keywords.pop("settings", None)
        async with self.judge.models(model, settings) as (models, opened_settings):
            run = await evaluate(examples, model=models, settings=opened_settings, **keywords)
        if run.progress:
            self.judge.usage = self.judge.usage + run.progress.usage
        self._check_all_judged(run)
        return run

    def _check_all_judged(self, run: Run) -> None:
        """Raise if a text was never judged: a gate that leaves it out would let it through."""
        if self.judge.mode != "replay":
            return
        # a replay refuses nothing else
        errors = [(score.id, score.error) for score in run if score.error]
        never = [(id_, error) for id_, error in errors if error.type == RequestRefused.__name__]
        ids = list(dict.fromkeys(id_ for id_, _ in never))
        if ids:
            more = ", ..." if len(ids) > SHOWN else ""
            raise JudgeError(
                f"{len(ids)} {'text was' if len(ids) == 1 else 'texts were'} never judged:"
                f" {', '.join(map(repr, ids[:SHOWN]))}{more}; {self.judge.folder} has no answer for"
                " them. Run pytest --textassay=record and commit that folder. The first:"
                f" {never[0][1].message}"
            )

    __call__ = evaluate

    def evaluate_sync(self, examples: Any, **arguments: Any) -> Run:
        """Do what `evaluate` does in a test that is not async."""
        return asyncio.run(self.evaluate(examples, **arguments))

    def check(
        self,
        run: Run,
        aspect: str,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        confidence: float = 0.95,
        max_unscored: float = MAX_UNSCORED,
    ) -> GateCheck:
        """Check that the mean score of an aspect is at least, or at most, a threshold.

        It fails if the whole interval is on the wrong side, and is inconclusive if the interval
        spans the threshold.

        Args:
            run: The run to check.
            aspect: One of its aspects.
            at_least: The threshold, on the score's own scale.
            at_most: The threshold if a low score is good, in place of `at_least`.
            confidence: Confidence of the interval.
            max_unscored: Share of texts without a score up to which the others decide.

        Raises:
            CheckFailed: It fails.
            Inconclusive: It is inconclusive, and that counts as a failure here.
            JudgeError: Too many texts have no score.
            ConfigurationError: Both thresholds are given or neither, one decides nothing, or
                `at_least` is given although a low score is good.
        """
        __tracebackhide__ = True
        kinds: dict[Literal["at_least", "at_most"], float | None] = {
            "at_least": at_least, "at_most": at_most,
        }  # fmt: skip
        thresholds = [(kind, value) for kind, value in kinds.items() if value is not None]
        if len(thresholds) != 1:
            raise ConfigurationError("check takes one threshold: at_least= or at_most=")
        ((kind, threshold),) = thresholds
        result = check_mean(
            run, aspect, threshold, kind, confidence=confidence, max_unscored=max_unscored
        )
        self._report(result)
        return result

    def check_not_worse(
        self,
        run: Run,
        *,
        baseline: Baseline,
        by: float = 0.0,
        aspects: str | Iterable[str] | None = None,
        confidence: float = 0.95,
        max_unscored: float = MAX_UNSCORED,
    ) -> list[GateCheck]:
        """Check that no aspect is worse than in a recorded run by more than a margin.

        Args:
            run: The new run.
            baseline: A run, a run folder or a file of scores, of texts with the same ids.
            by: The margin, on the score's own scale.
            aspects: Aspects to compare; by default all that both judged.
            confidence: Confidence of the intervals.
            max_unscored: Share of texts that may lack one of the two scores.

        Raises:
            CheckFailed: An aspect fails.
            Inconclusive: One is inconclusive, and that counts as a failure here.
            JudgeError: Too many texts have no score.
        """
        __tracebackhide__ = True
        results = check_not_worse(
            run, baseline, by=by, aspects=aspects, confidence=confidence, max_unscored=max_unscored
        )
        for check in sorted(results, key=lambda check: check.verdict):  # "fails" comes first
            self._report(check)
        return results


RecordingMode = Literal["record", "replay", "live"]
"""`record` sends requests without a recorded answer, `replay` sends none, `live` sends all."""


class Judge:
    """The judges of a test session: their settings, recorded answers and cost."""

    def __init__(self, mode: RecordingMode, folder: Path, *, max_cost: float | None = None) -> None:
        """Store how models are asked.

        Args:
            mode: Whether answers are recorded, replayed, or neither.
            folder: Where answers are kept.
            max_cost: The most that the session may cost, in US dollars.
        """
        self.mode: RecordingMode = mode
        self.folder, self.max_cost = folder, max_cost
        self.usage = Usage()
        # one budget for the session: the limit is on the test suite, not on each test
        self._budget = Budget(max_cost)

    @asynccontextmanager
    async def models(
        self, given: ModelsByRole | None, settings: Settings | None
    ) -> AsyncIterator[tuple[dict[str, Model] | None, Settings | None]]:
        """Open the models of one evaluation.

        Yields:
            The models by role, and the run's own settings.

        Raises:
            ConfigurationError: Nothing is recorded for a model, or its price is not known although
                there is a cap.
        """
        if given is None:
            yield None, None
            return
        roles = models_by_role(given)
        async with AsyncExitStack() as stack:
            opened = {
                role: await self._open(model, (settings or Settings()).for_role(role), stack)
                for role, model in roles.items()
            }
            cached = self.mode == "record" and any(
                isinstance(model, ConnectedModel) for model in opened.values()
            )
            yield opened, Settings(cache=self.folder) if cached else None

    async def _open(self, model: str | Model, settings: Settings, stack: AsyncExitStack) -> Model:
        name = model if isinstance(model, str) else model.name
        sampling = Sampling.of(model.settings if isinstance(model, ConnectedModel) else settings)
        # in replay no backend is opened, so neither its package nor a key is needed
        if self.mode == "replay" and not name.startswith("replay/"):
            recorded = self._open_recording(name, settings, sampling)
            stack.push_async_callback(recorded.aclose)
            return recorded
        if isinstance(model, ConnectedModel):
            connected = model
        else:
            if isinstance(model, str):
                await load_backend(model)
            # the session's folder is the only cache: a second one would answer before anything is
            # recorded
            plain = settings.model_copy(update={"cache": None, "max_cost": None})
            connected = connect(model, settings=plain, budget=self._budget)
            if isinstance(model, str):  # models of the caller stay open
                await stack.enter_async_context(connected)
        # a limit that cannot be computed would never be reached
        if self.max_cost is not None and connected.price is None:
            raise ConfigurationError(
                f"--textassay-max-cost cannot be enforced: the price of {name!r} is not known; "
                "give settings=Settings(price=(IN, OUT)), US dollars per million tokens"
            )
        if self.mode == "record":
            self._remember(name, settings, connected, sampling)
        return connected

    def _remember(self, name: str, settings: Settings, model: Model, sampling: Sampling) -> None:
        file = self._file(name, settings)
        try:
            before = json.loads(read_regular(file)) if file.is_file() else {}
        except (OSError, ValueError) as error:
            raise StorageError(f"{file} cannot be read: {error}") from error
        fields, settings_before = sampling.fields, before.get("sampling", [])
        entry = {
            "name": model.name,
            "identity": dict(model.identity),
            # kept beside the identity: in replay methods choose their prompts by what the model
            # can do
            "capabilities": model.capabilities.model_dump(mode="json"),
            # of all tests: a replay says where it is asked otherwise
            "sampling": settings_before + [fields] * (fields not in settings_before),
        }
        try:
            # an unchanged file is not written, so that repeated recording leaves nothing to commit
            if before == json.loads(json.dumps(entry)):
                return
            # before other files are in the folder, since a cache refuses foreign folders
            prepare(self.folder)
            file.parent.mkdir(parents=True, exist_ok=True)
            write_json(file, entry)
        except OSError as error:
            raise StorageError(f"{file} cannot be written: {error}") from error

    def _open_recording(self, name: str, settings: Settings, sampling: Sampling) -> RecordedModel:
        file = self._file(name, settings)
        try:
            entry: dict[str, Any] = json.loads(read_regular(file))
            capabilities = Capabilities(**entry["capabilities"])
            recorded = [Sampling(**fields) for fields in entry["sampling"]]
            return RecordedModel(
                entry["name"], entry["identity"], capabilities, self.folder,
                sampling=sampling, recorded=recorded,
            )  # fmt: skip
        except FileNotFoundError:
            raise ConfigurationError(
                f"no answers of {name!r} are recorded in {self.folder}; run the tests once with "
                "--textassay=record and commit that folder"
            ) from None
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise StorageError(f"{file} cannot be used: {error}") from error

    def _file(self, name: str, settings: Settings) -> Path:
        # the same name at another address may be another model
        whole = f"{name}\n{settings.api_base or ''}"
        digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
        plain = re.sub(r"[^A-Za-z0-9.-]+", "-", name)[-60:]
        return self.folder / "models" / f"{plain}-{digest}.json"

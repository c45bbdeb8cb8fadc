"""The object that a test judges with: it evaluates, and it decides."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from textassay.evaluation.api import evaluate
from textassay.evaluation.run import Run
from textassay.gates.checks import (
    MAX_UNSCORED,
    SHOWN,
    Baseline,
    Check,
    JudgeError,
    check_at_least,
    check_not_worse,
)
from textassay.gates.recording import Judge
from textassay.runtime.errors import ConfigurationError, RequestRefused, UnknownParameter
from textassay.runtime.settings import Settings

_ARGUMENTS = tuple(inspect.signature(evaluate).parameters)
_OF_SESSION = {
    "cache": "textassay_answers in pytest's configuration",
    "max_cost": "--textassay-max-cost",
}
"""Settings that all tests of a session have together, and where they are given."""


def _move_settings(given: dict[str, Any]) -> None:
    """Replace single settings among the arguments by `settings`.

    Raises:
        UnknownParameter: A name is neither an argument of `evaluate` nor a setting.
        ConfigurationError: A setting is one of the session.
    """
    own = {name: given.pop(name) for name in list(given) if name not in _ARGUMENTS}
    for name in own:
        if name not in Settings.model_fields:
            raise UnknownParameter("evaluate", name, [*_ARGUMENTS, *Settings.model_fields])
        if name in _OF_SESSION:
            raise ConfigurationError(
                f"{name}= is one for all tests of a session: {_OF_SESSION[name]}"
            )
    if own:
        general: Settings = given.get("settings") or Settings()
        set_before = {name: getattr(general, name) for name in general.model_fields_set}
        given["settings"] = Settings(**{**set_before, **own})


class Assay:
    """Judges texts and checks their scores; one per test.

    In an async test `run = await assay("data.jsonl")`, in any other one
    `run = assay.evaluate_sync("data.jsonl")`.
    """

    def __init__(
        self, judge: Judge, report: Callable[[Check], object], defaults: Mapping[str, Any]
    ) -> None:
        """Store what a test shares with the others.

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
        # a test suite captures standard error, where a progress line would be noise
        given = {"progress": False, **self._defaults, **arguments}
        _move_settings(given)
        # taken out, because the session's judge opens the models: they share one recording and one
        # budget
        model, settings = given.pop("model", None), given.pop("settings", None)
        async with self.judge.models(model, settings) as (models, own):
            run = await evaluate(examples, model=models, settings=own, **given)
        if run.progress is not None:
            self.judge.usage = self.judge.usage + run.progress.usage
        self._refuse_unrecorded(run)
        return run

    def _refuse_unrecorded(self, run: Run) -> None:
        """Raise if a text was never judged: a gate that leaves it out would let it through."""
        if self.judge.mode != "replay":
            return
        # a replay refuses nothing else
        never = [one for one in run if one.error and one.error.type == RequestRefused.__name__]
        ids = list(dict.fromkeys(one.id for one in never))
        if ids:
            more = ", ..." if len(ids) > SHOWN else ""
            raise JudgeError(
                f"{len(ids)} {'text was' if len(ids) == 1 else 'texts were'} never judged:"
                f" {', '.join(map(repr, ids[:SHOWN]))}{more}; {self.judge.folder} has no answer for"
                " them. Run pytest --textassay=record and commit that folder"
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
        at_least: float,
        confidence: float = 0.95,
        max_unscored: float = MAX_UNSCORED,
    ) -> Check:
        """Check that the mean score of an aspect is at least a threshold.

        It fails if the whole interval is below, and is inconclusive if the interval spans it.

        Args:
            run: What was judged.
            aspect: Which of its aspects.
            at_least: The threshold, on the score's own scale.
            confidence: Confidence of the interval.
            max_unscored: Share of texts without a score up to which the others decide.

        Raises:
            CheckFailed: It fails.
            Inconclusive: It is inconclusive, and that counts as a failure here.
            JudgeError: Too many texts have no score.
        """
        __tracebackhide__ = True
        result = check_at_least(
            run, aspect, at_least, confidence=confidence, max_unscored=max_unscored
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
    ) -> list[Check]:
        """Check that no aspect is worse than in a recorded run by more than a margin.

        Args:
            run: The new run.
            baseline: A run, a run folder or a file of scores, of texts with the same ids.
            by: The margin, on the score's own scale.
            aspects: What to compare; all that both judged if left out.
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

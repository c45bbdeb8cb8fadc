"""The object that a test judges with: it evaluates, and it decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from textassay.evaluation.api import evaluate
from textassay.evaluation.run import Run
from textassay.gates.checks import MAX_UNSCORED, Baseline, Check, check_at_least, check_not_worse
from textassay.gates.recording import Judge


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
            **arguments: Keyword arguments of `textassay.evaluate`, in place of the test's own.

        Raises:
            TextassayError: As `textassay.evaluate`.
        """
        # a test suite captures standard error, where a progress line would be noise
        given = {"progress": False, **self._defaults, **arguments}
        # taken out, because the session's judge opens the models: they share one recording and one
        # budget
        model, settings = given.pop("model", None), given.pop("settings", None)
        async with self.judge.models(model, settings) as (models, own):
            run = await evaluate(examples, model=models, settings=own, **given)
        if run.progress is not None:
            self.judge.usage = self.judge.usage + run.progress.usage
        return run

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

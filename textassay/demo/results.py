"""Reads from the demo's folder what came out.

Tables of agreement, means by treatment, and one example's evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from textassay.demo.comparison import TaskComparison, Treatments, by_treatment, compare_with_ratings
from textassay.demo.layout import DemoFolder
from textassay.demo.recipes import BASELINES, FITTED, NODES, Recipe, recipes_of
from textassay.meta.score_files import Recorded, read_scores
from textassay.runtime.data.dataset import Examples
from textassay.runtime.messages import Example, Score, Usage
from textassay.runtime.storage.run_files import latest_scores

TREATED = {"summarization": "consistency", "dialogue": "overall", "data-to-text": "quality"}
"""The aspect of each task whose means are shown by what was done to the texts."""
EXAMPLE, ASPECT = "bridge-wrong", "consistency"
"""Whose evidence is shown, of the first task."""
WITH_EVIDENCE = ("decomp-eval", "claims", "hd-eval", "fusion-eval")


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What came out for one task.

    Attributes:
        treatments: Means by what was done to the texts.
        comparison: Agreement over all texts.
        held_out: Agreement of HD-Eval, averaged and fitted, over the texts of sources that nothing
            was learned from.
    """

    treatments: Treatments
    comparison: TaskComparison
    held_out: TaskComparison


@dataclass(frozen=True, slots=True)
class ShownExample:
    """One example with what several methods say of it and why.

    Attributes:
        example: The example.
        scores: The methods' scores of one aspect, by name of the method.
    """

    example: Example
    scores: dict[str, Score]


def result_of(layout: DemoFolder, task: str) -> TaskResult:
    """Read what came out for a task.

    Raises:
        TextassayError: A run cannot be read.
    """
    examples, held_out = (
        list(Examples(layout.data(task))),
        list(Examples(layout.data(task, held_out=True))),
    )
    judged = {recipe.name: _judged(layout, task, recipe, examples) for recipe in recipes_of(task)}
    trivial = _values(layout, task, BASELINES.name)
    # the plain mean beside the fitted one on the same held-out texts: what learning adds
    fitted = {NODES.method: judged[NODES.method], FITTED: _values(layout, task, FITTED)}
    return TaskResult(
        by_treatment(TREATED[task], examples, judged),
        compare_with_ratings(task, examples, trivial, judged),
        compare_with_ratings(task, held_out, trivial, fitted),
    )


def shown_example(layout: DemoFolder) -> ShownExample:
    """Read one example with the evidence behind its scores.

    Raises:
        TextassayError: A run cannot be read.
    """
    task = layout.tasks[0]
    example = next(example for example in Examples(layout.data(task)) if example.id == EXAMPLE)
    return ShownExample(example, {name: _score(layout, task, name) for name in WITH_EVIDENCE})


def agreement_as_dict(results: Sequence[TaskResult]) -> dict[str, object]:
    """Return the tables of agreement as JSON values."""
    return {
        "format": 1,
        "tasks": [
            result.comparison.as_dict() | {"held_out": result.held_out.as_dict()}
            for result in results
        ],
    }


def outcomes(layout: DemoFolder) -> Counter[str]:
    """Count the scores of all runs by outcome."""
    counts: Counter[str] = Counter()
    for folder in _runs(layout):
        counts.update(score.outcome for score in latest_scores(layout.run(*folder)))
    return counts


def usage(layout: DemoFolder) -> Usage:
    """Return what all runs asked."""
    return sum(
        (score.usage for folder in _runs(layout) for score in latest_scores(layout.run(*folder))),
        Usage(),
    )


def _runs(layout: DemoFolder) -> list[tuple[str, str]]:
    return [
        (task, name)
        for task in layout.tasks
        for name in (BASELINES.name, *(r.name for r in recipes_of(task)), NODES.name, FITTED)
    ]


def _values(layout: DemoFolder, task: str, name: str) -> Recorded:
    return read_scores(layout.run(task, name))


def _judged(layout: DemoFolder, task: str, recipe: Recipe, examples: Sequence[Example]) -> Recorded:
    """Return a recipe's scores by aspect; a tool's one number stands for every aspect."""
    found = _values(layout, task, recipe.name)
    if recipe.method != BASELINES.method:
        return found
    (values,) = found.values()
    return dict.fromkeys((name for example in examples for name in example.human), values)


def _score(layout: DemoFolder, task: str, name: str) -> Score:
    return next(
        s for s in latest_scores(layout.run(task, name)) if (s.id, s.aspect) == (EXAMPLE, ASPECT)
    )

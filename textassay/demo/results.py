"""What came out of the demo: agreement with our ratings, means by treatment, evidence, decisions.

Agreement stands beside that of trivial surface measures. One judge of one task is calibrated and
estimated from some of our ratings, and tested against all of our raters. Reads runs; asks no model.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from textassay.agreement.records import Recorded, read_scores
from textassay.agreement.table import agreement_table
from textassay.demo.pipeline import BASELINES, FITTED, NODES, DemoFolder, Recipe, list_recipes
from textassay.estimation import (
    AnnotatorTest,
    Columns,
    EstimateRow,
    People,
    annotator_test,
    calibrate,
    estimate_means,
    join_columns,
    read_judged,
    scales_of,
)
from textassay.runtime.data.dataset import Examples
from textassay.runtime.messages import Example, Score, Usage
from textassay.runtime.storage.run_files import latest_scores

TREATED = {"summarization": "consistency", "dialogue": "overall", "data-to-text": "quality"}
"""The aspect of each task whose means are shown by what was done to the texts."""
EXAMPLE, ASPECT = "bridge-wrong", "consistency"
"""Whose evidence is shown, of the first task."""
WITH_EVIDENCE = ("decomp-eval", "claims", "hd-eval", "fusion-eval")
JUDGE = "g-eval"
MISLED = ("coherence", "lead", "garbled")
"""An aspect, and two things that were done to texts, the second of which is clearly worse."""
RATED = 4
"""Sources whose ratings are used; those of the others are kept to look at afterward."""


@dataclass(frozen=True, slots=True)
class ComparisonLine:
    """One way of scoring against the ratings."""

    name: str
    trivial: bool  # whether it looks at the surface alone
    # at dataset level, by human aspect that is judged; `None` if undefined
    spearman: dict[str, float | None]
    n: int  # fewest rows behind any of them


@dataclass(frozen=True, slots=True)
class TaskComparison:
    """All lines of one task, over the same examples."""

    task: str
    aspects: tuple[str, ...]
    examples: int
    groups: int
    lines: tuple[ComparisonLine, ...]  # the trivial ones first

    def bar(self, aspect: str) -> float:
        """Return what a judge must beat: the best trivial coefficient, whichever its sign.

        The sign and the best of several are picked with the ratings in view, which is in favor of
        the trivial ones.
        """
        values = [line.spearman.get(aspect) for line in self.lines if line.trivial]
        return max((abs(value) for value in values if value is not None), default=0.0)

    def is_bar(self, line: ComparisonLine, aspect: str) -> bool:
        """Whether a trivial line is the one that a judge must beat."""
        value = line.spearman.get(aspect)
        return line.trivial and value is not None and abs(value) == self.bar(aspect)

    def beats(self, line: ComparisonLine, aspect: str) -> bool:
        """Whether a line is above the best trivial measure; one without a coefficient is not."""
        value = line.spearman.get(aspect)
        # the judge's sign counts although the bar ignores that of trivial measures: see `bar`
        return value is not None and value > self.bar(aspect)

    def won(self, line: ComparisonLine) -> list[str]:
        """Return the aspects on which a line beats the best trivial measure."""
        return [aspect for aspect in self.aspects if self.beats(line, aspect)]

    @property
    def judges(self) -> tuple[ComparisonLine, ...]:
        """The lines that are not trivial."""
        return tuple(line for line in self.lines if not line.trivial)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "task": self.task,
            "level": "dataset",
            "coefficient": "spearman",
            "examples": self.examples,
            "groups": self.groups,
            "best_trivial": {aspect: self.bar(aspect) for aspect in self.aspects},
            "lines": [
                {"name": line.name, "trivial": line.trivial, "n": line.n, "spearman": line.spearman}
                | ({} if line.trivial else {"beats_best_trivial": self.won(line)})
                for line in self.lines
            ],
        }


def compare_with_ratings(
    task: str, examples: Sequence[Example], trivial: Recorded, judged: Mapping[str, Recorded]
) -> TaskComparison:
    """Compare trivial measures and judges with the ratings of the examples."""
    aspects = tuple(dict.fromkeys(name for example in examples for name in example.human))
    named = [(name, True, dict.fromkeys(aspects, values)) for name, values in trivial.items()]
    named += [(name, False, scores) for name, scores in judged.items()]
    lines = []
    for name, is_trivial, scores in named:
        rows = agreement_table(scores, examples, bootstrap=0).rows
        found = {row.human: row.agreement for row in rows}
        spearman = {
            aspect: found[aspect].spearman if aspect in found else None
            for aspect in aspects
            if aspect in scores
        }
        # the fewest rows: a line must not look better covered than its worst aspect
        least = min(one.n for one in found.values())
        lines.append(ComparisonLine(name, is_trivial, spearman, least))
    groups = len({example.group for example in examples})
    return TaskComparison(task, aspects, len(examples), groups, tuple(lines))


@dataclass(frozen=True, slots=True)
class Treatments:
    """Mean score of every method by what was done to the texts (`system`)."""

    aspect: str
    systems: tuple[str, ...]
    # by name: mean by system, `None` if nothing was scored
    rows: dict[str, tuple[float | None, ...]]


def by_treatment(
    aspect: str, examples: Sequence[Example], judged: Mapping[str, Recorded]
) -> Treatments:
    """Return mean scores by what was done to the texts, the assigned ratings first."""
    systems = tuple(dict.fromkeys(example.system or "" for example in examples))
    columns = {"our rating": {example.id: example.human.get(aspect) for example in examples}}
    columns |= {name: dict(scores[aspect]) for name, scores in judged.items() if aspect in scores}
    rows = {
        name: tuple(
            _mean(values.get(e.id) for e in examples if (e.system or "") == system)
            for system in systems
        )
        for name, values in columns.items()
    }
    return Treatments(aspect, systems, rows)


def in_order(examples: Sequence[Example], scores: Recorded) -> tuple[float, int]:
    """Return how many pairs of texts about one source are in the order of the ratings.

    Pairs of all aspects that are scored and rated, unequally; equal scores are half in order.
    """
    right, count = 0.0, 0
    for one, other in combinations(examples, 2):
        if one.group != other.group:
            continue
        for aspect in scores.keys() & one.human.keys() & other.human.keys():
            pairs = [(scores[aspect].get(text.id), text.human[aspect]) for text in (one, other)]
            known = [(s, r) for s, r in pairs if s is not None and r is not None]
            if len(known) == 2 and known[0][1] != known[1][1]:
                (a, first), (b, second) = known
                right += 0.5 if a == b else (a > b) == (first > second)
                count += 1
    return right, count


def misled(examples: Sequence[Example], scores: Recorded) -> tuple[int, int]:
    """Return in how many sources garbled words score above the clean text, and of how many."""
    aspect, clean, broken = MISLED
    found = {(example.group, example.system): scores[aspect].get(example.id)
             for example in examples if aspect in scores}  # fmt: skip
    pairs = [
        (value, other)
        for (group, system), value in found.items()
        if system == clean and value is not None
        and (other := found.get((group, broken))) is not None
    ]  # fmt: skip
    return sum(other > value for value, other in pairs), len(pairs)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What came out for one task."""

    treatments: Treatments  # means by what was done to the texts
    comparison: TaskComparison  # agreement over all texts
    # agreement of HD-Eval, averaged and fitted, over the texts of sources that nothing was learned
    # from
    held_out: TaskComparison
    # by method, pairs of texts about one source that are in the order of our ratings, and how many
    # pairs there are; the best method first
    in_order: dict[str, tuple[float, int]]
    # sources in which the judge prefers garbled words to the clean text, and sources
    misled: tuple[int, int]


def read_result(layout: DemoFolder, task: str) -> TaskResult:
    """Read what came out for a task."""
    examples = list(Examples(layout.data(task)))
    held_out = list(Examples(layout.data(task, held_out=True)))
    judged = {recipe.name: _judged(layout, task, recipe, examples) for recipe in list_recipes(task)}
    ordered = {name: in_order(examples, scores) for name, scores in judged.items()}
    ordered = dict(sorted(ordered.items(), key=lambda one: -one[1][0] / max(one[1][1], 1)))
    # what works leads
    judged = {name: judged[name] for name in ordered}
    trivial = _values(layout, task, BASELINES.name)
    # the plain mean beside the fitted one on the same held-out texts: what learning adds
    fitted = {NODES.method: judged[NODES.method], FITTED: _values(layout, task, FITTED)}
    return TaskResult(
        by_treatment(TREATED[task], examples, judged),
        compare_with_ratings(task, examples, trivial, judged),
        compare_with_ratings(task, held_out, trivial, fitted),
        ordered,
        misled(examples, judged[JUDGE]),
    )


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
    return Counter(score.outcome for score in _all_scores(layout))


def usage(layout: DemoFolder) -> Usage:
    """Return what all runs asked."""
    return sum((score.usage for score in _all_scores(layout)), Usage())


def _all_scores(layout: DemoFolder) -> Iterator[Score]:
    for task in layout.tasks:
        for name in (BASELINES.name, *(r.name for r in list_recipes(task)), NODES.name, FITTED):
            yield from latest_scores(layout.run(task, name))


def _values(layout: DemoFolder, task: str, name: str) -> Recorded:
    return read_scores(layout.run(task, name))


def _judged(layout: DemoFolder, task: str, recipe: Recipe, examples: Sequence[Example]) -> Recorded:
    """Return a recipe's scores by aspect; a tool's one number stands for every aspect."""
    found = _values(layout, task, recipe.name)
    if recipe.method != BASELINES.method:
        return found
    (values,) = found.values()
    return dict.fromkeys((name for example in examples for name in example.human), values)


@dataclass(frozen=True, slots=True)
class Decided:
    """One aspect."""

    estimate: EstimateRow  # means from the judge's scores of all texts and the ratings of some
    all_ratings: float  # mean of all our ratings, of which the estimate saw some
    # mean absolute distance of the judge's scores from the ratings, on the rated texts
    error: float
    calibrated_error: float  # the same of calibrated scores, by maps that saw other sources
    annotator_test: AnnotatorTest  # the alternative annotator test against all raters, by source


def decided(layout: DemoFolder) -> list[Decided]:
    """Calibrate, estimate and test each aspect of the first task."""
    task = layout.tasks[0]
    judged = read_judged(layout.run(task, JUDGE))
    tables = join_columns(judged, People(layout.data(task)))
    return [_decided(table) for table in tables]


def _decided(table: Columns) -> Decided:
    # whole sources are rated, as in practice a rater reads all texts of one article
    drawn = np.random.default_rng(0).permutation(int(table.groups.max()) + 1)[:RATED]
    some = np.where(np.isin(table.groups, drawn), table.ratings, np.nan)
    partly = replace(table, ratings=some)
    scales = scales_of(partly, {})
    _, report = calibrate(partly, scales=scales)
    agreement = report["agreement"]
    return Decided(
        estimate=estimate_means(partly, scales=scales).rows[0],
        all_ratings=float(np.mean(table.ratings)),
        error=agreement["before"]["mean_absolute_error"],
        calibrated_error=agreement["after"]["mean_absolute_error"],
        annotator_test=annotator_test(table, scales=scales_of(table, {})),
    )

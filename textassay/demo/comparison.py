"""Agreement of every method with the assigned ratings, beside trivial surface measures.

Pure functions from recorded scores and examples to tables of numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from textassay.meta.score_files import Recorded
from textassay.meta.table import agreement_table
from textassay.runtime.messages import Example


@dataclass(frozen=True, slots=True)
class ComparisonLine:
    """One way of scoring against the ratings.

    Attributes:
        name: What it is called.
        trivial: Whether it looks at the surface alone.
        spearman: Spearman's rho at dataset level by human aspect; `None` if undefined, without the
            aspects that are not judged.
        n: Fewest rows behind any of them.
    """

    name: str
    trivial: bool
    spearman: dict[str, float | None]
    n: int


@dataclass(frozen=True, slots=True)
class TaskComparison:
    """All lines of one task, over the same examples.

    Attributes:
        task: Name of the task.
        aspects: The human aspects.
        examples: Number of examples.
        groups: Number of sources.
        lines: The trivial ones first.
    """

    task: str
    aspects: tuple[str, ...]
    examples: int
    groups: int
    lines: tuple[ComparisonLine, ...]

    def bar(self, aspect: str) -> float:
        """Return the bar that a judge must beat.

        The best trivial measure's coefficient, whichever its sign.

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
    """Compare trivial measures and judges with the ratings of the examples.

    Args:
        task: Name of the task.
        examples: With ratings; scores of other examples are left out.
        trivial: Value by measure and id; each is compared with every human aspect.
        judged: Scores by name of the method; each aspect is compared with the human aspect of its
            name.
    """
    aspects = tuple(dict.fromkeys(name for example in examples for name in example.human))
    lines = [
        _line(name, True, examples, dict.fromkeys(aspects, values))
        for name, values in trivial.items()
    ]
    lines += [_line(name, False, examples, scores) for name, scores in judged.items()]
    return TaskComparison(
        task, aspects, len(examples), len({example.group for example in examples}), tuple(lines)
    )


def _line(
    name: str, trivial: bool, examples: Sequence[Example], scores: Recorded
) -> ComparisonLine:
    rows = agreement_table(scores, examples).rows
    agreements = {row.human: row.agreement for row in rows}
    aspects = dict.fromkeys(aspect for example in examples for aspect in example.human)
    spearman = {
        aspect: agreements[aspect].spearman if aspect in agreements else None
        for aspect in aspects
        if aspect in scores
    }
    # the fewest rows: a line must not look better covered than its worst aspect
    return ComparisonLine(name, trivial, spearman, min(one.n for one in agreements.values()))


@dataclass(frozen=True, slots=True)
class Treatments:
    """Mean score of every method by what was done to the texts (`system`).

    Attributes:
        aspect: What was judged.
        systems: What was done, in the order of the data.
        rows: By name: mean by system, `None` if nothing was scored.
    """

    aspect: str
    systems: tuple[str, ...]
    rows: dict[str, tuple[float | None, ...]]


def by_treatment(
    aspect: str,
    examples: Sequence[Example],
    judged: Mapping[str, Recorded],
    ratings: str = "our rating",
) -> Treatments:
    """Return mean scores by what was done to the texts, the assigned ratings first.

    Args:
        aspect: What was judged.
        examples: With ratings and systems.
        judged: Scores by name of the method; those without the aspect are left out.
        ratings: What the row of ratings is called.
    """
    systems = tuple(dict.fromkeys(example.system or "" for example in examples))
    columns = {ratings: {example.id: example.human.get(aspect) for example in examples}}
    columns |= {name: dict(scores[aspect]) for name, scores in judged.items() if aspect in scores}
    rows = {
        name: tuple(
            _mean(values.get(e.id) for e in examples if (e.system or "") == system)
            for system in systems
        )
        for name, values in columns.items()
    }
    return Treatments(aspect, systems, rows)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None

"""From scores to the figures of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reproduce.scores import NotHere, Scorer
from reproduce.table import Column, Row, Statistic
from textassay import agreement
from textassay.runtime.messages import Example
from textassay.table import Estimate

Interval = tuple[float, float]


@dataclass(frozen=True)
class Figure:
    """One coefficient."""

    value: float | None
    """The coefficient; `None` if it is undefined."""
    interval: Interval | None = None
    """Its 95 % interval; `None` if there is none."""
    n: int = 0
    """Number of rows with both numbers; 0 for a mean of other figures."""


Figures = dict[tuple[Column, Statistic], Figure]


async def against_people(scorer: Scorer, row: Row, data: str, *, bootstrap: int) -> Figures:
    """Return how well a row's scores agree with people, or with a tool's scores.

    Raises:
        NotHere: Data, a model or a tool is missing.
    """
    values = await scorer.values(row, data)
    examples = scorer.examples(data)
    tool = None if row.against is None else await scorer.measured(row.against, data)
    found: Figures = {}
    for column, scores in values.items():
        if tool is None:
            rated = [one.human.get(column.rated) for one in examples]
            _check_rated(column, rated, data)
        else:
            # some papers report how far a judge agrees with a metric, which takes the place of
            # people
            rated = [tool[row.against or ""].get(one.id) for one in examples]
        found |= _figures(
            scorer,
            column,
            examples,
            [scores.get(one.id) for one in examples],
            rated,
            bootstrap=bootstrap,
        )
    return found


def between_raters(scorer: Scorer, row: Row, data: str, *, bootstrap: int) -> Figures:
    """Return how well two raters agree.

    Raises:
        NotHere: The data hold no such ratings.
    """
    examples = scorer.examples(data)
    found: Figures = {}
    for column in scorer.columns(data):
        first, second = (_ratings(examples, column, rater) for rater in row.raters or ())
        found |= _figures(scorer, column, examples, first, second, bootstrap=bootstrap)
    return found


def averages(
    columns: Sequence[Column], found: Mapping[tuple[Column, Statistic], Figure]
) -> Figures:
    """Return the figures of columns that are means over the columns before them."""
    made: Figures = {}
    for at, column in enumerate(columns):
        if column.data:
            continue
        for statistic in column.statistics:
            over = [
                before
                for before in columns[:at]
                if before.data and column.over in ("", before.data)
            ]
            values = [
                found[before, statistic].value if (before, statistic) in found else None
                for before in over
            ]
            whole = [value for value in values if value is not None]
            # a mean over some of the columns is not the paper's, so it stays empty
            complete = bool(values) and len(whole) == len(values)
            made[column, statistic] = Figure(sum(whole) / len(whole) if complete else None)
    return made


def _figures(
    scorer: Scorer,
    column: Column,
    examples: Sequence[Example],
    scores: Sequence[float | None],
    others: Sequence[float | None],
    *,
    bootstrap: int,
) -> Figures:
    groups = [one.group for one in examples]
    systems = [one.system for one in examples]
    found = agreement.correlate(
        scores,
        others,
        # with partial groups, rows without one would each become a group of their own
        groups=None if None in groups else groups,
        systems=None if None in systems else systems,
        level=scorer.table.level,
        bootstrap=bootstrap,
    )
    values: Mapping[str, Estimate] = {str(name): one for name, one in found.ci.items()}
    return {
        (column, statistic): Figure(
            getattr(found, statistic), interval_of(values.get(statistic)), found.n
        )
        for statistic in column.statistics
    }


def interval_of(estimate: Estimate | None) -> Interval | None:
    """Return the ends of an estimate's interval; `None` without one."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return None
    return estimate.low, estimate.high


def _check_rated(column: Column, rated: Sequence[float | None], data: str) -> None:
    if all(value is None for value in rated):
        raise NotHere(f"the data set {data!r} has no human ratings of {column.rated!r}")


def _ratings(examples: Sequence[Example], column: Column, rater: str) -> list[float | None]:
    if rater == "mean":
        found = [one.human.get(column.rated) for one in examples]
    elif rater == "crowd":
        crowd = [one.meta.get("crowd", {}).get(column.rated) for one in examples]
        found = [sum(given) / len(given) if given else None for given in crowd]
    else:
        at = int(rater) - 1
        single = [one.annotators.get(column.rated, ()) for one in examples]
        found = [given[at] if at < len(given) else None for given in single]
    if all(value is None for value in found):
        raise NotHere(f"the data hold no ratings of {column.rated!r} by rater {rater}")
    return found

"""The function `check`, which answers whether a judge may be trusted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from textassay.checking.next_commands import commands_for
from textassay.checking.result import Check, sort_rows
from textassay.checking.sources import read_pairs
from textassay.checking.verdicts import assess
from textassay.table import Note


def check(
    data: Any,
    ratings: Any = None,
    *,
    judge: str | Iterable[str] = (),
    human: str | Iterable[str] = (),
    group: str | None = None,
    seed: int = 0,
) -> Check:
    """Return the uses for which a judge may be trusted, by comparison with people's ratings.

    Columns are found by their names: the judge's, people's (one per rater, if several rated), the
    source that texts share, and the system that wrote them. Numbers, yes and no in several
    languages, and categories are understood.

    Args:
        data: A table with a column of the judge and one of people: a path (CSV, JSON Lines,
            Parquet, Excel), a data frame, or a list of dicts. Or a run, its folder, or a file of
            scores.
        ratings: Data with the ratings of a run; by default the data that the run judged.
        judge: Columns of the judge, or of several judges; of a run, names of its scores.
        human: Columns of people; of a run, human aspects.
        group: Column of the source that several texts share; they count as one source.
        seed: Seed of the resamples behind the intervals.

    Returns:
        The verdicts, which print as text.

    Raises:
        DataError: The data cannot be read.
        ConfigurationError: Names do not show which columns are the judge's and which are people's.
        UnknownName: There is no column of a given name.

    Example:
        >>> import textassay
        >>> rows = [{"judge": n % 2, "human": n % 2} for n in range(100)]
        >>> textassay.check(rows).verdict("gate")
        'yes'
    """
    source = read_pairs(data, ratings, judge=_names(judge), human=_names(human), group=group)
    rows = [assess(pair, seed=seed) for pair in source.pairs]
    first, *others = sort_rows(rows)
    [reading] = (r for row, r in zip(rows, source.readings, strict=True) if row is first)
    commands = commands_for(first, reading)
    return Check((first, *others), commands, tuple(map(Note, source.notes)))


def _names(names: str | Iterable[str]) -> tuple[str, ...]:
    parts = names.split(",") if isinstance(names, str) else names
    return tuple(part.strip() for part in parts if part.strip())

"""Reads tables, data sets and runs as pairs of a judge and people."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from textassay.agreement.labels import MAX_LABELS, mean_of_defined
from textassay.arrays import Codes, Floats
from textassay.checking.by_rater import spread_raters
from textassay.checking.next_commands import Reading, reading_of
from textassay.checking.pair import JudgedPair, PairScale
from textassay.checking.roles import Roles, find_roles
from textassay.checking.table_reader import (
    CellReader,
    RawTable,
    are_grades,
    polarity,
    read_cells,
    read_steps,
    read_table,
)
from textassay.runtime.column_names import ITEMS, columns_named
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName
from textassay.runtime.labels import YES_NO, majority

if TYPE_CHECKING:
    from textassay.estimation.columns import Columns

_TOPS = (1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 100.0)
"""Upper ends of the scales that people use."""


class FoundSource(NamedTuple):
    """The pairs that were read, with notes."""

    pairs: list[JudgedPair]
    notes: list[str]
    readings: list[Reading]
    """How other commands read the data of each pair."""


def read_pairs(
    data: Any,
    ratings: Any = None,
    *,
    judge: Sequence[str] = (),
    human: Sequence[str] = (),
    group: str | None = None,
) -> FoundSource:
    """Read the ratings of the same texts by a judge and by people.

    Args:
        data: A table with both, or a run or file of scores.
        ratings: Data with the ratings of a run; by default the run's own.
        judge: Columns or score names of the judge; found by their names if left out.
        human: Columns or human aspects of people; found by their names if left out.
        group: Column of the source that texts share; found by its name if left out.

    Raises:
        DataError: The data cannot be read.
        ConfigurationError: The roles of the columns are unknown; says what to type.
        UnknownName: There is no column of a given name.
    """
    folder = getattr(data, "folder", None)
    if folder is not None and hasattr(data, "scores"):
        data = folder
    if isinstance(data, str | PathLike) and (
        # `run_files.SCORES`, whose import would load pydantic
        Path(data).is_dir() or Path(data).name == "scores.jsonl" or ratings is not None
    ):
        return _of_run(Path(data), ratings, judge, human)
    table = spread_raters(read_table(data))
    columns = {n: read_cells(n, cells, table.decimal) for n, cells in table.columns.items()}
    roles = find_roles(table, columns, judge=judge, human=human, group=group)
    path = Path(data) if isinstance(data, str | PathLike) else None
    named = (("--judge", ",".join(judge)), ("--human", ",".join(human)), ("--group", group or ""))
    options = tuple(word for pair in named if pair[1] for word in pair)
    return _of_table(table, columns, roles, path, options)


def _of_table(
    table: RawTable,
    columns: Mapping[str, CellReader],
    roles: Roles,
    path: Path | None,
    options: tuple[str, ...],
) -> FoundSource:
    rows = {
        "groups": _source_codes(_keys(table, roles.group)),
        "has_groups": roles.group is not None,
        "systems": _system_codes(_keys(table, roles.system)),
    }
    notes = list(table.notes)
    pairs = []
    for judge, people in roles.pairs:
        steps = read_steps([columns[name] for name in (judge, *people)])
        notes += [steps.note] if steps.note else []
        judge_cells, *human_cells = steps.columns
        pairs.append(pair := _GivenColumns(table, judge_cells, human_cells).pair(rows))
        split = np.isnan(pair.ratings) & ~np.isnan(pair.raters).all(axis=1)
        if split.any():
            notes.append(
                f"{pair.human}: raters are split on {int(split.sum())} texts, which are left out"
            )
        notes += [
            f"{cells.name!r}: {cells.unusable} cells that are not a number, such as "
            f"{cells.example!r}, count as missing"
            for cells in steps.columns
            if cells.unusable
        ]
    if roles.unused and not options:
        notes.append(f"not used: {', '.join(map(repr, roles.unused[:8]))}")
    if roles.group is None:
        notes.append(
            "every row counts as a source of its own; if several texts share a source, such as an"
            " article or a question, name its column with --group"
        )
    else:
        # such a name may mean a user, or a row of another table
        is_unclear = "--group" not in options and columns_named(ITEMS, [roles.group])
        doubt = "; if it names no source, give another with --group" if is_unclear else ""
        notes.append(f"texts with the same {roles.group!r} count as one source{doubt}")
    readings = [
        Reading() if path is None else reading_of(path, table, roles, pair, options)
        for pair in roles.pairs
    ]
    return FoundSource(pairs, list(dict.fromkeys(notes)), readings)


def _keys(table: RawTable, name: str | None) -> list[str | None]:
    if name is None:
        return [None] * table.length
    keys = (None if cell is None else str(cell).strip() for cell in table.columns[name])
    return [key or None for key in keys]


def _source_codes(keys: Sequence[str | None]) -> Codes:
    """Number sources from 0; a row without a source is a source of its own.

    As `learning.splits.group_codes`, whose package takes as long to import as all of this one.
    """
    return _codes(at if key is None else key for at, key in enumerate(keys))


def _system_codes(names: Sequence[str | None]) -> Codes:
    has_name = np.array([name is not None for name in names], bool)
    return np.where(has_name, _codes(names), -1)


def _codes(keys: Iterable[Hashable]) -> Codes:
    """Number keys in order of appearance."""
    codes: dict[Hashable, int] = {}
    return np.array([codes.setdefault(key, len(codes)) for key in keys], np.intp)


@dataclass(frozen=True, slots=True)
class _GivenColumns:
    """One judge's column and people's, as they were read."""

    table: RawTable
    judge: CellReader
    people: list[CellReader]

    def pair(self, rows: Mapping[str, Any]) -> JudgedPair:
        """Return numbers or positions of labels, with the sources and systems of the rows."""
        for cells in (self.judge, *self.people):
            if cells.ambiguous:
                raise DataError(f"{self.table.name}, column {cells.name!r}: {cells.ambiguous}")
        reading = self._as_labels() or self._as_numbers()
        raters = np.column_stack(reading.raters)
        return JudgedPair(
            judge=self._name_of(self.judge), human=_join_names(map(self._name_of, self.people)),
            scores=reading.scores, raters=raters,
            ratings=_majority(raters) if reading.labels else mean_of_defined(raters),
            labels=reading.labels, judge_labels=reading.judge_labels, scale=reading.scale,
            judge_scale=reading.judge_scale, **rows,
        )  # fmt: skip

    def _name_of(self, cells: CellReader) -> str:
        return self.table.shown.get(cells.name) or _field_name(cells.name)

    def _as_labels(self) -> _Read | None:
        """Return labels, if people gave labels."""
        by_people = Counter(_word(value) for cells in self.people for value in cells.filled)
        by_judge = Counter(_word(value) for value in self.judge.filled)
        words = any(cells.kind == "words" for cells in self.people)
        if not by_people or not (words or self._may_be_labels(by_people, by_judge)):
            return None
        names, number = self._number_labels(by_people, by_judge)
        raters = [_numbers(cells.values, number) for cells in self.people]
        if self.judge.kind == "number" and not set(by_judge) <= set(number):
            return _Read(_floats(self.judge), raters, names, judge_scale=_scale(self.judge))
        return _Read(_numbers(self.judge.values, number), raters, names, judge_labels=True)

    def _may_be_labels(self, by_people: Counter[str], by_judge: Counter[str]) -> bool:
        """Return whether numbers are labels: 0 and 1, or two that the judge uses as well."""
        if set(by_people) <= {"0", "1"}:
            return True
        return len(by_people) == 2 and set(by_judge) <= set(by_people)

    def _number_labels(
        self, by_people: Counter[str], by_judge: Counter[str]
    ) -> tuple[tuple[str, ...], dict[str, int]]:
        """Return the labels' names, and the number of each word that means one."""
        are_words = self.judge.kind == "words" or len(by_judge) < 3
        everything = {*by_people, *(by_judge if are_words else ())}
        meant = polarity(everything)
        if meant and not are_grades(by_people):
            names = tuple(
                max(
                    (w for w in by_people if meant[w] == at),
                    key=lambda w: by_people[w],
                    default=YES_NO[0][at],
                )
                for at in (0, 1)
            )
            names = tuple(YES_NO[0][int(name)] if name in ("0", "1") else name for name in names)
            return names, meant
        if self.judge.kind == "words" and not set(by_people) & set(by_judge):
            theirs, ours = (", ".join(map(repr, list(c)[:4])) for c in (by_people, by_judge))
            raise DataError(
                f"{self.table.name}: the judge's labels ({ours}, in {self.judge.name!r}) are not"
                f" among people's labels ({theirs}); use the same labels in both columns, or name"
                " another column: --judge COLUMN"
            )
        # of two unknown words, the rarer one is taken as the failure
        order = sorted(everything, key=lambda word: (by_people[word], word))
        if len(order) > 2:
            order = sorted(everything)
        if all(_is_number(word) for word in order):
            order = sorted(order, key=float)
        if len(order) == 1:
            order = ["(another)", *order]
        if len(order) > MAX_LABELS:
            raise DataError(
                f"{self.table.name}: {len(order)} different labels in {self.judge.name!r} and"
                f" {_join_names(cells.name for cells in self.people)!r}, at most {MAX_LABELS} can"
                " be compared; name other columns: --judge COLUMN --human COLUMN"
            )
        return tuple(order), {word: at for at, word in enumerate(order)}

    def _as_numbers(self) -> _Read:
        raters = [_floats(cells) for cells in self.people]
        if self.judge.kind == "words":
            meant = polarity(str(word) for word in self.judge.filled)
            if not meant:
                words = ", ".join(map(repr, list(dict.fromkeys(self.judge.filled))[:4]))
                raise DataError(
                    f"{self.table.name}: the judge gives words ({words}) and people give numbers;"
                    " name a column of numbers: --judge COLUMN"
                )
            scores = _numbers(self.judge.values, meant)
            return _Read(scores, raters, scale=_scale(*self.people))
        scale, judge_scale = _scales(self.judge, self.people)
        return _Read(_floats(self.judge), raters, scale=scale, judge_scale=judge_scale)


class _Read(NamedTuple):
    scores: Floats
    raters: list[Floats]
    labels: tuple[str, ...] = ()
    judge_labels: bool = False
    scale: PairScale = (0.0, 1.0)
    judge_scale: PairScale = (0.0, 1.0)


def _field_name(name: str) -> str:
    """Return a column's name, or the aspect of a field of textassay's format."""
    kind, _, rest = name.partition(".")
    if not rest:
        return name
    if kind == "annotators":
        return rest.rpartition(".")[0] or rest
    return rest if kind in ("human", "metrics") else name


def _join_names(names: Iterable[str]) -> str:
    parts = list(dict.fromkeys(names))
    every = ", ".join(parts)
    # the table has no space for more
    return every if len(every) <= 30 or len(parts) == 1 else f"{parts[0]} and {len(parts) - 1} more"


def _word(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _numbers(values: Iterable[float | str | None], number: Mapping[str, int]) -> Floats:
    places = (math.nan if value is None else number.get(_word(value), math.nan) for value in values)
    return np.array(list(places), float)


def _floats(cells: CellReader) -> Floats:
    return np.array(cells.values, float)  # None becomes NaN


def _majority(raters: Floats) -> Floats:
    if raters.shape[1] == 1:
        return raters[:, 0].copy()
    votes = (majority(None if math.isnan(v) else v for v in row) for row in raters.tolist())
    return np.array(list(votes), float)  # None becomes NaN


def _scales(judge: CellReader, people: Sequence[CellReader]) -> tuple[PairScale, PairScale]:
    """Return people's scale and the judge's scale: the same one if the numbers look alike."""
    judge_scale, human_scale = _scale(judge), _scale(*people)
    tops = judge_scale[1], human_scale[1]
    if all(top in _TOPS for top in tops) and _alike(*tops):
        joint = (min(judge_scale[0], human_scale[0]), max(tops))
        return joint, joint
    return human_scale, judge_scale


def _alike(a: float, b: float) -> bool:
    """Return whether two maxima may belong to one scale whose top was not always used."""
    return a == b or (1 < a <= 5 and 1 < b <= 5)


def _scale(*columns: CellReader) -> PairScale:
    """Return the scale of numbers: the shortest usual one that contains them."""
    values = [float(value) for cells in columns for value in cells.filled]
    tops = {cells.top for cells in columns if cells.top is not None}
    low, high = min(values), max(values)
    top = max(tops) if tops else next((usual for usual in _TOPS if high <= usual), None)
    if low < 0 or top is None or high > top:
        return (low, high) if low < high else (low, low + 1.0)
    # a scale that contains 0, and a share or a percentage, begins at 0
    return (1.0 if low >= 1 and 1 < top <= 10 else 0.0), top


def _of_run(scores: Path, ratings: Any, judge: Sequence[str], human: Sequence[str]) -> FoundSource:
    """Read a run or a file of scores beside data with ratings."""
    # loads pydantic's models of examples, which are not needed for tables
    from textassay.agreement.joined import People, read_with_labels
    from textassay.agreement.records import check_one_judge, judged_data, read_labels
    from textassay.estimation.columns import join_columns, read_judged
    from textassay.runtime.data.dataset import Examples

    source, reading = _data_of_run(scores, ratings)
    judged, examples, _ = read_with_labels(
        lambda reader: read_judged(scores, reader),
        lambda reader: Examples(source, needs_output=False, labels=reader, **reading),
        read_labels(scores),
        dict(zip(judge, human, strict=False)),
    )
    people = People(examples, judged=judged_data(scores))
    if judge:
        judged = {name: judged[_one_of(name, judged, "judge")] for name in judge}
    for name in human:
        _one_of(name, people.aspects, "human")
    names = _map_aspects(scores, list(judged), people.aspects, human)
    tables = join_columns(judged, people, names)
    for table in tables:
        check_one_judge(table.score, table.signatures)
    pairs = [_of_columns(table, judged[table.score].labels) for table in tables]
    notes = [note.text for table in tables for note in table.notes()]
    if not people.has_groups:
        notes.append("every row counts as a source of its own: the data have no field 'group'")
    readings = _readings_of_run(scores, ratings, pairs)
    return FoundSource(pairs, list(dict.fromkeys(notes)), readings)


def _data_of_run(scores: Path, ratings: Any) -> tuple[Any, Mapping[str, Any]]:
    """Return the data with ratings, by default the run's own, and how to read them."""
    from textassay.agreement.records import reading_of_run
    from textassay.runtime.storage.run_files import (
        MANIFEST,
        SCORES,
        check_present,
        kept_rows,
        read_manifest,
    )

    folder = scores.parent if scores.name == SCORES else scores
    spec: Mapping[str, Any] = {}
    if (folder / MANIFEST).is_file():
        spec = read_manifest(folder).get("spec") or {}
    elif scores.is_dir() and not (scores / SCORES).is_file():
        raise DataError(
            f"{scores}: is a folder without scores; name a run's folder, or a table with a judge's"
            " and people's columns, such as answers.csv"
        )
    source = ratings
    if source is None and (source := spec.get("data") or kept_rows(folder)) is not None:
        check_present(source, "DATA")
    if source is None:
        raise ConfigurationError(
            f"{scores} does not record where its data are; give the data with ratings after it:"
            f" textassay check {scores} DATA"
        )
    return source, reading_of_run(spec) if str(source) == str(spec.get("data")) else {}


def _readings_of_run(scores: Path, ratings: Any, pairs: Sequence[JudgedPair]) -> list[Reading]:
    """Return how other commands read each pair of a run."""
    if not (ratings is None or isinstance(ratings, str | PathLike)):
        return [Reading()] * len(pairs)
    typed = tuple(map(str, (scores, *([] if ratings is None else [ratings]))))
    readings = []
    for pair in pairs:
        mapped = ("--aspect-map", f"{pair.judge}={pair.human}") if pair.judge != pair.human else ()
        named = ("--judge", pair.judge, "--human", pair.human) if mapped else ()
        has_systems = bool((pair.systems >= 0).any())
        readings.append(Reading(typed, (*typed, *mapped), has_systems, named))
    return readings


def _one_of(name: str, names: Iterable[str], role: str) -> str:
    if name not in (listed := list(names)):
        raise UnknownName(f"name for {role}", name, listed)
    return name


def _map_aspects(
    scores: Path, judged: list[str], aspects: Sequence[str], human: Sequence[str]
) -> dict[str, str]:
    """Return the human aspect of each score of a run, if their names differ."""
    if len(human) == 1:
        return dict.fromkeys(judged, human[0])
    if human:
        return dict(zip(judged, human, strict=False))
    if set(judged) & set(aspects) or not aspects:
        return {}
    if len(judged) == len(aspects) == 1:
        return {judged[0]: aspects[0]}
    raise ConfigurationError(
        f"no score of {scores} has the name of a human aspect: scores {', '.join(judged)}; human"
        f" aspects {', '.join(aspects)}; type: textassay check {scores} --judge {judged[0]}"
        f" --human {aspects[0]}"
    )


def _of_columns(columns: Columns, names: tuple[str, ...]) -> JudgedPair:
    """Return the pair of a score and a human aspect after joining."""
    ratings = columns.ratings
    rated = ratings[~np.isnan(ratings)]
    scored = columns.scores[~np.isnan(columns.scores)]
    single = columns.raters[~np.isnan(columns.raters)]
    numbers = single if len(single) else rated
    if not names and len(numbers) and set(np.unique(numbers)) <= {0.0, 1.0}:
        names = YES_NO.names
    if names and len(names) > 1 and columns.raters.shape[1] > 1:
        ratings = _majority(columns.raters)
    elif names:
        ratings = np.where(np.isclose(ratings, np.round(ratings)), np.round(ratings), np.nan)
    scale = _scale(_cells("human", numbers)) if len(numbers) else (0.0, 1.0)
    judge_scale = columns.scale or (_scale(_cells("judge", scored)) if len(scored) else (0.0, 1.0))
    if not names and columns.scale and len(numbers):
        low, high = columns.scale
        # people use the judge's scale if their ratings lie on it and span a similar part of it
        if low <= numbers.min() and numbers.max() <= high and _alike(scale[1], high):
            scale = columns.scale
    return JudgedPair(
        judge=columns.score, human=columns.human, scores=columns.scores, ratings=ratings,
        raters=columns.raters, groups=columns.groups, has_groups=columns.has_groups,
        systems=_system_codes(columns.systems), labels=names,
        judge_labels=bool(names) and set(np.unique(scored)) <= set(range(len(names))),
        scale=(0.0, 1.0) if names else scale, judge_scale=judge_scale,
    )  # fmt: skip


def _cells(name: str, values: Floats) -> CellReader:
    return CellReader(name, "number", values.tolist())

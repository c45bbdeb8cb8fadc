"""Opens the input of a report: run folders, the judged data, and both joined.

Scores are columns, joined with people's ratings, a second run and the differences. The judge's
scale may differ from the raters' scale; differences of points are then meaningless. Draws no HTML.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from textassay.agreement.correlation import average_ranks
from textassay.agreement.joined import People
from textassay.agreement.records import check_equal_labels, judged_data
from textassay.arrays import Floats
from textassay.runtime.data.dataset import Examples
from textassay.runtime.data.digests import may_be_one_text, text_digest
from textassay.runtime.errors import DataError, RunFolderError
from textassay.runtime.labels import LabelSets, labels_of
from textassay.runtime.messages import Example, Scale, Score
from textassay.runtime.storage.files import storage_errors
from textassay.runtime.storage.run_files import (
    OUTCOMES,
    SCORES,
    RunSummary,
    kept_rows,
    parse_score,
    read_manifest,
)

RowNumbers = np.ndarray[tuple[int], np.dtype[np.int64]]
EMPTY: Mapping[str, Any] = MappingProxyType({})


def without_folders(text: str) -> str:
    """Return a message with absolute paths cut to the names of their files.

    Pages are passed on, and paths could identify the machine.
    """
    path = r"""(?:(?<![\w./:])|(?<=\w/))/(?:[^\s/:'"|,]+/)+([^\s/:'"|,]+)"""
    return re.sub(path, r"\1", text)


class ScoreTable:
    """Scores in order of first appearance; the last line of an id and aspect counts."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / SCORES
        self.ids: list[str] = []  # of the examples, each once
        self.aspects: list[str] = []  # their names, each once
        self.scales: list[Scale | None] = []  # by aspect; `None` if unbounded
        self.signatures: dict[str, int] = {}  # of the scores, by number of lines
        self.summary = RunSummary()
        # arrays of numbers instead of objects: a million scores take some tens of megabytes. For
        # each score, the positions in `ids`, `aspects` and `OUTCOMES`
        self.example, self.aspect, self.outcome = array("l"), array("l"), array("b")
        # value, calibrated value, low and high end
        self._numbers = tuple(array("d") for _ in range(4))
        self._begins = array("q")
        self._rows: dict[tuple[int, int], int] = {}
        self._id_index: dict[str, int] = {}
        self._aspect_index: dict[str, int] = {}
        self._texts = array("Q")  # digest of the text of each example; 0 if it is not recorded
        self.read_to, self._line = 0, 0  # bytes and lines of the file that were read

    def __len__(self) -> int:
        return len(self.outcome)

    def read_more(self) -> list[int]:
        """Read at most a block of appended complete lines; return the changed rows."""
        block = self._unread(4 << 20)  # bytes of one step
        changed = []
        # a last line without a line break may be incomplete
        for line in block[: block.rfind(b"\n") + 1].splitlines(keepends=True):
            self._line += 1
            if not line.isspace():
                changed.append(self._add(parse_score(self.path, self._line, line), self.read_to))
            self.read_to += len(line)
        return list(dict.fromkeys(changed))

    def read_all(self) -> ScoreTable:
        """Read the rest of the file, including a complete last line without a line break."""
        before = -1
        while before != self.read_to:
            before = self.read_to
            self.read_more()
        rest = self._unread()
        if rest.strip():
            try:
                score = parse_score(self.path, self._line + 1, rest)
            except DataError:
                return self  # incomplete: the process that wrote it died
            self._add(score, self.read_to)
            self.read_to += len(rest)
        return self

    def _unread(self, size: int = -1) -> bytes:
        """Return up to `size` unread bytes; a run without a score has no file."""
        if not self.path.exists():
            return b""
        with storage_errors(f"{self.path} cannot be read"), self.path.open("rb") as file:
            file.seek(self.read_to)
            block = file.read(size)
            while size > 0 and b"\n" not in block and (more := file.read(size)):
                block += more  # a line longer than a block
        return block

    def score(self, row: int) -> Score:
        """Read one score again, with explanation and evidence."""
        return next(self.scores([row]))

    def scores(self, rows: list[int]) -> Iterator[Score]:
        """Read these scores again, in this order."""
        with storage_errors(f"{self.path} cannot be read"), self.path.open("rb") as file:
            for row in rows:
                file.seek(self._begins[row])
                yield parse_score(self.path, row, file.readline())

    def row(self, example_id: str, aspect: str) -> int | None:
        """Return the row of an example and aspect, or `None`."""
        key = (self._id_index.get(example_id, -1), self._aspect_index.get(aspect, -1))
        return self._rows.get(key)

    def rows_of(self, example_id: str) -> list[int]:
        """Return the rows of an example, in order of aspects."""
        at = self._id_index.get(example_id, -1)
        rows = (self._rows.get((at, aspect)) for aspect in range(len(self.aspects)))
        return [row for row in rows if row is not None]

    def knows(self, example_id: str) -> bool:
        """Return whether there is a score of an example."""
        return example_id in self._id_index

    def knows_text(self, example: Example) -> bool:
        """Return whether the run may have judged this text; false if it judged another one."""
        at = self._id_index.get(example.id)
        digest = 0 if at is None else self._texts[at]
        return not digest or may_be_one_text(text_digest(example), f"{digest:016x}")

    def rows_on(self, aspect: str) -> RowNumbers:
        return np.flatnonzero(np.array(self.aspect, int) == self.aspects.index(aspect))

    @property
    def scored(self) -> int:
        """Number of scores with a value."""
        return self.outcome.count(OUTCOMES.index("scored"))

    @property
    def values(self) -> Floats:
        """Value of each score, shape (n,); NaN if it is unscored."""
        return np.array(self._numbers[0], float)

    @property
    def calibrated(self) -> Floats:
        """Calibrated value, low and high end of each score, shape (n, 3); NaN if not calibrated."""
        return np.column_stack([np.array(part, float) for part in self._numbers[1:]])

    def _add(self, score: Score, begins: int) -> int:
        self.summary.add(score)
        self.signatures[score.signature] = self.signatures.get(score.signature, 0) + 1
        example = self._id_index.setdefault(score.id, len(self.ids))
        if example == len(self.ids):
            self.ids.append(score.id)
            self._texts.append(0)
        if score.text_digest:
            self._texts[example] = int(score.text_digest, 16)
        aspect = self._aspect_index.setdefault(score.aspect, len(self.aspects))
        if aspect == len(self.aspects):
            self.aspects.append(score.aspect)
            self.scales.append(score.scale)
        row = self._rows.setdefault((example, aspect), len(self))
        if row == len(self):
            self.example.append(example)
            self.aspect.append(aspect)
            for column in (self.outcome, self._begins):
                column.append(0)
            for numbers in self._numbers:
                numbers.append(float("nan"))
        self.outcome[row] = OUTCOMES.index(score.outcome)
        # the position of the latest line, which `scores` reads again
        self._begins[row] = begins
        figures = (score.value, score.calibrated, score.low, score.high)
        for numbers, number in zip(self._numbers, figures, strict=True):
            numbers[row] = float("nan") if number is None else number
        return row


@dataclass
class RunSource:
    """One run."""

    name: str
    """The folder's name, made unique among the runs."""
    folder: Path
    manifest: dict[str, Any]
    table: ScoreTable
    stress: dict[str, Any] = field(default_factory=dict)
    """Its `stress.json`, empty if it has none."""

    def entry(self, *keys: str) -> Any:
        """Return the manifest's value under these keys; `None` if one is missing."""
        value: Any = self.manifest
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    @property
    def method(self) -> str:
        return str(self.entry("method", "name") or "scores")

    @property
    def models(self) -> dict[str, str]:
        """Name of the model by role; the role `""` serves every role that is not named."""
        models = self.entry("models")
        items = models.items() if isinstance(models, Mapping) else ()
        return {str(r): str(self.entry("models", r, "name") or model) for r, model in items}

    @property
    def began(self) -> str:
        """The time of its beginning, in words."""
        created = str(self.entry("created") or "")
        return created.replace("T", " ").replace("+00:00", " UTC")

    @cached_property
    def jurors(self) -> tuple[str, ...]:
        """Names of the jurors, if the method is a jury."""
        return tuple(map(str, self.entry("method", "jurors") or ()))

    @cached_property
    def labels(self) -> LabelSets:
        """The labels of aspects whose scores are labels, by name."""
        return labels_of(self.manifest)

    @property
    def without_mean(self) -> frozenset[str]:
        """Aspects whose scores are labels without an order."""
        return frozenset(name for name, scale in self.labels.items() if scale.is_nominal)

    def higher_is_better(self, aspect: str) -> bool:
        """Return whether a high score on an aspect is good, by the manifest."""
        from textassay.runtime.storage.run_files import higher_is_better

        return higher_is_better(self.manifest).get(aspect, True)


@dataclass
class DataSource:
    """The examples that were judged."""

    name: str
    examples: dict[str, Example]
    """Examples by id; empty if the data could not be found."""
    missing: str = ""
    """The reason why there are no examples; empty if there are examples."""
    other_texts: tuple[str, ...] = ()
    """Ids that are left out with their ratings, since their text is not the judged one."""
    other_sources: int = 0
    """Number of rated examples whose text was judged with another source; they are used."""
    without_text: int = 0
    """Number of rows without a text; their ratings belong to the judged text with their id."""
    judged: Sequence[Example] = ()
    """The run's own data, if these are others: rows without a source have the source of the judged
    text with their id."""
    surface: dict[str, dict[str, float | None]] = field(default_factory=dict)
    """Trivial measures of the texts by name and id; computed when first needed."""

    @cached_property
    def people(self) -> People:
        """All ratings, as `agreement` and `estimate` read them."""
        return People(list(self.examples.values()), judged=self.judged)

    @property
    def rated_aspects(self) -> Sequence[str]:
        """Names of the human aspects."""
        return self.people.aspects if self.examples else ()

    def ratings(self, aspect: str) -> dict[str, float]:
        """Return the mean ratings of a human aspect by id, without gaps."""
        ratings = self.people.ratings(aspect).tolist()
        rated = zip(self.people.ids, ratings, strict=True)
        return {id_: rating for id_, rating in rated if not math.isnan(rating)}

    @cached_property
    def sources(self) -> dict[str, str | None]:
        """The source of each example by id; see `source_names`."""
        return dict(zip(self.people.ids, self.people.groups, strict=True)) if self.examples else {}

    @property
    def systems(self) -> list[str]:
        return sorted({e.system for e in self.examples.values() if e.system is not None})


def open_run(folder: str | Path, *, name: str | None = None) -> RunSource:
    """Open a run folder, without its scores."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    return RunSource(
        name or folder.resolve().name, folder, manifest, ScoreTable(folder), _stress(folder)
    )


def open_runs(folders: list[str | Path]) -> list[RunSource]:
    """Open runs under names that differ: the last parts of their paths that differ."""
    paths = [Path(folder).resolve() for folder in folders]
    if len(set(paths)) < len(paths):
        raise RunFolderError("the same run is given twice; give two different run folders")
    depth = 1
    # two runs in different folders often have the same name
    while len({path.parts[-depth:] for path in paths}) < len(paths):
        depth += 1
    runs = [open_run(path, name="/".join(path.parts[-depth:])) for path in paths]
    # the ratings are read once, by the labels of the first run
    for name, scale in runs[0].labels.items():
        for other in runs[1:]:
            if name in other.labels and not scale.multiple:
                check_equal_labels(name, scale.names, other.labels[name].names)
    return runs


def open_data(
    run: RunSource, data: Any = None, *, reading: Mapping[str, Any] = EMPTY
) -> DataSource:
    """Read the examples that a run judged, whose scores have been read as far as they are there.

    If other data are given, rows whose text differs from the judged one are left out with their
    ratings, and replaced by the run's own data if these still exist. Rows without a text have the
    text of the run's own data.

    Args:
        run: The run.
        data: Other data: a path, a table, or examples.
        reading: How they are read, such as `fields`.
    """
    if data is None:
        return _own_data(run)
    examples = (
        data
        if isinstance(data, Examples)
        else Examples(data, needs_output=False, labels=run.labels, **reading)
    )
    judged, by_id = judged_data(run.folder), _by_id(examples)
    ratings_alone = {id_: row for id_, row in by_id.items() if not text_digest(row)}
    if ratings_alone:
        texts = _own_data(run).examples
        ratings_alone = {i: row for i, row in ratings_alone.items() if i in texts}
        by_id |= {i: _with_ratings(texts[i], row) for i, row in ratings_alone.items()}
    source = DataSource(
        Path(examples.name).name, by_id, without_text=len(ratings_alone),
        judged=() if examples.is_same_file(judged) else tuple(judged),
    )  # fmt: skip
    source = leave_out_other_texts(run, source, source.examples)
    return replace(source, other_sources=source.people.count_other_sources())


def _with_ratings(example: Example, row: Example) -> Example:
    """Return an example with the ratings, and the group and system if given, of another row."""
    places = {name: value for name in ("group", "system") if (value := getattr(row, name))}
    return example.model_copy(update={"human": row.human, "annotators": row.annotators, **places})


def leave_out_other_texts(run: RunSource, data: DataSource, ids: Iterable[str]) -> DataSource:
    """Return the data without the examples among `ids` whose text is not the one that was judged.

    They are replaced by the run's own examples, if these still exist.
    """
    named = {id_: data.examples[id_] for id_ in ids if id_ in data.examples}
    other = [id_ for id_, example in named.items() if not run.table.knows_text(example)]
    if not other:
        return data
    original, examples = _own_data(run).examples, dict(data.examples)
    for id_ in other:
        del examples[id_]
    examples |= {
        id_: original[id_]
        for id_ in other
        if id_ in original and run.table.knows_text(original[id_])
    }
    return replace(data, examples=examples, other_texts=(*data.other_texts, *other), surface={})


def open_both(runs: Sequence[RunSource], data: Any, reading: Mapping[str, Any]) -> list[DataSource]:
    """Return the data of each run; one object for all of them if the runs judged the same texts."""
    sources = [open_data(runs[0], data, reading=reading)]
    for run in runs[1:]:
        first = sources[0]
        if _same_data(runs[0], run) or not run.entry("data", "digest"):
            sources.append(first)
            continue
        source = open_data(run, data, reading=reading)
        if not source.examples:
            # the first run's data also serve the second run if it judged the same texts
            same = {i: e for i, e in first.examples.items() if run.table.knows_text(e)}
            source = (
                first
                if len(same) == len(first.examples)
                else replace(source, examples={i: e for i, e in same.items() if run.table.knows(i)})
            )
        sources.append(first if source.examples == first.examples else source)
    return sources


def _same_data(a: RunSource, b: RunSource) -> bool:
    """Return whether two runs judged one data set, read in one way."""
    return all(
        a.entry(*keys) == b.entry(*keys)
        for keys in (("data", "digest"), ("data", "path"), ("spec", "fields"), ("spec", "missing"))
    )


def _own_data(run: RunSource) -> DataSource:
    if rows := kept_rows(run.folder):
        return DataSource("data from memory", _by_id(Examples(rows, labels=run.labels)))
    path = run.entry("data", "path")
    if not path:
        return DataSource("", {}, "the run judged data from memory; name the file of data")
    name = Path(path).name
    if not Path(path).is_file():
        return DataSource(name, {}, f"{name} was moved or deleted after the run")
    try:
        examples = Examples(
            path, fields=run.entry("spec", "fields") or {},
            missing=run.entry("spec", "missing") or (), unit=run.entry("spec", "unit"),
            conversation_chars=run.entry("spec", "conversation_chars"), labels=run.labels,
        )  # fmt: skip
        info = examples.check()
    except DataError:
        return DataSource(name, {}, f"{name} can no longer be read")
    loaded = DataSource(name, _by_id(examples))
    # changed texts beside old scores would show the wrong evidence
    if info.digest != run.entry("data", "digest"):
        is_part = run.entry("spec", "limit") or run.entry("spec", "stress")  # copies are not in it
        if not is_part:
            return DataSource(name, {}, f"{name} has changed since the run judged it")
        other = [id_ for id_, e in loaded.examples.items() if not run.table.knows_text(e)]
        for id_ in other:
            del loaded.examples[id_]
        loaded.other_texts = tuple(other)
    return loaded


def _by_id(examples: Examples) -> dict[str, Example]:
    return {example.id: example for example in examples}


def _stress(folder: Path) -> dict[str, Any]:
    path = folder / "stress.json"
    if not path.exists():
        return {}
    try:
        document = dict(json.loads(path.read_bytes()))
        document["tests"] = [dict(test) for test in document["tests"]]
        return document
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"{path} contains no verdicts of a stress run: {error}") from error


PageUnit = Literal["points", "ranks"]
"""Unit of differences: points of the scale that judge and people share, or shares of the rated
texts, from -1 to 1.
"""


def choose_unit(human: Floats, scale: Scale | None) -> PageUnit:
    """Return `points` if the ratings lie on the judge's scale and span most of it, else `ranks`."""
    if not len(human) or scale is None:
        return "ranks"
    (low, high), lowest, highest = scale, float(human.min()), float(human.max())
    wide = highest - lowest > (high - low) / 2
    # ratings from 0 to 1 lie on a scale of 0 to 5 by accident; they use the scale if they reach its
    # upper end or span half of it
    meant = wide or lowest == low or highest == high
    return "points" if meant and low <= lowest and highest <= high else "ranks"


def gaps(scores: Floats, human: Floats, unit: PageUnit) -> Floats:
    """Return judge minus people for each row, shape (n,); NaN if either number is missing.

    For `ranks`, both sides are ranked among the rows that have both numbers (average ranks), and
    the difference of the ranks is divided by their number.
    """
    both = ~np.isnan(scores) & ~np.isnan(human)
    distances = np.full(len(scores), np.nan)
    if unit == "points":
        distances[both] = scores[both] - human[both]
    elif both.any():
        ranks = average_ranks(scores[both]) - average_ranks(human[both])
        distances[both] = ranks / int(both.sum())
    return distances


@dataclass
class JoinedPage:
    """One row per score, shape (n,) each."""

    values: Floats
    """The judge's value; NaN if unscored."""
    human: Floats
    """The mean rating of the human aspect that the score is compared with; NaN if unrated."""
    gaps: Floats
    """Judge minus people; NaN if either is missing, and for labels without an order."""
    sizes: Floats
    """Size of each gap as a share of the scale or of the ranks, so that aspects compare."""
    units: dict[str, str]
    """Unit of the gaps, by aspect."""
    other: Floats
    """Value in the second run; NaN without one."""
    changes: Floats
    """First run minus second; NaN if either is missing or their scales differ, and for labels
    without an order.
    """
    flips: np.ndarray[tuple[int], np.dtype[np.bool_]]
    """Whether a change crosses the middle of the scale."""

    @property
    def has_people(self) -> bool:
        """Whether any score has a rating beside it."""
        return bool((~np.isnan(self.values) & ~np.isnan(self.human)).any())


def join_page(
    run: RunSource,
    data: DataSource,
    human_of: Mapping[str, str],
    second: RunSource | None = None,
    *,
    rows: Sequence[int] | None = None,
) -> JoinedPage:
    """Join scores, ratings and a second run."""
    table = run.table
    selected = np.arange(len(table)) if rows is None else np.array(rows, int)
    values = table.values[selected]
    aspect, example = np.array(table.aspect, int)[selected], np.array(table.example, int)[selected]
    human, rated, sizes = (np.full(len(selected), np.nan) for _ in range(3))
    units: dict[str, str] = {}
    for at, name in enumerate(table.aspects):
        if name not in human_of:
            continue
        scale, of_aspect = table.scales[at], np.flatnonzero(aspect == at)
        ratings = data.ratings(human_of[name])
        human[of_aspect] = [ratings.get(table.ids[example[row]], math.nan) for row in of_aspect]
        if name in run.without_mean:  # numbers of labels have no distance
            continue
        units[name] = unit = choose_unit(np.array(list(ratings.values())), scale)
        # ranks among the rows of one request would differ from ranks among all rows
        if unit == "points" or rows is None:
            rated[of_aspect] = gaps(values[of_aspect], human[of_aspect], unit)
        # as shares, gaps of aspects on different scales can be sorted together
        width = scale[1] - scale[0] if scale is not None and unit == "points" else 1.0
        sizes[of_aspect] = np.abs(rated[of_aspect]) / width
    other = np.full(len(selected), np.nan)
    if second:
        other = _values_in(second.table, table, example, aspect)
    changes, flips = _changes(run, second, aspect, values, other)
    return JoinedPage(values, human, rated, sizes, units, other, changes, flips)


def _values_in(
    second: ScoreTable, first: ScoreTable, example: RowNumbers, aspect: RowNumbers
) -> Floats:
    """Return the second run's value for every score of the first."""
    rows = [
        second.row(first.ids[example_], first.aspects[aspect_])
        for example_, aspect_ in zip(example.tolist(), aspect.tolist(), strict=True)
    ]
    values = second.values
    return np.array([float("nan") if row is None else values[row] for row in rows], float)


def _changes(
    first: RunSource, second: RunSource | None, aspect: RowNumbers, values: Floats, other: Floats
) -> tuple[Floats, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    changes, flips = np.full(len(values), np.nan), np.zeros(len(values), bool)
    if not second:
        return changes, flips
    scales: dict[str, Scale | None] = dict(
        zip(second.table.aspects, second.table.scales, strict=True)
    )
    for at, name in enumerate(first.table.aspects):
        rows = np.flatnonzero(aspect == at)
        scale = first.table.scales[at]
        if scales.get(name, scale) != scale or name in first.without_mean:
            continue  # a difference of points on two scales is meaningless
        changes[rows] = values[rows] - other[rows]
        if scale is not None:
            middle = (scale[0] + scale[1]) / 2
            flips[rows] = (values[rows] - middle) * (other[rows] - middle) < 0
    return changes, flips

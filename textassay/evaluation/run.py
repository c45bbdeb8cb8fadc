"""The result of an evaluation: scores, summary and tables, from memory or the run folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from textassay.evaluation.progress import Progress
from textassay.evaluation.request import request_from_manifest, with_kept_rows
from textassay.evaluation.sources import open_examples
from textassay.runtime.base import Usage
from textassay.runtime.data.dataset import Examples
from textassay.runtime.data.digests import may_be_one_text, text_digest
from textassay.runtime.data.ratings import LabelReader
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.labels import LabelSets, labels_of
from textassay.runtime.messages import Example, Score
from textassay.runtime.storage.files import encode
from textassay.runtime.storage.run_files import (
    SUMMARY,
    RunSummary,
    check_present,
    keep_rows,
    kept_rows,
    latest_scores,
    read_manifest,
    read_summary,
)
from textassay.runtime.storage.run_folder import RunFolder
from textassay.table import MAX_ROWS, Displayed, Table, column, more_rows, table_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from textassay.estimation.means import MeanUnit
    from textassay.estimation.run_comparison import Changes, RunComparison, RunSide


TableRows = tuple[list[str], list[dict[str, Any]]]
"""Names of the columns, and the rows."""


def long_rows(scores: Iterable[Score], examples: Iterable[Example]) -> TableRows:
    """Return one row per score: its fields, `system`, `group`, the `human` rating of its aspect."""
    by_id, aspects = _by_id(scores)
    rows = []
    for example in examples:
        of_one = by_id.pop(example.id, {})
        for aspect in (name for name in aspects if name in of_one):
            fields = {"system": example.system, "group": example.group}
            human = _ratings_of(example, of_one.values()).get(aspect)
            rows.append({**of_one[aspect].model_dump(mode="json"), **fields, "human": human})
    # scores without an example in the data come last: shortened data must not hide them
    without_example = [score for of_one in by_id.values() for score in of_one.values()]
    rows += [score.model_dump(mode="json") for score in without_example]
    return [*Score.model_fields, "system", "group", "human"], rows


def wide_rows(scores: Iterable[Score], examples: Iterable[Example]) -> TableRows:
    """Return one row per example: id, system, group, value by aspect, each human rating."""
    by_id, aspects = _by_id(scores)
    humans: dict[str, None] = {}
    rows = []
    for example in examples:
        if example.id not in by_id:
            continue
        of_one = by_id.pop(example.id)
        rated = _ratings_of(example, of_one.values())
        human = {f"human.{name}": value for name, value in rated.items()}
        humans |= dict.fromkeys(f"human.{name}" for name in example.human)
        row = {"id": example.id, "system": example.system, "group": example.group}
        rows.append({**row, **_values(of_one), **human})
    rows += [{"id": id_, **_values(of_one)} for id_, of_one in by_id.items()]
    return ["id", "system", "group", *aspects, *humans], rows


def _ratings_of(example: Example, scores: Iterable[Score]) -> Mapping[str, float | None]:
    """Return the ratings of an example; empty if its text differs from the judged one."""
    text = text_digest(example)
    same = all(may_be_one_text(text, score.text_digest) for score in scores)
    return example.human if same else {}


def arrow_table(columns: list[str], rows: list[dict[str, Any]]) -> Any:
    """Return rows as a `pyarrow.Table` with fixed types; needs pyarrow."""
    import pyarrow as pa

    usage = {name: pa.int64() for name in Usage.model_fields} | {"cost": pa.float64()}
    # fixed types, since inferred types would depend on whether the first rows are unscored
    kinds = {
        "scale": pa.list_(pa.float64()),
        "samples": pa.int64(),
        "outside": pa.bool_(),
        "usage": pa.struct(list(usage.items())),
        "error": pa.struct([("type", pa.string()), ("message", pa.string())]),
    }
    texts = (
        "id", "aspect", "outcome", "how", "explanation", "evidence", "signature", "text_digest",
        "started", "system", "group",
    )  # fmt: skip
    kinds |= dict.fromkeys(texts, pa.string())
    arrays = {}
    for name in columns:
        cells: Any = (row.get(name) for row in rows)
        if name == "evidence":
            cells = (None if cell is None else encode(cell).decode() for cell in cells)
        arrays[name] = pa.array(list(cells), kinds.get(name, pa.float64()))
    return pa.table(arrays)


def _by_id(scores: Iterable[Score]) -> tuple[dict[str, dict[str, Score]], list[str]]:
    by_id: dict[str, dict[str, Score]] = {}
    aspects: dict[str, None] = {}
    for score in scores:
        by_id.setdefault(score.id, {})[score.aspect] = score
        aspects.setdefault(score.aspect)
    return by_id, list(aspects)


def _values(of_one: dict[str, Score]) -> dict[str, float | None]:
    return {aspect: score.value for aspect, score in of_one.items()}


@dataclass(frozen=True, slots=True)
class AspectMean:
    """The mean score of one aspect."""

    aspect: str = field(metadata=column("aspect"))
    n: int = field(metadata=column("scored", "count"))
    mean: float | None = field(metadata=column("mean", "number"))


@dataclass(frozen=True, slots=True)
class ListedScore:
    """A score as a row of a printed run."""

    id: str = field(metadata=column("id"))
    aspect: str = field(metadata=column("aspect"))
    value: float | None = field(metadata=column("value", "number"))
    reason: str = field(metadata=column("reason"))


class Summary(dict[str, Any], Displayed):
    """The content of `summary.json`: a dictionary that prints as a table."""

    def tables(self) -> list[Table]:
        cost, outcomes = self["usage"]["cost"], self["outcomes"]
        title = ", ".join(f"{number} {name}" for name, number in outcomes.items() if number)
        title += f"; {self['usage']['calls']} calls" + (f", ${cost:.4f}" if cost else "")
        means = (AspectMean(name, **entry) for name, entry in self["aspects"].items())
        return [table_of(AspectMean, means, title=title)]

    __str__ = Displayed.__str__


def _open_run(run: Run | str | Path) -> Run:
    if isinstance(run, Run):
        return run
    if not isinstance(run, str | Path):
        raise DataError(
            f"{type(run).__name__} is no run; give a Run, as evaluate returns it, or a run folder"
        )
    return Run(run)


class Run(Displayed):
    """A finished evaluation; iterating it yields its scores, and `run[ID]` has a text's scores.

    With a run folder, scores are read from there on access, so that a large run does not stay in
    memory.
    """

    folder: Path | None
    """The run folder; `None` for a run that wrote nothing."""
    progress: Progress | None
    """The last state of the session that made it."""
    labels: LabelSets
    """The label scales of aspects whose scores are labels."""

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        scores: Sequence[Score] = (),
        progress: Progress | None = None,
        examples: Iterable[Example] | None = None,
        labels: LabelSets | None = None,
        manifest: Mapping[str, Any] | None = None,
    ) -> None:
        """Store the folder, or the scores and the manifest of a run without a folder.

        Raises:
            RunFolderError: The folder contains no run.
        """
        # fails now for a folder without a run, not on the first access to scores
        self._manifest = (manifest or {}) if folder is None else read_manifest(folder)
        self.labels = labels_of(self._manifest) or labels or {}
        self.folder, self.progress = None if folder is None else Path(folder), progress
        self._scores, self._examples = scores, examples

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The content of `manifest.json`: the request and the environment."""
        return self._manifest

    @property
    def without_mean(self) -> frozenset[str]:
        """Aspects whose scores are labels without an order."""
        return frozenset(name for name, scale in self.labels.items() if scale.is_nominal)

    @property
    def scores(self) -> list[Score]:
        """All scores, the latest for each example and aspect, in order of arrival."""
        return list(self)

    def __iter__(self) -> Iterator[Score]:
        return iter(self._scores) if self.folder is None else latest_scores(self.folder)

    def __getitem__(self, id: str) -> dict[str, Score]:
        """Return the scores of one text by aspect, such as `run["a1"]["fluency"].value`.

        Raises:
            KeyError: The run has no score of a text with this id.
        """
        if scores := {score.aspect: score for score in self if score.id == id}:
            return scores
        raise KeyError(f"no score has the id {id!r}; to_pandas() lists all ids")

    def __contains__(self, id: object) -> bool:
        return any(id in (score.id, score) for score in self)

    def summary(self) -> Summary:
        """Return outcomes, errors by type, mean by aspect and usage, as in `summary.json`.

        The dictionary prints as a table.
        """
        tally = RunSummary()
        for score in self:
            tally.add(score)
        return Summary(tally.summary(self.without_mean))

    def examples(self) -> Iterator[Example]:
        """Iterate over the judged examples, in the order of the data.

        If the data changed since, their texts differ from the judged ones, see `Score.text_digest`.

        Raises:
            DataError: The data that the manifest names cannot be read.
            ConfigurationError: The run's data came from memory and are gone.
        """
        if self._examples is None:
            self._examples = self._open_recorded()
        return iter(self._examples)

    def _open_recorded(self) -> Examples:
        """Open the data that the run names, or the rows that it kept."""
        if self.folder is not None:
            request = request_from_manifest(self._manifest)
            if request.data is not None:
                check_present(request.data)
                return open_examples(request.data, request)
            if rows := kept_rows(self.folder):
                return Examples(rows, labels=self.labels)
        raise ConfigurationError("the run does not record where its data are; name them with data=")

    def compare(
        self,
        other: Run | str | Path,
        *,
        aspects: str | Iterable[str] | None = None,
        human: Any = None,
        fields: Mapping[str, str] | None = None,
        confidence: float = 0.95,
        weight: MeanUnit = "sources",
        seed: int = 0,
        by: str | None = None,
    ) -> RunComparison:
        """Compare this run (a) with another one (b): differences `a - b` by aspect.

        Texts are paired by id, or else by source; texts without a counterpart are compared as
        independent samples. Each run has its own data and ratings. The result is shown as tables,
        and has `rows`, `agreement`, `changes`, `to_pandas()` and `as_dict()`.

        Args:
            other: The other run, or its folder.
            aspects: Aspects to compare; by default all that both runs judged.
            human: Data with ratings for both runs, in place of their own; without a `group` or
                equal sources, the sources of each run's data are used.
            fields: Field map of `human`.
            confidence: Confidence of the intervals.
            weight: The unit of the means: `sources`, each with the same weight however many texts
                it has, or `texts`.
            seed: Seed of sign flips and bootstrap.
            by: Field of the data, such as `topic`, by whose values the texts are divided:
                `subsets` of the result has the comparison of each part.

        Raises:
            UnknownName: An aspect is not in both runs.
            DataError: The runs share no aspect, or nothing to pair by.
            ConfigurationError: One run was judged by several judges, or their labels differ.
        """
        # imported here, since a plain run needs no statistics
        from textassay.estimation.run_comparison import compare_sides

        second = _open_run(other)
        a, b = (run._side(human, fields, by) for run in (self, second))
        return compare_sides(
            a, b, unpaired=a.people is not None and b.people is not None,
            aspects=[aspects] if isinstance(aspects, str) else aspects, confidence=confidence,
            seed=seed, weight=weight, by=by,
        )  # fmt: skip

    def changes(self, other: Run | str | Path) -> Changes:
        """Return the texts whose scores differ from another run's, the largest losses first.

        Only texts with the same id in both runs. The result prints as a table, is a sequence of
        `Change`, and has `worse`, `better` and `to_pandas()`.

        Args:
            other: The earlier run, or its folder: `worse` says that this run's score is worse.
        """
        from textassay.estimation.run_comparison import changes_between

        second = _open_run(other)
        a, b = self._side(), second._side()
        return changes_between(a, b, [name for name in a.judged if name in b.judged])

    def report(
        self,
        path: str | Path,
        other: Run | str | Path | None = None,
        *,
        human: Any = None,
        fields: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Path:
        """Write one HTML file that shows this run, or both side by side; return its path.

        Args:
            path: The file to write.
            other: A second run, or its folder.
            human: Data with texts and ratings: a path, a data frame, or examples or dicts; by
                default the data that each run judged.
            fields: Field map of `human`.
            options: Further options of `textassay.report.write_report`, such as `title` and `note`.

        Raises:
            ConfigurationError: The data cannot be read, or an option does not fit.
            StorageError: The file cannot be written.
        """
        from textassay.report import write_report

        with ExitStack() as stack:
            runs = [self] if other is None else [self, _open_run(other)]
            folders = [
                stack.enter_context(run._as_folder(f"run {letter}"))
                for run, letter in zip(runs, "AB", strict=False)
            ]
            write_report(folders, path, human=human, fields=fields, **options)
        return Path(path)

    @contextmanager
    def _as_folder(self, name: str) -> Iterator[Path]:
        """Return the run folder; for a run in memory, a temporary one inside the block."""
        if self.folder is not None:
            yield self.folder
            return
        with TemporaryDirectory() as place, closing(RunFolder.create(Path(place) / name)) as folder:
            folder.write_manifest(self._manifest)
            folder.append(self)
            folder.write_summary()
            if self._examples is not None:
                keep_rows(folder.path, self._examples)
            yield folder.path

    def _side(
        self, human: Any = None, fields: Mapping[str, str] | None = None, by: str | None = None
    ) -> RunSide:
        """Return the scores and their data for a comparison."""
        from textassay.agreement.joined import People
        from textassay.agreement.records import read_scores
        from textassay.estimation.columns import read_judged
        from textassay.estimation.run_comparison import RunSide
        from textassay.runtime.storage.run_files import lower_is_better

        people = None
        if human is not None:
            data = Examples(human, fields=fields, needs_output=False, labels=self.labels)
            people = People(data, by=by, judged=self.judged)
        elif self._knows_data:
            people = People(self._open_data(), by=by)
        judged = read_judged(self, LabelReader(self.labels))
        return RunSide(
            judged, read_scores(self), people, self.labels, lower_is_better(self._manifest)
        )

    @property
    def judged(self) -> Iterable[Example]:
        """The judged examples, as from `examples`; empty if the data are gone."""
        return self._open_data() if self._knows_data else ()

    @property
    def _knows_data(self) -> bool:
        if self._examples is not None or self.folder is None:
            return self._examples is not None
        path = with_kept_rows(request_from_manifest(self._manifest), self.folder).data
        return path is not None and Path(path).is_file()

    def _open_data(self) -> Examples:
        self.examples()
        assert self._examples is not None
        return self._examples if isinstance(self._examples, Examples) else Examples(self._examples)

    def to_pandas(self, *, wide: bool = False, data: Any = None) -> pd.DataFrame:
        """Return the scores as a table in the order of the data; needs pandas.

        Args:
            wide: One row per example, with a column of values per aspect and `human.ASPECT` for
                each aspect that people rated, instead of one row per score with the columns of
                `scores.jsonl` and `system`, `group` and `human`, the rating of the same aspect.
            data: The examples, if they are no longer where the run found them. Ratings of other
                texts than were judged are left out.

        Raises:
            ImportError: pandas is not installed.
            ConfigurationError: The data of the run cannot be found.
        """
        import pandas as pd  # heavy, and only this method's

        columns, rows = self._rows(wide, data)
        return pd.DataFrame(rows, columns=columns)

    def to_polars(self, *, wide: bool = False, data: Any = None) -> pl.DataFrame:
        """Return the table of `to_pandas` as a polars data frame; needs polars and pyarrow.

        `evidence` is JSON text, since its objects differ from row to row.

        Raises:
            ImportError: polars or pyarrow is not installed.
            ConfigurationError: The data of the run cannot be found.
        """
        import polars as pl

        return pl.DataFrame(self.to_arrow(wide=wide, data=data))

    def to_arrow(self, *, wide: bool = False, data: Any = None) -> Any:
        """Return the table of `to_pandas` as a `pyarrow.Table`; needs pyarrow (extra `parquet`).

        `evidence` is JSON text, since its objects differ from row to row.

        Raises:
            ImportError: pyarrow is not installed.
            ConfigurationError: The data of the run cannot be found.
        """
        return arrow_table(*self._rows(wide, data))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the scores as a stream of the Arrow PyCapsule interface, for any data frame."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _rows(self, wide: bool, data: Any) -> TableRows:
        examples = self.examples() if data is None else iter(Examples(data))
        return (wide_rows if wide else long_rows)(self, examples)

    def __repr__(self) -> str:
        # asyncio.run calls it for a returned run, so it must not read scores from a file
        if self.folder is None:
            outcomes = self.summary()["outcomes"]
        elif (self.folder / SUMMARY).exists():
            outcomes = read_summary(self.folder)["outcomes"]
        else:
            return f"<Run {str(self.folder)!r}>"
        counts = ", ".join(f"{count} {name}" for name, count in outcomes.items() if count)
        return f"<Run {'in memory' if self.folder is None else str(self.folder)!r}: {counts}>"

    def tables(self) -> list[Table]:
        """Return the mean of each aspect, and the first scores."""
        tally, rows = RunSummary(), list[ListedScore]()
        count = 0
        for count, score in enumerate(self, start=1):
            tally.add(score)
            if count <= MAX_ROWS:
                why = score.error.message if score.error else score.explanation or ""
                rows.append(ListedScore(score.id, score.aspect, score.value, why))
        notes = (more_rows(count - len(rows)),) if count > len(rows) else ()
        means = Summary(tally.summary(self.without_mean)).tables()
        return [*means, table_of(ListedScore, rows, notes)]

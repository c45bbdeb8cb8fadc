"""The result of an evaluation: scores, summary and tables, from memory or the run folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textassay.evaluation.data import open_examples
from textassay.evaluation.progress import Progress
from textassay.evaluation.request import recorded_request
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.labels import LabelSets, labels_of
from textassay.runtime.messages import Example, Score, Usage
from textassay.runtime.storage.files import encode
from textassay.runtime.storage.run_files import (
    SUMMARY,
    RunSummary,
    latest_scores,
    read_manifest,
    read_summary,
)
from textassay.table import MAX_ROWS, Column, Displayed, Table, more_rows

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


_TEXTS = (
    "id", "aspect", "outcome", "how", "explanation", "evidence", "signature", "started", "system",
    "group",
)  # fmt: skip
Rows = tuple[list[str], list[dict[str, Any]]]
"""Names of the columns, and the rows."""


def long_rows(scores: Iterable[Score], examples: Iterable[Example]) -> Rows:
    """Return one row per score: its fields, `system`, `group`, the `human` rating of its aspect."""
    by_id, aspects = _by_id(scores)
    rows = []
    for example in examples:
        of_one = by_id.pop(example.id, {})
        for aspect in (name for name in aspects if name in of_one):
            fields = {"system": example.system, "group": example.group}
            human = example.human.get(aspect)
            rows.append({**of_one[aspect].model_dump(mode="json"), **fields, "human": human})
    # scores whose examples are not in the data are kept at the end: data that were cut must not
    # hide them
    left = [score for of_one in by_id.values() for score in of_one.values()]
    rows += [score.model_dump(mode="json") for score in left]
    return [*Score.model_fields, "system", "group", "human"], rows


def wide_rows(scores: Iterable[Score], examples: Iterable[Example]) -> Rows:
    """Return one row per example: id, system, group, value by aspect, each human rating."""
    by_id, aspects = _by_id(scores)
    humans: dict[str, None] = {}
    rows = []
    for example in examples:
        of_one = by_id.pop(example.id, None)
        if of_one is None:
            continue
        human = {f"human.{name}": value for name, value in example.human.items()}
        humans |= dict.fromkeys(human)
        row = {"id": example.id, "system": example.system, "group": example.group}
        rows.append({**row, **_values(of_one), **human})
    rows += [{"id": id_, **_values(of_one)} for id_, of_one in by_id.items()]
    return ["id", "system", "group", *aspects, *humans], rows


def arrow_table(columns: list[str], rows: list[dict[str, Any]]) -> Any:
    """Return rows as a `pyarrow.Table` with the same types whatever is in them; needs pyarrow."""
    import pyarrow as pa

    usage = {name: pa.int64() for name in Usage.model_fields} | {"cost": pa.float64()}
    # fixed types: inferred ones would depend on whether the first rows happen to be unscored
    kinds = {
        "scale": pa.list_(pa.float64()),
        "samples": pa.int64(),
        "outside": pa.bool_(),
        "usage": pa.struct(list(usage.items())),
        "error": pa.struct([("type", pa.string()), ("message", pa.string())]),
    }
    kinds |= dict.fromkeys(_TEXTS, pa.string())
    made = {}
    for name in columns:
        cells: Any = (row.get(name) for row in rows)
        if name == "evidence":
            cells = (None if cell is None else encode(cell).decode() for cell in cells)
        made[name] = pa.array(list(cells), kinds.get(name, pa.float64()))
    return pa.table(made)


def _by_id(scores: Iterable[Score]) -> tuple[dict[str, dict[str, Score]], list[str]]:
    by_id: dict[str, dict[str, Score]] = {}
    aspects: dict[str, None] = {}
    for score in scores:
        by_id.setdefault(score.id, {})[score.aspect] = score
        aspects.setdefault(score.aspect)
    return by_id, list(aspects)


def _values(of_one: dict[str, Score]) -> dict[str, float | None]:
    return {aspect: score.value for aspect, score in of_one.items()}


_MEANS = (
    Column("aspect", "aspect"), Column("n", "scored", "count"), Column("mean", "mean", "number"),
)  # fmt: skip
_SCORES = (
    Column("id", "id"), Column("aspect", "aspect"), Column("value", "value", "number"),
    Column("reason", "reason"),
)  # fmt: skip


class Summary(dict[str, Any], Displayed):
    """What `summary.json` has of a run: a dictionary that prints as a table."""

    def tables(self) -> list[Table]:
        """Return the mean of each aspect."""
        cost, outcomes = self["usage"]["cost"], self["outcomes"]
        title = ", ".join(f"{number} {name}" for name, number in outcomes.items() if number)
        title += f"; {self['usage']['calls']} calls" + (f", ${cost:.4f}" if cost else "")
        means = [(name, one["n"], one["mean"]) for name, one in self["aspects"].items()]
        return [Table(_MEANS, means, title=title)]

    __str__ = Displayed.__str__


class Run(Displayed):
    """A finished evaluation; iterating it yields its scores.

    With a run folder, scores are read from there when they are asked for, so that a large run does
    not stay in memory.

    Attributes:
        folder: The run folder; `None` for a run that wrote nothing.
        progress: The last state of the session that made it.
        labels: What scores mean that are labels, by aspect.
    """

    def __init__(
        self,
        *,
        folder: Path | None,
        scores: Sequence[Score] = (),
        progress: Progress | None = None,
        examples: Iterable[Example] | None = None,
        labels: LabelSets | None = None,
    ) -> None:
        """Store where the scores are; of a run without a folder, the scores and their labels.

        Raises:
            RunFolderError: The folder holds no run.
        """
        # fails now, for a folder without a run, and not on the first look at the scores
        manifest = {} if folder is None else read_manifest(folder)
        self.labels = labels_of(manifest) or labels or {}
        self.folder, self.progress = folder, progress
        self._scores, self._examples = scores, examples

    @property
    def without_mean(self) -> frozenset[str]:
        """Aspects whose scores are labels without an order."""
        return frozenset(name for name, scale in self.labels.items() if scale.is_nominal)

    @property
    def scores(self) -> list[Score]:
        """All scores, the latest for each example and aspect, in the order in which they came."""
        return list(self)

    def __iter__(self) -> Iterator[Score]:
        return iter(self._scores) if self.folder is None else latest_scores(self.folder)

    def summary(self) -> Summary:
        """Return outcomes, errors by type, mean by aspect and usage, as `summary.json` has them.

        A dictionary that prints as a table.
        """
        tally = RunSummary()
        for score in self:
            tally.add(score)
        return Summary(tally.summary(self.without_mean))

    def examples(self) -> Iterator[Example]:
        """Iterate over what was judged, in the order of the data.

        Raises:
            DataError: The data that the manifest names cannot be read, or changed since.
            ConfigurationError: The run's data came from memory and are gone.
        """
        if self._examples is None:
            spec = recorded_request(read_manifest(self.folder)) if self.folder is not None else None
            if spec is None or spec.data is None:
                raise ConfigurationError(
                    "the run does not record where its data are; give them as to_pandas(data=...)"
                )
            self._examples = open_examples(spec.data, spec)
        return iter(self._examples)

    def to_pandas(self, *, wide: bool = False, data: Any = None) -> pd.DataFrame:
        """Return the scores as a table in the order of the data; needs pandas.

        Args:
            wide: One row per example, with a column of values per aspect and `human.ASPECT` for
                each aspect that people rated, instead of one row per score with the columns of
                `scores.jsonl` and `system`, `group` and `human`, the rating of the same aspect.
            data: The examples, if they are no longer where the run found them.

        Raises:
            ImportError: pandas is not installed.
            ConfigurationError: The data of the run cannot be found.
        """
        import pandas as pd  # heavy, and only this method's

        columns, rows = self._rows(wide, data)
        return pd.DataFrame(rows, columns=columns)

    def to_polars(self, *, wide: bool = False, data: Any = None) -> pl.DataFrame:
        """Return what `to_pandas` does as a polars data frame; needs polars and pyarrow.

        `evidence` is JSON text, for its objects differ from row to row.

        Raises:
            ImportError: polars or pyarrow is not installed.
            ConfigurationError: The data of the run cannot be found.
        """
        import polars as pl

        return pl.DataFrame(self.to_arrow(wide=wide, data=data))

    def to_arrow(self, *, wide: bool = False, data: Any = None) -> Any:
        """Return what `to_pandas` does as a `pyarrow.Table`; needs pyarrow (extra `parquet`).

        `evidence` is JSON text, for its objects differ from row to row.

        Raises:
            ImportError: pyarrow is not installed.
            ConfigurationError: The data of the run cannot be found.
        """
        return arrow_table(*self._rows(wide, data))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the scores as a stream of the Arrow PyCapsule interface, for any data frame."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _rows(self, wide: bool, data: Any) -> Rows:
        examples = self.examples() if data is None else iter(Examples(data))
        return (wide_rows if wide else long_rows)(self, examples)

    def __repr__(self) -> str:
        # asyncio.run asks for it when a run is what it returns, so no score is read from a file
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
        tally, rows = RunSummary(), list[tuple[str, str, float | None, str]]()
        count = 0
        for count, score in enumerate(self, start=1):
            tally.add(score)
            if count <= MAX_ROWS:
                why = score.error.message if score.error else score.explanation or ""
                rows.append((score.id, score.aspect, score.value, why))
        notes = (more_rows(count - len(rows)),) if count > len(rows) else ()
        return [*Summary(tally.summary(self.without_mean)).tables(), Table(_SCORES, rows, notes)]

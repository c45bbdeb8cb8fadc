"""Scores, and the data and ratings that a command compares them with.

Heavy modules are imported where they are used, as in commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textassay.cli.console import say, say_once, warn
from textassay.cli.flags import data_options, read_scales, with_config
from textassay.evaluation.request import RunRequest, request_from_manifest, with_kept_rows
from textassay.runtime.data.dataset import Examples, PairedExamples
from textassay.runtime.data.digests import may_be_one_text, text_digest
from textassay.runtime.data.files import open_table
from textassay.runtime.data.ratings import SAMPLING_PROBABILITY, LabelReader, WithRatings
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.labels import LabelSets, shares_of
from textassay.runtime.messages import Example
from textassay.runtime.storage.run_files import MANIFEST, check_present, read_manifest

if TYPE_CHECKING:
    from textassay.agents.prompt_template import Task
    from textassay.agreement.joined import People
    from textassay.estimation.columns import Columns, Judged
    from textassay.estimation.maps import MapScales
    from textassay.estimation.run_comparison import RunSide
    from textassay.table import Note

CHOSEN, RANDOM = "chosen", "random"
"""How the rated rows were selected; any other word is the file of a label plan."""


class RatedInput:
    """A run or file of scores, and the examples with ratings; read on first access.

    The data are DATA, or the run's own with its field map, or SCORES if that is a data set. `group`
    has flags: `config`, `field` and `missing` for reading the data, `ratings` for files joined to
    the data, and `task` for labels. `selection` is how the rated rows were selected, `scale` the
    scales of the human ratings, `by` the field that divides the data, and `whole_labels` whether
    labels without an order are compared whole.
    """

    def __init__(
        self,
        scores: Path,
        data: Path | None,
        group: Mapping[str, Any],
        aspect_map: Iterable[str] | None = (),
        *,
        selection: str = CHOSEN,
        scale: Iterable[str] | None = (),
        by: str | None = None,
        whole_labels: bool = False,
    ) -> None:
        flags, _ = with_config(group)
        self.scores, self.data, self.aspect_map = scores, data, tuple(aspect_map or ())
        self._scales = read_scales(scale or ())
        self._group = group
        self._selection, self._by, self._reading = selection, by, data_options(flags)
        self._ratings, self._task_name = tuple(flags.get("ratings") or ()), flags.get("task")
        self._whole_labels = whole_labels
        self._run = RunRequest(method="")  # a file of scores does not record it
        if (scores / MANIFEST).is_file():
            self._run = with_kept_rows(request_from_manifest(read_manifest(scores)), scores)

    @cached_property
    def _task(self) -> Task | None:
        """The task that names labels, if one is given."""
        from textassay.methods.library import tasks

        return tasks.load(self._task_name) if self._task_name else None

    @cached_property
    def declared(self) -> LabelSets:
        """Labels by name of the score: from the run's aspects and the task."""
        from textassay.agreement.joined import labels_of_task
        from textassay.agreement.records import check_equal_labels, read_labels

        labels = read_labels(self.scores)
        named = labels_of_task(self._task.aspects, self.aspect_map) if self._task else {}
        for name in labels.keys() & named.keys():
            places = f"in {self.scores}", f"in the task {self._task_name}"
            check_equal_labels(name, labels[name].names, named[name].names, places)
        return labels | named

    @property
    def labels(self) -> LabelSets:
        """`declared`, and words that scores and ratings have in common."""
        return self._read[2]

    @property
    def judged(self) -> dict[str, Judged]:
        """The scores, by name."""
        return self._read[0]

    @cached_property
    def people(self) -> People:
        """The human ratings; rows without a source get it from the run's own data."""
        from textassay.agreement.joined import People
        from textassay.agreement.records import judged_data

        judged = judged_data(self.scores) if self.data else ()
        return People(self._read[1], by=self._by, judged=judged)

    @property
    def left_out(self) -> dict[str, int]:
        """The number of rows whose text differs from the judged one, for JSON; may be empty.

        These rows and their ratings are not used.
        """
        from textassay.estimation.columns import texts_judged

        other = self.people.of_texts(texts_judged(self.judged)).other_texts
        return {"other_texts": len(other)} if other else {}

    @property
    def own_data(self) -> Path | None:
        """The data file of the run, if it still exists."""
        data = self._run.data
        return Path(data) if data is not None and Path(data).is_file() else None

    @property
    def knows_data(self) -> bool:
        """Whether there are data, given or of the run, or the scores are a data set."""
        is_given = self.data is not None or bool(self._group.keys() - {"task"})
        return is_given or self.own_data is not None or self._is_data_set

    def side(self, labels: LabelSets | None = None) -> RunSide:
        """Return the scores and their data for a comparison.

        `labels` belong to the other side, where words for labels have their numbers.
        """
        from textassay.agreement.records import read_scores
        from textassay.estimation.columns import read_judged
        from textassay.estimation.run_comparison import RunSide

        people = self.people if self.knows_data else None
        scales = self.declared if people is None else self.labels
        scales = scales if labels is None else {**labels, **self.declared}
        reader = LabelReader(scales)
        judged = read_judged(self.source(reader), reader)
        recorded = read_scores(self.source(reader), LabelReader(scales))
        return RunSide(judged, recorded, people, scales, self.lower_is_better)

    @cached_property
    def lower_is_better(self) -> frozenset[str]:
        """The aspects on which a low score is good, by the run or else the task."""
        from textassay.runtime.storage.run_files import higher_is_better

        of_task = self._task.aspects if self._task else ()
        of_run = higher_is_better(read_manifest(self.scores)) if self._run.method else {}
        rises = {aspect.name: aspect.higher_is_better for aspect in of_task} | of_run
        return frozenset(name for name in rises if not rises[name])

    @cached_property
    def _read(self) -> tuple[dict[str, Judged], Examples, LabelSets]:
        from textassay.agreement.joined import read_with_labels
        from textassay.estimation.columns import read_judged

        if self._selection == RANDOM:
            self._check_one_draw()
        return read_with_labels(
            lambda reader: read_judged(
                self.source(reader), reader, whole_labels=self._whole_labels
            ),
            lambda reader: self.examples(reader, needs_output=False),
            self.declared,
            self.aspect_map,
        )

    def _check_one_draw(self) -> None:
        plans = [path for path in self._ratings if _has_probabilities(path)]
        if len(plans) > 1:
            raise ConfigurationError(
                f"{plans[0]} and {plans[1]} are of two draws, and a probability of the first alone "
                "is not the probability of both; give the file of the last plan: --labels FILE"
            )

    def source(self, labels: LabelReader | None = None) -> Path | Examples:
        """Return a run or file of scores unchanged, and open a data set with metrics.

        The field map belongs to DATA, if that is another file, except for the columns of scores,
        and of ids and texts that both files have. Marks of missing values apply to both.
        """
        if not self._is_data_set:
            return self.scores
        reading = dict(self._reading)
        if self.data is not None and not (self.data.exists() and self.scores.samefile(self.data)):
            first: Mapping[str, Any] = next((row for _, row in open_table(self.scores).rows()), {})
            reading["fields"] = {
                theirs: ours
                for theirs, ours in reading.get("fields", {}).items()
                if ours.startswith("metrics.") or (ours in ("id", "output") and theirs in first)
            }
        return Examples(self.scores, needs_output=False, labels=labels, **reading)

    @cached_property
    def _is_data_set(self) -> bool:
        from textassay.agreement.records import holds_metrics

        return holds_metrics(self.scores)

    def examples(self, labels: LabelReader | None = None, *, needs_output: bool = True) -> Examples:
        """Open the examples that the scores belong to, with the ratings of further files.

        By default with the declared labels.
        """
        if labels is None:
            from textassay.agreement.joined import labels_of_people

            labels = LabelReader(labels_of_people(self.declared, self.aspect_map))
        run, data, reading = self._run, self.data, self._reading
        if data is None:
            if run.data is None and not self._is_data_set:
                raise ConfigurationError(
                    f"{self.scores} does not record where its data are; give DATA after"
                    f" {self.scores}"
                )
            data = self.scores
            if run.data:
                data = Path(run.data)
                check_present(data, "DATA")
        # the run's field map applies to the run's file; another file may have other columns
        if run.data is not None and data.absolute() == Path(run.data).absolute():
            reading = {
                "fields": run.fields, "missing": run.missing, **reading, "unit": run.unit,
                "conversation_chars": run.conversation_chars,
            }  # fmt: skip
        examples = Examples(data, needs_output=needs_output, labels=labels, **reading)
        for note in examples.check().reading:
            say_once(note)
        marks = self._reading.get("missing", ())
        return with_ratings(examples, self._ratings, missing=marks, labels=labels)

    def comparisons(self, pair: str | None) -> Iterable[Example]:
        """Open the comparisons of the scores: pairs of systems if requested, or in the run."""
        return PairedExamples(self.examples()) if pair or self._run.pair else self.examples()

    def columns(self) -> list[Columns]:
        """Join ratings with the scores."""
        from textassay.estimation.columns import join_columns, read_plan

        # a misspelled word fails as a missing file
        plan = None if self._selection in (RANDOM, CHOSEN) else read_plan(self._selection)
        tables = join_columns(self.judged, self.people, self.aspect_map, plan=plan)
        shares = shares_of(self.labels)
        left_out = {table.score for table in tables if table.score in shares and not _varies(table)}
        if not 0 < len(left_out) < len(tables):
            return tables
        say(
            f"{', '.join(sorted(left_out))}: left out, since judge or people gave the label to "
            "all rated texts, or to no text",
            style="yellow",
        )
        return [table for table in tables if table.score not in left_out]

    def scaled_columns(self) -> list[tuple[Columns, MapScales]]:
        """Return `columns` with their scales, each of one judge."""
        from textassay.agreement.records import check_one_judge

        tables = self.columns()
        for table in tables:
            check_one_judge(table.score, table.signatures)
        return [(table, self.scales_of(table)) for table in tables]

    def scales_of(self, table: Columns) -> MapScales:
        """Return the scales of judge and raters."""
        from textassay.estimation.columns import scales_of

        return scales_of(table, self._scales)

    def sources(self, tables: Sequence[Columns]) -> frozenset[str]:
        """Return digests of the rated sources, to recognize a calibration learned from them."""
        from textassay.estimation.calibration import source_digest

        group = dict(zip(self.people.ids, self.people.groups, strict=True))
        return frozenset(
            source_digest(group[id_] or f"row {id_}")
            for table in tables
            for id_, rated in zip(table.ids, table.rated.tolist(), strict=True)
            if rated
        )


def with_ratings(
    examples: Examples,
    paths: Iterable[Path | str],
    *,
    missing: Sequence[str] = (),
    labels: LabelReader | None = None,
) -> Examples:
    """Return examples with the ratings of files, joined by id; unchanged if no file is given.

    Ratings of another text than the data have under that id are left out, and counted.
    """
    files = {
        str(path): Examples(path, needs_output=False, missing=missing, labels=labels)
        for path in paths
    }
    if not files:
        return examples
    for path, rows in files.items():
        try:
            has_ratings = any(example.human or example.annotators for example in rows)
            rows.check()
        except DataError as error:
            if "fields=" not in str(error):
                raise
            raise DataError(f"{error}; give the file as DATA, which fields= maps") from error
        if not has_ratings:
            raise DataError(
                f"{path} contains no ratings, which are read from columns 'human.NAME' and"
                " 'annotators.NAME.RATER'; or give the file as DATA, which fields= maps"
            )
    other_texts: dict[str, list[str]] = {}
    if any(example.output for rows in files.values() for example in rows):
        texts = {example.id: text_digest(example) for example in examples}
        other_texts = {path: _other_texts(path, rows, texts) for path, rows in files.items()}
    return Examples(WithRatings(examples, files, other_texts), labels=labels)


def _other_texts(path: str, rows: Iterable[Example], texts: Mapping[str, str]) -> list[str]:
    """Return the ids of rated rows whose text differs from the data, and warn about them."""
    other = [row.id for row in rows if not may_be_one_text(text_digest(row), texts.get(row.id, ""))]
    if other:
        from textassay.agreement.joined import some_ids

        warn(
            f"{len(other)} rows of {path} have other texts than the data under the same ids"
            f" ({some_ids(other)}): their ratings are left out"
        )
    return other


def open_examples(run: Path, data: Path | None, group: Mapping[str, Any]) -> Examples | None:
    """Open texts and ratings to show beside a run; `None` for its own data."""
    if data is None and not group:
        return None
    return RatedInput(run, data, group).examples(needs_output=False)


def notes_of(tables: Iterable[Columns]) -> Iterator[Note]:
    """Yield the notes on all figures made from these tables."""
    return (note for table in tables for note in table.notes())


def _has_probabilities(ratings: Path) -> bool:
    return any(SAMPLING_PROBABILITY in e.meta for e in Examples(ratings, needs_output=False))


def _varies(table: Columns) -> bool:
    rated = table.rated & table.scored
    sides = (table.scores[rated], table.ratings[rated])
    return all(len(side) and side.min() < side.max() for side in sides)

"""Scores, and the examples that a command holds them against.

DATA, or those of the run, with its field map.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textassay.cli import arguments
from textassay.cli.console import say
from textassay.evaluation.manifest import recorded_request
from textassay.evaluation.request import RunRequest
from textassay.meta.score_files import holds_metrics
from textassay.runtime.data.dataset import Examples
from textassay.runtime.data.label_reader import LabelReader
from textassay.runtime.data.raters import SAMPLING_PROBABILITY, WithRatings
from textassay.runtime.data.units import Paired
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.labels import LabelScale, shares_of
from textassay.runtime.messages import Example
from textassay.runtime.storage.run_files import MANIFEST, read_manifest

if TYPE_CHECKING:
    from textassay.calibration.columns import Columns, Judged, People

CHOSEN, RANDOM = "chosen", "random"
"""How the rated rows were picked; any other word is the file of a label plan."""


def rated_examples(
    scores: Path,
    data: Path | None,
    given: Mapping[str, Any],
    *,
    needs_output: bool = True,
    aspect_map: Iterable[str] = (),
    labels: LabelReader | None = None,
) -> Examples:
    """Open the examples that scores belong to."""
    from textassay.meta.score_files import labels_of_people

    if labels is None:
        labels = LabelReader(labels_of_people(known_labels(scores, given, aspect_map), aspect_map))
    return with_ratings(
        _examples(scores, data, given, needs_output, labels),
        given.get("ratings", ()),
        missing=arguments.reading_of(given).get("missing", ()),
        labels=labels,
    )


def known_labels(
    scores: Path, given: Mapping[str, Any], aspect_map: Iterable[str] = ()
) -> dict[str, LabelScale]:
    """Return the labels of scores: those of a run's aspects, and of the task in `given`."""
    from textassay.meta.score_files import labels_of_task, read_labels, refuse_other_labels
    from textassay.methods.library import tasks

    labels = read_labels(scores)
    if (task := given.get("task")) is None:
        return labels
    named = labels_of_task(tasks.load(task).aspects, aspect_map)
    for name in labels.keys() & named.keys():
        places = f"in {scores}", f"in the task {task}"
        refuse_other_labels(name, labels[name].names, named[name].names, places)
    return labels | named


def with_ratings(
    examples: Examples,
    paths: Iterable[Path | str],
    *,
    missing: Sequence[str] = (),
    labels: LabelReader | None = None,
) -> Examples:
    """Return examples with the ratings of files, joined by id; as they are if no file is given."""
    files = {
        str(path): Examples(path, needs_output=False, missing=missing, labels=labels)
        for path in paths
    }
    return Examples(WithRatings(examples, files), labels=labels) if files else examples


def _examples(
    scores: Path,
    data: Path | None,
    given: Mapping[str, Any],
    needs_output: bool,
    labels: LabelReader,
) -> Examples:
    reading = arguments.reading_of(given)
    run = _request(scores)
    if data is None:
        if run is None or run.data is None:
            raise ConfigurationError(
                f"{scores} does not record where its data are; give DATA after {scores}"
            )
        data = Path(run.data)
    # the run's map is meant for the run's file; another file may have other columns
    if run is None or not _same(data, run):
        return Examples(data, needs_output=needs_output, labels=labels, **reading)
    return Examples(
        data,
        needs_output=needs_output,
        unit=run.unit,
        conversation_chars=run.conversation_chars,
        labels=labels,
        **{"fields": run.fields, "missing": run.missing, **reading},
    )


def judged_in(
    scores: Path, data: Path | None, given: Mapping[str, Any], labels: LabelReader | None = None
) -> Path | Examples:
    """Return a run or file of scores as it is, and a data set with metrics opened.

    The field map is that of DATA, so it is used if both are one file; marks of missing values are
    those of both.
    """
    if not holds_metrics(scores):
        return scores
    reading = arguments.reading_of(given)
    if data is None or not data.exists() or not scores.samefile(data):
        reading.pop("fields", None)
    return Examples(scores, needs_output=False, labels=labels, **reading)


def compared_examples(
    scores: Path, data: Path | None, given: Mapping[str, Any], pair: str | None
) -> Iterable[Example]:
    """Open the comparisons that scores belong to, see `rated_examples`."""
    examples, run = rated_examples(scores, data, given), _request(scores)
    if pair is None and (run is None or run.pair is None):
        return examples
    return Paired(examples)


def own_data(scores: Path) -> Path | None:
    """Return the file that a run was made of, if it is still there."""
    run = _request(scores)
    data = None if run is None or run.data is None else Path(run.data)
    return data if data is not None and data.is_file() else None


def _request(scores: Path) -> RunRequest | None:
    return recorded_request(read_manifest(scores)) if (scores / MANIFEST).is_file() else None


def _same(data: Path, run: RunRequest) -> bool:
    return run.data is not None and data.absolute() == Path(run.data).absolute()


def shown_examples(run: Path, data: Path | None, given: Mapping[str, Any]) -> Examples | None:
    """Open texts and ratings that are shown beside a run; `None` for its own data as they are."""
    if data is None and not given:
        return None
    return rated_examples(run, data, given)


def read_people(
    scores: Path,
    data: Path | None,
    given: Mapping[str, Any],
    aspect_map: Iterable[str] = (),
    labels: str | None = None,
) -> People:
    """Read the human ratings that scores are held against, see `rated_examples`."""
    from textassay.calibration.columns import People
    from textassay.meta.score_files import labels_of_people

    if labels == RANDOM:
        drawn = [path for path in given.get("ratings", ()) if _has_probabilities(path)]
        if len(drawn) > 1:
            raise ConfigurationError(
                f"{drawn[0]} and {drawn[1]} are of two draws, and a probability of the first alone "
                "is not that of both; give the file of the last label plan: --labels FILE"
            )
    known = labels_of_people(known_labels(scores, given, aspect_map), aspect_map)
    reader = LabelReader(known)
    return People(rated_examples(scores, data, given, needs_output=False, labels=reader), known)


def _has_probabilities(ratings: Path) -> bool:
    return any(SAMPLING_PROBABILITY in one.meta for one in Examples(ratings, needs_output=False))


def read_scores_of(
    scores: Path, data: Path | None, given: Mapping[str, Any], aspect_map: Iterable[str] = ()
) -> dict[str, Judged]:
    """Read scores with the labels that are known of them, see `judged_in` and `known_labels`."""
    from textassay.calibration.columns import read_judged

    labels = known_labels(scores, given, aspect_map)
    return read_judged(judged_in(scores, data, given, LabelReader(labels)), labels)


def read_columns(
    scores: Path,
    data: Path | None,
    given: Mapping[str, Any],
    people: People,
    aspect_map: Sequence[str],
    labels: str = RANDOM,
) -> list[Columns]:
    """Read scores (see `read_scores_of`), and join them with the ratings."""
    from textassay.calibration.columns import join_columns, read_plan

    # a misspelled word fails as a missing file
    plan = None if labels in (RANDOM, CHOSEN) else read_plan(labels)
    judged = read_scores_of(scores, data, given, aspect_map)
    tables = join_columns(judged, people, aspect_map, plan=plan)
    shares = shares_of(known_labels(scores, given, aspect_map))
    left_out = {one.score for one in tables if one.score in shares and not _varies(one)}
    if not 0 < len(left_out) < len(tables):
        return tables
    say(
        f"{', '.join(sorted(left_out))}: left out, since judge or people gave the label to all"
        " rated texts or to none",
        style="yellow",
    )
    return [table for table in tables if table.score not in left_out]


def _varies(table: Columns) -> bool:
    rated = table.rated & table.scored
    sides = (table.scores[rated], table.ratings[rated])
    return all(len(side) and side.min() < side.max() for side in sides)


def sources_of(tables: Sequence[Columns], people: People) -> frozenset[str]:
    """Return digests of the sources that have ratings."""
    from textassay.calibration.calibration import source_digest

    group = dict(zip(people.ids, people.groups, strict=True))
    sources = set()
    for table in tables:
        for id_, rated in zip(table.ids, table.rated.tolist(), strict=True):
            if rated:
                # digests let `estimate` recognize sources that the calibration has seen, without
                # their texts
                sources.add(source_digest(group[id_] or f"row {id_}"))
    return frozenset(sources)

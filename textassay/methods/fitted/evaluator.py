"""Fitted evaluators as folders, and the features that they read.

An evaluator is an aggregator and, if a model judges, a tree, prompts and a model.

    evaluator.json   everything needed to apply it, with a digest
    report.json      its training and its agreement with people (report.txt: as text)
    held_out.jsonl   the scores of held-out rows, on which that agreement is measured

No pickle: trees are LightGBM's text, the rest is JSON.

Recorded features are an example's `metrics`, and files of scores joined by id. The scores of a file
are named by their aspects. If two files have the same aspect, the name is `FILE/aspect`, with the
file's name without its ending (or the name of a run's folder), or `NAME/aspect` for a file given as
`NAME=FILE`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from textassay.agents.prompt_template import Task
from textassay.agreement.records import (
    Recorded,
    ScoreSource,
    judged_data,
    level_feature_names,
    read_labels,
    read_scores,
    texts_of,
)
from textassay.learning.aggregators import Aggregator
from textassay.methods.library.toml import validate_as
from textassay.runtime.base import Message
from textassay.runtime.data.digests import may_be_one_text, source_digest, text_digest
from textassay.runtime.data.ratings import LabelReader
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName
from textassay.runtime.labels import share_names
from textassay.runtime.messages import Aspect, AspectTree, Example
from textassay.runtime.storage.files import digest_of, read_sealed, write_sealed
from textassay.table import Column, Displayed, Table

FILE = "evaluator.json"


class Evaluator(Displayed, Message):
    """A fitted evaluator, as in `evaluator.json`."""

    kind: Literal["recorded", "hd-eval"]
    """Kind of its features: recorded scores, or ratings of a tree's nodes by a model."""
    aspects: tuple[Aspect, ...]
    """People's aspects under their own names, on the raters' scale."""
    features: tuple[str, ...]
    """Names of the features in order: recorded scores, or ids of the tree's nodes."""
    aggregator: dict[str, Any]
    """`Aggregator.to_dict()`."""
    background: tuple[tuple[float | None, ...], ...] = ()
    """Training rows; their mean is the baseline if contributions are sampled."""
    task: Task | None = None
    """The task in the model's prompts; `None` for recorded scores."""
    tree: AspectTree | None = None
    """The tree of criteria; `None` for recorded scores."""
    model: str | None = None
    """Name of the model whose ratings were the features."""
    prompts: str | None = None
    """Digest of its prompts."""
    settings: dict[str, Any] | None = None
    """Sampling settings of the model, such as its effort, as in signatures; `None` if unknown."""
    options: dict[str, Any] = {}
    """Options of the judge."""
    made: dict[str, Any] = {}
    """Data digest, split, seed and versions."""

    @property
    def digest(self) -> str:
        """64 hex digits over everything."""
        return digest_of(self.model_dump(mode="json"))

    def tables(self) -> list[Table]:
        """Return a table of its facts, and one of its features."""
        named = [
            ("kind", self.kind),
            ("aspects", ", ".join(aspect.label for aspect in self.aspects)),
            ("aggregator", str(self.aggregator.get("name", ""))),
            ("features", f"{len(self.features)}"),
            ("model", self.model),
            ("digest", self.digest[:12]),
        ]
        features = [(name,) for name in self.features]
        return [
            Table((Column("name", ""), Column("value", "value")), named, title="fitted evaluator"),
            Table((Column("feature", "feature"),), features),
        ]


def is_evaluator(path: str | Path) -> bool:
    """Return whether the path is the folder of an evaluator."""
    return (Path(path) / FILE).is_file()


def save(evaluator: Evaluator, folder: Path) -> None:
    """Write `evaluator.json` in one step."""
    # JSON, never pickle: loading a folder from an unknown source must not run code
    write_sealed(folder / FILE, evaluator.model_dump(mode="json"), format=1)


def load(folder: str | Path) -> Evaluator:
    path = Path(folder) / FILE
    content = read_sealed(
        path,
        format=1,
        kind="evaluator",
        missing=(
            f"{folder} contains no {FILE}, so it is not an evaluator; make one with textassay fit"
        ),
        repair="fit again",
    )
    return validate_as(path, content, Evaluator)


def restore_aggregator(evaluator: Evaluator) -> Aggregator:
    aggregator = Aggregator.from_dict(evaluator.aggregator)
    # columns in another order would silently get wrong weights
    if aggregator.features_ != evaluator.features or aggregator.targets_ != tuple(
        a.name for a in evaluator.aspects
    ):
        raise DataError(
            "the evaluator's aggregator was fitted on other features or aspects than it names; fit"
            " again"
        )
    return aggregator


class FeatureScores(Recorded):
    """Recorded scores by feature and id, with digests of the scored texts."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, Mapping[str, str]] = {}
        """Digest of the scored text by feature and id, if it is recorded."""
        self.read_from: tuple[ScoreSource, ...] = ()
        """Files and runs of origin."""

    @cached_property
    def sources(self) -> dict[str, str]:
        """The `source_label` of each text judged by the runs, by id."""
        judged = chain.from_iterable(map(judged_data, self.read_from))
        labels = ((example.id, source_label(example)) for example in judged)
        return {id_: label for id_, label in labels if label is not None}

    def are_of_another_text(self, example: Example) -> bool:
        """Return whether a different text was scored under the example's id."""
        digest = text_digest(example) if self.texts else ""
        return not all(may_be_one_text(digest, d.get(example.id, "")) for d in self.texts.values())


def read_files(
    files: Iterable[ScoreSource] | Mapping[str, ScoreSource], *, level_features: bool = True
) -> FeatureScores:
    """Read files of scores and runs, and name their features.

    Unless `level_features` is false, ratings by a decision model have two further features, from
    the probabilities of their levels. Each label without an order is a feature, 0 or 1.
    """
    named = (
        files.items()
        if isinstance(files, Mapping)
        else (split_name(file) if isinstance(file, str) else ("", file) for file in files)
    )
    loaded = [(name, source, _scores_of(source, level_features)) for name, source in named]
    for _, source, scores in loaded:
        if not scores:
            raise DataError(f"{source} contains no scores")
    counts = Counter(aspect for _, _, scores in loaded for aspect in scores)
    columns = FeatureScores()
    columns.read_from = tuple(source for _, source, _ in loaded)
    for name, source, scores in loaded:
        for aspect, values in scores.items():
            # only equal names get a prefix, so that the names of a single file are plain
            prefix = name or (_stem(source) if counts[aspect] > 1 else "")
            feature = f"{prefix}/{aspect}" if prefix else aspect
            if feature in columns:
                raise ConfigurationError(
                    f"two files of scores yield the feature {feature!r}; name them with"
                    " scores={'NAME': FILE}"
                )
            columns[feature] = values
            if texts := texts_of(scores):
                columns.texts[feature] = texts
    return columns


def _scores_of(source: ScoreSource, level_features: bool) -> Recorded:
    # of a run in memory, or in a folder
    labels = getattr(source, "labels", None) or read_labels(source)
    reader = labels if isinstance(labels, LabelReader) else LabelReader(labels, any_word=True)
    scores = read_scores(source, reader, level_features=level_features)
    for name in list(scores):
        if not (labels := reader.unordered_labels("metrics", name)):
            continue
        for column in level_feature_names(name):
            scores.pop(column, None)
        numbers = scores.pop(name)
        for at, column in enumerate(share_names(name, labels)):
            scores[column] = {
                id_: None if value is None else float(value == at) for id_, value in numbers.items()
            }
    return scores


def split_name(item: str) -> tuple[str, str]:
    """Split `NAME=FILE`; the name is empty for a plain path."""
    name, equals, path = item.partition("=")
    # a name has no slash or dot, unlike the path `runs/a=b/scores.jsonl` before its "="
    if equals and name and path and not set("/\\.") & set(name):
        return name, path
    return "", item


def with_absolute_paths(files: Iterable[str]) -> list[str]:
    """Return the files with absolute paths."""
    pairs = [split_name(item) for item in files]
    return [
        f"{name}={Path(path).absolute()}" if name else str(Path(path).absolute())
        for name, path in pairs
    ]


def matching_names(patterns: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return the names that any of the patterns (`*`, `?`, `[...]`) matches, in the order known."""
    matched = {p: {name for name in known if name == p or fnmatchcase(name, p)} for p in patterns}
    for pattern, names in matched.items():
        if not names and not known:
            raise ConfigurationError(
                f"there is no feature {pattern!r}, as neither the data (columns metrics.NAME) "
                "nor scores=FILE contain it"
            )
        if not names:
            more = [f"and {len(known) - 20} more"] if len(known) > 20 else []
            raise UnknownName("feature", pattern, [*known[:20], *more])
    return tuple(name for name in known if any(name in names for names in matched.values()))


def read_row(
    example: Example, features: Sequence[str], scores: Mapping[str, Mapping[str, float | None]]
) -> list[float]:
    """Return an example's features in order, NaN if it has none.

    A score of a different text with the same id is ignored.
    """
    metrics, id_ = example.metrics, example.id
    texts = scores.texts if isinstance(scores, FeatureScores) else {}
    digest = text_digest(example) if texts else ""
    values = [
        metrics.get(name) if name not in scores
        else scores[name].get(id_) if may_be_one_text(digest, texts.get(name, {}).get(id_, ""))
        else None
        for name in features
    ]  # fmt: skip
    return [float("nan") if value is None else value for value in values]


def source_label(example: Example) -> str | None:
    """Return a label of the text's source: its group, or a digest of the source."""
    if example.group is not None:
        # with a prefix, so that a group never equals the digest of a source
        return f"group {example.group}"
    # a digest rather than the text, so that long sources are not kept in memory
    digest = source_digest(example)
    return None if digest is None else f"source {digest}"


def _stem(source: ScoreSource) -> str:
    """Return the name of a file or of a run's folder; empty for a run without one."""
    place = source if isinstance(source, str | Path) else getattr(source, "folder", None)
    if not place:
        return ""
    path = Path(place).resolve()
    name = path.name
    for ending in (".gz", ".jsonl", ".json"):
        name = name.removesuffix(ending)
    # every run's file is scores.jsonl; its folder distinguishes runs
    return path.parent.name if name == "scores" else name

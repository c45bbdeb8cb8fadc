"""Features that exist already: an example's `metrics`, and files of scores joined by id.

A file's scores are called by their aspects; if two files hold the same aspect, by `FILE/aspect`
with the file's name without its ending (a run folder's own name), or `NAME/aspect` for a file given
as `NAME=FILE`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from textassay.meta.records import HasScores, Recorded, read_labels, read_scores, recorded
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, DataError, UnknownName
from textassay.runtime.messages import Example

ScoreSource = str | Path | Examples | HasScores
"""A run folder or a file of scores, as `FILE` or `NAME=FILE`, a data set with metrics, or a run."""


def read_files(
    files: Iterable[ScoreSource] | Mapping[str, ScoreSource],
    aspects: Collection[str] | None = None,
) -> Recorded:
    """Read files of scores and runs, and name their features."""
    named = files.items() if isinstance(files, Mapping) else map(_named, files)
    read = [(name, source, _scores_of(source, aspects)) for name, source in named]
    counts: dict[str, int] = {}
    for _, source, scores in read:
        if not scores:
            raise DataError(f"{source} contains no scores")
        for aspect in scores:
            counts[aspect] = counts.get(aspect, 0) + 1
    columns: Recorded = {}
    for name, source, scores in read:
        for aspect, values in scores.items():
            # only names that collide are prefixed, so that the usual single file keeps plain names
            prefix = name or (_stem(source) if counts[aspect] > 1 else None)
            feature = aspect if prefix is None else f"{prefix}/{aspect}"
            if feature in columns:
                raise ConfigurationError(
                    f"two files of scores yield the feature {feature!r}; tell them apart with"
                    " scores={'NAME': FILE}"
                )
            columns[feature] = values
    return columns


def _named(source: ScoreSource) -> tuple[str | None, ScoreSource]:
    return split_name(source) if isinstance(source, str) else (None, source)


def _scores_of(source: ScoreSource, aspects: Collection[str] | None) -> Recorded:
    if not isinstance(source, str | Path | Examples):
        return recorded(source)
    unordered = [name for name, one in read_labels(source).items() if one.is_nominal]
    for name in unordered:
        if aspects is None or name in aspects:
            raise ConfigurationError(
                f"{source}: the labels of {name!r} have no order, so their numbers are no feature"
                f" to learn from; choose other aspects (aspects=)"
            )
    return {name: values for name, values in read_scores(source).items() if name not in unordered}


def split_name(item: str) -> tuple[str | None, str]:
    """Split `NAME=FILE`; a path with an equals sign in a folder's name is a path."""
    name, equals, path = item.partition("=")
    # a name has no slash or dot; a path such as `runs/a=b/scores.jsonl` does before its "="
    if equals and name and path and not set("/\\.") & set(name):
        return name, path
    return None, item


def with_absolute_paths(files: Iterable[str]) -> list[str]:
    """Return the files with absolute paths."""
    pairs = [split_name(item) for item in files]
    return [
        f"{name}={Path(path).absolute()}" if name else str(Path(path).absolute())
        for name, path in pairs
    ]


def matching_names(patterns: Iterable[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return the names that any of the patterns (`*`, `?`, `[...]`) matches, in the order known."""
    unmatched = list(patterns)
    for pattern in unmatched:
        if not any(name == pattern or fnmatchcase(name, pattern) for name in known):
            if not known:
                raise ConfigurationError(
                    f"there is no feature {pattern!r}, as neither the data (columns metrics.NAME) "
                    "nor scores=FILE hold any"
                )
            raise UnknownName("feature", pattern, _some(known))
    return tuple(
        name for name in known if any(name == p or fnmatchcase(name, p) for p in unmatched)
    )


def read_row(
    example: Example, features: Sequence[str], scores: Mapping[str, Mapping[str, float | None]]
) -> list[float]:
    """Return an example's features in order, NaN if it has none."""
    metrics, nan = example.metrics, float("nan")
    if not scores:
        values = [metrics.get(name) for name in features]
    else:
        values = [
            scores[name].get(example.id) if name in scores else metrics.get(name)
            for name in features
        ]
    return [nan if value is None else value for value in values]


def source_label(example: Example) -> str | None:
    """Return a label of what the text is about: its group, or a digest of its source."""
    if example.group is not None:
        # prefixed, so that a group can never equal the digest of a source
        return f"group {example.group}"
    if example.source:
        # a digest instead of the text, so that long sources do not stay in memory
        return (
            "source " + hashlib.sha256(example.source.encode("utf-8", "surrogatepass")).hexdigest()
        )
    return None


def _stem(source: ScoreSource) -> str | None:
    """Return the name of a file or of a run's folder; `None` for a run without one."""
    place = source if isinstance(source, str | Path) else getattr(source, "folder", None)
    if place is None:
        return None
    path = Path(place).resolve()
    name = path.name
    for ending in (".gz", ".jsonl", ".json"):
        name = name.removesuffix(ending)
    # every run's file is called scores.jsonl; its folder tells runs apart
    return path.parent.name if name == "scores" else name


def _some(known: Sequence[str]) -> list[str]:
    return list(known) if len(known) <= 20 else [*known[:20], f"and {len(known) - 20} more"]

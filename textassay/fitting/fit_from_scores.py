"""`fit --features` and `fit --scores`: an evaluator learned from scores that exist already.

Asks no model.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from textassay.fitting.learn import Fitter, background_of, choose
from textassay.fitting.raters import Raters, modeled
from textassay.fitting.report import Depth, Parts, report_of
from textassay.fitting.result import Fit
from textassay.fitting.scales import Scales, scales_of
from textassay.fitting.table import FeatureTable, Selection, read_table, refuse_leaks
from textassay.learning import hold_out, split_rows
from textassay.learning.splits import Mask
from textassay.methods.fitted.evaluator import Evaluator, is_evaluator
from textassay.methods.fitted.features import ScoreSource, read_files
from textassay.runtime.data.dataset import DataInfo, Examples
from textassay.runtime.errors import ConfigurationError, RunFolderError, UnknownName, parameter
from textassay.runtime.messages import Aspect
from textassay.runtime.model import Json
from textassay.version import __version__


@dataclass(frozen=True)
class Learning:
    """How to learn, whatever the features are.

    Attributes:
        aggregators: Names; of several the one with the least error over folds of the training rows
            is taken.
        train_fraction: Share of the rows to learn from; the others are held out for the report.
        test_fraction: Share of the rows to hold out, the same ones whatever `train_fraction` is
            under one seed; rows of neither share are not used.
        seed: Seed of the split and of everything random.
        depth: `basic`, or `full` with curves and ablations.
        aspects: Human aspects; `None` for all that people rated.
        scales: Scale by human aspect; if absent, the whole numbers around the ratings.
        by_row: Whether to split row by row, which puts rows of one source on both sides.
        threads: Threads that training may use.
        repeats: Samples over which the curves of a full report are averaged (the paper: 5); by
            default 3 for data and 1 for criteria.
        new_systems: Whether texts of systems that nobody rated are to be judged: then folds leave
            out systems as well as sources to decide whether the means of systems help.
        raters: Whether the target is the mean of a row's ratings or comes from a rater model, which
            takes off each rater's severity and noise.
    """

    aggregators: tuple[str, ...] = ("auto",)
    train_fraction: float = 0.5
    seed: int = 0
    depth: Depth = "basic"
    aspects: tuple[str, ...] | None = None
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    by_row: bool = False
    threads: int = field(default_factory=lambda: min(2, os.cpu_count() or 1))
    test_fraction: float | None = None
    repeats: int | None = None
    new_systems: bool = False
    raters: Raters = "mean"

    def __post_init__(self) -> None:
        if self.repeats is not None and not 1 <= self.repeats <= 100:
            raise ConfigurationError(f"repeats must be between 1 and 100, not {self.repeats}")
        if self.raters not in get_args(Raters):
            raise UnknownName("target of several raters", self.raters, list(get_args(Raters)))


def check_out(folder: Path) -> None:
    """Refuse a folder that holds something else.

    Raises:
        RunFolderError: It holds an evaluator already, or other files.
    """
    if is_evaluator(folder):
        raise RunFolderError(
            f"{folder} already contains an evaluator; choose another folder for "
            f"{parameter('out')}, or delete it"
        )
    if folder.exists() and not folder.is_dir():
        raise RunFolderError(f"{folder} is a file; {parameter('out')} is a folder to make")
    # a folder of something else is never written into: `report.json` is a common name
    if folder.is_dir() and any(folder.iterdir()):
        raise RunFolderError(f"{folder} is not empty; choose another folder for {parameter('out')}")


@dataclass(frozen=True)
class RecordedFit:
    """A fit on recorded scores: data that were read and checked, and how to learn from them.

    Attributes:
        table: Rated rows with their features.
        parts: Training and held-out rows.
        scales: Scale by human aspect.
        info: What is known of the data.
        learning: How to learn.
    """

    table: FeatureTable
    parts: Parts
    scales: Scales
    info: DataInfo
    learning: Learning

    def learn(self) -> Fit:
        """Learn an evaluator; nothing is read or written.

        Raises:
            DataError: The ratings do not allow to learn from them.
        """
        table, learning = self.table, self.learning
        fitter = Fitter(self.scales, learning.seed, learning.threads, learning.new_systems)
        by_rater = modeled(table, self.parts) if learning.raters == "model" else None
        parts = by_rater.parts if by_rater else self.parts
        choice = choose(learning.aggregators, parts.train, fitter)
        made = made_of(table, parts, self.info, learning)
        if by_rater and by_rater.severities:
            made["raters"] = by_rater.severities
        evaluator = Evaluator(
            kind="recorded",
            aspects=tuple(human_aspect(name, fitter.scales[name]) for name in table.aspects),
            features=table.names,
            aggregator=choice.aggregator.to_dict(),
            background=background_of(parts.train, choice.aggregator),
            made=made,
        )
        report = report_of(
            choice,
            parts,
            fitter,
            depth=learning.depth,
            made={"kind": "recorded", **made},
            repeats=learning.repeats,
        )
        if by_rater:
            means = choose(learning.aggregators, self.parts.train, fitter)
            report["raters"] = by_rater.report(choice, means, self.parts)
        return Fit(evaluator, report)


def read_recorded(
    data: Examples,
    *,
    features: tuple[str, ...] = (),
    scores: Iterable[ScoreSource] | Mapping[str, ScoreSource] = (),
    learning: Learning | None = None,
) -> RecordedFit:
    """Read and check everything that an evaluator of recorded scores is learned from.

    Args:
        data: Examples with human ratings.
        features: Names or globs of recorded `metrics`.
        scores: Runs, files of scores or run folders, the latter two also as `NAME=FILE`, or all of
            these by name; joined by id.
        learning: How to learn.

    Raises:
        UnknownName: No metric matches, or there is no such aspect or aggregator.
        ConfigurationError: Nothing to learn from was named.
        DataError: Too few rows or groups, ratings that do not vary or come on two scales, leakage.
    """
    learning = learning or Learning()
    if not features and not scores:
        raise ConfigurationError(
            f"fit without a model needs {parameter('features', 'NAME,GLOB*')} or "
            f"{parameter('scores', 'FILE')} to learn from"
        )
    selection = Selection(features, read_files(scores), learning.aspects, learning.by_row)
    table = read_table(data, selection)
    # before the split: a leak shows on all rows together more surely than on half of them
    refuse_leaks(table)
    scales = scales_of(table, learning.scales)
    return RecordedFit(table, split(table, learning), scales, data.check(), learning)


def fit_recorded(
    data: Examples,
    *,
    features: tuple[str, ...] = (),
    scores: Iterable[ScoreSource] | Mapping[str, ScoreSource] = (),
    learning: Learning | None = None,
) -> Fit:
    """Learn an evaluator from scores that exist already; takes the arguments of `read_recorded`.

    Raises:
        ConfigurationError: As `read_recorded`.
        DataError: As `read_recorded`, or the ratings do not allow to learn from them.
    """
    return read_recorded(data, features=features, scores=scores, learning=learning).learn()


def split(table: FeatureTable, learning: Learning) -> Parts:
    """Return training and held-out rows.

    Raises:
        ConfigurationError: A fraction is not between 0 and 1, or both together are above 1.
        DataError: There are fewer than two groups.
    """
    train, test = sides(table, learning)
    return Parts(table.rows(train), table.rows(test))


def sides(table: FeatureTable, learning: Learning) -> tuple[Mask, Mask]:
    """Return which rows are learned from and which are held out.

    Raises:
        ConfigurationError: A fraction is not between 0 and 1, or both together are above 1.
        DataError: There are fewer than two groups.
    """
    train = split_rows(table.groups, learning.train_fraction, seed=learning.seed)
    if learning.test_fraction is None:
        return train, ~train
    return train, hold_out(table.groups, learning.test_fraction, train, seed=learning.seed)


def made_of(table: FeatureTable, parts: Parts, info: DataInfo, learning: Learning) -> Json:
    """Return how an evaluator came about, for its file and its report."""
    return {
        "data": {
            "path": info.name,
            "digest": info.digest,
            "rows": info.count,
            "unrated": table.unrated,
            "left_out": table.left_out,
        },
        "split": {
            "by": table.grouped_by,
            "seed": learning.seed,
            "train_fraction": learning.train_fraction,
            **({} if learning.test_fraction is None else {"test_fraction": learning.test_fraction}),
            "train": _size(parts.train),
            "held_out": _size(parts.test),
        },
        "textassay": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def human_aspect(name: str, scale: tuple[float, float], definition: str | None = None) -> Aspect:
    """Return a human aspect under its own name and on the raters' scale."""
    return Aspect(name=name, definition=definition or f"{name}, as people rate it.", scale=scale)


def _size(table: FeatureTable) -> Json:
    return {"rows": len(table.ids), "groups": len(set(table.groups.tolist()))}

"""`fit --features` and `fit --scores`: an evaluator learned from scores that exist already.

Asks no model. If raters differ, targets may come from a rater model instead of plain means. Raters
are the places of `annotators`, or, if every row has one rating and says who gave it, the names in a
column such as `annotator`. With a fixed held-out part the rater model is learned from training rows
alone, and a held-out row's target comes from its own ratings and from what training rows tell about
its raters. With cross-fitting it is learned from all rows: it defines the target, which is then the
same in every fold, and no feature takes part in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from textassay.evaluation.request import build_request
from textassay.fitting.agreement import agreement_between, build_report
from textassay.fitting.learn import (
    FOLDS,
    Choice,
    FeatureTable,
    Fitter,
    Parts,
    Scales,
    Unseen,
    Watch,
    background_rows,
    choose,
    cross_fit,
    number_of_repeats,
    rating_scales,
    read_table,
    refuse_leaks,
    split,
)
from textassay.fitting.report import Fit, fractions, human_aspect, provenance
from textassay.fitting.request import FitFromScores
from textassay.learning.rater_model import RaterModel
from textassay.learning.training import Floats
from textassay.methods.fitted.evaluator import Evaluator, read_files
from textassay.runtime.data.dataset import DataInfo, Examples
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.model import Json


@dataclass(frozen=True)
class RatedBy:
    """Ratings of one aspect by rater, of all rows."""

    names: tuple[str, ...]  # names of the raters; places from 1 if the data name nobody
    named: bool  # whether rows name their rater, so that a new row's may be known

    def ratings(self, table: FeatureTable, aspect: str) -> Floats:
        """Return a table's ratings, shape (n, raters), NaN for gaps."""
        if not self.named:
            return table.annotators[aspect]
        ratings = np.full((len(table.ids), len(self.names)), np.nan)
        at = {name: column for column, name in enumerate(self.names)}
        human = table.human[:, table.aspects.index(aspect)]
        for row, name in enumerate(table.raters):
            if name is not None:
                ratings[row, at[name]] = human[row]
        return ratings


def rated_by(table: FeatureTable, aspect: str) -> RatedBy:
    """Return who rated an aspect."""
    if aspect in table.annotators:
        width = table.annotators[aspect].shape[1]
        return RatedBy(tuple(str(place + 1) for place in range(width)), named=False)
    names = tuple(sorted({name for name in table.raters if name is not None}))
    if not names:
        raise DataError(
            f"aspect {aspect!r}: raters=model needs the ratings of single raters:"
            " 'annotators' with all of a row's ratings, or 'annotator' with the name of its rater"
        )
    return RatedBy(names, named=True)


@dataclass(frozen=True)
class Modeled:
    """Rater models by aspect, with the rows whose targets they made."""

    parts: Parts  # training and held-out rows with modeled targets
    models: Mapping[str, RaterModel]  # model by aspect
    raters: Mapping[str, RatedBy]  # who rated, by aspect

    @property
    def severities(self) -> dict[str, dict[str, float]]:
        """Points by which named raters rate below the raters' mean, by name and aspect."""
        found: dict[str, dict[str, float]] = {}
        for aspect, model in self.models.items():
            who = self.raters[aspect]
            if who.named:
                for name, points in zip(who.names, model.points().tolist(), strict=True):
                    found.setdefault(name, {})[aspect] = points
        return found

    def report(self, unseen: Unseen, plain: Unseen) -> Json:
        """Return raters, and held-out agreement beside that of learning from plain means."""
        test, plain_test = unseen.rows, plain.rows
        ours, theirs = unseen.by_evaluator(), plain.by_evaluator()
        content: Json = {}
        for at, aspect in enumerate(test.aspects):
            model, who = self.models[aspect], self.raters[aspect]
            counts = (~np.isnan(who.ratings(self.parts.train, aspect))).sum(axis=0)
            targets = {"model": test.human[:, at], "mean": plain_test.human[:, at]}
            learned = {"model": ours[:, at], "mean": theirs[:, at]}
            if who.named:
                points = dict(zip(who.names, model.points().tolist(), strict=True))
                known = np.array([points.get(name or "", 0.0) for name in test.raters])
                learned["model, rater added back"] = learned["model"] - known
            content[aspect] = {
                "raters": [
                    {"rater": name, "n": int(n), "severity": points, "noise": noise}
                    for name, n, points, noise in zip(
                        who.names, counts, model.points().tolist(), model.noise, strict=True
                    )
                ],
                "held_out": {
                    name: {
                        against: agreement_between(p, target) for against, target in targets.items()
                    }
                    for name, p in learned.items()
                },
            }
        return content


def modeled(table: FeatureTable, parts: Parts) -> Modeled:
    """Learn a rater model per aspect from the training rows, and replace all targets by its own."""
    raters = {aspect: rated_by(table, aspect) for aspect in table.aspects}
    models: dict[str, RaterModel] = {}
    for aspect, who in raters.items():
        try:
            models[aspect] = RaterModel.learn(who.ratings(parts.train, aspect))
        except DataError as error:
            raise DataError(f"aspect {aspect!r}: {error}") from error

    # from the training rows, so that a held-out row's target depends on no other held-out row
    kept = {n: models[n].reliability(who.ratings(parts.train, n)) for n, who in raters.items()}

    def with_targets(rows: FeatureTable) -> FeatureTable:
        columns = [
            models[name].targets(who.ratings(rows, name), reliability=kept[name])
            for name, who in raters.items()
        ]
        return replace(rows, human=np.stack(columns, axis=1))

    return Modeled(Parts(with_targets(parts.train), with_targets(parts.test)), models, raters)


@dataclass(frozen=True)
class RecordedFit:
    """A fit on recorded scores: data that were read and checked, and how to learn from them."""

    table: FeatureTable  # rated rows with their features
    parts: Parts  # the rows on both sides of a split
    scales: Scales  # scale by human aspect
    info: DataInfo  # what is known of the data
    request: FitFromScores  # how to learn

    def learn(self, watch: Watch = lambda _: None) -> Fit:
        """Learn an evaluator; nothing is read or written."""
        table, request = self.table, self.request
        fitter = Fitter(self.scales, request.seed, new_systems=request.new_systems)
        plain = self.parts if request.holds_out else Parts(table, table)
        by_rater = modeled(table, plain) if request.raters == "model" else None
        parts = by_rater.parts if by_rater else plain
        choice, unseen = self._learned(parts, fitter, watch)
        made = provenance(table, parts, self.info, request, self._split)
        if by_rater and by_rater.severities:
            made["raters"] = by_rater.severities
        evaluator = Evaluator(
            kind="recorded",
            aspects=tuple(human_aspect(name, fitter.scales[name]) for name in table.aspects),
            features=table.names,
            aggregator=choice.aggregator.to_dict(),
            background=background_rows(parts.train, choice.aggregator),
            made=made,
        )
        report = build_report(
            choice,
            unseen,
            parts if request.holds_out else split(parts.train, request),
            fitter,
            request,
            made={"kind": "recorded", **made},
            watch=watch,
        )
        if by_rater:
            report["raters"] = by_rater.report(unseen, self._learned(plain, fitter, watch)[1])
        return Fit(evaluator, report)

    def _learned(self, parts: Parts, fitter: Fitter, watch: Watch) -> tuple[Choice, Unseen]:
        """Return what is shipped and what it is measured on."""
        names = self.request.aggregator
        if not self.request.holds_out:
            return cross_fit(names, parts.train, fitter, watch)
        choice = choose(names, parts.train, fitter)
        return choice, Unseen.held_out(choice, parts)

    @property
    def _split(self) -> Json:
        if self.request.holds_out:
            return fractions(self.request)
        count = min(FOLDS, len(np.unique(self.table.groups)))
        return {"folds": count, "repeats": number_of_repeats(self.request.aggregator, self.table)}


def read_recorded(data: Examples, request: FitFromScores) -> RecordedFit:
    """Read and check everything that an evaluator of recorded scores is learned from."""
    if not request.features and not request.scores:
        raise ConfigurationError(
            "fit without a model needs features=NAME,GLOB* or scores=FILE to learn from"
        )
    aspects = request.aspect_names
    scores = read_files(request.scores, aspects)
    table = read_table(data, patterns=request.features, scores=scores, aspects=aspects)
    # before the split: a leak shows on all rows together more surely than on half of them
    refuse_leaks(table)
    scales = rating_scales(table, request.scales)
    return RecordedFit(table, split(table, request), scales, data.check(), request)


def fit_recorded(data: Examples, **request: Any) -> Fit:
    """Learn an evaluator from scores that exist already; takes the fields of `FitFromScores`."""
    return read_recorded(data, build_request(FitFromScores, **request)).learn()

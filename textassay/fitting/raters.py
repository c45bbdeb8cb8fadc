"""What is learned if raters differ: targets by a rater model instead of plain means.

Raters are the places of `annotators`, or, if every row has one rating and says who gave it, the
names in a column such as `annotator`. The model is learned from training rows alone; a held-out
row's target comes from its own ratings and from what training rows tell about its raters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from textassay.fitting.learn import Choice, predicted_by
from textassay.fitting.report import Parts
from textassay.fitting.table import FeatureTable
from textassay.learning.rater_model import RaterModel
from textassay.learning.training import Floats
from textassay.meta import pearson, spearman
from textassay.runtime.errors import DataError, parameter
from textassay.runtime.model import Json

Raters = Literal["mean", "model"]
"""How single ratings become a target: their mean, or what a rater model expects an average rater
to say."""


@dataclass(frozen=True)
class RatedBy:
    """Ratings of one aspect by rater, of all rows.

    Attributes:
        names: Names of the raters; places from 1 if the data name nobody.
        named: Whether rows name their rater, so that a new row's may be known.
    """

    names: tuple[str, ...]
    named: bool

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
    """Return who rated an aspect.

    Raises:
        DataError: The data have no ratings of single raters.
    """
    if aspect in table.annotators:
        width = table.annotators[aspect].shape[1]
        return RatedBy(tuple(str(place + 1) for place in range(width)), named=False)
    names = tuple(sorted({name for name in table.raters if name is not None}))
    if not names:
        raise DataError(
            f"aspect {aspect!r}: {parameter('raters', 'model')} needs the ratings of single raters:"
            " 'annotators' with all of a row's ratings, or 'annotator' with the name of its rater"
        )
    return RatedBy(names, named=True)


@dataclass(frozen=True)
class Modeled:
    """Rater models by aspect, with the rows whose targets they made.

    Attributes:
        parts: Training and held-out rows with modeled targets.
        models: Model by aspect.
        raters: Who rated, by aspect.
    """

    parts: Parts
    models: Mapping[str, RaterModel]
    raters: Mapping[str, RatedBy]

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

    def report(self, choice: Choice, plain: Choice, plain_parts: Parts) -> Json:
        """Return raters, and held-out agreement beside that of learning from plain means."""
        test, plain_test = self.parts.test, plain_parts.test
        ours, theirs = predicted_by(choice.aggregator, test), predicted_by(plain.aggregator, test)
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
                    name: {against: _agreement(p, target) for against, target in targets.items()}
                    for name, p in learned.items()
                },
            }
        return content


def modeled(table: FeatureTable, parts: Parts) -> Modeled:
    """Learn a rater model per aspect from the training rows, and replace all targets by its own.

    Args:
        table: All rows, which name the raters.
        parts: Training and held-out rows.

    Raises:
        DataError: An aspect has no ratings of single raters, or of one rater only.
    """
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


def _agreement(predicted: Floats, target: Floats) -> Json:
    there = ~np.isnan(predicted) & ~np.isnan(target)
    p, t = predicted[there], target[there]
    return {"n": int(there.sum()), "pearson": pearson(p, t), "spearman": spearman(p, t)}

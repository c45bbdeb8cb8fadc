"""Severity and noise of single raters: what an average rater would say of each text.

A mean over whoever happened to rate a text moves with who that was; here the severity of each rater
is estimated and taken off. Raters are the places of `annotators`, or, if every row has one rating
and says who gave it, the names in a column such as `annotator`. With a fixed held-out part the
rater model is learned from training rows alone, and a held-out row's target comes from its own
ratings and from what training rows tell about its raters. With cross-fitting it is learned from all
rows: it defines the target, which is then the same in every fold, and no feature takes part in it.

The model is that of graded responses with one severity and one noise per rater: a text has a
quality z ~ N(0, 1), rater r perceives z - severity_r + noise_r * e with e ~ N(0, 1), and gives the
category between whose thresholds this lies. All parameters maximize the marginal likelihood
(quality is integrated out on a grid) under weak priors, which also tell apart severity and quality
if raters share no texts: texts are then assumed to be alike over raters.

References:
    Samejima, "Estimation of latent ability using a response pattern of graded scores" (1969).
    Linacre, "Many-facet Rasch measurement" (1989), for severity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from textassay.fitting.agreement import agreement_between
from textassay.fitting.learn import FeatureTable, Parts, Unseen
from textassay.learning.training import Floats
from textassay.runtime.errors import DataError
from textassay.runtime.model import Json

MAX_CATEGORIES = 9
"""Distinct ratings above which they are cut into so many categories of about equal frequency."""

_QUALITY = np.linspace(-4.0, 4.0, 33)
_LOG_PRIOR = -0.5 * _QUALITY**2 - np.log(np.exp(-0.5 * _QUALITY**2).sum())
_SEVERITY_SD = 1.0
_LOG_NOISE_SD = 0.5
_LEAST = 1e-12
_MIN_RELIABILITY = 0.1
"""Below, spreading would turn single ratings into the ends of the scale."""


@dataclass(frozen=True, slots=True)
class RaterModel:
    """Raters and categories of one aspect."""

    # ratings from which a category starts, except the lowest, shape (categories - 1,)
    edges: Floats
    values: Floats  # mean rating of each category, shape (categories,)
    thresholds: Floats  # where categories meet on the scale of quality, shape (categories - 1,)
    severity: Floats  # of each rater, in standard deviations of quality, shape (raters,)
    noise: Floats  # standard deviation of each rater's perception, in the same unit

    @classmethod
    def learn(cls, ratings: Floats) -> RaterModel:
        """Learn from ratings, shape (rows, raters), NaN for gaps."""
        from scipy.optimize import minimize  # heavy, so on first use

        there = ~np.isnan(ratings)
        if there.any(axis=0).sum() < 2:
            raise DataError("a rater model needs ratings by at least two raters")
        edges, values = _categories(ratings[there])
        found_in = np.bincount(np.searchsorted(edges, ratings[there], side="right"))
        below = np.cumsum(found_in)[:-1] / there.sum()
        counts = _Ratings.of(ratings, edges)
        shares = np.clip(below, 1e-3, 1 - 1e-3)
        start = _packed(ndtri(shares) * np.sqrt(2), ratings.shape[1])
        found = minimize(counts.loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 300})
        thresholds, severity, noise = _unpacked(found.x, len(edges))
        return cls(edges, values, thresholds, severity, noise)

    def targets(self, ratings: Floats, *, reliability: float = 1.0) -> Floats:
        """Return the expected rating by an average rater of this model for each row, shape (n,).

        The mean over the raters of what each would be expected to say, given the row's own ratings;
        NaN for rows without any. Such expectations are drawn toward the mean of all texts, the more
        the noisier the ratings: what learns from them predicts texts to be more alike than they
        are. With their `reliability`, they are spread again, as far as the scale allows.
        """
        expected = self._expected().mean(axis=0)
        mean = float(np.exp(_LOG_PRIOR) @ expected)
        drawn = self._posterior(ratings) @ expected
        spread = np.clip(mean + (drawn - mean) / reliability, self.values[0], self.values[-1])
        return np.where(np.isnan(ratings).all(axis=1), np.nan, spread)

    def reliability(self, ratings: Floats) -> float:
        """Return which share of the texts' variance the targets of these rows keep, above 0 to 1.

        It is also the slope of the targets on what they estimate (Kelley, "Fundamentals of
        Statistics", 1947), averaged over the rated rows.
        """
        expected = self._expected().mean(axis=0)
        prior = np.exp(_LOG_PRIOR)
        weights = self._posterior(ratings[~np.isnan(ratings).all(axis=1)])
        left = float((weights @ expected**2 - (weights @ expected) ** 2).mean())
        total = float(prior @ expected**2 - (prior @ expected) ** 2)
        return float(np.clip(1 - left / total, _MIN_RELIABILITY, 1.0))

    def _posterior(self, ratings: Floats) -> Floats:
        """Return each row's posterior over the grid of quality, shape (n, grid)."""
        log_p = _log_probabilities(self.thresholds, self.severity, self.noise)
        return _Ratings.of(ratings, self.edges).posterior(log_p)[0]

    def points(self) -> Floats:
        """Return by how many points of the scale each rater rates below the raters' mean."""
        means = self._expected() @ np.exp(_LOG_PRIOR)
        return np.asarray(means.mean() - means, float)

    def _expected(self) -> Floats:
        """Return the expected rating of each rater by quality, shape (raters, grid)."""
        p = np.exp(_log_probabilities(self.thresholds, self.severity, self.noise))
        return np.asarray(np.einsum("rkg,k->rg", p, self.values), float)


@dataclass(frozen=True, slots=True)
class _Ratings:
    """Ratings as one list of rows, raters and categories."""

    rows: NDArray[np.intp]
    raters: NDArray[np.intp]
    categories: NDArray[np.intp]
    count: int
    cuts: int

    @classmethod
    def of(cls, ratings: Floats, edges: Floats) -> _Ratings:
        rows, raters = np.nonzero(~np.isnan(ratings))
        categories = np.searchsorted(edges, ratings[rows, raters], side="right")
        return cls(rows, raters, categories, len(ratings), len(edges))

    def posterior(self, log_p: Floats) -> tuple[Floats, float]:
        """Return each row's posterior over the grid of quality, and the log-likelihood."""
        joint = np.tile(_LOG_PRIOR, (self.count, 1))
        np.add.at(joint, self.rows, log_p[self.raters, self.categories])
        top = joint.max(axis=1, keepdims=True)
        weights = np.exp(joint - top)
        sums = weights.sum(axis=1, keepdims=True)
        return weights / sums, float((np.log(sums) + top).sum())

    def loss(self, packed: Floats) -> tuple[float, Floats]:
        """Return the negative log posterior of the parameters and its gradient."""
        thresholds, severity, noise = _unpacked(packed, self.cuts)
        log_p = _log_probabilities(thresholds, severity, noise)
        weights, likelihood = self.posterior(log_p)
        # expected counts: by Fisher's identity the gradient is that of the complete data
        counts = np.zeros(log_p.shape)
        np.add.at(counts, (self.raters, self.categories), weights[self.rows])
        by_threshold, by_severity, by_noise = _slopes(counts, log_p, thresholds, severity, noise)
        # log-gaps between thresholds: moving one gap moves every threshold above it
        above = np.cumsum(by_threshold[::-1])[::-1]
        gaps = np.exp(packed[1 : self.cuts])
        log_noise = np.log(noise)
        penalty = (severity**2).sum() / _SEVERITY_SD**2 + (log_noise**2).sum() / _LOG_NOISE_SD**2
        gradient = np.concatenate(
            [
                above[:1],
                above[1:] * gaps,
                by_severity - severity / _SEVERITY_SD**2,
                by_noise - log_noise / _LOG_NOISE_SD**2,
            ]
        )
        return -(likelihood - 0.5 * float(penalty)), -gradient


def _categories(ratings: Floats) -> tuple[Floats, Floats]:
    distinct = np.unique(ratings)
    if len(distinct) < 2:
        raise DataError(f"all ratings are {distinct[0]:g}, so raters cannot be compared")
    edges = distinct[1:]
    if len(distinct) > MAX_CATEGORIES:
        shares = np.linspace(0, 1, MAX_CATEGORIES + 1)[1:-1]
        # edges are ratings that occur, and not the lowest one, so that no category is empty
        cuts = np.quantile(ratings, shares, method="higher")
        edges = np.unique(np.maximum(cuts, distinct[1]))
    category = np.searchsorted(edges, ratings, side="right")
    sums, counts = np.bincount(category, weights=ratings), np.bincount(category)
    return edges, sums / counts


def _packed(thresholds: Floats, raters: int) -> Floats:
    gaps = np.maximum(np.diff(thresholds), 0.05)
    return np.concatenate([thresholds[:1], np.log(gaps), np.zeros(2 * raters)])


def _unpacked(packed: Floats, cuts: int) -> tuple[Floats, Floats, Floats]:
    thresholds = packed[0] + np.concatenate([[0.0], np.cumsum(np.exp(packed[1:cuts]))])
    severity, log_noise = np.split(packed[cuts:], 2)
    return thresholds, severity, np.exp(np.clip(log_noise, -5, 5))


def _ends(thresholds: Floats, severity: Floats, noise: Floats) -> Floats:
    """Return standardized thresholds of each rater by quality, shape (raters, cuts + 2, grid)."""
    cuts = np.concatenate([[-np.inf], thresholds, [np.inf]])
    perceived = _QUALITY[None, None, :] - severity[:, None, None]
    return np.asarray((cuts[None, :, None] - perceived) / noise[:, None, None], float)


def _log_probabilities(thresholds: Floats, severity: Floats, noise: Floats) -> Floats:
    """Return the log-probability of each category, shape (raters, categories, grid)."""
    return np.asarray(
        np.log(np.maximum(np.diff(ndtr(_ends(thresholds, severity, noise)), axis=1), _LEAST))
    )


def _slopes(
    counts: Floats, log_p: Floats, thresholds: Floats, severity: Floats, noise: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the gradient of the expected log-likelihood by threshold, severity and log-noise."""
    ends = _ends(thresholds, severity, noise)
    density = np.exp(-0.5 * ends**2) / np.sqrt(2 * np.pi)
    scaled = np.where(np.isfinite(ends), ends, 0.0) * density
    ratio = counts / np.exp(log_p)
    # a threshold is the upper end of one category and the lower end of the next
    by_end = density[:, 1:-1] * (ratio[:, :-1] - ratio[:, 1:])
    by_threshold = (by_end.sum(axis=2) / noise[:, None]).sum(axis=0)
    by_severity = (ratio * np.diff(density, axis=1)).sum(axis=(1, 2)) / noise
    by_noise = -(ratio * np.diff(scaled, axis=1)).sum(axis=(1, 2))
    return by_threshold, by_severity, by_noise


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

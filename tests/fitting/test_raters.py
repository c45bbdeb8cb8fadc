"""The rater model on simulated raters whose severity and noise are known."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from textassay.fitting import raters
from textassay.fitting.raters import MAX_CATEGORIES, RaterModel
from textassay.meta import pearson
from textassay.runtime.errors import DataError


def simulated(seed, *, texts=200, raters=6, per_text=2, step=1.0):
    """Quality, severities, noises, and ratings by different raters for each text."""
    rng = np.random.default_rng(seed)
    quality, severity = rng.normal(size=texts), rng.normal(size=raters)
    noise = np.exp(0.4 * rng.normal(size=raters))
    ratings = np.full((texts, raters), np.nan)
    for text in range(texts):
        for rater in rng.choice(raters, per_text, replace=False):
            perceived = quality[text] - severity[rater] + noise[rater] * rng.normal()
            ratings[text, rater] = np.clip(np.round((3 + perceived) / step) * step, 1, 5)
    return quality, severity, noise, ratings


@pytest.mark.parametrize(
    "design", [{}, {"raters": 24, "per_text": 1}, {"per_text": 3, "step": 0.01}]
)
def test_targets_are_nearer_to_quality_than_means_of_whoever_rated(design):
    """Two of six raters per text, one of 24, and a fine scale; six sets of raters each."""
    gains = []
    for seed in range(6):
        quality, _, _, ratings = simulated(seed, **design)
        model = RaterModel.learn(ratings)
        of_targets = pearson(model.targets(ratings), quality)
        of_means = pearson(np.nanmean(ratings, axis=1), quality)
        gains.append(of_targets - of_means)
    assert min(gains) > 0
    assert np.mean(gains) > 0.08


def test_severity_and_noise_are_those_of_the_raters():
    _, severity, noise, ratings = simulated(1, texts=2000, per_text=3)
    model = RaterModel.learn(ratings)
    scale = np.std(model.severity) / np.std(severity)
    assert scale == pytest.approx(1, abs=0.15)
    assert pearson(model.severity, severity) > 0.99
    assert pearson(np.log(model.noise), np.log(noise)) > 0.95
    # points of the scale: against what raters gave to all texts on average
    given = np.nanmean(ratings, axis=0)
    assert pearson(model.points(), given.mean() - given) > 0.99
    assert model.points().sum() == pytest.approx(0, abs=1e-9)


def test_the_gradient_is_the_slope_of_the_loss():
    _, _, _, ratings = simulated(2, texts=30)
    edges, _ = raters._categories(ratings[~np.isnan(ratings)])
    counts = raters._Ratings.of(ratings, edges)
    at = np.concatenate([[-1.5], np.log([1, 1.1, 0.9]), np.linspace(-0.5, 0.5, 12)])
    numeric = approx_fprime(at, lambda packed: counts.loss(packed)[0], 1e-6)
    assert counts.loss(at)[1] == pytest.approx(numeric, abs=1e-3)


def test_gaps_stay_gaps_and_targets_stay_on_the_scale():
    _, _, _, ratings = simulated(3, texts=60)
    model = RaterModel.learn(ratings)
    targets = model.targets(np.vstack([ratings, np.full(6, np.nan)]))
    assert np.isnan(targets[-1])
    assert targets[:-1].min() >= 1
    assert targets[:-1].max() <= 5
    # a text's target depends on its own ratings alone
    assert model.targets(ratings[:5]) == pytest.approx(targets[:5], abs=1e-12)


@pytest.mark.parametrize("design", [{"raters": 24, "per_text": 1}, {"per_text": 3}])
def test_targets_divided_by_their_reliability_are_as_far_apart_as_the_texts(design):
    """What regression learns from them would otherwise be drawn toward the mean."""
    quality, _, _, ratings = simulated(5, texts=1500, **design)
    model = RaterModel.learn(ratings)
    truth = np.interp(quality, raters._QUALITY, model._expected().mean(axis=0))
    reliability = model.reliability(ratings)

    def slope(targets):
        return np.polyfit(truth, targets, 1)[0]

    assert slope(model.targets(ratings)) == pytest.approx(reliability, abs=0.08)
    assert slope(model.targets(ratings)) < 0.85
    spread = model.targets(ratings, reliability=reliability)
    assert slope(spread) == pytest.approx(1, abs=0.1)
    assert (spread >= 1).all()
    assert (spread <= 5).all()


def test_continuous_ratings_are_cut_into_categories():
    _, _, _, ratings = simulated(4, step=0.01)
    values = RaterModel.learn(ratings).values
    assert len(values) == MAX_CATEGORIES
    assert (np.diff(values) > 0).all()
    for few, problem in (([[1, np.nan], [2, np.nan]], "two raters"), ([[3, 3]] * 2, "are 3")):
        with pytest.raises(DataError, match=problem):
            RaterModel.learn(np.array(few, float))

"""Kernel ridge regression against scikit-learn's, and its Shapley values against their
definition."""

from itertools import permutations

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from textassay.learning.regression import MAX_KERNEL_ROWS, KernelSum, fit_kernel
from textassay.learning.training import Training


def training(n=60, width=3, per_group=3, seed=0):
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(size=(n, width)), 3)
    y = np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=n)
    return Training(x, y, np.arange(n) // per_group, np.ones(width, bool), seed)


def test_it_is_scikit_learns_with_the_chosen_penalty_and_width():
    rows = training()
    learned = fit_kernel(rows)
    width, penalty = learned.notes["width"] * 3, learned.notes["penalty_per_row"]
    theirs = KernelRidge(alpha=penalty * 60, kernel="rbf", gamma=1 / (2 * width))
    theirs.fit(rows.features, rows.target - rows.target.mean())
    new = training(seed=1).features
    expected = theirs.predict(new) + rows.target.mean()
    assert learned.predictor.predict(new) == pytest.approx(expected, abs=1e-8)


def test_a_curve_that_no_weighted_sum_follows_is_learned():
    new = training(300, seed=1)
    predicted = fit_kernel(training(300)).predictor.predict(new.features)
    assert np.corrcoef(predicted, new.target)[0, 1] > 0.95


def test_contributions_are_shapley_values_with_the_mean_for_what_is_not_known():
    predictor = fit_kernel(training()).predictor
    row = np.array([0.7, -1.2, 0.4])
    expected, orders = np.zeros(3), list(permutations(range(3)))
    for order in orders:
        known = np.zeros(3)
        for feature in order:
            before = predictor.predict(known[None])[0]
            known[feature] = row[feature]
            expected[feature] += (predictor.predict(known[None])[0] - before) / len(orders)
    values, base = predictor.contributions(row[None])
    assert values[0] == pytest.approx(expected, abs=1e-10)
    assert base == pytest.approx(predictor.predict(np.zeros((1, 3)))[0], abs=1e-12)


def test_contributions_of_many_features_add_up_to_the_prediction():
    rng = np.random.default_rng(2)
    predictor = KernelSum(rng.normal(size=(40, 120)), rng.normal(size=40), 2.0 * 120, 0.5)
    rows = 2 * rng.normal(size=(5, 120))
    values, base = predictor.contributions(rows)
    assert np.abs(values.sum(axis=1) + base - predictor.predict(rows)).max() < 1e-9


@pytest.mark.parametrize("per_group", [4, 700])
def test_a_predictor_holds_at_most_so_many_rows(per_group):
    learned = fit_kernel(training(1400, per_group=per_group))
    assert len(learned.predictor.rows) <= MAX_KERNEL_ROWS


def test_kernels_over_the_same_rows_predict_as_each_by_itself():
    """Distances are kept for the next kernel, and never for other rows or features."""
    rng = np.random.default_rng(3)
    rows, one, other = (rng.normal(size=(size, 4)) for size in (30, 8, 8))
    kernels = [
        KernelSum(rows, rng.normal(size=30), 8.0, 0.0),
        KernelSum(rows.copy(), rng.normal(size=30), 2.0, 1.0),
        KernelSum(rows + 1, rng.normal(size=30), 8.0, 0.0),
    ]
    for features in (one, other, one):
        for kernel in kernels:
            squares = ((features[:, None] - kernel.rows) ** 2).sum(axis=2)
            expected = np.exp(-squares / kernel.scale) @ kernel.weights + kernel.start
            assert kernel.predict(features) == pytest.approx(expected, abs=1e-10)

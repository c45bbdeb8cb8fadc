"""Features beyond what training saw, and aggregators written before they had bounds."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.learning.planted import planted
from textassay.learning import NAMES, Aggregator
from textassay.learning.aggregators import Standardizer

BEFORE = {
    "format": 1, "name": "linear", "seed": 0, "scales": {"a": [1.0, 5.0]}, "features": ["f", "g"],
    "means": [2.8333333333333335, 3.0], "inverse_sds": [0.7442084075352507, 0.7071067811865475],
    "leaks": [],
    "aspects": [{
        "name": "a", "mean": 2.8333333333333335, "sd": 1.3437096247164249, "limits": [1.0, 5.0],
        "notes": {"rows": 6, "groups": 6},
        "predictor": {
            "kind": "linear", "weights": [0.9999999999999996, 2.6716038941565465e-16],
            "intercept": 1.850371707708589e-17,
        },
    }],
    "digest": "a45b5ef1505335b315db3d4c37c417805c229f0b9bb2b545b8949deb91697dea",
}  # fmt: skip
"""An aggregator of format 1, as it was written; `PREDICTED` is what it said then."""
PREDICTED = [1.0000000000000007, 39.999999999999986, 2.9999999999999973]


def test_an_aggregator_of_format_1_predicts_what_it_did():
    rows = [[1, 2], [40, None], [3, -7]]
    loaded = Aggregator.from_dict(BEFORE)
    assert loaded.predict(rows, clip=False).ravel().tolist() == PREDICTED
    assert np.isnan(loaded.clipped(rows)).all()
    again = Aggregator.from_dict(json.loads(json.dumps(loaded.to_dict())))
    assert again.predict(rows, clip=False).ravel().tolist() == PREDICTED


@pytest.mark.parametrize("name", NAMES)
def test_a_value_beyond_training_counts_as_the_bound(name):
    x, y, groups = planted(90)
    aggregator = Aggregator(name).fit(x, y, groups=groups)
    beyond, at = x[:6].copy(), x[:6].copy()
    beyond[:, 0], at[:, 0] = 1e6, 5.0
    assert (aggregator.predict(beyond, clip=False) == aggregator.predict(at, clip=False)).all()
    shown = aggregator.clipped(beyond)
    assert (shown[:, 0] == 5.0).all()
    assert np.isnan(shown[:, 1:]).all()
    assert np.isnan(aggregator.clipped(x)).all()


@pytest.mark.parametrize("name", ["avg", "corrw", "linear", "nnls", "ridge", "auto"])
def test_one_outlier_among_few_training_rows_does_not_ruin_learning(name):
    x, y, groups = planted(42, seed=3)
    x = x + np.random.default_rng(0).normal(size=x.shape) / 10
    spoiled = x.copy()
    spoiled[7, 0] = 1e7
    test, human, _ = planted(300, seed=4)
    found = Aggregator(name).fit(spoiled, y[:, 0], groups=groups).predict(test)[:, 0]
    clean = Aggregator(name).fit(x, y[:, 0], groups=groups).predict(test)[:, 0]
    r = [np.corrcoef(one, human[:, 0])[0, 1] for one in (found, clean)]
    assert r[0] > r[1] - 0.15


def test_rare_values_of_a_mostly_constant_feature_are_kept():
    """Of a judge that says 5 to nine rows of ten, the tenth is what tells rows apart."""
    x = np.full((40, 1), 5.0)
    x[::10] = 1.0
    found = Standardizer.learn(x)
    assert (found.low[0], found.high[0]) == (1, 5)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30), st.floats(-1e9, 1e9))
def test_standardised_values_stay_within_those_of_training(values, new):
    x = np.array(values)[:, None]
    found = Standardizer.learn(x)
    inside, z = found(x), found(np.array([[new]]))
    assert inside.min() - 1e-9 <= z[0, 0] <= inside.max() + 1e-9
    again = Standardizer.from_dict(json.loads(json.dumps(found.to_dict())))
    assert (again(x) == inside).all()

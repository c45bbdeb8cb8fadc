"""Means of sources: what they add, when they are used, and what they never look at."""

import json

import numpy as np
import pytest

from textassay.learning import Aggregator, Pool, explain
from textassay.learning.sources import MIN_ROWS, SourceMeans
from textassay.meta import pearson


def made(sources=40, *, rows=6, shift=1.5, seed=0):
    """Texts about sources that judges, but not people, rate higher or lower altogether."""
    rng = np.random.default_rng(seed)
    source = np.repeat(np.arange(sources), rows)
    quality = rng.normal(size=len(source))
    x = quality[:, None] + shift * rng.normal(size=sources)[source, None]
    x = x + 0.5 * rng.normal(size=(len(source), 3))
    return x, quality, [f"s{seed}-{one}" for one in source]


def fitted(name="ridge", **arguments):
    x, y, sources = made()
    return Aggregator(name).fit(x, y, groups=sources, sources=sources, **arguments)


@pytest.mark.parametrize("name", ["ridge", "nnls", "lightgbm"])
def test_the_distance_from_the_source_sharpens_rows_of_new_sources(name):
    aggregator, (x, truth, sources) = fitted(name), made(seed=1)
    pooled = aggregator.with_pool(Pool(x, [None] * len(x), sources))
    alone = aggregator.predict(x)[:, 0]
    compared = pooled.predict(x, sources=sources)[:, 0]
    assert pearson(compared, truth) > pearson(alone, truth) + 0.1
    [notes] = aggregator.notes_.values()
    assert notes["sources"]["used"]
    assert notes["sources"]["left_out"] == "sources"
    assert notes["sources"]["known"] == 40


def test_no_rating_of_another_row_is_seen():
    """Distances come from features: other ratings, equal features give equal ones."""
    x, y, sources = made()
    one, other = (Aggregator("ridge").fit(x, t, groups=sources, sources=sources) for t in (y, -y))
    assert one.to_dict()["sources"] == other.to_dict()["sources"]


def test_single_texts_are_predicted_from_their_features_alone():
    aggregator, (x, y, groups) = fitted(), made()
    plain = Aggregator("ridge").fit(x, y, groups=groups)
    for sources in (None, [None] * 5, ["new"] * 5):
        assert (aggregator.predict(x[:5], sources=sources) == plain.predict(x[:5])).all()


def test_sources_with_few_rows_and_few_sources_are_not_used():
    for arguments in ({"rows": MIN_ROWS - 1}, {"sources": 3, "rows": 20}):
        x, y, sources = made(**arguments)
        aggregator = Aggregator("ridge").fit(x, y, sources=sources)
        assert not aggregator.pools_sources
        assert "sources" not in aggregator.to_dict()


def test_sources_that_judges_rate_alike_are_not_used():
    x, y, sources = made(shift=0.0)
    aggregator = Aggregator("ridge").fit(x, y, groups=sources, sources=sources)
    plain = Aggregator("ridge").fit(x, y, groups=sources)
    assert not aggregator.pools_sources
    assert (
        aggregator.to_dict()["aspects"][0]["predictor"]
        == (plain.to_dict()["aspects"][0]["predictor"])
    )


def test_means_are_shrunk_by_how_few_rows_there_are():
    x, _, sources = made(sources=8, rows=20)
    few = np.concatenate([np.arange(20), np.arange(20, 25), np.arange(40, 160)])
    whole, part = SourceMeans.learn(x, sources), None
    part = whole.over(x[few], [sources[i] for i in few])
    shrunk = [abs(one.means.means["s0-1"]) for one in (whole, part)]
    means = [abs(x[20:40].mean(axis=0)), abs(x[20:25].mean(axis=0))]
    assert (shrunk[1] / means[1] < shrunk[0] / means[0]).all()
    assert (shrunk[0] < means[0]).all()


@pytest.mark.parametrize("name", ["ridge", "lightgbm"])
def test_contributions_add_up_and_json_keeps_all_but_the_means(name):
    aggregator, (x, _, sources) = fitted(name), made()
    rows = (x[:9], [*sources[:7], None, "new"])
    told = explain(aggregator, rows[0], x, sources=rows[1])
    raw = aggregator.predict(rows[0], sources=rows[1], clip=False)
    assert np.abs(told.baseline + told.values.sum(axis=2) + told.systems - raw).max() < 1e-9
    assert (told.systems[7:] == 0).all()
    again = Aggregator.from_dict(json.loads(json.dumps(aggregator.to_dict())))
    assert (again.predict(x) == aggregator.predict(x)).all()
    pooled = again.with_pool(Pool(x, [None] * len(x), sources))
    assert (pooled.predict(rows[0], sources=rows[1], clip=False) == raw).all()


def test_systems_and_sources_together_beat_each_alone():
    rng = np.random.default_rng(3)
    x, y, sources = made(rows=8)
    systems = [f"sys{i % 8}" for i in range(len(x))]
    y = y + rng.normal(size=8)[np.arange(len(x)) % 8]
    x = x + (y - x.mean(axis=1))[:, None] * 0.2
    half = np.arange(len(x)) < len(x) // 2
    aggregator = Aggregator("ridge").fit(
        x[half],
        y[half],
        groups=sources[: half.sum()],
        systems=systems[: half.sum()],
        sources=sources[: half.sum()],
        pool=Pool(x, systems, sources),
    )
    own = {"systems": systems[half.sum() :], "sources": sources[half.sum() :]}
    r = {
        names: pearson(
            aggregator.predict(x[~half], **{name: own[name] for name in names})[:, 0], y[~half]
        )
        for names in ((), ("systems",), ("systems", "sources"))
    }
    assert r[()] < r["systems",] < r["systems", "sources"]

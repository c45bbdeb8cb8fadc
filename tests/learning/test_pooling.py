"""Pooling over systems and sources: what it adds, when it is used, and what it never looks at."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.benchmark_data import benchmark
from textassay.agreement import pearson, spearman
from textassay.learning import Aggregator, Pool, explain, group_codes, split_rows
from textassay.learning.pooling import (
    FEWEST,
    PooledMeans,
)


def texts_of_systems(n=240, *, systems=8, spread=1.0, seed=0):
    """Texts of systems that differ in quality; judges err on the text, not on the system."""
    rng = np.random.default_rng(seed)
    names = [f"s{i % systems}" for i in range(n)]
    of_system = spread * rng.normal(size=systems)
    quality = of_system[np.arange(n) % systems] + 0.5 * rng.normal(size=n)
    x = quality[:, None] + 1.5 * rng.normal(size=(n, 3))
    return x, quality, [f"g{i // systems}" for i in range(n)], names


def fitted_to_systems(name="ridge", *, rows=240, **settings):
    x, y, groups, systems = texts_of_systems(rows)
    return Aggregator(name, **settings).fit(x, y, groups=groups, systems=systems)


@pytest.mark.parametrize(
    "name", ["linear", "nnls", "ridge", "kernel", "forest", "lightgbm", "auto"]
)
def test_the_means_of_a_known_system_sharpen_its_rows(name):
    x, y, groups, systems = texts_of_systems()
    own = {"groups": groups[:120], "systems": systems[:120]}
    aggregator = Aggregator(name).fit(x[:120], y[:120], pool=Pool(x, systems), **own)
    alone = aggregator.predict(x[120:])[:, 0]
    pooled = aggregator.predict(x[120:], systems=systems[120:])[:, 0]
    assert pearson(pooled, y[120:]) > pearson(alone, y[120:]) + 0.05
    [notes] = aggregator.notes_.values()
    assert notes["systems"]["used"]
    assert notes["systems"]["known"] == 8


def test_too_few_rows_systems_or_sources_are_not_used():
    """Nor by plain averages; of two sources it cannot be seen whether means help."""
    x, y, groups, systems = texts_of_systems(80)
    few = [f"{name}-{i // 40}" for i, name in enumerate(systems)]  # five rows each
    aggregator = Aggregator("ridge").fit(x, y, groups=groups, systems=few)
    assert not aggregator.pools_systems
    assert aggregator.to_dict()["systems"] is None
    assert not any(fitted_to_systems(name).pools_systems for name in ("avg", "corrw", "mlp"))
    x, y, _, systems = texts_of_systems()
    for new in (False, True):
        aggregator = Aggregator("forest", new_systems=new)
        aggregator.fit(x, y, groups=["a", "b"] * 120, systems=systems)
        assert not aggregator.pools_systems
        assert "systems" not in aggregator.notes_["aspect_0"]
    for arguments in ({"rows": FEWEST.of_source - 1}, {"sources": 3, "rows": 20}):
        x, y, sources = texts_of_sources(**arguments)
        aggregator = Aggregator("ridge").fit(x, y, sources=sources)
        assert not aggregator.pools_sources
        assert "sources" not in aggregator.to_dict()


def test_systems_that_do_not_differ_are_not_used():
    x, y, groups, systems = texts_of_systems(spread=0.0)
    systems = np.random.default_rng(1).permutation(systems).tolist()
    aggregator = Aggregator("ridge").fit(x, y, groups=groups, systems=systems)
    [notes] = aggregator.notes_.values()
    errors = notes["systems"]["held_out_error"]
    assert notes["systems"]["used"] == (errors["with"] < errors["without"])
    assert errors["with"] > errors["without"] - 0.02


def test_labels_of_systems_are_text_and_gaps_are_not_systems():
    x, y, groups, systems = texts_of_systems()
    numbers = [float("nan") if name == "s7" else int(name[1:]) for name in systems]
    aggregator = Aggregator("ridge").fit(x, y, groups=groups, systems=numbers)
    assert set(aggregator._systems.means) == set("0123456")
    loaded = Aggregator.from_dict(json.loads(json.dumps(aggregator.to_dict())))
    predicted = aggregator.predict(x, systems=numbers)
    assert (loaded.predict(x, systems=numbers) == predicted).all()
    assert (predicted != aggregator.predict(x)).any()


def test_new_systems_are_pooled_only_if_fitted_for_them():
    x, _, _, systems = texts_of_systems(seed=5)
    new = [f"new-{name}" for name in systems]
    known = fitted_to_systems()
    assert known.with_pool(Pool(x, new)) is known
    aggregator = fitted_to_systems(new_systems=True)
    [notes] = aggregator.notes_.values()
    assert notes["systems"]["left_out"] == "sources and systems"
    assert notes["systems"]["used"]
    wider = aggregator.with_pool(Pool(x, new))
    alone, pooled = (one.predict(x, systems=new)[:, 0] for one in (aggregator, wider))
    truth = texts_of_systems(seed=5)[1]
    assert pearson(pooled, truth) > pearson(alone, truth) + 0.05


def test_summevals_recorded_judges_gain_from_known_systems():
    """Coherence by ridge, two splits by document."""
    key = "gpt-4-0314/rts/coherence"
    rows = [
        row
        for row in benchmark("summeval/summeval.jsonl.gz")
        if row["metrics"].get(key) is not None
    ]
    names = sorted(m for m in rows[0]["metrics"] if m.startswith(("gpt-", "llama-")))
    x = np.array([[row["metrics"].get(name) for name in names] for row in rows], float)
    y = np.array([row["human"]["coherence"] for row in rows])
    systems = np.array([row["system"] for row in rows])
    groups = group_codes(row["group"] for row in rows)
    gains = []
    for seed in range(2):
        train = split_rows(groups, 0.5, seed=seed)
        own = {"groups": groups[train].tolist(), "systems": systems[train].tolist()}
        aggregator = Aggregator("ridge").fit(
            x[train], y[train], pool=Pool(x, systems.tolist()), **own
        )
        alone = aggregator.predict(x[~train])[:, 0]
        pooled = aggregator.predict(x[~train], systems=systems[~train].tolist())[:, 0]
        gains.append([f(pooled, y[~train]) - f(alone, y[~train]) for f in (pearson, spearman)])
    assert (np.mean(gains, axis=0) > 0.015).all()


def texts_of_sources(sources=40, *, rows=6, shift=1.5, seed=0):
    """Texts about sources that judges, but not people, rate higher or lower altogether."""
    rng = np.random.default_rng(seed)
    source = np.repeat(np.arange(sources), rows)
    quality = rng.normal(size=len(source))
    x = quality[:, None] + shift * rng.normal(size=sources)[source, None]
    x = x + 0.5 * rng.normal(size=(len(source), 3))
    return x, quality, [f"s{seed}-{one}" for one in source]


def fitted_to_sources(name="ridge", **arguments):
    x, y, sources = texts_of_sources()
    return Aggregator(name).fit(x, y, groups=sources, sources=sources, **arguments)


@pytest.mark.parametrize("name", ["ridge", "nnls", "lightgbm"])
def test_the_distance_from_the_source_sharpens_rows_of_new_sources(name):
    aggregator, (x, truth, sources) = fitted_to_sources(name), texts_of_sources(seed=1)
    pooled = aggregator.with_pool(Pool(x, [None] * len(x), sources))
    alone = aggregator.predict(x)[:, 0]
    compared = pooled.predict(x, sources=sources)[:, 0]
    assert pearson(compared, truth) > pearson(alone, truth) + 0.1
    [notes] = aggregator.notes_.values()
    assert notes["sources"]["used"]
    assert notes["sources"]["left_out"] == "sources"
    assert notes["sources"]["known"] == 40


BOTH = pytest.mark.parametrize("kind", ["systems", "sources"])


def rows_with(kind):
    x, y, groups, systems = texts_of_systems()
    if kind == "sources":
        x, y, groups = texts_of_sources()
    return x, y, groups, systems if kind == "systems" else groups


@BOTH
def test_a_row_without_a_known_label_is_predicted_from_its_features_alone(kind):
    """Means come from features: other ratings of equal features give equal ones."""
    x, y, groups, labels = rows_with(kind)
    one, other = (Aggregator("ridge").fit(x, t, groups=groups, **{kind: labels}) for t in (y, -y))
    plain = Aggregator("ridge").fit(x, y, groups=groups)
    assert one.to_dict()[kind] == other.to_dict()[kind]
    for own in (None, [None] * 5, ["new"] * 5):
        assert (one.predict(x[:5], **{kind: own}) == plain.predict(x[:5])).all()


@BOTH
@pytest.mark.parametrize("name", ["ridge", "lightgbm"])
def test_contributions_and_json_hold_the_part_of_the_means(name, kind):
    x, y, groups, labels = rows_with(kind)
    aggregator = Aggregator(name).fit(x, y, groups=groups, **{kind: labels})
    own = {kind: [*labels[:6], None, "new"]}
    shown = explain(aggregator, x[:8], x, **own)
    raw = aggregator.predict(x[:8], clip=False, **own)
    assert np.abs(shown.baseline + shown.values.sum(axis=2) + shown.systems - raw).max() < 1e-9
    assert (shown.systems[6:] == 0).all()
    assert (shown.systems[:6] != 0).all()
    again = Aggregator.from_dict(json.loads(json.dumps(aggregator.to_dict())))
    assert (again.predict(x) == aggregator.predict(x)).all()
    if kind == "sources":  # JSON keeps all but their means
        again = again.with_pool(Pool(x, [None] * len(x), labels))
    assert (again.predict(x[:8], clip=False, **own) == raw).all()


def test_sources_that_judges_rate_alike_are_not_used():
    x, y, sources = texts_of_sources(shift=0.0)
    aggregator = Aggregator("ridge").fit(x, y, groups=sources, sources=sources)
    plain = Aggregator("ridge").fit(x, y, groups=sources)
    assert not aggregator.pools_sources
    assert (
        aggregator.to_dict()["aspects"][0]["predictor"]
        == (plain.to_dict()["aspects"][0]["predictor"])
    )


def test_means_are_shrunk_by_how_few_rows_there_are():
    """Two systems of equal mean: the one with ten rows is drawn towards all rows more."""
    rng = np.random.default_rng(0)
    many, few = 400, FEWEST.of_system
    others = [f"s{i % 6}" for i in range(120)]
    base = np.array([float(name[1]) - 2.5 for name in others]) + 3 * rng.normal(size=120)
    centered = [np.tile([2.0, 4.0], size // 2) for size in (many, few)]
    x = np.concatenate([base, *centered])[:, None]
    found = PooledMeans.learn(x, [*others, *["many"] * many, *["few"] * few])
    assert 0 < found.means["few"][0] < found.means["many"][0]
    x, _, sources = texts_of_sources(sources=8, rows=20)
    kept = np.concatenate([np.arange(20), np.arange(20, 25), np.arange(40, 160)])
    whole = PooledMeans.of_sources(x, sources)
    part = whole.over(x[kept], [sources[i] for i in kept])
    shrunk = [abs(one.means["s0-1"]) for one in (whole, part)]
    means = [abs(x[20:40].mean(axis=0)), abs(x[20:25].mean(axis=0))]
    assert (shrunk[1] / means[1] < shrunk[0] / means[0]).all()
    assert (shrunk[0] < means[0]).all()


def test_systems_and_sources_together_beat_each_alone():
    rng = np.random.default_rng(3)
    x, y, sources = texts_of_sources(rows=8)
    systems = [f"sys{i % 8}" for i in range(len(x))]
    y = y + rng.normal(size=8)[np.arange(len(x)) % 8]
    x = x + (y - x.mean(axis=1))[:, None] * 0.2
    half = len(x) // 2
    first = {"groups": sources[:half], "systems": systems[:half], "sources": sources[:half]}
    pool = Pool(x, systems, sources)
    aggregator = Aggregator("ridge").fit(x[:half], y[:half], pool=pool, **first)
    own = {"systems": systems[half:], "sources": sources[half:]}
    r = [
        pearson(aggregator.predict(x[half:], **{k: own[k] for k in names})[:, 0], y[half:])
        for names in ((), ("systems",), ("systems", "sources"))
    ]
    assert r[0] < r[1] < r[2]

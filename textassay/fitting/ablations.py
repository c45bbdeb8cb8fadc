"""What each part of HD-Eval adds (its table 4).

Layers of criteria, and learning how to weigh them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from textassay.fitting.curves import correlations
from textassay.fitting.learn import Fitter, predicted_by
from textassay.fitting.table import FeatureTable
from textassay.runtime.errors import DataError
from textassay.runtime.messages import slug
from textassay.runtime.model import Json


def layers_of(names: Iterable[str]) -> dict[str, int]:
    """Return the layer of each feature in a tree of criteria, counted from 1.

    A feature is below another whose name is the beginning of its own, up to a slash: recorded
    ratings of `coherence` and `coherence/logical-flow` are two layers, `gpt-4/coherence` by itself
    is one.
    """
    known = set(names)
    return {
        name: 1 + sum(name[:at] in known for at, mark in enumerate(name) if mark == "/")
        for name in known
    }


def ablation_table(
    name: str, train: FeatureTable, test: FeatureTable, fitter: Fitter
) -> list[Json]:
    """Return agreement on the held-out rows of the whole and of what is left without its parts.

    Layers are taken away if the features are those of a tree, whoever grew it and wherever they
    were rated.

    Args:
        name: The aggregator.
        train: Training rows.
        test: Held-out rows.
        fitter: How aggregators are fitted.
    """
    layers = layers_of(train.names)
    depth = max(layers.values())
    rows = [{"without": "nothing", **_agreement_of(name, train, test, fitter)}]
    # from the deepest layer up, as in the paper: a layer without its parent would be no tree
    for kept in range(depth - 1, 0, -1):
        features = [f for f in train.names if layers[f] <= kept]
        gone = ", ".join(str(layer) for layer in range(kept + 1, depth + 1))
        rows.append(
            {
                "without": f"layer {gone}",
                **_agreement_of(name, train.only(features), test.only(features), fitter),
            }
        )
    if depth > 1 and (plain := _aspects_alone(test)) is not None:
        gone = ", ".join(str(layer) for layer in range(1, depth + 1))
        rows.append({"without": f"layer {gone}", "left": "each aspect's own rating", **plain})
    rows.append(
        {"without": "aggregator", "left": "the average of all features", **_averaged(train, test)}
    )
    return rows


def _agreement_of(name: str, train: FeatureTable, test: FeatureTable, fitter: Fitter) -> Json:
    try:
        return correlations(predicted_by(fitter.fit(name, train), test), test)
    except DataError as error:
        return {"failed": str(error)}


def _aspects_alone(test: FeatureTable) -> Json | None:
    columns = {slug(name): at for at, name in enumerate(test.names) if "/" not in name}
    if not all(slug(aspect) in columns for aspect in test.aspects):
        return None
    return correlations(
        np.stack([test.features[:, columns[slug(aspect)]] for aspect in test.aspects], axis=1), test
    )


def _averaged(train: FeatureTable, test: FeatureTable) -> Json:
    """Average all standardized features, as the paper's ablation does.

    Means and spreads are those of training rows.
    """
    with np.errstate(invalid="ignore"):
        mean, sd = np.nanmean(train.features, axis=0), np.nanstd(train.features, axis=0)
    # nothing here is learned from ratings, which is what this row of the table is to show
    varies = sd > 0
    z = (test.features[:, varies] - mean[varies]) / sd[varies]
    filled = np.where(np.isnan(z), 0.0, z).mean(axis=1)
    filled[np.isnan(z).all(axis=1)] = np.nan
    return correlations(np.repeat(filled[:, None], len(test.aspects), axis=1), test)

"""What each part of HD-Eval adds (its table 4).

Layers of criteria, and learning how to weigh them.
"""

from __future__ import annotations

import numpy as np

from textassay.fitting.curves import agreement
from textassay.fitting.learn import Fitter, predicted_by
from textassay.fitting.table import FeatureTable
from textassay.runtime.errors import DataError
from textassay.runtime.messages import slug
from textassay.runtime.model import Json


def table(
    name: str, train: FeatureTable, test: FeatureTable, fitter: Fitter, *, depth: int = 1
) -> list[Json]:
    """Return agreement on the held-out rows of the whole and of what is left without its parts.

    Args:
        name: The aggregator.
        train: Training rows.
        test: Held-out rows.
        fitter: How aggregators are fitted.
        depth: Layers of the tree whose nodes the features are; 1 where there is no tree.
    """
    rows = [{"without": "nothing", **_learnt(name, train, test, fitter)}]
    for kept in range(depth - 1, 0, -1):
        features = [f for f in train.names if f.count("/") < kept]
        gone = ", ".join(str(layer) for layer in range(kept + 1, depth + 1))
        rows.append(
            {
                "without": f"layer {gone}",
                **_learnt(name, train.only(features), test.only(features), fitter),
            }
        )
    if depth > 1 and (plain := _aspects_alone(test)) is not None:
        gone = ", ".join(str(layer) for layer in range(1, depth + 1))
        rows.append({"without": f"layer {gone}", "left": "each aspect's own rating", **plain})
    rows.append(
        {"without": "aggregator", "left": "the average of all features", **_averaged(train, test)}
    )
    return rows


def _learnt(name: str, train: FeatureTable, test: FeatureTable, fitter: Fitter) -> Json:
    try:
        return agreement(predicted_by(fitter.fit(name, train), test), test)
    except DataError as error:
        return {"failed": str(error)}


def _aspects_alone(test: FeatureTable) -> Json | None:
    columns = {name: at for at, name in enumerate(test.names)}
    if not all(slug(aspect) in columns for aspect in test.aspects):
        return None
    return agreement(
        np.stack([test.features[:, columns[slug(aspect)]] for aspect in test.aspects], axis=1), test
    )


def _averaged(train: FeatureTable, test: FeatureTable) -> Json:
    """Average all standardised features, as the paper's ablation does.

    Means and spreads are those of training rows.
    """
    with np.errstate(invalid="ignore"):
        mean, sd = np.nanmean(train.features, axis=0), np.nanstd(train.features, axis=0)
    varies = sd > 0
    z = (test.features[:, varies] - mean[varies]) / sd[varies]
    filled = np.where(np.isnan(z), 0.0, z).mean(axis=1)
    filled[np.isnan(z).all(axis=1)] = np.nan
    return agreement(np.repeat(filled[:, None], len(test.aspects), axis=1), test)

"""Which features speak of which aspect, by their names.

`judge/fluency` of fluency, `rouge1` of any.

Knows names only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from textassay.learning.splits import Mask
from textassay.runtime.messages import slug


def features_for(target: str, features: Sequence[str], aspects: Iterable[str]) -> Mask:
    """Return which features speak of an aspect.

    A feature names an aspect if a part of its name between slashes is the aspect's. Those that name
    the target speak of it, and so do those that name no aspect at all, such as `rouge1` or `nli`;
    those that name another aspect do not. If that leaves none, all do.

    Args:
        target: The aspect.
        features: Names of the features.
        aspects: Names of all aspects that a feature may name.

    Returns:
        Shape (features,).
    """
    known = {slug(aspect) for aspect in aspects}
    parts = [{slug(part) for part in feature.split("/")} for feature in features]
    matching = np.array([slug(target) in one or not one & known for one in parts], bool)
    return matching if matching.any() else np.ones(len(features), bool)

"""Synthetic ratings made by a known rule."""

import numpy as np


def planted(n=240, *, seed=0, noise=0.6, features=8, per_group=6):
    """Judges' scores 1 to 5, of which three carry two aspects; ratings (1-5, 0-10); groups."""
    rng = np.random.default_rng(seed)
    groups = np.arange(n) // per_group
    quality = rng.normal(size=(n, 2)) + 0.5 * rng.normal(size=(groups.max() + 1, 2))[groups]
    x = rng.normal(size=(n, features))
    x[:, 0] = quality[:, 0] + noise * rng.normal(size=n)
    x[:, 1] = quality[:, 1] + noise * rng.normal(size=n)
    x[:, 2] = quality.sum(axis=1) + noise * rng.normal(size=n)
    features_ = np.clip(np.round(3 + x), 1, 5)
    human = np.stack(
        [np.clip(3 + quality[:, 0], 1, 5), np.clip(5 + 2 * quality[:, 1], 0, 10)], axis=1
    )
    return features_, human, groups

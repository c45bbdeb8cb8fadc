"""Tables of the kinds that people have, with a judge that errs in one text of ten."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

N = 120
Rows = Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Text:
    """One text with the ratings of judge and people."""

    number: int
    good: bool
    passes: bool
    judge: int
    other_judge: int
    raters: tuple[int, int, int]


def texts(count: int = N, seed: int = 0) -> list[Text]:
    rng = np.random.default_rng(seed)
    quality = rng.uniform(1, 5, count)

    def rated(noise: float) -> list[int]:
        return np.clip(np.round(quality + rng.normal(0, noise, count)), 1, 5).astype(int).tolist()

    good = quality > 2.2
    passes = np.where(rng.random(count) < 0.9, good, ~good)
    columns = [rated(0.5), rated(1.6), rated(0.5), rated(0.5), rated(0.6)]
    return [
        Text(at, bool(good[at]), bool(passes[at]), *(c[at] for c in columns[:2]),
             tuple(c[at] for c in columns[2:]))
        for at in range(count)
    ]  # fmt: skip


def written(
    path: Path, header: Sequence[str], row: Callable[[Text], Sequence[Any]], *,
    separator: str = ",", encoding: str = "utf-8", count: int = N,
) -> Path:  # fmt: skip
    """Write one row per text."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator)
    writer.writerow(header)
    writer.writerows(row(one) for one in texts(count))
    path.write_bytes(text.getvalue().encode(encoding))
    return path

"""What each juror of a jury adds: error without it, over sources that were left out.

Knows tables of recorded ratings named by aspect and juror; nothing of models.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from textassay.fitting.learn import FeatureTable, Fitter, predict_over_folds
from textassay.learning.training import Floats
from textassay.meta.intervals import t_quantile
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.table import Alert, Column, Interval, Note, Table

MIN_SOURCES = 10
"""Sources below which no interval is given."""
_COLUMNS = (
    Column("juror", "juror"), Column("gain", "gain", "interval"),
    Column("cost", "USD per 1,000 texts", "number", 4),
    Column("per_dollar", "gain per USD", "interval"), Column("leave_out", "leave out"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Worth:
    """What one juror adds to the jury that it is in."""

    juror: str
    # growth of the squared error without it, in variances of the ratings, averaged over the aspects
    gain: float
    low: float  # lower end of its interval over sources
    high: float  # upper end
    cost: float | None  # dollars per rated text; `None` if not known
    leave_out: bool  # whether the jury is no worse without it, as far as the rows can show

    @property
    def per_dollar(self) -> float | None:
        """Gain per dollar for a thousand texts; `None` if the cost is not known or 0."""
        return self.gain / (1000 * self.cost) if self.cost else None

    @property
    def per_dollar_interval(self) -> tuple[float, float] | None:
        """Interval of `per_dollar`; what a text costs is known, so only the gain is uncertain."""
        if not self.cost:
            return None
        return self.low / (1000 * self.cost), self.high / (1000 * self.cost)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        interval = self.per_dollar_interval
        return {
            "juror": self.juror, "gain": self.gain, "low": self.low, "high": self.high,
            "cost": self.cost, "per_dollar": self.per_dollar,
            "per_dollar_ci": None if interval is None else list(interval),
            "leave_out": self.leave_out,
        }  # fmt: skip


def worth_table(found: Sequence[Worth]) -> Table:
    """Return what the jurors of a jury add, and who can be left out."""
    rows = []
    for one in found:
        per_dollar = Interval(one.per_dollar, *(one.per_dollar_interval or ()))
        cost = None if one.cost is None else 1000 * one.cost
        gain = Interval(one.gain, one.low, one.high)
        rows.append((one.juror, gain, cost, per_dollar, Alert("yes") if one.leave_out else ""))
    kept = [one.juror for one in found if not one.leave_out]
    advice = f"A jury of {', '.join(kept)} is no worse, as far as these ratings show."
    if len(kept) == len(found):
        advice = "Every juror adds something."
    meaning = (
        "gain: increase of the squared error on held-out sources without the juror, in units of "
        "the ratings' variance."
    )
    return Table(_COLUMNS, rows, (Note(meaning), Note(advice)), "what each juror adds")


def worths(
    table: FeatureTable,
    fitter: Fitter,
    *,
    aggregator: str = "ridge",
    costs: Mapping[str, float | None] | None = None,
    confidence: float = 0.95,
) -> list[Worth]:
    """Return what each juror adds, and which to leave out.

    Ordered by gain per dollar, or by gain if the cost of a juror is not known or 0.

    Jurors are left out one at a time, of those whose gain may be 0 the one that
    costs most (or gains least, if costs are not known), until all that are left add something: two
    jurors that say the same are not both needed, but one of them is.
    """
    members = jurors_in(table.names, table.aspects)
    if len(members) < 2:
        raise ConfigurationError(
            f"the scores contain {len(members)} jurors; a run with output=jurors has one score per"
            " aspect and juror, named ASPECT/JUROR or JUROR/ASPECT"
        )
    if len(np.unique(table.groups)) < MIN_SOURCES:
        raise DataError(f"fewer than {MIN_SOURCES} rated sources are too few for an interval")
    known = {name: (costs or {}).get(name) for name in members}
    out = list[str]()
    left = _gains(table, fitter, aggregator, members, confidence)
    first = left
    while len(left) > 1:
        weak = [name for name, (_, low, _) in left.items() if low <= 0]
        if not weak:
            break
        out.append(max(weak, key=lambda name: (known[name] or 0.0, -left[name][0])))
        rest = [name for name in members if name not in out]
        if len(rest) == 1:
            break
        left = _gains(table, fitter, aggregator, rest, confidence)
    found = [Worth(name, *first[name], known[name], name in out) for name in members]
    priced = all(one.per_dollar is not None for one in found)
    # a juror without a price cannot be ranked beside others by gain per dollar

    def value(one: Worth) -> float:
        return one.per_dollar if priced and one.per_dollar is not None else one.gain

    return sorted(found, key=lambda one: (one.leave_out, -value(one)))


def jurors_in(names: Sequence[str], aspects: Sequence[str]) -> tuple[str, ...]:
    """Return the jurors that features named `ASPECT/JUROR` or `JUROR/ASPECT` are of, in order."""
    found = (juror_of(name, aspects) for name in names)
    return tuple(dict.fromkeys(juror for juror in found if juror))


def juror_of(name: str, aspects: Iterable[str]) -> str:
    """Return what a score's name says beside its aspect; empty without an aspect.

    An aspect may hold slashes itself, such as `topics/refund`: the longest one counts.
    """
    plain = name.casefold()
    for aspect in sorted(map(str.casefold, aspects), key=len, reverse=True):
        if plain.startswith(f"{aspect}/"):
            return name[len(aspect) + 1 :]
        if plain.endswith(f"/{aspect}"):
            return name[: -len(aspect) - 1]
    return ""


def _gains(
    table: FeatureTable, fitter: Fitter, aggregator: str, members: Sequence[str], confidence: float
) -> dict[str, tuple[float, float, float]]:
    """Return each member's gain with its interval, in a jury of the members."""
    whole = _errors(table, fitter, aggregator, members)
    found = dict[str, tuple[float, float, float]]()
    codes = np.unique(table.groups, return_inverse=True)[1]
    for name in members:
        without = _errors(table, fitter, aggregator, [one for one in members if one != name])
        found[name] = _interval(without - whole, codes, confidence)
    return found


def _errors(table: FeatureTable, fitter: Fitter, aggregator: str, members: Sequence[str]) -> Floats:
    """Return each row's squared error, in variances of the ratings, averaged over the aspects."""
    own = [at for at, name in enumerate(table.names) if juror_of(name, table.aspects) in members]
    part = table.with_features(
        {
            table.names[at]: dict(zip(table.ids, table.features[:, at].tolist(), strict=True))
            for at in own
        }
    )
    predicted = predict_over_folds(aggregator, part, fitter)
    # a row that no member rated is predicted by nobody: the mean is what is known of it
    predicted = np.where(np.isnan(predicted), np.nanmean(part.human, axis=0), predicted)
    squared = (predicted - part.human) ** 2 / np.nanvar(part.human, axis=0)
    rated = ~np.isnan(squared)
    return np.asarray(np.where(rated, squared, 0.0).sum(axis=1) / np.maximum(1, rated.sum(axis=1)))


def _interval(values: Floats, codes: Any, confidence: float) -> tuple[float, float, float]:
    """Return the mean with its t-interval over sources."""
    mean = float(values.mean())
    by_source = np.bincount(codes, weights=values - mean)
    count = len(by_source)
    error = math.sqrt(float(by_source @ by_source) * count / (count - 1)) / len(values)
    half = t_quantile(count - 1, confidence) * error
    return mean, mean - half, mean + half

"""A calibration, which maps one judge's scores to ratings with intervals, and its folder.

    calibration.json   one map per aspect, with a digest of the whole, bound to the judge
    report.json        how well it works on other sources (report.txt: as text)

Works on columns and files, without models.

Reference: Brier, "Verification of forecasts expressed in terms of probability" (1950).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from textassay.agreement.correlation import kendall, pearson, spearman
from textassay.agreement.labels import mean_interval
from textassay.arrays import Codes, Floats, Mask
from textassay.estimation.columns import Columns, one_signature
from textassay.estimation.maps import (
    Grid,
    Isotonic,
    LearnedMap,
    Map,
    MapScales,
    Ordinal,
    ScoreRanges,
    distance_to_hold,
    fit_cells,
    grid_of,
    learn_map,
)
from textassay.estimation.probabilities import level_report, with_temperature, yes_report
from textassay.learning.splits import fold_masks
from textassay.runtime.errors import ConfigurationError, DataError
from textassay.runtime.messages import Score
from textassay.runtime.storage.files import (
    check_new_folder,
    read_sealed,
    storage_errors,
    write_json,
    write_sealed,
    write_text,
)
from textassay.table import Cell, Column, Estimate, Note, Table, column, format_cell, table_of
from textassay.version import __version__

FORMAT = 1
FILE = "calibration.json"


@dataclass(frozen=True, slots=True)
class CalibratedScores:
    """Calibrated scores of some rows; NaN if the score is outside the range that has ratings."""

    values: Floats
    """Expected ratings, shape (n,)."""
    low: Floats
    """Lower ends, shape (n,)."""
    high: Floats
    """Upper ends, shape (n,)."""
    outside: Mask
    """Whether the score is outside the range that has ratings, shape (n,)."""


@dataclass(frozen=True, slots=True)
class AspectCalibration:
    """The map from scores to ratings of one aspect."""

    aspect: str
    """Name of the score."""
    human: str
    """Name of the human aspect."""
    kind: str
    """Kind of the map."""
    map: Annotated[Map, Field(discriminator="kind")]
    """The map from scores to ratings."""
    cells: Annotated[ScoreRanges, Field(alias="intervals")]
    """Half-widths of the intervals."""
    coverage: Annotated[float, Field(gt=0, lt=1)]
    """Share of new rows whose intervals should contain the rating."""
    grid: Grid
    """The values that ratings can take."""
    range: tuple[float, float]
    """Lowest and highest score that has ratings."""
    scales: Annotated[MapScales, Field(alias="scale")]
    """Ranges of judge and raters."""
    n: int
    """Number of rated rows that it was learned from."""
    groups: int
    """Number of their sources."""
    signature: str
    """Signature of the scores; empty if they had none."""
    temperature: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Temperature of the probabilities of the judge's levels; 1 if it gave none."""

    def apply(self, scores: Floats) -> CalibratedScores:
        """Return ratings with intervals for scores of shape (n,), no NaN."""
        values = self.map.predict(scores)
        low, high = self.cells.around(scores, values, self.grid)
        outside = (scores < self.range[0]) | (scores > self.range[1])
        # the interval is for the rating; the expected rating may lie between two values of the grid
        low, high = np.minimum(low, values), np.maximum(high, values)
        values, low, high = (np.where(outside, np.nan, end) for end in (values, low, high))
        return CalibratedScores(values, low, high, outside)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; an infinite half-width is `None`."""
        content: dict[str, Any] = _ASPECT.dump_python(self, mode="json", by_alias=True)
        return content


_ASPECT = TypeAdapter(AspectCalibration)


def _validate(calibration: AspectCalibration) -> AspectCalibration:
    """Raise ValueError if a map from a file could not have been learned."""
    low, high = calibration.scales.raters
    judge, cells, grid = calibration.scales.judge, calibration.cells, calibration.grid
    if not low < high or (judge is not None and not judge[0] < judge[1]):
        raise ValueError("a scale is not ascending")
    if not _could_be_learned(calibration.map, low, high):
        raise ValueError("its map returns values outside the raters' scale")
    if len({len(cells.edges) + 1, len(cells.below), len(cells.above), len(cells.rows)}) > 1:
        raise ValueError("its intervals do not fit their ranges of scores")
    if not low <= grid.low <= grid.high <= high:
        raise ValueError("its grid of ratings is not on the raters' scale")
    if not calibration.range[0] <= calibration.range[1]:
        raise ValueError("its range is empty")
    return calibration


def _could_be_learned(map_: Map, low: float, high: float) -> bool:
    if isinstance(map_, Isotonic):
        levels, steps = map_.ratings, np.diff(map_.ratings)
        is_sound = len(levels) == len(map_.scores) and bool(
            (steps >= 0).all() or (steps <= 0).all()
        )
    elif isinstance(map_, Ordinal):
        levels, steps = map_.grid, np.diff(map_.thresholds)
        is_sound = len(map_.thresholds) == len(levels) - 1 and bool((steps >= 0).all())
    else:
        levels, is_sound = np.array([map_.low, map_.high]), map_.low <= map_.high
    # means of ratings may be off by rounding
    return is_sound and bool(((levels >= low - 1e-9) & (levels <= high + 1e-9)).all())


def calibrate(
    columns: Columns,
    *,
    scales: MapScales,
    method: str = "auto",
    coverage: float = 0.9,
    seed: int = 0,
    allow_change: bool = False,
) -> tuple[AspectCalibration, dict[str, Any]]:
    """Learn a map from one judge's scores to ratings, and measure it on held-out sources.

    Args:
        columns: Scores and ratings.
        scales: Ranges of both.
        method: `auto`, `isotonic`, `linear`, `shift` or `ordinal`.
        coverage: Share of new rows that their intervals should contain, above 0 and below 1.
        seed: Seed of the folds.
        allow_change: Whether scores with different signatures may be mixed.

    Returns:
        The calibration, and a report of JSON values.

    Raises:
        ConfigurationError: The coverage is not between 0 and 1, or several judges are mixed.
        DataError: Nothing can be learned from these rows.
    """
    if not 0 < coverage < 1:
        raise ConfigurationError(
            f"a coverage must be between 0 and 1, such as 0.9, not {coverage!r}"
        )
    signature = one_signature(columns, allow_change=allow_change)
    (x, y, groups), weights = columns.pairs, _weights(columns)
    grid = grid_of(y, scales.raters)
    learned = learn_map(x, y, groups, scales=scales, weights=weights, method=method, seed=seed)
    calibration = AspectCalibration(
        aspect=columns.score,
        human=columns.human,
        kind=learned.map.kind,
        map=learned.map,
        # residuals of the map on its own training rows are too small; cross-fitted values err as on
        # new sources, for which the intervals are made
        cells=fit_cells(
            x, y, learned.cross_fitted, groups, grid=grid, coverage=coverage, weights=weights
        ),
        coverage=coverage,
        grid=grid,
        range=(float(x.min()), float(x.max())),
        scales=scales,
        n=len(x),
        groups=len(np.unique(groups)),
        signature=signature,
    )
    probability = probability_report(x, y, groups, scales, learned, seed)
    if probability is not None and scales.judge == (0.0, 1.0):
        sureness: dict[str, Any] | None = yes_report(x, learned.cross_fitted, y)
    else:
        shares = columns.shares[columns.rated] if len(columns.levels) else columns.shares
        temperature, sureness = level_report(shares, columns.levels, y, groups, scales, seed)
        calibration = replace(calibration, temperature=temperature)
    report = {
        "aspect": columns.score,
        "human": columns.human,
        "kind": calibration.kind,
        "n": calibration.n,
        "groups": calibration.groups,
        "mean_squared_error": dict(learned.errors),
        "weighted": weights is not None,
        "agreement": _agreement(x, y, learned),
        "probability": probability,
        "calibration_error": sureness,
        "held_out": _measure_held_out(calibration, x, y, groups, weights, seed),
    }
    return calibration, report


def probability_report(
    x: Floats, y: Floats, groups: Codes, scales: MapScales, learned: LearnedMap, seed: int
) -> dict[str, Any] | None:
    """Return how good calibrated scores are as probabilities of yes; `None` without yes and no.

    Brier scores are mean squared errors: of the raw score, if it lies between 0 and 1, of the
    cross-fitted map, and of a constant, the share of yes. The curve has the mean probability and
    the share of yes in equal parts of the rows.
    """
    if not np.isin(y, (0.0, 1.0)).all() or scales.raters != (0.0, 1.0):
        return None
    after = learned.cross_fitted
    share = float(y.mean())

    def brier(values: Floats) -> dict[str, Any]:
        return mean_interval((values - y) ** 2, groups, seed=seed).as_dict()

    order = np.argsort(after, kind="stable")
    # ten points at most, each of ten rows or more
    parts = np.array_split(order, max(2, min(10, len(y) // 10)))
    return {
        "share": share,
        "brier": {
            "raw": brier(x) if scales.judge == (0.0, 1.0) else None,
            "calibrated": brier(after),
            "share": brier(np.full(len(y), share)),
        },
        "curve": [
            {"n": len(at), "p": float(after[at].mean()), "share": float(y[at].mean())}
            for at in parts
        ],
    }


@dataclass(frozen=True, slots=True)
class _CurvePoint:
    """Rated rows of about the same probability of yes."""

    n: int = field(metadata=column("n", "count"))
    p: float = field(metadata=column("probability", "number"))
    share: float = field(
        metadata=column("share of yes", "number")
        | column("", name="bar", cell=lambda point: "#" * round(20 * point.share))
    )


@dataclass(frozen=True, slots=True)
class _Measure:
    """One measure of raw and calibrated scores."""

    measure: str = field(metadata=column(""))
    raw: Cell = field(metadata=column("raw", "number"))
    calibrated: Cell = field(metadata=column("calibrated", "number"))


def curve_table(report: dict[str, Any]) -> Table | None:
    """Return the calibration curve of one aspect; `None` if people did not say yes and no.

    The report is one of `calibrate`.
    """
    probability = report["probability"]
    if probability is None:
        return None
    points = (_CurvePoint(**point) for point in probability["curve"])
    text = (
        "rows in order of their probability, in equal parts; calibrated probabilities are close to"
        " the share of yes"
    )
    title = f"{report['aspect']}: probability of yes, and share of yes"
    return table_of(_CurvePoint, points, [Note(text)], title)


def report_table(report: dict[str, Any], coverage: float) -> Table:
    """Return how well one aspect's scores match people's ratings, raw and calibrated.

    The report is one of `calibrate`; the coverage is the share of ratings that intervals should
    contain.
    """
    before, after = report["agreement"]["before"], report["agreement"]["after"]
    name = report["aspect"]
    if report["human"] != name:
        name += f" vs {report['human']}"
    keys = ("bias", "mean_absolute_error", "pearson", "spearman", "kendall")
    rows = [_Measure(key.replace("_", " "), before[key], after[key]) for key in keys]
    notes = ["calibrated: by maps learned from other sources; ranks are those of the whole map"]
    if (probability := report["probability"]) is not None:
        brier = probability["brier"]
        raw = brier["raw"] and Estimate(**brier["raw"])
        rows.append(_Measure("Brier score", raw, Estimate(**brier["calibrated"])))
        notes.append(
            "calibrated scores are probabilities of yes; a constant, the share of yes,"
            f" {probability['share']:.3f}, has a Brier score of"
            f" {format_cell(Estimate(**brier['share']), Column('share', '', 'number'))}"
        )
    if (sureness := report["calibration_error"]) is not None:
        error = _Measure("calibration error (ECE)", sureness["raw"], sureness["calibrated"])
        rows.append(error)
        notes.append(
            f"ECE of the probabilities of {sureness['of']}, {sureness['n']} rows: it is right for"
            f" {sureness['right']:.1%}, the most frequent rating for {sureness['constant']:.1%}"
        )
    if after["distinct"] < before["distinct"]:
        notes.append(
            f"{before['distinct']} distinct scores become {after['distinct']}: flat parts of the "
            "map make ties, which change rank correlations"
        )
    held_out = report["held_out"]
    promise = f"intervals for {coverage:.0%} of the ratings"
    # for a rating that is yes or no, the interval adds nothing to the probability
    if probability is None and held_out is None:
        notes.append(
            f"{promise}: too few sources to measure, and to give intervals narrower than the scale"
        )
    elif probability is None:
        both = (held_out["raw"], held_out["calibrated"])
        widths = (part and f"{part['mean_width']:.2f}" for part in both)
        shares = (part and f"{part['coverage']:.1%}" for part in both)
        rows.append(_Measure("mean width of intervals", *widths))
        rows.append(_Measure("ratings that they contain", *shares))
        notes.append(
            f"{promise}, measured on sources that they were not learned from; the scale has "
            f"{held_out['of']:g}"
            " points"
        )
    title = f"{name}: {report['kind']}, from {report['n']} rated rows of {report['groups']} sources"
    return table_of(_Measure, rows, map(Note, notes), title)


def _weights(columns: Columns) -> Floats | None:
    """Return each rated row's weight within its source; `None` if all weights are equal.

    A row that was drawn with probability p represents 1 / p rows of its source.
    """
    if columns.probabilities is None:
        return None
    sizes = np.bincount(columns.groups[columns.scored], minlength=int(columns.groups.max()) + 1)
    rated = columns.rated
    return np.asarray(1.0 / (sizes[columns.groups[rated]] * columns.probabilities[rated]))


def _agreement(x: Floats, y: Floats, learned: LearnedMap) -> dict[str, Any]:
    """Return agreement and error before and after; after is cross-fitted.

    Rank correlations are those of the whole map: maps of several folds give equal scores different
    values, and an order that no map has.
    """
    after = learned.cross_fitted
    return {
        name: {
            "pearson": pearson(values, y),
            "spearman": spearman(final, y),
            "kendall": kendall(final, y),
            "bias": float((values - y).mean()),
            "mean_absolute_error": float(np.abs(values - y).mean()),
            "distinct": len(np.unique(final)),
        }
        for name, values, final in (("before", x, x), ("after", after, learned.map.predict(x)))
    }


def _measure_held_out(
    calibration: AspectCalibration,
    x: Floats,
    y: Floats,
    groups: Codes,
    weights: Floats | None,
    seed: int,
) -> dict[str, Any] | None:
    """Return coverage and width of the intervals, and of raw scores, on held-out sources."""
    scales, grid, coverage = calibration.scales, calibration.grid, calibration.coverage
    names, raw = ("calibrated", "raw"), scales.on_raters_scale(x)
    inside, widths = np.zeros((2, len(x)), bool), np.full((2, len(x)), np.nan)
    for test in fold_masks(groups, count=5, seed=seed + 1):
        train = ~test
        train_weights = None if weights is None else weights[train]
        rows = x[train], y[train], groups[train]
        try:
            # map and intervals are learned again without the test sources; with the map of all
            # rows, test ratings would shape their own prediction
            learned = learn_map(
                *rows, scales=scales, weights=train_weights, method=calibration.kind, seed=seed
            )
        except DataError:
            # too few or constant rows remain, so nothing can be measured on held-out sources
            return None
        cells = fit_cells(
            x[train], y[train], learned.cross_fitted, groups[train],
            grid=grid, coverage=coverage, weights=train_weights,
        )  # fmt: skip
        ends = [cells.around(x[test], learned.map.predict(x[test]), grid)]
        if raw is not None:  # for comparison: plus and minus one distance for all
            errors = np.round(y[train] - raw[train], 9)
            half = distance_to_hold(errors, groups[train], coverage)
            ends.append(grid.outward(raw[test] - half, raw[test] + half))
        for at, (low, high) in enumerate(ends):
            # thirds of a point are not exact in binary; a rating equal to an end is inside
            inside[at, test] = (y[test] >= low - 1e-9) & (y[test] <= high + 1e-9)
            widths[at, test] = high - low
    return {
        name: {
            "coverage": float(np.average(inside[at], weights=weights)),
            "mean_width": float(np.average(widths[at], weights=weights)),
        }
        # if the judge's scale is unknown, raw scores have no interval rather than a guessed one
        if name == "calibrated" or raw is not None
        else None
        for at, name in enumerate(names)
    } | {"of": scales.raters[1] - scales.raters[0]}


@dataclass(frozen=True, slots=True)
class Calibration:
    """The content of a calibration folder."""

    aspects: tuple[Annotated[AspectCalibration, AfterValidator(_validate)], ...]
    """One per score, in order."""
    sources: frozenset[str]
    """Digests of the sources whose ratings it was learned from."""

    def of(self, aspect: str) -> AspectCalibration | None:
        """Return the calibration of a score; `None` if there is none."""
        return next((entry for entry in self.aspects if entry.aspect == aspect), None)

    def check(self, aspect: str, signature: str, *, allow_change: bool = False) -> None:
        """Refuse scores of another judge.

        Raises:
            ConfigurationError: The scores that it was learned from have another signature.
        """
        calibration = self.of(aspect)
        if calibration is None or allow_change or calibration.signature == signature:
            return
        raise ConfigurationError(
            f"the calibration of {aspect!r} was learned from scores of "
            f"{calibration.signature or 'no signature'!r}, but these are of "
            f"{signature or 'no signature'!r}: another judge, prompt or setting makes different "
            "errors. Calibrate again, or set allow_change=true if the differences do not matter"
        )

    def apply(self, score: Score, *, allow_change: bool = False) -> Score:
        """Return a score with `calibrated`, `low` and `high`.

        Unscored rows and other aspects stay unchanged.

        Raises:
            ConfigurationError: The score is from another judge.
        """
        calibration = self.of(score.aspect)
        if calibration is None or score.value is None:
            return score
        self.check(score.aspect, score.signature, allow_change=allow_change)
        calibrated = calibration.apply(np.array([score.value]))
        # an extrapolated value would look as certain as the others, so the raw score stays, marked
        # as outside
        if calibrated.outside[0]:
            return score.model_copy(update={"outside": True})
        ends = (calibrated.values[0], calibrated.low[0], calibrated.high[0])
        values = dict(zip(("calibrated", "low", "high"), map(float, ends), strict=True))
        evidence = _with_calibrated(score.evidence, calibration.temperature)
        return score.model_copy(update={**values, "outside": False, "evidence": evidence})


def _with_calibrated(
    evidence: tuple[dict[str, Any], ...], temperature: float
) -> tuple[dict[str, Any], ...]:
    """Return the evidence with calibrated probabilities of levels added."""
    probabilities = [piece["probability"] for piece in evidence if "probability" in piece]
    if temperature == 1.0 or not probabilities:
        return evidence
    values = iter(with_temperature(np.array([probabilities]), temperature)[0])
    return tuple(
        {**piece, "calibrated": float(next(values))} if "probability" in piece else piece
        for piece in evidence
    )


def save(
    aspects: Sequence[AspectCalibration],
    reports: Sequence[dict[str, Any]],
    text: str,
    out: Path,
    *,
    sources: frozenset[str],
    made: Mapping[str, Any],
) -> None:
    """Write a calibration folder.

    Args:
        aspects: One per score.
        reports: How well each works.
        text: The reports as text.
        out: A new or empty folder.
        sources: Digests of the sources with ratings.
        made: Seed and other values that are needed to repeat it.

    Raises:
        RunFolderError: The folder is not empty.
        StorageError: It cannot be written.
    """
    check_new_folder(out)
    content = {
        "aspects": [aspect.to_dict() for aspect in aspects],
        "sources": sorted(sources),
        "made": {"textassay": __version__, **made},
    }
    with storage_errors(f"the calibration cannot be written to {out}"):
        out.mkdir(parents=True, exist_ok=True)
        # the calibration is written last: an incomplete folder has no `calibration.json`, so `load`
        # refuses it
        write_json(out / "report.json", {"format": FORMAT, "aspects": list(reports)})
        write_text(out / "report.txt", text)
        write_sealed(out / FILE, content, format=FORMAT)


def load(folder: str | Path) -> Calibration:
    """Read a calibration folder.

    Raises:
        ConfigurationError: The folder has no calibration, or one that has a newer format or was
            edited.
        DataError: Its content is damaged.
    """
    path = Path(folder) / FILE
    content = read_sealed(
        path,
        format=FORMAT,
        kind="calibration",
        missing=f"{folder} contains no {FILE}; make a calibration with textassay calibrate",
        repair="calibrate again",
    )
    try:
        return _CALIBRATION.validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise DataError(f"{path}: a calibration is damaged: {where}: {first['msg']}") from error


_CALIBRATION = TypeAdapter(Calibration)


def source_digest(source: str) -> str:
    """Return 12 hex digits of a source's digest, which identify its ratings."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:12]

"""A calibration, how one judge's scores are read as ratings with intervals, and its folder.

    calibration.json   one map per aspect, with a digest over all of it, bound to the judge
    report.json        how well it works on other sources, and the same as text in report.txt

Knows columns and files; nothing of models.

References:
    Brier, "Verification of forecasts expressed in terms of probability" (1950).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from textassay.calibration.columns import Columns, one_signature
from textassay.calibration.maps import (
    MAX_DENOMINATOR,
    Grid,
    LearnedMap,
    Map,
    Scales,
    ScoreRanges,
    check_map,
    fit_cells,
    grid_of,
    is_rising,
    learn_map,
    read_map,
)
from textassay.learning.splits import Mask, folds
from textassay.meta.correlation import Codes, Floats, kendall, pearson, spearman
from textassay.meta.label_measures import mean_interval
from textassay.runtime.errors import ConfigurationError, DataError, StorageError
from textassay.runtime.messages import Score
from textassay.runtime.storage.files import (
    check_new_folder,
    read_sealed,
    write_json,
    write_sealed,
    write_text,
)
from textassay.table import Cell, Column, Interval, Note, Table, formatted
from textassay.version import __version__

_OUTER_FOLDS = 5
_COLUMNS = (
    Column("measure", ""), Column("raw", "raw", "number"),
    Column("calibrated", "calibrated", "number"),
)  # fmt: skip
_CURVE_COLUMNS = (
    Column("n", "n", "count"), Column("p", "probability", "number"),
    Column("share", "share of yes", "number"), Column("bar", ""),
)  # fmt: skip
_CURVE, _CURVE_ROWS = 10, 10
"""Most points of a calibration curve, and fewest rows behind one."""
FORMAT = 1
FILE, REPORT, TEXT = "calibration.json", "report.json", "report.txt"


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Calibrated scores of some rows; NaN if the score is outside the range that has ratings.

    Attributes:
        values: Expected ratings, shape (n,).
        low: Lower ends, shape (n,).
        high: Upper ends, shape (n,).
        outside: Whether the score is outside the range that has ratings, shape (n,).
    """

    values: Floats
    low: Floats
    high: Floats
    outside: np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class AspectCalibration:
    """How scores of one aspect are read.

    Attributes:
        aspect: Name of the score.
        human: Name of the human aspect.
        kind: Kind of the map.
        map: From scores to ratings.
        cells: Half-widths of the intervals.
        grid: Where ratings can lie.
        coverage: Share of new rows that their intervals are to hold.
        range: Lowest and highest score that has ratings.
        scales: Ranges of judge and raters.
        n: Rated rows behind it.
        groups: Their sources.
        signature: Of the scores; empty if they had none.
    """

    aspect: str
    human: str
    kind: str
    map: Map
    cells: ScoreRanges
    grid: Grid
    coverage: float
    range: tuple[float, float]
    scales: Scales
    n: int
    groups: int
    signature: str

    def apply(self, scores: Floats) -> Calibrated:
        """Return ratings with intervals for scores of shape (n,), no NaN."""
        values = self.map.predict(scores)
        low, high = self.cells.around(scores, values, self.grid)
        outside = (scores < self.range[0]) | (scores > self.range[1])
        # the interval is of the rating; the expected rating may lie between two rungs of the grid
        low, high = np.minimum(low, values), np.maximum(high, values)
        values, low, high = (np.where(outside, np.nan, end) for end in (values, low, high))
        return Calibrated(values, low, high, outside)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; an infinite half-width is `None`."""
        return {
            "aspect": self.aspect,
            "human": self.human,
            "kind": self.kind,
            "map": self.map.to_dict(),
            "intervals": self.cells.to_dict(),
            "coverage": self.coverage,
            "grid": {"low": self.grid.low, "high": self.grid.high, "steps": self.grid.steps},
            "range": list(self.range),
            "scale": {
                "judge": None if self.scales.judge is None else list(self.scales.judge),
                "raters": list(self.scales.raters),
            },
            "n": self.n,
            "groups": self.groups,
            "signature": self.signature,
        }


def read_aspect(content: dict[str, Any]) -> AspectCalibration:
    """Read what `to_dict` returned."""
    try:
        grid, scale = content["grid"], content["scale"]
        judge = scale["judge"]
        made = AspectCalibration(
            aspect=content["aspect"],
            human=content["human"],
            kind=content["kind"],
            map=read_map(content["map"]),
            cells=ScoreRanges.from_dict(content["intervals"]),
            grid=Grid(grid["low"], grid["high"], grid["steps"]),
            coverage=content["coverage"],
            range=(content["range"][0], content["range"][1]),
            scales=Scales(
                None if judge is None else (judge[0], judge[1]),
                (scale["raters"][0], scale["raters"][1]),
            ),
            n=content["n"],
            groups=content["groups"],
            signature=content["signature"],
        )
        _check(made)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DataError(f"a calibration is damaged: {error!r}") from error
    return made


def _check(made: AspectCalibration) -> None:
    """Raise ValueError unless what was read could have been learned.

    The folder may come from somebody else, and its digest is no proof of anything.
    """
    low, high = made.scales.raters
    scales = [made.scales.raters, *([made.scales.judge] if made.scales.judge else [])]
    if not all(is_rising(np.array(scale, float)) for scale in scales):
        raise ValueError("a scale is not ascending")
    check_map(made.map, made.scales.raters)
    cells, grid = made.cells, made.grid
    lengths = {len(cells.edges) + 1, len(cells.below), len(cells.above), len(cells.rows)}
    if len(lengths) > 1 or not is_rising(cells.edges):
        raise ValueError("its intervals do not fit their ranges of scores")
    if not ((cells.below >= 0).all() and (cells.above >= 0).all()):
        raise ValueError("an interval has a negative width")
    if not (low <= grid.low <= grid.high <= high and 0 <= grid.steps <= MAX_DENOMINATOR):
        raise ValueError("its grid of ratings is not on the raters' scale")
    if not (0 < made.coverage < 1 and made.range[0] <= made.range[1]):
        raise ValueError("its coverage is not a share, or its range is empty")


def calibrate(
    columns: Columns,
    *,
    scales: Scales,
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
        coverage: Share of new rows that their intervals are to hold, above 0 and below 1.
        seed: Seed of the folds.
        allow_change: Whether scores of several signatures are taken together.

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
    x, y, groups = columns.pairs
    grid, weights = grid_of(y, scales.raters), _weights(columns)
    learned = learn_map(x, y, groups, scales=scales, weights=weights, method=method, seed=seed)
    # residuals of the map on its own training rows are too small; cross-fitted values err as they
    # will on new sources, which is what the intervals must hold
    cells = fit_cells(
        x, y, learned.cross_fitted, groups, grid=grid, coverage=coverage, weights=weights
    )
    made = AspectCalibration(
        aspect=columns.score,
        human=columns.human,
        kind=learned.kind,
        map=learned.map,
        cells=cells,
        grid=grid,
        coverage=coverage,
        range=(float(x.min()), float(x.max())),
        scales=scales,
        n=len(x),
        groups=len(np.unique(groups)),
        signature=signature,
    )
    report = {
        "aspect": columns.score,
        "human": columns.human,
        "kind": learned.kind,
        "n": made.n,
        "groups": made.groups,
        "mean_squared_error": dict(learned.errors),
        "weighted": weights is not None,
        "agreement": _agreement(x, y, learned),
        "probability": probability_report(x, y, groups, scales, learned, seed),
        "held_out": _held_out(x, y, groups, weights, scales, learned.kind, grid, coverage, seed),
    }
    return made, report


def probability_report(
    x: Floats, y: Floats, groups: Codes, scales: Scales, learned: LearnedMap, seed: int
) -> dict[str, Any] | None:
    """Return how good calibrated scores are as probabilities of yes; `None` unless 0 and 1 are all.

    Brier scores are mean squared errors: of the score as it is, if it is on 0 to 1, of the
    cross-fitted map, and of the share of yes given to all. The curve has the mean probability of
    equal parts of the rows, and the share of yes among them.
    """
    if not np.isin(y, (0.0, 1.0)).all() or scales.raters != (0.0, 1.0):
        return None
    after = learned.cross_fitted
    share = float(y.mean())

    def brier(values: Floats) -> dict[str, Any]:
        errors = (values - y) ** 2
        low, high = mean_interval(errors, groups, seed=seed) or (None, None)
        return {"value": float(errors.mean()), "low": low, "high": high}

    order = np.argsort(after, kind="stable")
    parts = np.array_split(order, max(2, min(_CURVE, len(y) // _CURVE_ROWS)))
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


def curve_table(report: dict[str, Any]) -> Table | None:
    """Return the calibration curve of one aspect; `None` if people did not say yes and no.

    The report is one of `calibrate`.
    """
    found = report["probability"]
    if found is None:
        return None
    rows = [
        (part["n"], part["p"], part["share"], "#" * round(20 * part["share"]))
        for part in found["curve"]
    ]
    text = (
        "rows in order of their probability, in equal parts; calibrated probabilities are close to"
        " the share of yes"
    )
    title = f"{report['aspect']}: probability of yes, and share of yes"
    return Table(_CURVE_COLUMNS, rows, (Note(text),), title=title)


def report_table(report: dict[str, Any], coverage: float) -> Table:
    """Return how one aspect's scores meet people's ratings, raw and calibrated.

    The report is one of `calibrate`; the coverage the share of ratings that intervals should hold.
    """
    before, after = report["agreement"]["before"], report["agreement"]["after"]
    name = report["aspect"]
    if report["human"] != name:
        name += f" vs {report['human']}"
    keys = ("bias", "mean_absolute_error", "pearson", "spearman", "kendall")
    rows: list[tuple[Cell, ...]] = [
        (key.replace("_", " "), before[key], after[key]) for key in keys
    ]
    notes = ["calibrated: by maps that saw other sources"]
    if (probability := report["probability"]) is not None:
        brier = probability["brier"]
        raw = None if brier["raw"] is None else Interval(**brier["raw"])
        rows.append(("Brier score", raw, Interval(**brier["calibrated"])))
        notes.append(
            "calibrated scores are probabilities of yes; the share of yes,"
            f" {probability['share']:.3f}, given to all has a Brier score of"
            f" {formatted(Interval(**brier['share']), _COLUMNS[-1])}"
        )
    if after["distinct"] < before["distinct"]:
        notes.append(
            f"{before['distinct']} distinct scores become {after['distinct']}: flat parts of the "
            "map make ties, which change rank correlations"
        )
    held_out = report["held_out"]
    promise = f"intervals for {coverage:.0%} of the ratings"
    if held_out is None or held_out["calibrated"] is None:
        notes.append(
            f"{promise}: too few sources to tell, and to give intervals narrower than the scale"
        )
    else:
        both = (held_out["raw"], held_out["calibrated"])
        widths = (None if one is None else f"{one['mean_width']:.2f}" for one in both)
        held = (None if one is None else f"{one['coverage']:.1%}" for one in both)
        rows += [("mean width of intervals", *widths), ("ratings that they hold", *held)]
        notes.append(
            f"{promise}, on sources that had no part in them; the scale has {held_out['of']:g}"
            " points"
        )
    title = f"{name}: {report['kind']}, from {report['n']} rated rows of {report['groups']} sources"
    return Table(_COLUMNS, rows, tuple(map(Note, notes)), title=title)


def _weights(columns: Columns) -> Floats | None:
    """Return what share of its source each rated row stands for; `None` if all had one probability.

    A row that was drawn with probability p stands for 1 / p rows of its source.
    """
    if columns.probabilities is None:
        return None
    sizes = np.bincount(columns.groups[columns.scored], minlength=int(columns.groups.max()) + 1)
    rated = columns.rated
    return np.asarray(1.0 / (sizes[columns.groups[rated]] * columns.probabilities[rated]))


def _agreement(x: Floats, y: Floats, learned: LearnedMap) -> dict[str, Any]:
    """Return agreement and error before and after; after is cross-fitted."""
    after = learned.cross_fitted
    return {
        name: {
            "pearson": pearson(values, y),
            "spearman": spearman(values, y),
            "kendall": kendall(values, y),
            "bias": float((values - y).mean()),
            "mean_absolute_error": float(np.abs(values - y).mean()),
            "distinct": len(np.unique(final)),
        }
        for name, values, final in (("before", x, x), ("after", after, learned.map.predict(x)))
    }


def _held_out(
    x: Floats,
    y: Floats,
    groups: Codes,
    weights: Floats | None,
    scales: Scales,
    kind: str,
    grid: Grid,
    coverage: float,
    seed: int,
) -> dict[str, Any] | None:
    """Return coverage and width of the intervals on sources that had no part in them.

    The raw scores' intervals are returned for comparison: the score plus and minus one distance
    for all.
    """
    fold = folds(groups, _OUTER_FOLDS, seed=seed + 1)
    inside = np.zeros((2, len(x)), bool)
    widths = np.full((2, len(x)), np.nan)
    raw = scales.on_raters_scale(x)
    for number in range(int(fold.max()) + 1):
        test, train = fold == number, fold != number
        own = None if weights is None else weights[train]
        try:
            # map and intervals are learned again without the test sources; taking the map from all
            # rows and only the intervals from the training ones would let test ratings shape their
            # own prediction
            learned = learn_map(
                x[train],
                y[train],
                groups[train],
                scales=scales,
                weights=own,
                method=kind,
                seed=seed,
            )
        except DataError:
            # too few or constant rows remain: nothing can be measured on held-out ones
            return None
        cells = fit_cells(
            x[train], y[train], learned.cross_fitted, groups[train],
            grid=grid, coverage=coverage, weights=own,
        )  # fmt: skip
        ends = [cells.around(x[test], learned.map.predict(x[test]), grid)]
        if raw is not None:
            ends.append(_raw_bounds(raw, y, groups, train, test, grid, coverage))
        for at, (low, high) in enumerate(ends):
            # ends on thirds or twelfths of a point are not exact in binary; a rating on the end is
            # inside
            inside[at, test] = (y[test] >= low - 1e-9) & (y[test] <= high + 1e-9)
            widths[at, test] = high - low
    return {
        **_coverage(inside, widths, weights),
        "of": scales.raters[1] - scales.raters[0],
    }


def _coverage(inside: Mask, widths: Floats, weights: Floats | None) -> dict[str, Any]:
    """Return coverage and mean width of calibrated and raw intervals, each of shape (2, n)."""
    return {
        name: (
            None
            # raw scores have no interval if the judge's scale is unknown: no number rather than a
            # guess
            if np.isnan(widths[at]).any()
            else {
                "coverage": float(np.average(inside[at], weights=weights)),
                "mean_width": float(np.average(widths[at], weights=weights)),
            }
        )
        for at, name in enumerate(("calibrated", "raw"))
    }


def _raw_bounds(
    raw: Floats, y: Floats, groups: Codes, train: Any, test: Any, grid: Grid, coverage: float
) -> tuple[Floats, Floats]:
    anywhere = Grid(grid.low, grid.high, 0)
    # constant scores make one cell of all rows, and zeros as calibrated values make the residuals
    # the raw errors, which must not be clipped to the range of ratings
    flat = np.zeros(int(train.sum()))
    cells = fit_cells(
        flat, y[train] - raw[train], flat, groups[train],
        grid=Grid(-math.inf, math.inf, 0), coverage=coverage,
    )  # fmt: skip
    half = max(cells.below[0], cells.above[0])
    return (grid if grid.steps else anywhere).outward(raw[test] - half, raw[test] + half)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a calibration folder holds.

    Attributes:
        aspects: One per score, in order.
        sources: Digests of the sources whose ratings it was learned from.
    """

    aspects: tuple[AspectCalibration, ...]
    sources: frozenset[str]

    def of(self, aspect: str) -> AspectCalibration | None:
        """Return the calibration of a score; `None` if it has none."""
        return next((one for one in self.aspects if one.aspect == aspect), None)

    def check(self, aspect: str, signature: str, *, allow_change: bool = False) -> None:
        """Refuse scores of another judge.

        Raises:
            ConfigurationError: The signature differs from that of the scores it was learned from.
        """
        own = self.of(aspect)
        if own is None or allow_change or own.signature == signature:
            return
        raise ConfigurationError(
            f"the calibration of {aspect!r} was learned from scores of "
            f"{own.signature or 'no signature'!r}, but these are of "
            f"{signature or 'no signature'!r}: another judge, prompt or setting makes different "
            "errors. Calibrate again, or set allow_change=true if the differences do not matter"
        )

    def applied(self, score: Score, *, allow_change: bool = False) -> Score:
        """Return a score with `calibrated`, `low` and `high`.

        Unscored ones and other aspects as they are.

        Raises:
            ConfigurationError: It is of another judge.
        """
        own = self.of(score.aspect)
        if own is None or score.value is None:
            return score
        self.check(score.aspect, score.signature, allow_change=allow_change)
        calibrated = own.apply(np.array([score.value]))
        # extrapolating would look as certain as the rest; the raw score stays, marked as outside
        if calibrated.outside[0]:
            return score.model_copy(update={"outside": True})
        ends = (calibrated.values[0], calibrated.low[0], calibrated.high[0])
        values = dict(zip(("calibrated", "low", "high"), map(float, ends), strict=True))
        return score.model_copy(update={**values, "outside": False})


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
        made: Seed and what else is needed to repeat it.

    Raises:
        RunFolderError: The folder holds something.
        StorageError: It cannot be written.
    """
    check_new_folder(out)
    content = {
        "aspects": [one.to_dict() for one in aspects],
        "sources": sorted(sources),
        "made": {"textassay": __version__, **made},
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        # the calibration is written last: a folder that was interrupted holds no
        # `calibration.json`, and `load` refuses it
        write_json(out / REPORT, {"format": FORMAT, "aspects": list(reports)})
        write_text(out / TEXT, text)
        write_sealed(out / FILE, content, format=FORMAT)
    except OSError as error:
        raise StorageError(f"the calibration cannot be written to {out}: {error}") from error


def load(folder: str | Path) -> Calibration:
    """Read a calibration folder.

    Raises:
        ConfigurationError: The folder holds none, or one of a newer format or changed by hand.
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
    aspects, sources = content.get("aspects"), content.get("sources")
    if not isinstance(aspects, list) or not isinstance(sources, list):
        raise DataError(f"{path} contains no calibration")
    return Calibration(tuple(read_aspect(one) for one in aspects), frozenset(sources))


def source_digest(source: str) -> str:
    """Return 12 hex digits that stand for a source, so that its ratings are known again."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:12]

"""The fit report as text for people."""

from __future__ import annotations

from collections.abc import Iterable

from textassay.runtime.model import Json

_SHOWN = 15


def text_of(report: Json) -> str:
    """Return the report as lines of text."""
    parts = [_head(report), *_held_out(report["held_out"]), _importance(report["importance"])]
    if "raters" in report:
        parts.insert(1, _raters(report["raters"]))
    if "alignment" in report:
        parts.insert(1, _alignment(report["alignment"]))
    if "rubric" in report:
        parts.insert(1, _rubric(report["rubric"]))
    if report.get("warnings"):
        parts.insert(1, "\n".join(f"warning: {warning}" for warning in report["warnings"]))
    if "data_efficiency" in report:
        parts += [
            _data_curve(report),
            _criteria_curve(report),
            _ablations(report),
            _ranking(report),
            _experts(report),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(report: Json) -> str:
    data, split, chosen = report["data"], report["split"], report["aggregators"]
    lines = [
        (
            f"learned from {data['path'] or 'data in memory'}: {split['train']['rows']} rows in"
            f" {split['train']['groups']} groups; held out: {split['held_out']['rows']} in"
            f" {split['held_out']['groups']} (split by {split['by']}, seed {split['seed']})"
        ),
    ]
    if data["left_out"]:
        lines.append(f"left out: {data['left_out']} rated rows without any feature")
    lines.append(f"aggregator: {chosen['chosen']} over {len(report['features'])} features")
    if chosen["cross_validated_error"]:
        errors = ", ".join(
            f"{name} {error:.3f}" for name, error in chosen["cross_validated_error"].items()
        )
        lines.append(f"error over folds of the training rows, 1 being that of the mean: {errors}")
    lines += [f"could not be fitted: {name}: {why}" for name, why in chosen["failed"].items()]
    lines += _means(report["aspects"])
    sparse = [
        f"{name} {one['coverage']:.0%}"
        for name, one in report["features"].items()
        # a feature that most rows lack is mostly its mean, and its weight says little
        if one["coverage"] < 0.5
    ]
    if sparse:
        lines.append(f"features that fewer than half of the rows have: {', '.join(sparse)}")
    return "\n".join(lines)


def _means(aspects: Json) -> list[str]:
    """Return what means of systems and sources do, a line for each aspect and kind tried."""
    lines = []
    for aspect, one in aspects.items():
        for kind in ("systems", "sources"):
            if (means := one["learning"].get(kind)) is None:
                continue
            errors, used = means["held_out_error"], "" if means["used"] else "do not "
            given = " where a pool of texts is given" if kind == "sources" and means["used"] else ""
            lines.append(
                f"{aspect}: the means of {means['known']} {kind} {used}take part{given}; error over"
                f" folds that leave out {means['left_out']}: {errors['without']:.3f} without,"
                f" {errors['with']:.3f} with"
            )
    return lines


def _raters(aspects: Json) -> str:
    lines = ["targets by a rater model (severity: points below the raters' mean; noise: in"]
    lines[0] += " standard deviations of the texts), and held-out agreement beside plain means"
    for aspect, one in aspects.items():
        most = sorted(one["raters"], key=lambda row: -row["n"])[:_SHOWN]
        listed = [
            f"{row['rater']} {row['severity']:+.2f} (noise {row['noise']:.2f}, n {row['n']})"
            for row in most
        ]
        more = len(one["raters"]) - len(most)
        rest = f", and {more} more" if more else ""
        lines.append(f"{aspect}, severity of raters: {', '.join(listed)}{rest}")
        rows = [("learned from", "Pearson/Spearman with the model's targets", "with plain means")]
        rows += [
            (name, _both(by["model"]), _both(by["mean"])) for name, by in one["held_out"].items()
        ]
        lines.append(_aligned(rows))
    return "\n".join(lines)


def _both(figures: Json) -> str:
    return f"{_figure(figures['pearson'])}/{_figure(figures['spearman'])}"


def _held_out(held_out: Json) -> list[str]:
    parts = []
    for aspect, one in held_out["aspects"].items():
        rows: list[tuple[str, ...]] = [
            ("", "Pearson", "Spearman", "Kendall", "evaluator better by (p)")
        ]
        for name, row in one["agreement"].items():
            if "failed" in row:
                rows.append((name, "-", "-", "-", row["failed"]))
                continue
            label = f"{name}: {row['feature']}" if "feature" in row else name
            figures = (_spanned(row, c) for c in ("pearson", "spearman", "kendall"))
            rows.append(
                (label, *figures, _better(one["evaluator_minus"].get(name), one["resamples"]))
            )
        parts.append(f"{aspect}, {one['n']} held-out rows\n{_aligned(rows)}")
    means = [("mean over the aspects", "Pearson", "Spearman", "Kendall")]
    means += [
        (name, *(_figure(row[c]) for c in ("pearson", "spearman", "kendall")))
        for name, row in held_out["mean"].items()
    ]
    return [*parts, _aligned(means)]


def _better(difference: Json | None, resamples: int) -> str:
    if difference is None:
        return ""
    lines = []
    for c in ("pearson", "spearman"):
        one = difference[c]
        if one["difference"] is not None:
            lines.append(f"{one['difference']:+.3f}{_probability(one, resamples)}")
    return " / ".join(lines)


def _probability(one: Json, resamples: int) -> str:
    """Return the p-value.

    If no resample contradicts the difference, that it is no larger than the resamples can show.
    """
    if one["p"] is None:
        return ""
    # the smallest p-value that so many resamples can show: printed as a bound, not as a number
    least = 2 / (resamples + 1)
    p = f"<{least:.3f}" if one["p"] <= least else f"{one['p']:.3f}"
    return f" ({p}{'*' if one['significant'] else ''})"


def _importance(importance: Json) -> str:
    lines = [
        "what the evaluator rests on: growth of the squared error when shuffled, with its 95 %"
        " interval; mean size of the contributions"
    ]
    permutation = importance["permutation"]
    if isinstance(permutation, dict):
        return f"{lines[0]}\n  {permutation['failed']}"
    sizes = {row["feature"]: row["mean"] for row in importance["shap"]}
    rows = [
        (
            row["feature"],
            _growth(row["mean"]),
            _span(row["ci"]),
            f"{sizes[row['feature']]:.4f}",
        )
        for row in permutation[:_SHOWN]
    ]
    more = [f"  and {len(permutation) - _SHOWN} more"] if len(permutation) > _SHOWN else []
    return "\n".join([*lines, _aligned(rows), *more])


def _alignment(layers: list[Json]) -> str:
    lines = ["iterative alignment"]
    for layer in layers:
        lines.append(
            f"  layer {layer['layer']}: {len(layer['criteria'])} criteria, aggregator"
            f" {layer['aggregator']}"
        )
        if layer["agreement"]["pearson"] is not None:
            figures = layer["agreement"]
            lines[-1] += (
                f", held-out {_figure(figures['pearson'])} / {_figure(figures['spearman'])}"
            )
        lines += [
            f"    {row['criterion']} {_growth(row['importance'])}"
            + (" *" if row["expanded"] else "")
            for row in layer["importance"]
        ]
    return "\n".join([*lines, "  * taken apart for the next layer"])


def _rubric(rounds: list[Json]) -> str:
    lines = ["rubric: what was proposed in each round, and what became of it"]
    for one in rounds:
        shown = len({id_ for ids in one["shown"].values() for id_ in ids})
        lines.append(f"  round {one['round']}, from {shown} rated texts")
        for row in one["criteria"]:
            when = "" if row["new"] else " (from before)"
            decision = f"stays, importance {_span(row['ci'])}" if row["kept"] else row["reason"]
            lines.append(f"    {row['criterion']}{when}: {decision}")
        if not any(row["new"] and row["kept"] for row in one["criteria"]):
            lines.append("    nothing new helps: the rubric is finished")
    return "\n".join(lines)


def _data_curve(report: Json) -> str:
    name = report["aggregators"]["chosen"]
    rows = [("share of the training rows", "rows", name, "avg")]
    rows += [
        (
            f"{row['fraction']:.0%}",
            str(row[name]["rows"] or "-"),
            _pair(row[name]),
            _pair(row.get("avg", row[name])),
        )
        for row in report["data_efficiency"]
    ]
    return _aligned(rows)


def _pair(one: Json) -> str:
    figures = [None if one[c] is None else one[c]["mean"] for c in ("pearson", "spearman")]
    return " / ".join(_figure(value) for value in figures)


def _criteria_curve(report: Json) -> str:
    curve = report["criteria_efficiency"]
    if isinstance(curve, dict):
        return f"criteria by importance: {curve['failed']}"
    rows = [("criteria by importance", "Pearson", "Spearman", "last one added")]
    rows += [
        (str(r["count"]), _figure(r.get("pearson")), _figure(r.get("spearman")), r["last"])
        for r in curve
    ]
    return _aligned(rows)


def _ablations(report: Json) -> str:
    rows = [("without", "Pearson", "Spearman", "left")]
    rows += [
        (
            row["without"],
            _figure(row.get("pearson")),
            _figure(row.get("spearman")),
            row.get("left", ""),
        )
        for row in report["ablations"]
    ]
    return _aligned(rows)


def _ranking(report: Json) -> str:
    rows = [("items whose rank within their source is people's", "evaluator", "best single")]
    for aspect, one in report["ranking"].items():
        shares = (one.get(name, {}).get("share") for name in ("evaluator", "best single"))
        rows.append((aspect, *("-" if share is None else f"{share:.1%}" for share in shares)))
    return _aligned(rows)


def _experts(report: Json) -> str:
    if not report["experts"]:
        return ""
    names = (
        "mean_of_pairs",
        "one_with_the_others",
        "evaluator_with_the_mean",
        "evaluator_with_one",
    )
    rows = [("annotators", *(name.replace("_", " ") for name in names))]
    for aspect, one in report["experts"].items():
        rows.append(
            (
                aspect,
                *(" / ".join(_figure(one[n][c]) for c in ("pearson", "spearman")) for n in names),
            )
        )
    return _aligned(rows)


def _spanned(row: Json, coefficient: str) -> str:
    span = row["ci"][coefficient]
    return _figure(row[coefficient]) + ("" if span is None else f" [{span[0]:.3f}, {span[1]:.3f}]")


def _span(ends: list[float] | None) -> str:
    return "" if ends is None else f"[{ends[0]:.4f}, {ends[1]:.4f}]"


def _growth(mean: float | None) -> str:
    return "-" if mean is None else f"{mean:.4f}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _aligned(rows: Iterable[tuple[str, ...]]) -> str:
    table = list(rows)
    if not table:
        return ""
    widths = [max(len(row[at]) for row in table) for at in range(len(table[0]))]
    return "\n".join(
        "  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
        for row in table
    )

"""What was judged, by whom and at what cost; scores by system, with intervals over sources."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from textassay.calibration.means import weighted_mean
from textassay.learning.splits import group_codes
from textassay.meta.correlation import Floats
from textassay.report import svg
from textassay.report.source import OUTCOMES, DataSource, Joined, Rows, RunSource
from textassay.runtime.labels import without_order
from textassay.runtime.messages import Scale
from textassay.runtime.storage.run_files import token_details
from textassay.table import Column, Table

CONFIDENCE = 0.95
REASONS = {
    "scored": "has a value",
    "abstained": "the judge declined",
    "invalid": "the judge answered, but not usably",
    "error": "the judge could not be asked",
}
_MORE = frozenset({"Calls", "Tokens", "Began", "Version"})
"""Facts that most readers do not look for, which are folded."""
_BINS = 16


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean of scores."""

    n: int
    groups: int
    """Number of sources; `n` if rows have none."""
    value: float
    low: float | None
    """Lower end of the 95 % interval; `None`, as the upper one, below two sources."""
    high: float | None
    counts: tuple[int, ...]
    """Number of values in each of the equal bins of a histogram."""


def compute_mean(
    values: Floats,
    groups: Sequence[str | None],
    *,
    bins: int,
    span: tuple[float, float],
    scale: Scale | None = None,
) -> Mean | None:
    """Return the mean with its interval and a histogram, or `None` if there is no value."""
    kept = np.flatnonzero(~np.isnan(values))
    if not len(kept):
        return None
    codes = group_codes(groups[int(at)] for at in kept)
    count = int(codes.max()) + 1
    mean = weighted_mean(values[kept], codes, np.ones(len(kept)), count)
    # rounded once, so that equal runs show equal means
    value = math.fsum(values[kept]) / len(kept)
    estimate = mean.estimate(CONFIDENCE)
    if scale is not None:
        estimate = estimate.clipped(*scale)
    # clipped, so that values off the axis are counted in the last bins and not lost
    counts, _ = np.histogram(np.clip(values[kept], *span), bins=bins, range=span)
    return Mean(
        len(kept), mean.clusters, value, estimate.low, estimate.high, tuple(map(int, counts))
    )


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run."""

    name: str
    facts: list[tuple[str, str]]
    """Label and value; `more` are those that most readers do not look for."""
    more: list[tuple[str, str]]
    outcomes: list[tuple[str, int, str]]
    """Outcome, number of scores, and what it means, of those that occur."""
    bar: Markup | None
    errors: list[tuple[str, int]]
    """Type of error and number of scores, most frequent first."""
    signatures: list[tuple[str, int]]
    """Signature and number of lines."""


@dataclass(frozen=True, slots=True)
class Overview:
    """All runs."""

    runs: list[RunFacts]
    data: str
    missing: str | None
    """Why texts are absent; `None` if they are there."""


def overview(runs: Sequence[RunSource], data: DataSource) -> Overview:
    """Return the facts, outcomes and errors of each run."""
    return Overview([_facts(run) for run in runs], data.name, data.missing)


def _facts(run: RunSource) -> RunFacts:
    summary = run.table.summary.summary()
    outcomes: list[tuple[str, int, str]] = [
        (name, count, REASONS[name]) for name in OUTCOMES if (count := summary["outcomes"][name])
    ]
    # runs of older versions lack some facts, and an empty row would look like a fault
    facts = [(label, value) for label, value in _list(run, summary) if value]
    return RunFacts(
        name=run.name,
        facts=[fact for fact in facts if fact[0] not in _MORE],
        more=[fact for fact in facts if fact[0] in _MORE],
        outcomes=outcomes,
        bar=svg.shares((name, count) for name, count, _ in outcomes) if outcomes[1:] else None,
        errors=sorted(summary["errors"].items(), key=lambda item: (-item[1], item[0])),
        signatures=list(run.table.signatures.items()),
    )


def _list(run: RunSource, summary: dict[str, Any]) -> list[tuple[str, str]]:
    usage, outcomes = summary["usage"], summary["outcomes"]
    spec, data = run.manifest.get("spec") or {}, run.manifest.get("data") or {}
    models = [f"{role}: {name}" if role else name for role, name in run.models.items()]
    cost = "unknown price" if usage["cost"] is None else f"${usage['cost']:,.4f}"
    calls = f"{usage['calls']:,} made, {usage['cached_calls']:,} from the cache"
    tokens = f"{usage['prompt_tokens']:,} prompt, {usage['completion_tokens']:,} completion"
    tokens += token_details(usage)
    count, total = data.get("count"), sum(outcomes.values())
    lacking = total - outcomes["scored"]
    values = f"{lacking:,} without a value" if lacking else "all with a value"
    return [
        ("Method", run.method),
        ("Model", ", ".join(models) or "none asked"),
        ("Task", str(spec.get("task") or "")),
        ("Examples", f"{len(run.table.ids):,} judged" + (f" of {count:,}" if count else "")),
        ("Aspects", ", ".join(run.table.aspects)),
        ("Scores", f"{total:,}, {values}" if total else "none yet"),
        ("Tools", ", ".join(map(str, spec.get("tools") or ()))),
        ("Calls", calls),
        ("Tokens", tokens),
        ("Cost", cost),
        ("Began", run.began),
        ("Version", f"textassay {run.manifest.get('textassay', 'unknown')}"),
    ]


@dataclass(frozen=True, slots=True)
class SystemRow:
    """One system on one aspect."""

    run: str
    """`A` or `B`."""
    system: str | None
    """`None` for all texts."""
    mean: Mean | None
    unscored: int
    people: float | None
    """Mean rating over the rated texts; `None` if there is none."""
    picture: Markup
    spread: Markup


@dataclass(frozen=True, slots=True)
class AspectScores:
    """All systems on one aspect, best first."""

    name: str
    scale: str
    """Its scale in words."""
    span: tuple[float, float]
    """Ends of the axis that the pictures share."""
    rows: list[SystemRow]
    """All texts first, then each system; of two runs both in turn."""

    def table(self) -> Table:
        """Return means by system, with people's where there are ratings."""
        rows = [
            (row.system or "all texts", row.run, row.mean.n if row.mean else 0, row.unscored,
             row.mean, row.picture, row.spread, row.people)
            for row in self.rows
        ]  # fmt: skip
        columns = (
            Column("system", "system"), Column("run", "run"), Column("n", "n", "count"),
            Column("unscored", "unscored", "count"),
            Column("mean", "mean, 95 % interval", "interval"),
            Column("picture", f"{self.span[0]:g} to {self.span[1]:g}", "picture"),
            Column("spread", "values", "picture"), Column("people", "people", "number", 2),
        )  # fmt: skip
        table = Table(columns, rows, title=f"{self.name}, {self.scale}")
        if len({row.run for row in self.rows}) == 1:
            table = table.without("run")
        if not any(row.unscored for row in self.rows):
            table = table.without("unscored")
        return (
            table if any(row.people is not None for row in self.rows) else table.without("people")
        )


def scores(
    runs: Sequence[RunSource], data: DataSource, joined: Sequence[Joined]
) -> list[AspectScores] | None:
    """Return means by aspect and system, or `None` while there are no scores."""
    # labels without an order have no mean
    left_out = {name for run in runs for name in without_order(run.manifest)}
    names = list(dict.fromkeys(name for run in runs for name in run.table.aspects))
    shown = [name for name in names if name not in left_out]
    return [_aspect(name, runs, data, joined) for name in shown] if names else None


def _aspect(
    name: str, runs: Sequence[RunSource], data: DataSource, joined: Sequence[Joined]
) -> AspectScores:
    judged = [
        (letter, run, beside)
        for letter, run, beside in zip("AB", runs, joined, strict=False)
        if name in run.table.aspects
    ]
    first = judged[0][1]
    scales = {run.table.scales[run.table.aspects.index(name)] for _, run, _ in judged}
    known = np.concatenate([beside.values[_rows(run, name)] for _, run, beside in judged])
    known = known[~np.isnan(known)]
    # two runs on different scales share an axis that has room for both
    ends = [end for scale in scales if scale is not None for end in scale]
    if None in scales:
        ends += [float(known.min()), float(known.max())] if len(known) else []
    span = (min(ends), max(ends)) if ends else (0.0, 1.0)
    lines = [row for one in judged for row in _of_run(name, *one, data, span)]
    # systems in the order of the first run, each beside its row of the second
    order = {row.system: at for at, row in reversed(list(enumerate(lines)))}
    lines.sort(key=lambda row: order[row.system])
    words = [f"{scale[0]:g} to {scale[1]:g}" if scale else "no fixed scale" for scale in scales]
    scale_text = " and ".join(sorted(words))
    if not first.higher_is_better(name):
        scale_text += ", lower is better"
    return AspectScores(name, scale_text, span, lines)


def _rows(run: RunSource, name: str) -> Rows:
    return np.flatnonzero(np.array(run.table.aspect, int) == run.table.aspects.index(name))


def _of_run(
    name: str,
    letter: str,
    run: RunSource,
    joined: Joined,
    data: DataSource,
    span: tuple[float, float],
) -> list[SystemRow]:
    """Return the row of all texts, and those of the systems, best first."""
    table, rows = run.table, _rows(run, name)
    values, human = joined.values[rows], joined.human[rows]
    examples = [data.examples.get(table.ids[table.example[row]]) for row in rows]
    groups = [None if one is None else one.group for one in examples]
    systems = [None if one is None else one.system for one in examples]
    scale = table.scales[table.aspects.index(name)]

    def row(system: str | None, at: Rows) -> SystemRow:
        return _system(letter, system, at, values, human, groups, span, scale)

    named = sorted({system for system in systems if system is not None})
    lines = [row(None, np.arange(len(rows)))]
    # a single system would repeat the row of all texts
    if len(named) > 1:
        each = [row(one, np.flatnonzero([one == system for system in systems])) for one in named]
        up = 1 if run.higher_is_better(name) else -1
        lines += sorted(each, key=lambda row: -up * row.mean.value if row.mean else np.inf)
    return lines


def _system(
    run: str,
    name: str | None,
    rows: Rows,
    values: Floats,
    human: Floats,
    groups: Sequence[str | None],
    span: tuple[float, float],
    scale: Scale | None,
) -> SystemRow:
    sources = [groups[int(row)] for row in rows]
    mean = compute_mean(values[rows], sources, bins=_BINS, span=span, scale=scale)
    rated = human[rows][~np.isnan(human[rows])]
    people = float(rated.mean()) if len(rated) else None
    # raters may have used another scale, and a mark clipped to this one would be wrong
    on_axis = people if people is not None and span[0] <= people <= span[1] else None
    drawn = (None, None, None) if mean is None else (mean.value, mean.low, mean.high)
    return SystemRow(
        run=run,
        system=name,
        mean=mean,
        unscored=len(rows) - (mean.n if mean else 0),
        people=people,
        picture=svg.interval_plot(drawn, span, mark=on_axis),
        spread=svg.histogram(mean.counts if mean else ()),
    )

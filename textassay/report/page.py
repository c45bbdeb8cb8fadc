"""Builds one HTML file from the sections, and the sentences at its top.

It loads nothing and runs only its own script: its Content-Security-Policy forbids every request and
allows its one script and its one style sheet by their hashes. Equal runs and data give equal bytes.

The first sentences sum up a run: which system is better, whether the judge agrees with people, what
is missing. Every sentence follows from an interval or a test in a section below, or says that the
interval is inconclusive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from textassay.agreement.joined import map_entries
from textassay.estimation.means import SystemDifference
from textassay.report.estimates import STAND_IN, EstimateSections, estimate_sections
from textassay.report.examples import MAX_ROWS, ExamplesSection, PackedScores, examples, pack_rows
from textassay.report.overview import (
    AspectScores,
    Overview,
    RecipeSection,
    overview,
    recipe,
    scores,
)
from textassay.report.people import RESAMPLES, AspectAgreement, agreements, pairs_of
from textassay.report.rendering import asset, environment, figure, fill, visible
from textassay.report.source import (
    DataSource,
    JoinedPage,
    RunSource,
    join_page,
    open_both,
    open_runs,
    without_folders,
)
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.labels import shares_of
from textassay.runtime.storage.files import storage_errors, write_text
from textassay.table import Cell, Estimate, Table

_MANY = 3
"""Most aspects that a sentence names with figures; the others are counted."""


@dataclass(frozen=True, slots=True)
class Headline:
    """The beginning of the page."""

    first: str
    points: list[str]


@dataclass(frozen=True, slots=True)
class PageSections:
    """The sections of a page; `None` for a section without data."""

    title: str
    note: str
    headline: Headline | None
    overview: Overview
    scores: list[AspectScores]
    agreement: list[AspectAgreement]
    estimates: EstimateSections
    recipes: list[RecipeSection]
    examples: ExamplesSection | None


class HasFolder(Protocol):
    """An object with a run folder, such as `textassay.Run`."""

    @property
    def folder(self) -> Path | None:
        """The run folder; `None` for a run that wrote nothing."""


def write_report(
    runs: str | Path | HasFolder | Sequence[str | Path | HasFolder],
    out: str | Path,
    *,
    human: Any = None,
    fields: Mapping[str, str] | None = None,
    missing: Sequence[str] = (),
    calibration: str | Path | None = None,
    aspect_map: Iterable[str] | Mapping[str, str] = (),
    title: str | None = None,
    note: str = "",
    max_rows: int = MAX_ROWS,
) -> None:
    """Write one HTML file that shows one run, or two runs side by side.

    Args:
        runs: A run or its folder, or two runs to compare.
        out: The file to write.
        human: Data with texts and ratings: a path, a table such as a pandas data frame, or examples
            or dicts; by default the data that each run judged. Ratings of other texts than a run
            judged are left out, and counted.
        fields: Field map of `human`, from its names to ours.
        missing: Cells of `human` that are missing values.
        calibration: Calibration folder whose curves and intervals are shown.
        aspect_map: Which human aspect a score is compared with, as in `textassay agreement`.
        title: Heading of the page; by default the names of the runs.
        note: Text for readers, shown below the heading; a blank line begins a paragraph.
        max_rows: Most scores that the page lists; of more, the extremes and a random sample.
            Sections and figures always use all scores.

    Raises:
        ConfigurationError: A folder contains no run, the data cannot be read, there are too many
            runs, a run wrote no folder, `max_rows` is negative, or the file's name has the ending
            of another format.
        StorageError: The file cannot be written.
    """
    listed = [runs] if isinstance(runs, str) or not isinstance(runs, Sequence) else runs
    folders = list(map(_folder, listed))
    if len(folders) not in (1, 2):
        raise ConfigurationError(f"a report shows one run or two, not {len(folders)}")
    if max_rows < 0:
        raise ConfigurationError(f"max_rows= must be at least 0, not {max_rows}")
    if Path(out).suffix.lower() not in ("", ".htm", ".html"):
        raise ConfigurationError(
            f"the report of a run is a page, not {out}; name it .html, or write the scores with"
            " Run.to_pandas() or `textassay export`"
        )
    opened = open_runs(folders)
    for run in opened:
        run.table.read_all()
    reading = {"fields": fields, "missing": missing} if human is not None else {}
    data = open_both(opened, human, reading)
    mapping = dict(map_entries(aspect_map))
    joined = join_runs(opened, data, mapping)
    packed = pack_rows(opened, data, joined, max_rows=max_rows)
    content = build_content(
        opened, data, joined, mapping, packed=packed.shown, calibration=calibration, title=title,
        note=note,
    )  # fmt: skip
    with storage_errors(f"{out} cannot be written"):
        write_text(Path(out), fill_page(content, packed=packed))


def _folder(run: str | Path | HasFolder) -> str | Path:
    if isinstance(run, str | Path):
        return run
    if run.folder is None:
        raise ConfigurationError(
            f"{run!r} wrote no run folder; write its page with run.report(path), or judge with out="
        )
    return run.folder


def join_runs(
    runs: Sequence[RunSource], data: Sequence[DataSource], aspect_map: Mapping[str, str]
) -> JoinedPage:
    """Return the first run's scores beside ratings and the second run."""
    pairs = pairs_of(runs[0], data[0], aspect_map)
    return join_page(runs[0], data[0], pairs, runs[1] if len(runs) > 1 else None)


def build_content(
    runs: Sequence[RunSource],
    data: Sequence[DataSource],
    joined: JoinedPage,
    aspect_map: Mapping[str, str],
    *,
    packed: int,
    resamples: int = RESAMPLES,
    calibration: str | Path | None = None,
    title: str | None = None,
    note: str = "",
) -> PageSections:
    """Return all sections of runs, each with its own data."""
    pairs = [pairs_of(run, source, aspect_map) for run, source in zip(runs, data, strict=True)]
    rest = zip(runs[1:], data[1:], pairs[1:], strict=True)
    beside = [joined, *(join_page(run, source, paired) for run, source, paired in rest)]
    about, of_scores = overview(runs, data), scores(runs, data, beside)
    agreement = agreements(runs, data, beside, pairs, resamples=resamples)
    estimates = estimate_sections(runs, data, pairs, calibration)
    return PageSections(
        title=title or " and ".join(run.name for run in runs),
        note=note,
        # a growing run has no intervals yet, which show nothing
        headline=headline(runs, about, of_scores, agreement, estimates) if resamples else None,
        overview=about,
        scores=of_scores,
        agreement=agreement,
        estimates=estimates,
        recipes=[recipe(run) for run in runs],
        examples=examples(runs[0], data, joined, packed=packed),
    )


def fill_page(
    content: PageSections, *, packed: PackedScores | None = None, live: str | None = None
) -> str:
    # script and style are inlined and allowed by hash: the file works without a server, and the
    # browser refuses a script in a judged text, since its hash differs
    return fill(
        "page.html.jinja", script=asset("page.js"), connect=live is not None, content=content,
        packed=packed, live=live,
    )  # fmt: skip


def fill_tables(tables: Sequence[Table], *, title: str, note: str = "") -> str:
    """Return a page of tables, such as the report of a fitted evaluator."""
    return fill("tables.html.jinja", title=title, note=note, tables=tables)


def portable(table: Table) -> Table:
    """Return a table without the folders of paths, which could identify a machine."""

    def cut(cell: Cell) -> Cell:
        return without_folders(cell) if isinstance(cell, str) else cell

    return replace(table, rows=[list(map(cut, row)) for row in table.rows])


def render_sections(content: PageSections) -> str:
    """Return the sections, for a served page that updates them."""
    return environment().get_template("sections.html.jinja").render(content=content, packed=None)


def headline(
    runs: Sequence[RunSource],
    overview: Overview,
    scores: list[AspectScores],
    agreement: list[AspectAgreement],
    estimates: EstimateSections,
) -> Headline | None:
    """Return the headline, or `None` while there are no scores."""
    if not any(run.table.aspects for run in runs):
        return None
    several = len(runs) > 1
    sentences = [
        *(_runs_compared(estimates) if several else ()),
        *_with_people(runs, agreement),
        *_stand_in(runs, estimates, agreement),
        *_systems(runs, estimates),
    ]
    if not agreement:
        if not several:
            sentences.insert(0, _means(runs[0], scores))
        sentences.append(
            "There are no ratings by people beside these scores, so it is unknown whether people "
            "would agree."
        )
    sentences += _missing(runs, overview, estimates)
    first, *points = sentences
    return Headline(first, points)


def _runs_compared(estimates: EstimateSections) -> Iterator[str]:
    """Yield sentences on better agreement with people, and on higher scores, of one run."""
    kappa = "Cohen's kappa"
    names = {"spearman": "Spearman's rho", kappa: kappa}
    by_measure = {
        (row.aspect, row.coefficient): row.difference
        for row in estimates.of_agreement
        if row.coefficient in names and row.difference.value is not None
    }
    # labels have kappa in place of the correlation of their numbers
    labeled = {aspect for aspect, measure in by_measure if measure == kappa}
    preferred = {
        key: delta for key, delta in by_measure.items() if key[1] == kappa or key[0] not in labeled
    }
    if preferred:
        measures = dict.fromkeys(names[measure] for _, measure in preferred)
        yield _describe_intervals(
            [(aspect, difference) for (aspect, _), difference in preferred.items()],
            "A agrees better with people than B on", "B agrees better with people than A on",
            "the data do not show which run agrees better with people on", " or ".join(measures),
        )  # fmt: skip
    rows = [(r.aspect, r.difference) for r in estimates.of_runs if r.difference.value is not None]
    if rows:
        yield _describe_intervals(
            rows, "A scores higher than B on", "B scores higher than A on",
            "the data show no difference between A and B on", "A − B",
        )  # fmt: skip


def _with_people(runs: Sequence[RunSource], agreement: Sequence[AspectAgreement]) -> Iterator[str]:
    """Yield the aspects on which each run agrees with people, and beats trivial measures."""
    above: list[tuple[str, Sequence[str]]] = []
    for who, run in _name_runs(runs):
        of_run = [judge for aspect in agreement for judge in aspect.judges if judge.run == run.name]
        if not of_run:
            continue
        measures = list(dict.fromkeys(judge.measure for judge in of_run))
        yield _describe_intervals(
            [(judge.score, judge.value) for judge in of_run],
            f"{who} agrees with people on", f"{who} contradicts people on",
            f"the data do not show that {who} agrees with people on", " or ".join(measures),
        )  # fmt: skip
        by: dict[str, list[str]] = {"yes": [], "no": [], "not shown": []}
        for judge in of_run:
            if judge.advantage is not None:
                measure, difference = judge.advantage.measure, _figures(judge.advantage.difference)
                by[judge.advantage.above].append(f"{judge.score} ({difference} against {measure})")
        above += [
            (f"{who} is better than the best trivial measure on", by["yes"]),
            (f"{who} is worse than a trivial measure on", by["no"]),
            (f"the data do not show that {who} beats trivial measures on", by["not shown"]),
        ]
    if any(names for _, names in above):
        yield _join_words(above)


def _stand_in(
    runs: Sequence[RunSource], estimates: EstimateSections, agreement: Sequence[AspectAgreement]
) -> Iterator[str]:
    parts: list[tuple[str, Sequence[str]]] = []
    for letter, (who, _) in zip("AB", _name_runs(runs), strict=False):
        tests = [test for whose, test in estimates.of_raters if whose == letter]
        may = [test.score for test in tests if test.test.may_stand_in]
        others = [test.score for test in tests if not test.test.may_stand_in]
        parts += [
            (f"{who} may stand in for a rater on", may),
            (f"the data do not show that {who} may stand in for a rater on", others),
        ]
    if estimates.of_raters:
        yield _join_words(parts)
    elif agreement and not any(reason.startswith(STAND_IN) for reason in estimates.reasons):
        yield (
            "Whether a judge may stand in for a rater cannot be tested here: the test needs single"
            " ratings of at least 30 texts by two raters or more."
        )


def _systems(runs: Sequence[RunSource], estimates: EstimateSections) -> Iterator[str]:
    """Yield the best systems of each aspect, as far as tests show.

    With Holm's adjustment over all pairs, a system is among the best if no other is shown to be
    above it.
    """
    by_aspect: dict[str, list[SystemDifference]] = {}
    shares = shares_of(runs[0].labels)
    for letter, delta in estimates.of_systems:
        if letter == "A" and delta.difference.value is not None and delta.aspect not in shares:
            # B is corrected by the same ratings, so its differences are nearly the same
            by_aspect.setdefault(delta.aspect, []).append(delta)
    open_, parts = list[str](), list[tuple[str, Sequence[str]]]()
    for aspect, pairs in by_aspect.items():
        up = 1 if runs[0].higher_is_better(aspect) else -1
        systems = list(dict.fromkeys(name for pair in pairs for name in (pair.a, pair.b)))
        sure = [pair for pair in pairs if pair.p_holm is not None and pair.p_holm <= 0.05]
        below = {pair.b if up * (pair.difference.value or 0.0) > 0 else pair.a for pair in sure}
        best = [system for system in systems if system not in below]
        if len(best) == len(systems):
            open_.append(aspect)
            continue
        if not best:
            continue  # each pair has its own sources, so their tests may form a cycle
        largest = max(sure, key=lambda pair: abs(pair.difference.value or 0.0))
        a_is_higher = (largest.difference.value or 0.0) > 0
        high, low = (largest.a, largest.b) if a_is_higher else (largest.b, largest.a)
        size = _figures(largest.difference, absolute=True)
        apart = f"{high} is above {low}" if up > 0 else f"{low} is below {high}"
        on = ", ".join(filter(None, [f"on {aspect}", estimates.assumes.get(aspect)]))
        words = f"{on}: the best of {len(systems)} systems is {_some(best, ' or ')}"
        if len(best) > _MANY:
            words = f"{on}: {len(best)} of {len(systems)} systems may be the best"
        parts.append((words, [f"({apart} by {size})"]))
    by = " (by A)" if runs[1:] else ""
    none = [("no two systems are shown to differ on", open_)]
    more = "; other aspects below" if len(parts) > _MANY else ""
    if by_aspect:
        yield _join_words([*parts[:_MANY], *none], f"{more}{by}")


def _means(run: RunSource, scores: Sequence[AspectScores]) -> str:
    means_of = [(aspect.name, aspect.rows[0].mean) for aspect in scores if aspect.rows[0].n]
    if not means_of:
        return f"{run.method} gave no text a score."
    means = [f"{_figures(mean)} on {name}" for name, mean in means_of]
    return f"{run.method} scores {_some(means)} on average."


def _missing(
    runs: Sequence[RunSource], overview: Overview, estimates: EstimateSections
) -> Iterator[str]:
    for letter, run in zip("AB", runs, strict=False):
        lacking = len(run.table) - run.table.scored
        if lacking:
            of = f" of {letter}" if len(runs) > 1 else ""
            total = len(run.table)
            yield f"{lacking:,} of {total:,} scores{of} have no value and are left out of figures."
    if overview.missing:
        yield f"Texts, systems and ratings are not available: {overview.missing}."
    yield from overview.left_out
    if estimates.reasons:
        count = len(estimates.reasons)
        results = "One result" if count == 1 else f"{count} results"
        yield f"{results} could not be computed; the reasons are below the sections."


def _describe_intervals(
    values: Sequence[tuple[str, Estimate]], up: str, down: str, open_: str, measure: str
) -> str:
    """Return one sentence about what intervals show: above 0, below 0, or neither."""
    names_by_side: dict[str, list[str]] = {up: [], down: [], open_: []}
    for name, interval in values:
        side = up if interval.is_above(0) else down if interval.is_below(0) else open_
        names_by_side[side].append(f"{name} ({_figures(interval)})")
    return _join_words(names_by_side.items(), f"; {measure} with 95 % intervals over sources")


def _join_words(parts: Iterable[tuple[str, Sequence[str]]], after: str = "") -> str:
    sentence = "; ".join(f"{words} {_some(names)}" for words, names in parts if names)
    return f"{sentence[:1].upper()}{sentence[1:]}{after}."


def _some(names: Sequence[str], and_: str = " and ") -> str:
    listed = [visible(name) for name in names[:_MANY]]
    if len(names) > _MANY:
        listed.append(f"{len(names) - _MANY} more")
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])}{and_}{listed[-1]}"


def _name_runs(runs: Sequence[RunSource]) -> Iterator[tuple[str, RunSource]]:
    """Yield each run with its name in sentences."""
    yield from zip("AB" if len(runs) > 1 else ["the judge"], runs, strict=False)


def _figures(estimate: Estimate, *, absolute: bool = False) -> str:
    """Return a value with its interval, two decimals each; `absolute` drops the sign."""
    if estimate.value is None:
        return "undefined"
    turn = -1 if absolute and estimate.value < 0 else 1
    value = figure(turn * estimate.value, 2)
    if not estimate.ends:
        return f"{value}, no interval"
    low, high = sorted(turn * end for end in estimate.ends)
    return f"{value} [{figure(low, 2)}, {figure(high, 2)}]"

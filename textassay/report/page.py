"""Builds one HTML file from the sections; it loads nothing and runs only its own script.

The file's Content-Security-Policy forbids every request and allows its one script and its one style
sheet by their hashes. Equal runs and data give equal bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from textassay.meta.score_files import map_entries
from textassay.report.agreement import RESAMPLES, AspectAgreement, agreements, pairs_of
from textassay.report.decisions import Decisions, decisions
from textassay.report.evidence import figure, visible
from textassay.report.examples import MAX_ROWS, ExamplesSection, Packed, examples, pack_rows
from textassay.report.headline import Headline, headline
from textassay.report.recipe import RecipeSection, recipe
from textassay.report.scores import AspectScores, Overview, overview, scores
from textassay.report.source import DataSource, Joined, RunSource, join, open_data, open_runs
from textassay.runtime.data.dataset import Examples
from textassay.runtime.errors import ConfigurationError, StorageError
from textassay.runtime.storage.files import write_text
from textassay.table import to_html

MAX_RUNS = 2
"""Runs on one page: a run, and another beside it."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a page shows; a section without data is `None`."""

    title: str
    note: str
    headline: Headline | None
    overview: Overview
    scores: list[AspectScores] | None
    agreement: list[AspectAgreement] | None
    decisions: Decisions
    recipes: list[RecipeSection]
    examples: ExamplesSection | None


def write_report(
    runs: Sequence[str | Path],
    out: str | Path,
    *,
    human: str | Path | Examples | None = None,
    calibration: str | Path | None = None,
    aspect_map: Iterable[str] | Mapping[str, str] = (),
    title: str | None = None,
    note: str = "",
    max_rows: int = MAX_ROWS,
) -> None:
    """Write one HTML file that shows a run, or two runs side by side.

    Args:
        runs: One run folder, or two whose differences are shown.
        out: The file to write.
        human: Data with texts and ratings; by default the data that the first run judged.
        calibration: Calibration folder whose curves and intervals are shown.
        aspect_map: Which human aspect a score is compared with, as in `textassay meta`.
        title: Heading of the page; by default the names of the runs.
        note: What readers should know, below the heading; a blank line begins a paragraph.
        max_rows: Scores that the page lists; of more, the extremes and a random sample. Sections
            and figures are of all of them.

    Raises:
        ConfigurationError: A folder holds no run, the data cannot be read, there are too many
            runs, or `max_rows` is negative.
        StorageError: The file cannot be written.
    """
    if not 1 <= len(runs) <= MAX_RUNS:
        raise ConfigurationError(f"a report shows one run or two, not {len(runs)}")
    if max_rows < 0:
        raise ConfigurationError(f"max_rows= must be at least 0, not {max_rows}")
    opened = open_runs(list(runs))
    for run in opened:
        run.table.read_all()
    data = open_data(opened[0], human)
    mapping = dict(map_entries(aspect_map))
    joined = join_runs(opened, data, mapping)
    packed = pack_rows(
        opened[0], data, joined, opened[1] if len(opened) > 1 else None, max_rows=max_rows
    )
    content = build_content(
        opened, data, joined, mapping, packed=packed.shown, calibration=calibration, title=title,
        note=note,
    )  # fmt: skip
    try:
        write_text(Path(out), fill_page(content, packed=packed))
    except OSError as error:
        raise StorageError(f"{out} cannot be written: {error}") from error


def join_runs(runs: Sequence[RunSource], data: DataSource, aspect_map: Mapping[str, str]) -> Joined:
    """Return the first run's scores beside ratings and the second run."""
    pairs = pairs_of(runs[0], data, aspect_map)
    return join(runs[0], data, pairs, runs[1] if len(runs) > 1 else None)


def build_content(
    runs: Sequence[RunSource],
    data: DataSource,
    joined: Joined,
    aspect_map: Mapping[str, str],
    *,
    packed: int,
    resamples: int = RESAMPLES,
    calibration: str | Path | None = None,
    title: str | None = None,
    note: str = "",
) -> Content:
    """Return all sections."""
    pairs = [pairs_of(run, data, aspect_map) for run in runs]
    beside = [joined, *(join(run, data, own) for run, own in zip(runs[1:], pairs[1:], strict=True))]
    about, of_scores = overview(runs, data), scores(runs, data, beside)
    agreement = agreements(runs, data, beside, aspect_map, resamples=resamples)
    decided = decisions(runs, data, pairs, calibration)
    return Content(
        title=title or " and ".join(run.name for run in runs),
        note=note,
        # without intervals, of a run that grows, nothing is shown yet
        headline=headline(runs, about, of_scores, agreement, decided) if resamples else None,
        overview=about,
        scores=of_scores,
        agreement=agreement,
        decisions=decided,
        recipes=[recipe(run) for run in runs],
        examples=examples(runs[0], data, joined, packed=packed),
    )


def fill_page(content: Content, *, packed: Packed | None = None, live: str | None = None) -> str:
    """Return the page."""
    # script and style are inlined and allowed by hash: the file works without a server, and a
    # script that came in with a judged text has another hash and is refused by the browser
    script, style = asset("page.js"), asset("page.css")
    return environment().get_template("page.html.jinja").render(
        content=content, packed=packed, live=live, script=script, style=style, max_rows=MAX_ROWS,
        policy=policy(script, style, connect=live is not None),
    )  # fmt: skip


def render_sections(content: Content) -> str:
    """Return the sections alone, for a served page that renews them."""
    return environment().get_template("sections.html.jinja").render(content=content, packed=None)


def policy(script: str, style: str, *, connect: bool) -> str:
    """Return the Content-Security-Policy that allows only this script and this style sheet."""
    rules = [
        "default-src 'none'",
        f"script-src 'sha256-{_hash(script)}'",
        f"style-src 'sha256-{_hash(style)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join([*rules, *(["connect-src 'self'"] if connect else [])])


@cache
def environment() -> Environment:
    """Return the templates' environment.

    Everything is escaped, and controls in texts are written out.
    """
    made = Environment(
        loader=PackageLoader("textassay.report"), autoescape=True, undefined=StrictUndefined,
        finalize=_seen, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters["figure"] = figure
    made.filters["table"] = lambda table: Markup(visible(to_html(table, page=True)))
    return made


@cache
def asset(name: str) -> Markup:
    """Return a style sheet or a script of the page, after what it shares with other pages."""
    package = resources.files("textassay")
    shared = package.joinpath("assets", f"material{Path(name).suffix}")
    own = package.joinpath("report", "assets", name)
    return Markup("".join(file.read_text(encoding="utf-8") for file in (shared, own)))


def _seen(value: Any) -> Any:
    # `type` rather than isinstance: Markup is a subclass of str and is escaped already
    return visible(value) if type(value) is str else value  # Markup is ours and safe


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

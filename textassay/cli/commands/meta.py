"""`textassay meta`: agreement with human ratings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from textassay.cli import arguments
from textassay.cli.app import DECIDING, command
from textassay.cli.flags import RATED, AsJson, AspectMap, Given, RatedData, Scores
from textassay.runtime.data.values import finite
from textassay.runtime.errors import ConfigurationError

if TYPE_CHECKING:
    from textassay.meta.correlation import Level


@command(
    "meta",
    panel=DECIDING,
    examples=(
        "textassay meta runs/first",
        "textassay meta runs/first data.jsonl --level dataset,group,system --json",
        "textassay meta runs/first rated.csv --field item=id --field coh=human.coherence",
    ),
)
def meta(
    scores: Scores,
    data: RatedData = None,
    *,
    level: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B", help="Levels: dataset (default), group, system; may repeat."),
    ] = None,
    aspect_map: AspectMap = None,
    bootstrap: Annotated[
        int,
        typer.Option(metavar="N", help="Resamples of the groups for 95 % intervals; 0 for none."),
    ] = 1000,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed of the bootstrap.")] = 0,
    raters: Annotated[
        bool,
        typer.Option(
            "--raters", help="Also show agreement among raters, and of the score with them."
        ),
    ] = False,
    threshold: Annotated[
        str | None,
        typer.Option(
            metavar="X|auto",
            help="Where people said yes or no, scores of at least X are yes; auto chooses X on half"
            " of the sources and measures on the others.",
        ),
    ] = None,
    as_json: AsJson = False,
    given: Annotated[Given, RATED],
) -> None:
    """Measure how well scores agree with human ratings."""
    from textassay.cli.console import print_tables
    from textassay.cli.rated import Rated
    from textassay.meta.score_files import read_judge, read_with_labels
    from textassay.meta.table import agreement_table

    rated = Rated(scores, data, given, aspect_map or ())
    recorded, examples, labels = read_with_labels(
        lambda reader: read_judge(rated.source(reader), reader),
        lambda reader: rated.examples(reader, needs_output=False),
        rated.declared,
        rated.aspect_map,
    )
    found = agreement_table(
        recorded,
        examples,
        # names of levels are checked there
        levels=cast("list[Level]", arguments.typed_names(level) or ["dataset"]),
        aspect_map=aspect_map or (),
        bootstrap=bootstrap,
        seed=seed,
        raters=raters,
        labels=labels,
        threshold=_threshold(threshold),
    )
    print_tables(found.tables(), found.as_dict(), as_json=as_json)


def _threshold(typed: str | None) -> float | Literal["auto"] | None:
    if typed is None or typed == "auto":
        return None if typed is None else "auto"
    if (number := finite(typed)) is None:
        raise ConfigurationError(f"--threshold takes a number or auto, not {typed!r}")
    return number

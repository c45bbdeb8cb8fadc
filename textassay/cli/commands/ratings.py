"""`textassay ratings`: ratings from and to other annotation tools, and agreement among raters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from textassay.cli.flags import JUDGING, Data, Given
from textassay.cli.registry import LOOKING, command, group

group("ratings", "Exchange ratings with other annotation tools.", panel=LOOKING)


@command(
    "import",
    group="ratings",
    examples=(
        "textassay ratings import label-studio export.json --data data.jsonl -o ratings.jsonl",
    ),
)
def import_ratings(
    form: Annotated[
        str, typer.Argument(metavar="FORMAT", help="csv, label-studio, argilla or potato.")
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Export file of the other tool.")],
    *,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="File to write, .jsonl.")
    ],
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="DATA", help="Examples whose texts to add to the rows."),
    ] = None,
) -> None:
    """Read ratings that people gave in another tool, with one entry per rater."""
    from textassay.cli.ratings import import_from

    import_from(form, file, out, data)


@command(
    "export",
    group="ratings",
    examples=("textassay ratings export label-studio data.jsonl --task summarization -o tasks/",),
)
def export_tasks(
    form: Annotated[str, typer.Argument(metavar="FORMAT", help="label-studio, argilla or potato.")],
    data: Data,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder to write to.")],
    given: Annotated[Given, JUDGING.only("task", "aspects")],
) -> None:
    """Write examples as tasks for another annotation tool, without systems and scores."""
    from textassay.cli import arguments
    from textassay.cli.ratings import export_to

    export_to(form, data, out, given.get("task"), arguments.typed_names(given.get("aspects")))

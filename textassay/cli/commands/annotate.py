"""`textassay annotate`: people rate in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from textassay.cli.flags import JUDGING, Data, Given
from textassay.cli.registry import LOOKING, command


@command(
    "annotate",
    panel=LOOKING,
    examples=(
        "textassay annotate data.jsonl --task summarization --aspects coherence -o ratings.jsonl",
        "textassay annotate data.jsonl --task dialogue --raters 3 --per-item 2 -o ratings.jsonl",
    ),
)
def annotate(
    data: Data,
    *,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="File of ratings to write, .jsonl."),
    ],
    given: Annotated[Given, JUDGING.only("task", "aspects")],
    raters: Annotated[
        int, typer.Option(metavar="N", help="Raters; each gets a personal link.", min=1)
    ] = 1,
    per_item: Annotated[
        int | None,
        typer.Option(metavar="N", help="Raters per item (default: all of them).", min=1),
    ] = None,
    repeat: Annotated[
        float,
        typer.Option(metavar="SHARE", help="Share of a rater's items to show twice."),
    ] = 0.07,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Address to serve at (default: this machine only).")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="Port; 0 picks a free one.")] = 8765,
    public_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Address of a proxy in front, for the links: https://HOST."
        ),
    ] = None,
    next_from: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Rate only the examples in this file from label-plan."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Random seed of the order of items.")] = 0,
    new_links: Annotated[
        bool, typer.Option("--new-links", help="Replace the links of raters who lost theirs.")
    ] = False,
) -> int:
    """Let people rate the examples in a browser, blind.

    Raters see no scores, no system names and no answers of other raters.

    The page reports an answer as saved once it is on disk. Stop with Ctrl-C; run the same command
    again to continue. Decide how many ratings to collect before you look at an estimate: one that
    is looked at after every batch misses more often than its interval says.
    """
    from textassay.cli import arguments
    from textassay.cli.annotate import Annotation, public_address, serve
    from textassay.cli.exits import run_async

    request = Annotation(
        data=data,
        out=out,
        task=given.get("task"),
        aspects=arguments.typed_names(given.get("aspects")),
        raters=raters,
        per_item=per_item,
        repeat=repeat,
        host=host,
        port=port,
        public=None if public_url is None else public_address(public_url),
        next_from=next_from,
        seed=seed,
        fields={},
        new_links=new_links,
    )
    return run_async(serve(request))

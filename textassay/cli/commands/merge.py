"""`textassay merge`: one run out of shards."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from textassay.cli.flags import AsJson
from textassay.cli.registry import SCORING, command


@command(
    "merge",
    panel=SCORING,
    examples=(
        "textassay merge runs/large",
        "textassay merge runs/large --partial",
    ),
)
def merge(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that contains shard-1, ...")],
    *,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial", help="Merge what there is; `textassay resume RUN` completes the run."
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Merge RUN/shard-*, made by `score --shard I/N --out RUN/shard-I`, into one run.

    Shards of different data, prompts or models are refused. The shards are kept.
    """
    from textassay.cli.merge import merge_shards

    return merge_shards(run, partial=partial, as_json=as_json)

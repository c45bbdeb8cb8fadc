"""`textassay merge`: one run out of shards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from textassay.cli.app import SCORING, command
from textassay.cli.console import say
from textassay.cli.exits import UNSCORED
from textassay.cli.flags import AsJson

if TYPE_CHECKING:
    from textassay.evaluation.merging import Merged


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
    return merge_shards(run, partial=partial, as_json=as_json)


def merge_shards(run: Path, *, partial: bool, as_json: bool) -> int:
    """Merge the shards of a run, print the result as `score` does, and return the exit status.

    Args:
        run: The folder that holds the shards.
        partial: Whether shards may be missing or unfinished.
        as_json: Whether to print one JSON document.

    Raises:
        RunFolderError: The shards do not belong together, or one is missing or unfinished.
    """
    from textassay.cli.run_result import print_result
    from textassay.evaluation.run import Run

    made = _merge(run, partial=partial)
    status = print_result(Run(folder=run), as_json=as_json)
    if made.missing:
        say(
            f"{made.missing} scores are missing; add them with: textassay resume {run}",
            style="yellow",
        )
        # a partial merge is a finished run with scores missing, which is what status 1 says
        return UNSCORED
    return status


def merge_to_resume(run: Path) -> None:
    """Merge the shards of a run as they are, so that the rest can be judged as of any run.

    Raises:
        RunFolderError: The shards do not belong together, or one is in use or waits for a batch.
    """
    made = _merge(run, partial=True)
    if made.absent:
        say(
            f"{run} has no shard {', '.join(made.absent)}: what it lacks is judged now. If another "
            "machine is judging it, stop this command and run `textassay merge` once its folder is"
            " here"
        )


def _merge(run: Path, *, partial: bool) -> Merged:
    from textassay.evaluation.merging import merge as merged

    made = merged(run, partial=partial)
    for name in made.differing:
        say(
            f"{name} differs between shards; each is kept under the name of its shard",
            style="yellow",
        )
    if count := made.unneeded_batches:
        say(
            f"{count} batch{'es' if count != 1 else ''} of the shards "
            f"{'are' if count != 1 else 'is'} left at the provider, as no score needs the answers",
            style="yellow",
        )
    return made

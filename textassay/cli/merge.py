"""`textassay merge`."""

from __future__ import annotations

from pathlib import Path

from textassay.cli.console import say
from textassay.cli.exits import UNSCORED
from textassay.cli.run_result import print_result
from textassay.evaluation.merging import Merged, merge
from textassay.evaluation.run import Run


def merge_shards(run: Path, *, partial: bool, as_json: bool) -> int:
    """Merge the shards of a run, print the result as `score` does, and return the exit status.

    Args:
        run: The folder that holds the shards.
        partial: Whether shards may be missing or unfinished.
        as_json: Whether to print one JSON document.

    Raises:
        RunFolderError: The shards do not belong together, or one is missing or unfinished.
    """
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
    made = merge(run, partial=partial)
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

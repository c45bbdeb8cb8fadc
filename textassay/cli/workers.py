"""`score` and `resume` with `--processes` or `--cluster`: workers judge, this process journals."""

from __future__ import annotations

from textassay.cli.console import logged_warnings, say
from textassay.cli.exits import stops_of_a_run, with_flags
from textassay.cli.progress import exported, show_progress
from textassay.cli.run_result import print_result
from textassay.cli.scoring import SHOWN_WARNINGS, ScoreCommand, calibrating, settings_named
from textassay.evaluation.opening import with_default_tools
from textassay.workers.protocol import Opened
from textassay.workers.run import Cluster, Followed, Processes, run_with_workers


async def score_with_workers(command: ScoreCommand, workers: Processes | Cluster) -> int:
    """Judge with workers, print the result and return the exit status.

    Raises:
        ConfigurationError: Nothing was asked.
        Stopped: The run began and was stopped; its cause is the reason.
    """
    request, out = command.request, command.request.out
    request, by_default = with_default_tools(request, None, out if request.resume else None)
    if by_default is not None:
        say(with_flags(by_default.notice))
    followed = Followed()
    with (
        settings_named(),
        stops_of_a_run(out, lambda: followed.is_begun),
        logged_warnings(*SHOWN_WARNINGS),
    ):
        async with (
            exported(lambda: followed.progress, command.prometheus, out),
            show_progress(lambda: followed.progress, command.progress),
        ):
            run = await run_with_workers(
                request.data,
                request,
                workers,
                adjusting=calibrating(request.calibration),
                followed=followed,
                notify=lambda line: say(with_flags(line)),
                begun=_say_notices,
            )
    return print_result(run, as_json=command.as_json)


def _say_notices(opened: Opened) -> None:
    for notice in opened.notices:
        say(with_flags(notice))

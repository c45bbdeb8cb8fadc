"""`score` and `resume` with `--cluster`: workers elsewhere judge, this process journals."""

from __future__ import annotations

from textassay.cli.console import say
from textassay.cli.exits import stops_of_a_run, typed
from textassay.cli.progress import show_progress
from textassay.cli.run_result import print_result
from textassay.cli.scoring import ScoreCommand, calibrating
from textassay.cluster.request import Cluster
from textassay.cluster.run import Followed, run_on_cluster
from textassay.evaluation.default_tools import with_default_tools
from textassay.runtime.errors import ConfigurationError


async def score_on_cluster(order: ScoreCommand, cluster: Cluster) -> int:
    """Judge on a cluster, print the result and return the exit status.

    Raises:
        ConfigurationError: Nothing was asked.
        Stopped: The run began and was stopped; its cause is the reason.
    """
    request, out = order.request, order.request.out
    if out is None:
        raise ConfigurationError("--cluster needs --out")
    request, by_default = with_default_tools(request, None, out if request.resume else None)
    if by_default is not None:
        say(typed(by_default.notice))
    followed = Followed()
    with stops_of_a_run(out, lambda: followed.is_begun):
        async with show_progress(lambda: followed.progress, order.progress):
            run = await run_on_cluster(
                request.data,
                request,
                request.settings,
                out,
                cluster,
                resume=request.resume,
                adjusting=calibrating(request.calibration),
                followed=followed,
                notify=say,
            )
    return print_result(run, as_json=order.as_json)

"""Opens what a run on a cluster needs, runs it, and closes it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from textassay.cluster.crew import Crew
from textassay.cluster.driver import START_SECONDS, UNIT, Driver
from textassay.cluster.messages import NO_PROGRESS, Job, Rows
from textassay.cluster.ray_crew import ray_cluster
from textassay.cluster.request import Cluster, check, is_local, most_workers
from textassay.cluster.run_record import MAX_SENT, Adjusting, RunRecord
from textassay.evaluation.api import writing_summary
from textassay.evaluation.data import checked_examples
from textassay.evaluation.default_tools import with_default_tools
from textassay.evaluation.progress import Progress
from textassay.evaluation.request import RunRequest
from textassay.evaluation.run import Run
from textassay.evaluation.shards import part_of
from textassay.evaluation.spec import with_absolute_paths
from textassay.runtime.settings import Settings
from textassay.runtime.storage.run_folder import RunFolder


class Followed:
    """A run on a cluster as those see it who show its progress, also before it is connected."""

    def __init__(self) -> None:
        self._driver: Driver | None = None

    def follow(self, driver: Driver) -> None:
        """Take the driver, once there is one."""
        self._driver = driver

    @property
    def progress(self) -> Progress:
        """Where the run stands."""
        return NO_PROGRESS if self._driver is None else self._driver.progress

    @property
    def is_begun(self) -> bool:
        """Whether there is a run folder that can be resumed."""
        return self._driver is not None and self._driver.is_begun


async def run_on_cluster(
    examples: Any,
    spec: RunRequest,
    settings: Settings,
    out: Path,
    cluster: Cluster,
    *,
    resume: bool = False,
    adjusting: Adjusting | None = None,
    followed: Followed | None = None,
    notify: Callable[[str], None] = lambda line: None,
    crew: Crew | None = None,
    unit: int = UNIT,
    start_seconds: float = START_SECONDS,
    most_sent: int = MAX_SENT,
) -> Run:
    """Judge every example on a cluster and return the run.

    Args:
        examples: A path, an iterable of examples or dicts, or a table.
        spec: What to do.
        settings: How models are asked; their limits hold for all workers together.
        out: The run folder, on this machine.
        cluster: Where.
        resume: Whether to continue the run in `out`.
        adjusting: What is done to each score before it is kept.
        followed: Follows the run.
        notify: Called with a line on what the user should know, such as a worker that is lost.
        crew: Workers in place of those of `cluster`.
        unit: Examples that a worker has in hand at most.
        start_seconds: Time between two looks for room for further workers.
        most_sent: Bytes of a resumed run's answers that are sent to each worker at most.

    Raises:
        ConfigurationError: Something does not fit; nothing was asked.
        TextassayError: What stopped the run, which can be resumed.
    """
    check(spec, settings)
    # workers start in a folder of their own
    spec = with_absolute_paths(spec)
    # here, so that no worker takes others because of what is installed on its machine
    spec, _ = with_default_tools(spec, None, out if resume else None)
    data, info = await checked_examples(examples, spec)
    judged, total = part_of(data, info.count, limit=spec.limit, shard=None)
    most = most_workers(cluster, spec, settings, total)
    async with AsyncExitStack() as stack:
        record = RunRecord(
            out,
            judged,
            total,
            settings=settings,
            stack=stack,
            adjusting=adjusting,
            most_sent=most_sent,
        )
        if not resume:
            RunFolder.check_new(out)
        recorded = await _recorded(record, out, notify) if resume else ()
        # last, since a cluster may take minutes to start: bad requests fail before that
        if crew is None:
            crew = await _open_crew(cluster, spec, settings, stack)
        driver = Driver(
            crew,
            Job(spec, settings, info, *recorded),
            record,
            most_workers=most,
            notify=notify,
            unit=unit,
            start_seconds=start_seconds,
        )
        if followed is not None:
            followed.follow(driver)
        async with writing_summary(record):
            await driver.run()
        for name in sorted(record.differing):
            notify(f"{name} differs between workers; that of the first to end is kept")
    return Run(folder=out, progress=driver.progress, examples=data)


async def _recorded(
    record: RunRecord, out: Path, notify: Callable[[str], None]
) -> tuple[Mapping[str, Any], Rows]:
    """Continue the run in the folder; return what its workers must know of it."""
    recorded = await record.resume()
    if record.unsent_bytes:
        notify(
            f"the {record.unsent_bytes / 2**20:.0f} MB of answers in {out} are too large to be "
            "sent to workers: examples without a score are asked in full again; resume without a "
            "cluster to use them"
        )
    return recorded


async def _open_crew(
    cluster: Cluster, spec: RunRequest, settings: Settings, stack: AsyncExitStack
) -> Crew:
    """Start workers on the cluster; they stop with the stack."""
    return await stack.enter_async_context(
        ray_cluster(
            cluster.address,
            workers=cluster.workers,
            local=is_local(spec),
            threads=settings.local.threads,
        )
    )

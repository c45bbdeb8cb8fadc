"""Opens what a run on a cluster needs, runs it, and closes it again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textassay.evaluation.api import writing_summary
from textassay.evaluation.data import checked_examples
from textassay.evaluation.default_tools import with_default_tools
from textassay.evaluation.progress import Progress
from textassay.evaluation.roles import in_every_role
from textassay.evaluation.run import Run
from textassay.evaluation.shards import part_of
from textassay.evaluation.spec import RunSpec, with_absolute_paths
from textassay.runtime.backends.by_name import EMBEDDED
from textassay.runtime.errors import ConfigurationError, parameter
from textassay.runtime.settings import Settings
from textassay.runtime.storage.run_folder import RunFolder
from textassay.workers.driver import START_SECONDS, UNIT, Driver
from textassay.workers.protocol import NO_PROGRESS, Job, Rows, WorkerPool
from textassay.workers.ray import ray_workers
from textassay.workers.record import MAX_SENT, Adjusting, RunRecord


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
    spec: RunSpec,
    settings: Settings,
    out: Path,
    cluster: Cluster,
    *,
    resume: bool = False,
    adjusting: Adjusting | None = None,
    followed: Followed | None = None,
    notify: Callable[[str], None] = lambda line: None,
    pool: WorkerPool | None = None,
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
        pool: Workers in place of those of `cluster`.
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
        if pool is None:
            pool = await _open_pool(cluster, spec, settings, stack)
        driver = Driver(
            pool,
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


async def _open_pool(
    cluster: Cluster, spec: RunSpec, settings: Settings, stack: AsyncExitStack
) -> WorkerPool:
    """Start workers on the cluster; they stop with the stack."""
    return await stack.enter_async_context(
        ray_workers(
            cluster.address,
            workers=cluster.workers,
            local=is_local(spec),
            threads=settings.local.threads,
        )
    )


LOCAL = ("llamacpp", "transformers", EMBEDDED)
"""Prefixes of models that run in the worker itself."""

EXAMPLES_PER_WORKER = 10
"""Examples below which a further worker is not worth its start."""

_ADDRESS = re.compile(r"ray(?:://(?P<address>[^/\s]+))?")


@dataclass(frozen=True)
class Cluster:
    """Which cluster, and how many workers on it."""

    address: str | None = None
    """Address of a Ray Client server, `HOST:PORT`; `None` for the cluster that Ray finds itself."""
    workers: int | None = None
    """Number of workers; `None` for one on each node, or on each GPU for local models."""

    @classmethod
    def parse(cls, text: str, workers: int | None = None) -> Cluster:
        """Read `ray` or `ray://HOST:PORT`.

        Raises:
            ConfigurationError: It is something else, or there would be no worker.
        """
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise ConfigurationError(
                f"{parameter('cluster')} must be 'ray' or 'ray://HOST:PORT' of a Ray Client "
                f"server; not {text!r}"
            )
        if workers is not None and workers < 1:
            raise ConfigurationError(f"{parameter('workers')} must be at least 1, not {workers}")
        return cls(match["address"], workers)


def is_local(spec: RunSpec) -> bool:
    """Return whether workers hold a model themselves rather than ask a server."""
    return any(map(_is_local_name, spec.models.values()))


def check(spec: RunSpec, settings: Settings) -> None:
    """Refuse what a cluster cannot do.

    Raises:
        ConfigurationError: Names what does not go together.
    """
    if spec.shard is not None:
        raise ConfigurationError(
            f"{parameter('cluster')} and {parameter('shard')} exclude each other: a cluster "
            "divides the data itself"
        )
    if settings.batch or any(own.get("batch") for own in settings.roles.values()):
        raise ConfigurationError(
            f"{parameter('cluster')} and {parameter('batch')} exclude each other: batches are "
            "submitted by one process, which takes little CPU time"
        )


def most_workers(cluster: Cluster, spec: RunSpec, settings: Settings, total: int) -> int:
    """Return how many workers may be of use at once.

    Raises:
        ConfigurationError: More are asked for than there are concurrent calls to divide.
    """
    useful = -(-total // EXAMPLES_PER_WORKER)
    # limits in Redis are not divided
    limits = _concurrencies(spec, settings) if settings.limits is None else ()
    calls = min(limits, default=None)
    if calls is None:
        return min(cluster.workers or useful, useful)
    if cluster.workers is not None and cluster.workers > calls:
        raise ConfigurationError(
            f"{cluster.workers} workers cannot divide {parameter('concurrency')} {calls}: give "
            "each at least one concurrent call"
        )
    return min(cluster.workers or useful, useful, calls)


def _concurrencies(spec: RunSpec, settings: Settings) -> Iterator[int]:
    """Yield the concurrency of every model and endpoint, each of which is divided."""
    for role, name in in_every_role(spec.models, settings.roles).items():
        if _is_local_name(name):  # queues calls itself
            continue
        own = settings.for_role(role)
        yield own.concurrency
        yield from (place.concurrency for place in own.endpoints if place.concurrency is not None)


def _is_local_name(name: str) -> bool:
    return name.partition("/")[0] in LOCAL

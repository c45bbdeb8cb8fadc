"""Opens what a run with workers needs, runs it, and closes it again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from textassay.evaluation.data import check_examples, select_examples
from textassay.evaluation.manifest import with_absolute_paths
from textassay.evaluation.opening import with_default_tools
from textassay.evaluation.progress import Progress
from textassay.evaluation.request import RunRequest, in_every_role
from textassay.evaluation.run import Run
from textassay.evaluation.session import writing_summary
from textassay.runtime.backends.by_name import EMBEDDED
from textassay.runtime.errors import ConfigurationError
from textassay.workers.driver import START_SECONDS, UNIT, Driver
from textassay.workers.local import local_workers
from textassay.workers.protocol import NO_PROGRESS, Job, Opened, WorkerPool
from textassay.workers.ray import ray_workers
from textassay.workers.record import MAX_SENT, Adjusting, RunRecord

LOCAL = ("llamacpp", "transformers", EMBEDDED)
"""Prefixes of models that run in the worker itself."""

EXAMPLES_PER_WORKER = 10
"""Examples below which a further worker is not worth its start, if no number is asked for."""

_ADDRESS = re.compile(r"ray(?:://(?P<address>[^/\s]+))?")


@dataclass(frozen=True)
class Processes:
    """Workers in processes of this machine."""

    count: int

    flag: ClassVar[str] = "processes"
    noun: ClassVar[str] = "processes"
    on_this_machine: ClassVar[bool] = True

    def start(self, request: RunRequest) -> AbstractAsyncContextManager[WorkerPool]:
        """Start workers, which end with the block."""
        return local_workers(self.count)


@dataclass(frozen=True)
class Cluster:
    """Workers on a cluster."""

    address: str | None = None
    """Address of a Ray Client server, `HOST:PORT`; `None` for the cluster that Ray finds itself."""
    count: int | None = None
    """Number of workers; `None` for one on each node, or on each GPU for local models."""

    flag: ClassVar[str] = "cluster"
    noun: ClassVar[str] = "workers"
    on_this_machine: ClassVar[bool] = False

    @classmethod
    def parse(cls, text: str, count: int | None = None) -> Cluster:
        """Read `ray` or `ray://HOST:PORT`."""
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise ConfigurationError(
                f"cluster= must be 'ray' or 'ray://HOST:PORT' of a Ray Client server; not {text!r}"
            )
        if count is not None and count < 1:
            raise ConfigurationError(f"workers= must be at least 1, not {count}")
        return cls(match["address"], count)

    def start(self, request: RunRequest) -> AbstractAsyncContextManager[WorkerPool]:
        """Connect to the cluster and start workers, which end with the block."""
        return ray_workers(
            self.address,
            workers=self.count,
            local=any(map(_is_local, request.models.values())),
            threads=request.settings.local.threads,
        )


class Followed:
    """A run with workers as those see it who show its progress, also before there are any."""

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


async def run_with_workers(
    examples: Any,
    request: RunRequest,
    workers: Processes | Cluster,
    *,
    adjusting: Adjusting | None = None,
    followed: Followed | None = None,
    notify: Callable[[str], None] = lambda line: None,
    notice: Callable[[str], None] = lambda line: None,
    pool: WorkerPool | None = None,
    unit: int = UNIT,
    start_seconds: float = START_SECONDS,
    most_sent: int = MAX_SENT,
) -> Run:
    """Judge every example with workers and return the run.

    `notify` is told what happens on the way, `notice` what to know of the method beforehand.
    """
    out = _checked_folder(request, workers)
    # workers on a cluster start in a folder of their own
    request = with_absolute_paths(request)
    # here, so that no worker takes others because of what is installed on its machine
    request, by_default = with_default_tools(request, None, out if request.resume else None)
    data, info = await check_examples(examples, request)
    judged, total = select_examples(data, info.count, limit=request.limit, shard=None)
    most = most_workers(workers, request, total)
    async with AsyncExitStack() as stack:
        record = RunRecord(
            out,
            judged,
            total,
            settings=request.settings,
            stack=stack,
            adjusting=adjusting,
            workers_write=workers.on_this_machine,
            most_sent=most_sent,
        )
        recorded = await (record.resume() if request.resume else record.create())
        if record.unsent_bytes:
            notify(
                f"the {record.unsent_bytes / 2**20:.0f} MB of answers in {out} are too large to be "
                "sent to workers: examples without a score are asked in full again; resume without "
                "a cluster to use them"
            )
        # last, since a cluster may take minutes to start: bad requests fail before that
        if pool is None:
            pool = await stack.enter_async_context(workers.start(request))

        def begun(opened: Opened) -> None:
            for line in (*([by_default.notice] if by_default else ()), *opened.notices):
                notice(line)

        driver = Driver(
            pool,
            Job(request, info, record.answers_folder, *recorded),
            record,
            most_workers=most,
            notify=notify,
            begun=begun,
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


def _checked_folder(request: RunRequest, workers: Processes | Cluster) -> Path:
    """Return the run folder; refuse what workers cannot do."""
    settings = request.settings
    if request.out is None:
        raise ConfigurationError(f"{workers.flag}= needs out=")
    if request.shard is not None:
        raise ConfigurationError(
            f"{workers.flag}= and shard= exclude each other: the data are "
            "divided among workers as it is"
        )
    if settings.batch or any(own.get("batch") for own in settings.roles.values()):
        raise ConfigurationError(
            f"{workers.flag}= and batch= exclude each other: batches are "
            "submitted by one process, which takes little CPU time"
        )
    return request.out


def most_workers(workers: Processes | Cluster, request: RunRequest, total: int) -> int:
    """Return how many workers may be of use at once."""
    # limits in Redis are not divided
    limits = [] if request.settings.limits is not None else list(_concurrencies(request))
    count = workers.count
    if count is None:
        return min([-(-total // EXAMPLES_PER_WORKER), *(most for _, most in limits)])
    for where, most in limits:
        if count > most:
            raise ConfigurationError(
                f"{count} {workers.noun} cannot keep to {where} {most}, which holds for all of them"
                f" together: it must be {count} at least"
            )
    return min(count, total)


def _concurrencies(request: RunRequest) -> Iterator[tuple[str, int]]:
    """Yield each limit of calls in flight that is divided: what messages call it, and the limit."""
    settings = request.settings
    for role, name in in_every_role(request.models, settings.roles).items():
        if _is_local(name):  # queues calls itself
            continue
        own, whole = settings.roles.get(role, {}), settings.for_role(role)
        general = "concurrency="
        yield f"[models.{role}] concurrency" if "concurrency" in own else general, whole.concurrency
        table = f"[[models.{role}.endpoints]]" if "endpoints" in own else "[[endpoints]]"
        for number, endpoint in enumerate(whole.endpoints, start=1):
            if endpoint.concurrency is not None:
                yield f"{table} ({number}) concurrency", endpoint.concurrency


def _is_local(name: str) -> bool:
    return name.partition("/")[0] in LOCAL

"""A run with workers: hands out examples, journals scores, and repeats the work of lost workers.

Only this process writes to the run folder. A worker has at most one unit of examples in hand, so
that at most one unit is repeated if the worker is lost; scores that it reported are journaled and
not repeated. `Driver` knows workers as `Worker`s, and nothing of processes or Ray;
`run_with_workers` opens the parts of a run, runs it, and closes them.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from textassay.evaluation.manifest import open_folder, with_absolute_paths
from textassay.evaluation.opening import with_default_tools
from textassay.evaluation.progress import Progress, sum_progress
from textassay.evaluation.request import RunRequest, in_every_role
from textassay.evaluation.run import Run
from textassay.evaluation.session import writing_summary
from textassay.evaluation.sources import FedExample, check_examples, select_examples
from textassay.runtime.backends.by_name import EMBEDDED
from textassay.runtime.errors import BudgetReached, ClusterLost, ConfigurationError, StorageError
from textassay.runtime.storage.run_files import ScoreLine
from textassay.version import __version__
from textassay.workers.local import local_workers
from textassay.workers.ray import ray_workers
from textassay.workers.record import (
    MAX_LOSSES,
    AdjustmentFor,
    AssignedExamples,
    ExampleQueue,
    RunRecord,
    SharedBudget,
)
from textassay.workers.worker import (
    NO_PROGRESS,
    Instructions,
    Job,
    LimitShare,
    OpenedSession,
    Report,
    Worker,
    WorkerEnd,
    WorkerLost,
    WorkerPool,
)

STOP_SECONDS = 60.0
"""Seconds in which workers may finish their examples after the run is stopped."""


class AssignedWorker:
    """An active worker, with its examples, reports and grants."""

    def __init__(self, handle: Worker) -> None:
        self.handle, self.outstanding = handle, AssignedExamples()
        self.opened: OpenedSession | None = None
        self.report = Report(progress=NO_PROGRESS, part=LimitShare(count=0))
        """Its last report; before the first, it respects no share of the limits."""
        self.granted = 0.0
        """US dollars that it was granted and has not returned."""
        self.was_fed = False
        self.is_finishing = False

    @property
    def unspent(self) -> float:
        """US dollars that it was granted, and has neither spent nor returned."""
        return self.granted - self.report.spent


class Driver:
    """One session of one run on a cluster."""

    def __init__(
        self,
        pool: WorkerPool,
        job: Job,
        record: RunRecord,
        *,
        most_workers: int,
        notify: Callable[[str], None],
        on_begin: Callable[[OpenedSession], None],
        unit: int,
        start_seconds: float,
    ) -> None:
        self._start_seconds, self._on_begin = start_seconds, on_begin
        self._pool, self._job, self._record, self._notify = pool, job, record, notify
        self._most, self._unit = max(1, most_workers), unit
        self._workers: list[AssignedWorker] = []
        self._refused: list[AssignedWorker] = []
        """Workers that cannot be used, and whose places stay occupied."""
        self._warned: set[str] = set()
        self._left_out: list[str] = []
        """Messages about them."""
        self._gone: list[Progress] = []
        self._gone_spent = 0.0
        self._budget = SharedBudget(job.request.settings.max_cost or math.inf)
        # a stand-in until a worker has opened the run, which hands out nothing
        self._queue = ExampleQueue((), max(1, record.total), ())
        self._began = time.monotonic()
        self._done = 0
        self._outcomes: Counter[str] = Counter()
        self._losses_in_a_row = 0
        self._failure: Exception | None = None
        self._over = asyncio.Event()
        self._stopping = False

    @property
    def progress(self) -> Progress:
        """The progress of the run, all workers together."""
        living = [w.report.progress for w in self._workers]
        before = self._queue.settled_before
        return replace(
            sum_progress([*self._gone, *living]),
            # examples count as done once they are journaled here
            done=self._done + before,
            total=self._record.total,
            seconds=time.monotonic() - self._began,
            outcomes=dict(self._outcomes),
            settled_before=before,
        )

    @property
    def is_begun(self) -> bool:
        """Whether there is a run folder that can be resumed."""
        return self._record.is_begun

    @property
    def spent(self) -> float:
        """US dollars that all workers have reported as spent."""
        return self._gone_spent + sum(w.report.spent for w in self._workers)

    async def run(self) -> None:
        """Judge all examples; when this returns or raises, no worker is left."""
        self._began = time.monotonic()
        tasks: dict[asyncio.Task[None], AssignedWorker] = {}
        starting = asyncio.create_task(self._keep_starting(tasks))
        over = asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait([starting, over], return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
            starting.cancel()
            # after a spent budget, calls in flight still cost money, and their own deadlines bound
            # them
            is_bounded = self._failure and not isinstance(self._failure, BudgetReached)
            await self._until_ended(tasks, STOP_SECONDS if is_bounded else None)
        except BaseException:
            # Ctrl-C, or a fault here: finished scores are fetched before the workers end
            self._stopping = True
            await self._until_ended(tasks, STOP_SECONDS)
            raise
        finally:
            for task in (starting, over, *tasks):
                task.cancel()
            await asyncio.wait([starting, over, *tasks])
            for worker in tasks.values():
                worker.handle.kill()
        if self._failure:
            raise self._failure

    async def _keep_starting(self, tasks: dict[asyncio.Task[None], AssignedWorker]) -> None:
        while True:
            try:
                started = await self._pool.start_workers(self._workers_needed())
            except ConfigurationError as error:
                raise self._as_lost(error) from error
            for handle in started:
                worker = AssignedWorker(handle)
                self._workers.append(worker)
                tasks[asyncio.create_task(self._serve(worker))] = worker
            # repeated, since nodes may join later and lost workers are replaced
            await asyncio.sleep(self._start_seconds)

    def _workers_needed(self) -> int:
        # toward the end, a new worker would have no examples
        return min(self._most, len(self._workers) + self._queue.left)

    async def _until_ended(
        self, tasks: Mapping[asyncio.Task[None], AssignedWorker], seconds: float | None
    ) -> None:
        """Let workers finish their examples; cancel workers that are still opening."""
        for task, worker in tasks.items():
            if not worker.opened:
                task.cancel()
        late = (await asyncio.wait(tasks, timeout=seconds))[1] if tasks else ()
        if late and not self._stopping:
            self._stopping = True
            await asyncio.wait(late, timeout=STOP_SECONDS)

    async def _serve(self, worker: AssignedWorker) -> None:
        """Work with one worker from its opening to its end."""
        try:
            await self._admit(worker)
            while worker in self._workers:
                # stopped and not canceled: a canceled exchange would lose its report, whose answers
                # cost money
                report = await (
                    worker.handle.stop()
                    if self._stopping
                    else worker.handle.exchange(self._next_for(worker))
                )
                await self._take(worker, report)
                if report.ended:
                    self._leave(worker, report.ended)
        except WorkerLost as error:
            await self._lose(worker, error)
        except Exception as error:
            if worker in self._workers:
                self._workers.remove(worker)
            if isinstance(error, ConfigurationError) and not worker.opened:
                self._go_without(worker, error)
            else:
                self._fail(error)

    async def _admit(self, worker: AssignedWorker) -> None:
        opened = await worker.handle.open(self._job)
        if isinstance(opened, Exception):
            raise opened
        if opened.version != __version__:
            raise ConfigurationError(
                f"{worker.handle.name} has textassay {opened.version}, and this is {__version__}: "
                "install the same version everywhere"
            )
        if await self._record.bind(opened, where=worker.handle.name):
            self._queue = self._record.open_examples()
            self._on_begin(opened)
        worker.opened = opened
        self._tell_of_left_out()

    def _next_for(self, worker: AssignedWorker) -> Instructions:
        open_ones = [w for w in self._workers if w.opened]
        number, count = open_ones.index(worker), len(open_ones)
        # A new worker waits until the others respect their smaller shares of the limits.
        may_ask = worker.was_fed or all(
            not w.was_fed or w.report.part.count >= count for w in self._workers if w is not worker
        )
        examples = self._portion(worker, count) if may_ask and not self._over.is_set() else []
        worker.was_fed = worker.was_fed or bool(examples)
        needed = worker.report.needed
        is_short = self._budget.is_short_of(needed)
        # as in one process, calls in flight may cost less than they reserve
        if is_short and not any(
            w.report.is_settling or self._budget.matters(w.unspent) for w in self._workers
        ):
            self._fail(self._budget.budget_error(self.spent, needed))
        grant = 0.0
        if needed or (not worker.granted and examples):
            grant = self._budget.grant(needed, count)
            worker.granted += grant
        worker.is_finishing = self._over.is_set()
        return Instructions(
            examples=examples,
            part=LimitShare(number, count),
            grant=grant,
            # another worker may need the money that this one does not use
            return_unspent=any(self._budget.is_short_of(w.report.needed) for w in self._workers),
            is_last_grant=is_short and self._over.is_set(),
            # a report of any size costs some milliseconds
            report_at=max(1, min(1000, worker.outstanding.scores // 2)),
            finish=worker.is_finishing,
        )

    def _portion(self, worker: AssignedWorker, workers: int) -> list[FedExample]:
        """Return the next examples for one of the workers.

        A worker has about a unit in hand at first, and less toward the end, so that all workers end
        at the same time; it never has more than a unit.
        """
        assert worker.opened
        unit = max(self._unit, 2 * worker.opened.in_progress)
        share = -(-self._queue.left // (2 * workers))
        target = min(unit, max(share, -(-worker.opened.in_progress // workers)))
        # in portions, as each costs a message
        missing = target - len(worker.outstanding)
        if missing <= 0 or (missing < target // 4 and len(worker.outstanding)):
            return []
        return self._queue.take(missing, worker.outstanding)

    async def _take(self, worker: AssignedWorker, report: Report) -> None:
        """Keep a worker's report: answers first, as its scores depend on them."""
        worker.report = report
        for logger, message in report.warnings:
            if message not in self._warned:  # most workers log the same ones
                self._warned.add(message)
                logging.getLogger(logger).warning("%s", message)
        worker.granted -= report.returned
        self._budget.give_back(report.returned)
        outstanding = worker.outstanding
        # workers have the same version and have validated the scores: they are not parsed
        scores = [ScoreLine.read(line) for line in report.scores]
        new = [s for s in scores if outstanding.expects(s.fields["id"], s.fields["aspect"])]
        for score in await self._record.write_report(report, new):
            self._outcomes[score.fields["outcome"]] += 1
            self._done += outstanding.record_score(score.fields["id"], score.fields["aspect"])
        if new:
            self._losses_in_a_row = 0
        self._look_whether_over()

    def _look_whether_over(self) -> None:
        if not self._queue.left and not any(w.outstanding for w in self._workers):
            self._over.set()

    def _leave(self, worker: AssignedWorker, ended: WorkerEnd) -> None:
        self._workers.remove(worker)
        self._remember(worker)
        self._budget.give_back(worker.unspent)
        self._record.keep_artifacts(ended.artifacts)
        if self._stopping:
            return
        if ended.failed:
            self._fail(ended.failed)
        elif not worker.is_finishing:
            self._fail(RuntimeError(f"{worker.handle.name} ended early"))

    async def _lose(self, worker: AssignedWorker, error: WorkerLost) -> None:
        """Have a lost worker's examples judged by others."""
        worker.handle.kill()
        if not (self._over.is_set() or self._stopping):
            in_hand = len(worker.outstanding)
            self._notify(f"{error}; its {in_hand} unfinished examples are handed out again")
            if worker.opened:
                try:
                    await self._record.collect_answers()
                except StorageError as failure:
                    self._fail(failure)
        self._workers.remove(worker)
        self._remember(worker)
        if self._over.is_set() or self._stopping:
            return
        if not self._workers:  # retry even places in which a worker was refused
            for refused in self._refused:
                refused.handle.kill()
            self._refused.clear()
        losses = self._queue.give_back(worker.outstanding)
        self._losses_in_a_row += 1
        if losses >= MAX_LOSSES or self._losses_in_a_row > MAX_LOSSES + self._most:
            self._fail(
                ClusterLost(
                    f"workers keep failing, the last on {worker.handle.name}: {error}. "
                    "The usual cause is a lack of memory"
                )
            )
        self._look_whether_over()

    def _go_without(self, worker: AssignedWorker, error: ConfigurationError) -> None:
        """Leave out a worker that cannot take part; stop if there is no other."""
        if not self._workers:
            self._fail(self._as_lost(error))
            return
        # not killed, so that its place on the node stays occupied and no other worker is started
        # there
        self._refused.append(worker)
        self._left_out.append(f"{worker.handle.name} cannot take part, and is left out: {error}")
        self._tell_of_left_out()

    def _tell_of_left_out(self) -> None:
        """Name the workers that were left out, once there is one that takes part."""
        if any(w.opened for w in self._workers):
            for message in self._left_out:
                self._notify(message)
            self._left_out.clear()

    def _as_lost(self, error: ConfigurationError) -> Exception:
        """Return the error of a cluster that provides no worker.

        A run that has begun can be resumed; a `ConfigurationError` means that no model was called.
        """
        if not self.is_begun:
            return error
        lost = ClusterLost(str(error))
        lost.__cause__ = error
        return lost

    def _remember(self, worker: AssignedWorker) -> None:
        progress = worker.report.progress
        ended = {name: state.at_end() for name, state in progress.limiters.items()}
        self._gone.append(replace(progress, limiters=ended))
        self._gone_spent += worker.report.spent

    def _fail(self, error: Exception) -> None:
        """Stop the run: workers finish their examples, and get no more."""
        self._failure = self._failure or error
        self._over.set()


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
        match = re.fullmatch(r"ray(?:://(?P<address>[^/\s]+))?", text)
        if not match:
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


class FollowedRun:
    """The progress of a run with workers, also before there are any."""

    driver: Driver | None = None

    @property
    def progress(self) -> Progress:
        """The progress of the run."""
        return self.driver.progress if self.driver else NO_PROGRESS

    @property
    def is_begun(self) -> bool:
        """Whether there is a run folder that can be resumed."""
        return bool(self.driver and self.driver.is_begun)


async def run_with_workers(
    examples: Any,
    request: RunRequest,
    workers: Processes | Cluster,
    *,
    adjustment_for: AdjustmentFor | None = None,
    followed: FollowedRun | None = None,
    on_begin: Callable[[], None] = lambda: None,
    notify: Callable[[str], None] = lambda line: None,
    notice: Callable[[str], None] = lambda line: None,
    pool: WorkerPool | None = None,
    unit: int = 200,
    start_seconds: float = 2.0,
    most_sent: int = 256 * 2**20,
) -> Run:
    """Judge every example with workers and return the run.

    Args:
        examples: The data, as `evaluate` takes them.
        request: The run.
        workers: Processes or a cluster.
        adjustment_for: Makes the function that changes each score before it is written.
        followed: Gets the driver, to show its progress.
        on_begin: Called once a worker has opened the run, so that its folder is there.
        notify: Called with messages on events during the run.
        notice: Called with remarks on the method before anything is asked.
        pool: Starts the workers, in place of `workers.start`.
        unit: Most examples that a worker has in hand, unless it works on more than half of them at
            once.
        start_seconds: Seconds between two attempts to start further workers.
        most_sent: Bytes of a resumed run's answers above which they are not sent to workers.
    """
    out = _check_folder(request, workers)
    # workers on a cluster start in a folder of their own
    request = with_absolute_paths(request)
    # here, so that the tools do not depend on the packages of a worker's machine
    request, tools_notice = with_default_tools(request, None, out if request.resume else None)
    data, info = await check_examples(examples, request)
    judged, total = select_examples(data, info.count, limit=request.limit, shard=None)
    most = most_workers(workers, request, total)
    async with AsyncExitStack() as stack:
        record = RunRecord(
            await open_folder(out, stack, resume=request.resume),
            judged,
            total,
            settings=request.settings,
            stack=stack,
            adjustment_for=adjustment_for,
            workers_write=workers.on_this_machine,
            most_sent=most_sent,
            resumed=request.resume,
        )
        recorded = await record.earlier()
        if record.unsent_bytes:
            notify(
                f"the {record.unsent_bytes / 2**20:.0f} MB of answers in {out} are too large to be "
                "sent to workers: examples without a score are asked in full again; resume without "
                "a cluster to use them"
            )
        # last, since a cluster may take minutes to start: bad requests fail before that
        if not pool:
            pool = await stack.enter_async_context(workers.start(request))

        def begin(opened: OpenedSession) -> None:
            on_begin()
            by_name = [tools_notice] if tools_notice else []
            for line in (*info.notices, *by_name, *opened.notices):
                notice(line)

        driver = Driver(
            pool,
            Job(request, info, record.answers_folder, *recorded),
            record,
            most_workers=most,
            notify=notify,
            on_begin=begin,
            unit=unit,
            start_seconds=start_seconds,
        )
        if followed:
            followed.driver = driver
        async with writing_summary(record):
            await driver.run()
        for name in sorted(record.differing):
            notify(f"{name} differs between workers; the version of the first to end is kept")
    return Run(folder=out, progress=driver.progress, examples=data)


def _check_folder(request: RunRequest, workers: Processes | Cluster) -> Path:
    """Return the run folder; refuse requests that workers cannot execute."""
    settings = request.settings
    if not request.out:
        raise ConfigurationError(f"{workers.flag}= needs out=")
    if request.shard:
        raise ConfigurationError(
            f"{workers.flag}= and shard= exclude each other: the data are "
            "divided among workers anyway"
        )
    if settings.batches_anywhere:
        raise ConfigurationError(
            f"{workers.flag}= and batch= exclude each other: batches are "
            "submitted by one process, which takes little CPU time"
        )
    return request.out


def most_workers(workers: Processes | Cluster, request: RunRequest, total: int) -> int:
    """Return the number of workers that are useful at once."""
    limits = list(_concurrencies(request))
    count = workers.count
    if not count:
        # a worker for fewer than ten examples is not worth its start
        return min([-(-total // 10), *(most for _, most in limits)])
    for where, most in limits:
        if count > most:
            raise ConfigurationError(
                f"{count} {workers.noun} cannot respect {where} {most}, the limit of all of them"
                f" together: it must be at least {count}"
            )
    return min(count, total)


def _concurrencies(request: RunRequest) -> Iterator[tuple[str, int]]:
    """Yield each limit of calls in flight that is divided: its name in messages, and the limit."""
    settings = request.settings
    for role, name in in_every_role(request.models, settings.roles).items():
        if _is_local(name):  # queues calls itself
            continue
        overrides, whole = settings.roles.get(role, {}), settings.for_role(role)
        is_own = "concurrency" in overrides
        yield f"[models.{role}] concurrency" if is_own else "concurrency=", whole.concurrency
        table = f"[[models.{role}.endpoints]]" if "endpoints" in overrides else "[[endpoints]]"
        for number, endpoint in enumerate(whole.endpoints, start=1):
            if endpoint.concurrency:
                yield f"{table} ({number}) concurrency", endpoint.concurrency


def _is_local(name: str) -> bool:
    """Whether a model runs in the worker itself."""
    return name.partition("/")[0] in ("llamacpp", "transformers", EMBEDDED)

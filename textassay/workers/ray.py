"""Workers on Ray: the only module that uses Ray, which is imported on first use.

Actors rather than tasks: a worker keeps its models, connections, limiters and answers for as long
as the run lasts. Ray places and watches them; if one dies, the process with the run folder decides
which examples are judged again, as only it knows the journaled scores.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

from textassay.runtime.backends.http_errors import quote
from textassay.runtime.errors import ClusterLost, ConfigurationError
from textassay.runtime.garbage import hold_off_gc, start_gc
from textassay.workers.worker import Worker, WorkerLost, WorkerSession

CONNECT_ATTEMPTS = 3


@asynccontextmanager
async def ray_workers(
    address: str | None, *, workers: int | None, local: bool, threads: int | None
) -> AsyncIterator[RayWorkers]:
    """Connect to a cluster, and disconnect at the end of the block."""
    ray = _ray(client=bool(address))
    # a program that has connected already keeps its connection
    is_ours = not ray.is_initialized()
    if is_ours:
        _connect(ray, address)
    pool = RayWorkers(ray, workers=workers, local=local, threads=threads)
    try:
        yield pool
    finally:
        for worker in pool.workers_started:
            worker.kill()
        if is_ours:
            ray.shutdown()


def _ray(*, client: bool) -> Any:
    # read when Ray is imported: Ray must not report usage
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # today's default; without it, Ray warns that it will change
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray

        if client:  # addresses ray:// need gRPC, which comes with `ray[client]`
            import ray.util.client
    except ImportError as error:
        raise ConfigurationError(
            f"a cluster needs Ray: pip install 'textassay[ray]' ({error})"
        ) from error
    return ray


def _connect(ray: Any, address: str | None) -> None:
    asked_for = f"ray://{address}" if address else os.environ.get("RAY_ADDRESS")
    if asked_for:
        _probe(asked_for)
    for attempt in range(1, 1 + CONNECT_ATTEMPTS):
        try:
            with _signals_kept():
                # log_to_driver: output of workers would break the line of progress
                ray.init(
                    address=asked_for if address else None,
                    log_to_driver=False,
                    logging_level="ERROR",
                    **({} if asked_for else {"include_dashboard": False}),
                )
            return
        # Ray documents no common class: a refused connection, a wrong version and a missing session
        # are a ConnectionError, a RuntimeError or a ValueError
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            # the head starts a process for each client, and some die on a busy machine
            if "Starting Ray client server failed" in str(error) and attempt < CONNECT_ATTEMPTS:
                continue
            where = asked_for or "this machine"
            raise ConfigurationError(
                f"the Ray cluster at {where} cannot be used: {_without_traceback(error)}; if it "
                "asks for a token, RAY_AUTH_MODE and RAY_AUTH_TOKEN must be as on its nodes"
            ) from error


def _probe(address: str) -> None:
    """Refuse an address if nothing listens; Ray itself would retry for half a minute."""
    place = address.removeprefix("ray://")
    host, _, port = place.rpartition(":")
    if not host or not port.isdigit():
        return  # such as `auto` or `local`, which Ray reads
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=10):
            pass
    except OSError as error:
        raise ConfigurationError(
            f"the Ray cluster at {address} cannot be reached: “{error}”; a Ray Client server "
            "usually listens at port 10001 of the head node"
        ) from error


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Keep the handlers of signals; Ray replaces them by some that exit at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class RayWorker(Worker):
    """A worker in an actor."""

    def __init__(self, ray: Any, actor: Any, node: str | None, name: str) -> None:
        self._ray, self._actor, self.node, self.name = ray, actor, node, name

    def kill(self) -> None:
        if self.is_alive:
            self.is_alive = False
            # a cluster that is gone has no actors left to end
            with suppress(Exception):
                self._ray.kill(self._actor, no_restart=True)

    async def call(self, method: str, *arguments: Any) -> Any:
        errors = self._ray.exceptions
        answer = asyncio.wrap_future(getattr(self._actor, method).remote(*arguments).future())
        answer.add_done_callback(_retrieve)
        try:
            # shielded, as Ray Client fails in a thread of its own if it cannot deliver an answer
            return await asyncio.shield(answer)
        except errors.RayTaskError as error:
            # expected errors are in reports; this is a fault of a program, or of an installation
            raise RuntimeError(f"{self.name} failed: {quote(str(error))}") from None
        except errors.RayError as error:
            if getattr(error, "_actor_init_failed", False):
                raise ConfigurationError(
                    f"{self.name} could not be started; textassay must be installed on every "
                    f"node, in the same version: {_last_line(error)}"
                ) from None
            raise WorkerLost(f"{self.name} is lost ({type(error).__name__})") from error


class Actor(WorkerSession):
    """A worker as a process of a cluster."""

    def __init__(self, folder: str) -> None:
        """Work in `folder`, if this node has it, so that relative paths mean the same."""
        super().__init__()
        # the process is this worker's alone, and its imports so far stay
        hold_off_gc()
        start_gc()
        with suppress(OSError):
            os.chdir(folder)


class RayWorkers:
    """Places workers on the nodes of a cluster, also on nodes that join later."""

    def __init__(self, ray: Any, *, workers: int | None, local: bool, threads: int | None) -> None:
        self._ray, self._workers, self._local, self._threads = ray, workers, local, threads
        # without restarts: a restarted actor would have lost its session
        self._actor = ray.remote(max_restarts=0, max_task_retries=0)(Actor)
        self.workers_started: list[RayWorker] = []
        self._started = 0
        self._waited = 0.0
        self._looked_at: float | None = None

    async def start_workers(self, most: int) -> Sequence[RayWorker]:
        """Start workers if there is space, so that at most `most` live."""
        self.workers_started = [worker for worker in self.workers_started if worker.is_alive]
        missing = min(most, self._workers or most) - len(self.workers_started)
        if missing <= 0:
            self._looked_at = None
            return ()
        try:
            nodes = await asyncio.to_thread(self._nodes)
            place = self._anywhere if self._workers else self._by_node
            started = place(missing, nodes)
        except (self._ray.exceptions.RayError, OSError, RuntimeError) as error:
            raise ClusterLost(f"the Ray cluster does not answer: {quote(str(error))}") from error
        self.workers_started += started
        self._check_room()
        return started

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    def _check_room(self) -> None:
        now = asyncio.get_running_loop().time()
        if self.workers_started or self._looked_at is None:
            self._waited = 0.0
        else:
            self._waited += now - self._looked_at
        self._looked_at = now
        if self._waited > 60:
            raise ConfigurationError(
                "no node of the Ray cluster has a CPU for a worker: start nodes with CPUs, or add "
                "some"
            )

    def _anywhere(self, count: int, nodes: list[dict[str, Any]]) -> list[RayWorker]:
        """Start workers wherever Ray finds space, which may make an autoscaler add nodes."""
        needs = self._needs(1.0, with_gpu=any(_amount(node, "GPU") >= 1 for node in nodes))
        return [
            self._start(None, f"worker {self._started + 1}", scheduling_strategy="SPREAD", **needs)
            for _ in range(count)
        ]

    def _by_node(self, count: int, nodes: list[dict[str, Any]]) -> list[RayWorker]:
        """Start workers on nodes with free places, round by round."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        workers_on = Counter(worker.node for worker in self.workers_started)
        with_gpu = self._local and any(_amount(node, "GPU") >= 1 for node in nodes)
        room = {node["NodeID"]: self._room(node, with_gpu=with_gpu) for node in nodes}
        started: list[RayWorker] = []
        for number in range(1, max(room.values(), default=0) + 1):
            for node in nodes:
                place = node["NodeID"]
                if len(started) == count or not workers_on[place] < number <= room[place]:
                    continue
                workers_on[place] += 1
                strategy = NodeAffinitySchedulingStrategy(place, soft=False)
                needs = self._needs(_amount(node, "CPU"), with_gpu=with_gpu)
                name = f"the worker on {node['NodeManagerHostname']} ({place[:8]})"
                started.append(self._start(place, name, scheduling_strategy=strategy, **needs))
        return started

    def _room(self, node: dict[str, Any], *, with_gpu: bool) -> int:
        """Return the number of workers that a node is to have."""
        if with_gpu:
            return int(_amount(node, "GPU"))
        if _amount(node, "CPU") < 1:
            return 0
        if self._local and self._threads:
            return max(1, int(_amount(node, "CPU") // self._threads))
        return 1

    def _needs(self, cpus: float, *, with_gpu: bool) -> dict[str, float]:
        """Return the resources that a worker reserves on a node with this number of CPUs."""
        if not self._local:
            return {"num_cpus": 1}
        if with_gpu:
            return {"num_cpus": 1, "num_gpus": 1}
        return {"num_cpus": min(cpus, self._threads) if self._threads and cpus > 1 else cpus}

    def _start(self, node: str | None, name: str, **options: Any) -> RayWorker:
        self._started += 1
        actor = self._actor.options(**options).remote(str(Path.cwd()))
        return RayWorker(self._ray, actor, node, name)


def _retrieve(answer: asyncio.Future[Any]) -> None:
    """Take the error of a call that no task awaits any more; asyncio would log it."""
    if not answer.cancelled():
        answer.exception()


def _amount(node: dict[str, Any], resource: str) -> float:
    return float(node["Resources"].get(resource, 0.0))


def _without_traceback(error: BaseException) -> str:
    """Return an error's message without the head's traceback, which Ray Client sends."""
    return _last_line(error) if "Traceback (most recent call last)" in str(error) else str(error)


def _last_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__

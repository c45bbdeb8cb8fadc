"""What the process that holds a run needs of a cluster: workers, wherever and however they run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from textassay.cluster.messages import Failed, Instructions, Job, Opened, Report


class WorkerLost(Exception):
    """A worker, or the machine that it runs on, is gone."""


class WorkerHandle(Protocol):
    """A worker as the process sees it that holds the run; every call may raise `WorkerLost`."""

    @property
    def name(self) -> str:
        """Where it runs, for messages."""
        ...

    async def open(self, job: Job) -> Opened | Failed:
        """See `Worker.open`."""
        ...

    async def exchange(self, instructions: Instructions) -> Report:
        """See `Worker.exchange`."""
        ...

    async def stop(self) -> Report:
        """See `Worker.stop`."""
        ...

    def kill(self) -> None:
        """End the worker at once; safe to call twice, and if it is lost."""
        ...


class Crew(Protocol):
    """A cluster that workers can be started on."""

    async def start_workers(self, most: int) -> Sequence[WorkerHandle]:
        """Start workers if there is room, so that at most `most` live, and return the new ones.

        Raises:
            ConfigurationError: The cluster has no room for a single worker.
        """
        ...

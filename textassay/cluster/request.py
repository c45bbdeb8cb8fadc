"""What a run on a cluster is asked for, and what does not go together with one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from textassay.evaluation.request import RunRequest
from textassay.evaluation.roles import in_every_role
from textassay.runtime.backends.by_name import EMBEDDED
from textassay.runtime.errors import ConfigurationError, parameter
from textassay.runtime.settings import Settings

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


def is_local(spec: RunRequest) -> bool:
    """Return whether workers hold a model themselves rather than ask a server."""
    return any(map(_is_local_name, spec.models.values()))


def check(spec: RunRequest, settings: Settings) -> None:
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


def most_workers(cluster: Cluster, spec: RunRequest, settings: Settings, total: int) -> int:
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


def _concurrencies(spec: RunRequest, settings: Settings) -> Iterator[int]:
    """Yield the concurrency of every model and endpoint, each of which is divided."""
    for role, name in in_every_role(spec.models, settings.roles).items():
        if _is_local_name(name):  # queues calls itself
            continue
        own = settings.for_role(role)
        yield own.concurrency
        yield from (place.concurrency for place in own.endpoints if place.concurrency is not None)


def _is_local_name(name: str) -> bool:
    return name.partition("/")[0] in LOCAL

"""The limits of processes that judge one run together: each keeps to its part."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

from textassay.evaluation.shards import Shard
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.settings import OneOfEndpoints, Settings

DIVIDED = frozenset({"max_cost", "concurrency", "rpm", "tpm", "endpoints", "roles"})
"""Settings that hold limits of all processes together."""


def check_concurrency(settings: Settings, count: int, names: Container[str] = DIVIDED) -> None:
    """Refuse limits of calls in flight that `count` processes cannot keep to.

    Args:
        settings: Those of all processes together.
        count: Number of processes.
        names: Settings that are looked at.

    Raises:
        ConfigurationError: There is such a limit; names it.
    """
    # a process has at least one call in flight; calls that share a Redis wait for each other
    if settings.limits is not None:
        return
    for name, where, most in _concurrencies(settings):
        if name in names and count > most:
            raise ConfigurationError(
                f"{count} processes cannot keep to {where} {most}, which holds for all of them "
                f"together: it must be {count} at least"
            )


def _concurrencies(settings: Settings) -> Iterator[tuple[str, str, int]]:
    """Yield each limit of calls in flight: its setting, what messages call it, and the limit."""
    yield "concurrency", "--concurrency", settings.concurrency
    for number, most in _of_endpoints(settings):
        yield "endpoints", f"[[endpoints]] ({number}) concurrency", most
    for role, own in settings.roles.items():
        whole = settings.for_role(role)
        if "concurrency" in own:
            yield "roles", f"[models.{role}] concurrency", whole.concurrency
        if "endpoints" in own:
            for number, most in _of_endpoints(whole):
                yield "roles", f"[[models.{role}.endpoints]] ({number}) concurrency", most


def _of_endpoints(settings: Settings) -> Iterator[tuple[int, int]]:
    for number, endpoint in enumerate(settings.endpoints, start=1):
        if endpoint.concurrency is not None:
            yield number, endpoint.concurrency


def divided(settings: Settings, shard: Shard, names: Container[str] = DIVIDED) -> Settings:
    """Return the settings of one process, so that all together keep to the limits.

    Limits that are shared through Redis stay whole.

    Args:
        settings: Those of all processes together.
        shard: What the process judges.
        names: Settings that are divided; others hold for the one process already.
    """
    parts: dict[str, Any] = {}
    # each process counts only its own spending, so the limit is divided rather than shared
    if settings.max_cost is not None:
        parts["max_cost"] = settings.max_cost / shard.count
    # Redis holds the counters of all processes, which then share the whole limits
    if settings.limits is None:
        parts |= _divided_limits(settings, shard)
    return settings.model_copy(update={n: value for n, value in parts.items() if n in names})


def _divided_limits(settings: Settings, shard: Shard) -> dict[str, Any]:
    """Return one process's limits: the model's, its endpoints' and the roles'."""
    roles = {}
    for role, own in settings.roles.items():
        parts = _divided_limits(settings.for_role(role), shard)
        # what a role does not set comes from the model, whose limits are divided already
        roles[role] = {**own, **{name: value for name, value in parts.items() if name in own}}
    return {
        **_shares(settings, shard),
        "endpoints": tuple(
            each.model_copy(update=_shares(each, shard)) for each in settings.endpoints
        ),
        "roles": roles,
    }


def _shares(limits: Settings | OneOfEndpoints, shard: Shard) -> dict[str, float]:
    """Return the share of each limit that is set."""
    number, count = shard.number, shard.count
    shares: dict[str, float] = {}
    if (most := limits.concurrency) is not None:
        # shares that differ by one at most, and whose sum is the limit
        shares["concurrency"] = most * number // count - most * (number - 1) // count
    if limits.rpm is not None:
        shares["rpm"] = limits.rpm / count
    if limits.tpm is not None:
        shares["tpm"] = limits.tpm / count
    return shares

"""Limits that processes which judge one run together cannot divide among them."""

from __future__ import annotations

from collections.abc import Iterator

from textassay.runtime.errors import ConfigurationError
from textassay.runtime.settings import Settings


def check_concurrency(settings: Settings, count: int) -> None:
    """Refuse limits of calls in flight that `count` processes cannot keep to.

    Args:
        settings: Those of all processes together.
        count: Number of processes.

    Raises:
        ConfigurationError: There is such a limit; names it.
    """
    # a process has at least one call in flight; calls that share a Redis wait for each other
    if settings.limits is not None:
        return
    for where, most in _concurrencies(settings):
        if count > most:
            raise ConfigurationError(
                f"{count} processes cannot keep to {where} {most}, which holds for all of them "
                f"together: it must be {count} at least"
            )


def _concurrencies(settings: Settings) -> Iterator[tuple[str, int]]:
    """Yield each limit of calls in flight: what messages call it, and the limit."""
    yield "--concurrency", settings.concurrency
    for number, most in _of_endpoints(settings):
        yield f"[[endpoints]] ({number}) concurrency", most
    for role, own in settings.roles.items():
        whole = settings.for_role(role)
        if "concurrency" in own:
            yield f"[models.{role}] concurrency", whole.concurrency
        if "endpoints" in own:
            for number, most in _of_endpoints(whole):
                yield f"[[models.{role}.endpoints]] ({number}) concurrency", most


def _of_endpoints(settings: Settings) -> Iterator[tuple[int, int]]:
    for number, endpoint in enumerate(settings.endpoints, start=1):
        if endpoint.concurrency is not None:
            yield number, endpoint.concurrency

"""Models by role: settings of a role without a model of its own, and roles that nothing asks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from textassay.runtime.model import Model

M = TypeVar("M")
_log = logging.getLogger(__name__)


def in_every_role(models: Mapping[str, M], roles: Iterable[str]) -> dict[str, M]:
    """Return models by role, with the general model in those of `roles` that have none.

    Args:
        models: Names of models, or models, by role; the general one under `""`.
        roles: Roles that have settings of their own. A connected model has its settings already.
    """
    general = models.get("")
    if not isinstance(general, str):
        return dict(models)
    return {**models, **{role: models.get(role, general) for role in roles}}


class UsedRoles(Mapping[str, Model]):
    """Models by role that remember the roles for which a method asks.

    A method that looks at all of them, as a jury does, asks for all of them.
    """

    def __init__(self, models: Mapping[str, Model]) -> None:
        """Store the models."""
        self._models = models
        self._used: set[str] = set()

    def __getitem__(self, role: str) -> Model:
        self._used.add(role)
        return self._models[role]

    def __iter__(self) -> Iterator[str]:
        return iter(self._models)

    def __len__(self) -> int:
        return len(self._models)

    @property
    def used(self) -> set[str]:
        """The roles that have a model for which something has asked."""
        return self._used & self._models.keys()

    def warn_of_unused(self, method: str) -> None:
        """Log a warning for each role that is given and for which nothing asks."""
        known = ", ".join(sorted(self._used - {"", "tools"})) or "none"
        for role in sorted(self._models.keys() - self._used - {""}):
            _log.warning("role %r is not used; the roles of %s: %s", role, method, known)

"""What a model's answers are filed under."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from textassay.runtime.errors import ConfigurationError
from textassay.runtime.model import InProcessModel, Model, Wrapper


class WithIdentity(Wrapper):
    """A model under another identity: the same one at another address, say."""

    def __init__(self, wrapped: Model, identity: Mapping[str, Any]) -> None:
        super().__init__(wrapped)
        self._identity = identity

    @property
    def identity(self) -> Mapping[str, Any]:
        """The identity it is known by."""
        return self._identity


def without_address(backend: Model) -> Model:
    """Return a model of a server under an identity that is the same at each of its endpoints.

    Raises:
        ConfigurationError: It runs in this process.
    """
    if isinstance(backend, InProcessModel):
        raise ConfigurationError(f"{backend.name!r} runs in this process and has no endpoints")
    return WithIdentity(backend, {**backend.identity, "api_base": None})

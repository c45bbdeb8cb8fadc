"""Backends of other packages.

Entry points of the group `textassay.models`, by the prefix of a model's name.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from textassay.runtime.errors import ConfigurationError, TextassayError
from textassay.runtime.model import Model
from textassay.runtime.settings import Settings

ENTRY_POINTS = "textassay.models"
"""Each names a prefix and a callable `(name, settings) -> Model`; `name` is all that the user
gave."""


def backend_points() -> dict[str, EntryPoint]:
    """Return the entry points by prefix; nothing is imported."""
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def open_plugin(point: EntryPoint, name: str, settings: Settings) -> Model:
    """Return the model that another package makes of a name.

    Raises:
        ConfigurationError: It cannot be loaded, fails, or gives something that is no model.
    """
    package = point.dist.name if point.dist else "another package"
    try:
        model = point.load()(name, settings)
    except TextassayError:
        raise
    except Exception as error:  # whatever foreign code does
        raise ConfigurationError(
            f"the model {name!r} of {package} cannot be made by {point.value!r}: "
            f"{type(error).__name__}: {error}"
        ) from error
    return checked_model(model, f"what {point.value!r} of {package} gives for {name!r}")


def checked_model(model: object, what: str) -> Model:
    """Return `model` if it has all of the `Model` protocol.

    Raises:
        ConfigurationError: It has not; names what is missing.
    """
    needed = ("name", "identity", "capabilities", "generate", "aclose")
    # A protocol with properties cannot say what is missing, so each part is looked for by name.
    missing = [part for part in needed if not hasattr(model, part)]
    if missing or not isinstance(model, Model):
        raise ConfigurationError(
            f"{what} is not a model: it has no {', '.join(missing)} (see textassay.testing)"
        )
    return model

"""Imports of optional libraries, with one line that says what to install if one is missing."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from textassay.runtime.errors import ConfigurationError


def need(module: str, *, extra: str, what: str) -> Any:
    """Import a module that an extra of this package brings, and return it.

    `what` needs it, for the message of the `ConfigurationError` where it is missing.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f"{what} needs {module.partition('.')[0]}: pip install 'textassay[{extra}]' ({error})"
        ) from error


def check_installed(modules: Sequence[str], *, extra: str, what: str) -> None:
    """Look whether top-level modules of an extra are installed, without importing them."""
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise ConfigurationError(
            f"{what} needs {' and '.join(missing)}: pip install 'textassay[{extra}]'"
        )

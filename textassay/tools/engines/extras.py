"""Imports of optional libraries, with one line that says what to install if one is missing."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from textassay.runtime.errors import ConfigurationError


def need(module: str, *, extra: str, what: str) -> Any:
    """Import a module of an extra and return it.

    Args:
        module: Dotted name of the module.
        extra: Extra of this package that brings it.
        what: What needs it, for the message.

    Raises:
        ConfigurationError: It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f"{what} needs {module.partition('.')[0]}: pip install 'textassay[{extra}]' ({error})"
        ) from error


def check_installed(modules: Sequence[str], *, extra: str, what: str) -> None:
    """Look whether modules are installed, without importing them.

    Args:
        modules: Names of top-level modules.
        extra: Extra of this package that brings them.
        what: What needs them, for the message.

    Raises:
        ConfigurationError: One is not installed.
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise ConfigurationError(
            f"{what} needs {' and '.join(missing)}: pip install 'textassay[{extra}]'"
        )

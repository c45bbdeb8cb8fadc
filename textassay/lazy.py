"""Lazy imports: names of a package that are imported on first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(
    package: str, home: Mapping[str, str], modules: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`.

    Args:
        package: Its `__name__`.
        home: Module of each name, relative to the package.
        modules: Submodules that are public names themselves; one that lies deeper (`library.tasks`)
            is known by its last name.
    """
    places = {module.rpartition(".")[2]: module for module in modules}

    def get(name: str) -> Any:
        # not stored in the package: a loaded module is found in a dictionary, so asking again
        # costs little, and a test that reloads the module gets the new name
        if name in home:
            return getattr(import_module(f"{package}.{home[name]}"), name)
        if name in places:
            return import_module(f"{package}.{places[name]}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        # read when asked, because `__all__` is defined after the call to `lazy` in some packages
        return sorted(sys.modules[package].__all__)

    return get, names

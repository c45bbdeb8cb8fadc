"""Names of a package and compiled regular expressions that are made on first use."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, AnyStr, cast


def lazy(
    package: str, names_in: Mapping[str, str], modules: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`.

    Args:
        package: Its `__name__`.
        names_in: The names in each module, separated by spaces; modules are relative to the
            package.
        modules: Submodules that are public names themselves; a nested one (`library.tasks`) is
            known by its last name.
    """
    home = {name: module for module, names in names_in.items() for name in names.split()}
    places = {module.rpartition(".")[2]: module for module in modules}

    def get(name: str) -> Any:
        # not stored in the package: a loaded module is found in a dictionary, so asking again
        # costs little, and a test that reloads the module gets the new name
        if name in home:
            return getattr(import_module(f"{package}.{home[name]}"), name)
        if name in places:
            return import_module(f"{package}.{places[name]}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def public_names() -> list[str]:
        # read when asked, because `__all__` is defined after the call to `lazy` in some packages
        return sorted(sys.modules[package].__all__)

    return get, public_names


def lazy_pattern(text: AnyStr, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled when it is first used, and as fast from then on.

    For modules with many patterns, which take longer to compile than all else at a start.
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(text, flags))


def lazy_alternatives(start: str, /, **parts: str) -> re.Pattern[str]:
    """Return the pattern of `start` and any of several parts, whose names describe them."""
    return lazy_pattern(f"{start}(?:{'|'.join(parts.values())})")


class _LazyPattern:
    def __init__(self, text: str | bytes, flags: re.RegexFlag) -> None:
        self._how: tuple[Any, re.RegexFlag] = text, flags

    def __getattr__(self, name: str) -> Any:
        # called only for missing attributes: the methods of the compiled pattern are added one by
        # one
        value = getattr(re.compile(*self._how), name)
        setattr(self, name, value)
        return value

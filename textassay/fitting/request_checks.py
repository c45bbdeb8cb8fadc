"""Checks of single arguments of `fit`; values come from Python, from flags or from config files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any

from textassay.runtime.errors import ConfigurationError, parameter

MAX_SEED = 2**31 - 1
"""LightGBM's limit; scikit-learn's is larger."""


def check_whole(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Refuse what is no whole number within limits.

    Raises:
        ConfigurationError: It is another value.
    """
    limits = f"at least {least}" if most is None else f"between {least} and {most}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        limits = f"a whole number, {limits}"
    elif least <= int(value) and (most is None or int(value) <= most):
        return
    raise ConfigurationError(f"{parameter(name)} must be {limits}, not {value!r}")


def check_share(name: str, value: Any) -> None:
    """Refuse what is no number; its limits depend on the other share.

    Raises:
        ConfigurationError: It is another value.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ConfigurationError(
            f"{parameter(name)} must be a number between 0 and 1, not {value!r}"
        )


def check_folder(name: str, value: Any) -> None:
    """Refuse what names no folder.

    Raises:
        ConfigurationError: It is empty, or not a path.
    """
    if not isinstance(value, str | PathLike) or not str(value).strip():
        raise ConfigurationError(f"{parameter(name)} must be the path of a folder, not {value!r}")


def names_in(name: str, value: Any) -> tuple[str, ...]:
    """Return the names that an argument gives; one text alone is one name.

    Raises:
        ConfigurationError: It holds something else than texts.
    """
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Iterable) or isinstance(value, Mapping | bytes):
        raise ConfigurationError(f"{parameter(name)} must be a name or several, not {value!r}")
    names = tuple(value)
    for one in names:
        if not isinstance(one, str):
            raise ConfigurationError(f"{parameter(name)} must hold names, not {one!r}")
    return names


def check_sources(name: str, value: Any) -> None:
    """Refuse what holds something else than runs and paths.

    Raises:
        ConfigurationError: A source is neither, or its name is no text.
    """
    for one in value.values() if isinstance(value, Mapping) else value:
        if not isinstance(one, str | Path) and not hasattr(one, "scores"):
            raise ConfigurationError(
                f"{parameter(name)} must hold runs, run folders or files of scores, not {one!r}"
            )
    for key in value if isinstance(value, Mapping) else ():
        if not isinstance(key, str) or not key:
            raise ConfigurationError(f"{parameter(name)} must map names, not {key!r}")


def check_scales(name: str, value: Any) -> None:
    """Refuse what does not give a lowest and a higher highest rating by aspect.

    Raises:
        ConfigurationError: It does not.
    """
    example = "{'ASPECT': (1, 5)}"
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{parameter(name)} must be like {example}, not {value!r}")
    for aspect, ends in value.items():
        pair = tuple(ends) if isinstance(ends, list | tuple) else ()
        if (
            len(pair) != 2
            or not all(isinstance(end, Real) and math.isfinite(end) for end in pair)
            or not pair[0] < pair[1]
        ):
            raise ConfigurationError(
                f"{parameter(name)}: the scale of {aspect!r} must be its lowest and its highest "
                f"rating, as in {example}, not {ends!r}"
            )

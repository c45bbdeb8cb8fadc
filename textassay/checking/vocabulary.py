"""The words of `words.toml`, by which names of columns and cells are understood."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any


@cache
def _all() -> dict[str, Any]:
    text = resources.files("textassay.checking").joinpath("words.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def words(name: str) -> frozenset[str]:
    """Return a set of words, in lower case."""
    return frozenset(_all()[name])


@cache
def names(name: str) -> tuple[str, ...]:
    """Return whole names of columns, from the surest on."""
    return tuple(_all()[name])


@cache
def levels(name: str) -> tuple[frozenset[str], ...]:
    """Return words from the surest to the weakest."""
    return tuple(map(frozenset, _all()[name]))

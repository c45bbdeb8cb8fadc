"""Loads `words.toml`, by whose words names of columns and cells are read."""

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
    """Return whole names of columns, the surest first."""
    return tuple(_all()[name])


@cache
def levels(name: str) -> tuple[frozenset[str], ...]:
    """Return words, the surest first."""
    return tuple(map(frozenset, _all()[name]))


def grades() -> dict[str, float]:
    """Return the numbers of letter grades."""
    numbers: dict[str, float] = _all()["grades"]
    return numbers


@cache
def scales() -> tuple[dict[str, int], ...]:
    """Return scales of words, each with the step of every word, counted from 1."""
    return tuple(
        {word: at for at, step in enumerate(scale, start=1) for word in step}
        for scale in _all()["scales"]
    )

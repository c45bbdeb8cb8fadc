"""Data sets and converters: the files of a data set's publisher, and how they become our rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any

from reproduce.plain_pickle import read_plain_pickle
from textassay.runtime.errors import ConfigurationError, DataError

Json = dict[str, Any]
Convert = Callable[[Sequence[Path]], Iterable[Json]]
"""Turns the files, in the order of `DataSet.files`, into rows of our format."""


@dataclass(frozen=True)
class OriginFile:
    """A file as its origin ships it."""

    name: str
    """Its name."""
    where: str
    """Address to get it from."""
    license: str
    """The license stated there."""
    sha256: str | None = None
    """Digest of the file that the converter was tried on; `None` if it was not checked: the file
    could not be had where this was written."""
    optional: bool = False
    """Whether the data set can do without it."""
    adds: str = ""
    """The data that an optional file adds."""


@dataclass(frozen=True)
class DataSet:
    """A data set with human ratings."""

    name: str
    """Its name in tables."""
    what: str
    """Its content, in a few words."""
    files: tuple[OriginFile, ...]
    """Its files."""
    convert: Convert
    """Makes rows of them."""


def converted(data: DataSet, files: Sequence[Path]) -> list[Json]:
    """Return the rows of a data set.

    Raises:
        ConfigurationError: Too many or too few files are given.
        DataError: A file cannot be read or has another layout; names it.
    """
    needed = sum(not file.optional for file in data.files)
    if not needed <= len(files) <= len(data.files):
        listed = ", ".join(file.name + ("?" * file.optional) for file in data.files)
        raise ConfigurationError(f"{data.name} is made from {listed}; {len(files)} files are given")
    try:
        rows = list(data.convert(files))
    # any error of a converter means that the file has another layout; the user needs its name, not
    # a traceback
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"{', '.join(map(str, files))}: not laid out as {data.files[0].name} of"
            f" {data.files[0].where} ({type(error).__name__}: {error})"
        ) from error
    if not rows:
        raise DataError(f"{files[0]}: no rows")
    return rows


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: Path) -> Any:
    """Return the content of a JSON file.

    Raises:
        DataError: It cannot be read.
    """
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def read_lines(path: Path) -> Iterator[Json]:
    """Iterate over a JSON Lines file.

    Raises:
        DataError: It cannot be read; names the line.
    """
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    try:
                        yield json.loads(line)
                    except ValueError as error:
                        raise DataError(f"{path}, line {number}: {error}") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def read_pickle(path: Path) -> Any:
    """Return the content of a pickle of plain data; see `read_plain_pickle`."""
    return read_plain_pickle(path)


def mean(values: Sequence[float]) -> float:
    """Return the mean, exactly rounded, so that ties between averages stay ties."""
    return fsum(values) / len(values)


def means(ratings: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the mean of each rated aspect."""
    return {aspect: mean(given) for aspect, given in ratings.items() if given}


def distinct(texts: Iterable[str]) -> list[str]:
    """Return texts without repetitions, in order."""
    return list(dict.fromkeys(texts))

"""Reads a TOML file into a message; whatever is wrong with it is an error that names file and key."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Message

M = TypeVar("M", bound=Message)


class Table(NamedTuple):
    """The content of a TOML file."""

    content: dict[str, Any]
    digest: str
    """6 hex digits that change with the file."""


def read_table(path: Path) -> Table:
    """Return what the file says.

    Raises:
        ConfigurationError: The file cannot be read or is no TOML; names it.
    """
    try:
        raw = path.read_bytes()
        return Table(tomllib.loads(raw.decode("utf-8")), hashlib.sha256(raw).hexdigest()[:6])
    except FileNotFoundError:
        raise ConfigurationError(f"file {path} does not exist") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"file {path} cannot be read: {error}") from error


def validated(path: Path, content: dict[str, Any], message: type[M]) -> M:
    """Return `content` as a message.

    Raises:
        ConfigurationError: It does not fit; names file, key and what is wrong.
    """
    try:
        return message.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        problem = str(first["msg"]).removeprefix("Value error, ")
        raise ConfigurationError(f"file {path}: {key + ': ' if key else ''}{problem}") from None

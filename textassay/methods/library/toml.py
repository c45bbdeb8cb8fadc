"""Reads and writes the files that people edit: tasks, trees, plans, profiles, question tables.

They are TOML, or JSON by the ending of their name. An error names the file, the place in it, and
the known names.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from textassay.runtime.base import Json, Message
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.storage.files import write_json, write_text

Content = TypeVar("Content", bound=Message)

SUFFIXES = (".toml", ".json")
"""Endings of their names."""
FORMAT = 1
"""Version of their format; files of a newer one are refused."""


def find_file(
    kind: str,
    name: str,
    packaged: Collection[str],
    place: Callable[[str], Path],
    *others: str,
    suffixes: Sequence[str] = SUFFIXES,
) -> Path:
    """Return the file of a packaged name, or of a path.

    Args:
        kind: Kind of file, such as `tree`.
        name: Name, or path.
        packaged: The packaged names.
        place: Returns the path of a packaged name.
        others: Other values that are allowed.
        suffixes: Endings of paths that need not exist yet, so that the error names the file.
    """
    if name in packaged:
        return place(name)
    path = Path(name)
    if path.suffix in suffixes or path.is_file():
        return path
    known = [*others, *packaged, f"or the path of a {' or '.join(suffixes)} file"]
    raise UnknownName(kind, name, known)


class FileContent(NamedTuple):
    """The content of a file."""

    content: Json
    digest: str
    """6 hex digits that change with the file."""


def read_toml(path: Path) -> FileContent:
    """Return the content of a TOML file, or of a JSON file if its name ends so."""
    try:
        # as bytes, so that digest and content come from one reading of the file
        raw = path.read_bytes()
        # editors on Windows may put a byte-order mark before the text
        text = raw.decode("utf-8-sig")
        content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigurationError(f"file {path} does not exist") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"file {path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise problem(path, "it contains no table")
    return FileContent(content, hashlib.sha256(raw).hexdigest()[:6])


def problem(path: Path, what: str) -> ConfigurationError:
    """Return the error that names a file and the problem in it."""
    return ConfigurationError(f"file {path}: {what}")


def validate_as(
    path: Path, content: Mapping[str, Any], message: type[Content], *, where: str = ""
) -> Content:
    """Return the content of a file as a message of this class.

    `where` is the place of the content in the file, which begins the error's message.
    """
    try:
        return message.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        # TOML has lists and no tuples
        reason = str(first["msg"]).removeprefix("Value error, ").replace("tuple", "list")
        # some messages already name the place
        place = "" if where and reason.startswith(where) else where
        raise problem(path, f"{place}{key + ': ' if key else ''}{reason}") from None


def read_as(path: Path, message: type[Content]) -> tuple[Content, str]:
    """Return the content of the file as a message, and 6 hex digits that change with the file."""
    table = read_toml(path)
    return validate_as(path, table.content, message), table.digest


def check_known_keys(
    path: Path, table: Mapping[str, Any], known: Collection[str], *, where: str = ""
) -> None:
    """Refuse an unknown key, which is usually misspelled."""
    for key in table:
        if key not in known:
            raise problem(path, f"{where}unknown key {key!r}; known: {', '.join(known)}")


def check_format(path: Path, content: Mapping[str, Any]) -> None:
    """Refuse a file of a newer format than this version reads."""
    version = content.get("format", FORMAT)
    if not isinstance(version, int) or version > FORMAT:
        raise ConfigurationError(
            f"file {path} has format {version!r}; this version reads up to {FORMAT}"
        )


def write_table(path: Path, table: Json) -> None:
    """Write a file that `read_toml` reads, in one step, as JSON or TOML by its ending."""
    if path.suffix == ".json":
        write_json(path, table)
    elif path.suffix == ".toml":
        try:
            write_text(path, to_toml(table))
        # JSON can escape a lone surrogate, TOML cannot
        except UnicodeEncodeError as error:
            raise ConfigurationError(
                f"TOML cannot represent {error.object[error.start]!r}; save it as .json"
            ) from error
    else:
        raise ConfigurationError(
            f"the name of the file must end in {' or '.join(SUFFIXES)}, unlike {str(path)!r}"
        )


def to_toml(table: Json) -> str:
    """Return readable TOML: a sentence per line, names and numbers in one line.

    Values may be scalars, lists, tables of lists, and arrays of tables. Digests of plans depend on
    this text, so it must not change.
    """
    blocks = [""]
    for key, value in table.items():
        if isinstance(value, dict):
            rows = (f"{_string(name)} = {_inline(item)}\n" for name, item in value.items())
            blocks.append(f"[{key}]\n" + "".join(rows))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            blocks += [f"[[{key}]]\n{_fields(row)}" for row in value]
        elif isinstance(value, list):
            lines = "".join(f"  {_inline(item)},\n" for item in value)
            blocks[0] += f"{key} = [\n{lines}]\n"
        else:
            blocks[0] += _fields({key: value})
    return "\n".join(blocks)


def _fields(row: Json) -> str:
    return "".join(f"{key} = {_inline(value)}\n" for key, value in row.items())


def _inline(value: Any) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, float):
        # the shortest form that reads back as the same number
        short = f"{value:g}"
        return short if value == float(short) else repr(value)
    return json.dumps(value)


def _string(text: str) -> str:
    """Return a TOML string, which is a JSON string except for one character."""
    # U+007F is a valid character of a JSON string and a forbidden one in TOML
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

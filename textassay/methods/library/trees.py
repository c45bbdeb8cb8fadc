"""Loads and saves trees of aspects: the published case studies by name, the user's own from a TOML or JSON file.

    format = 1

    [[aspects]]
    name = "coherence"
    definition = "how well the sentences form a whole."

    [[aspects]]
    name = "Logical flow"
    parent = "coherence"
    definition = "whether each sentence follows from what was said before."

A parent is named by its path (`engagingness/content-richness`), or by its name alone where no other
node bears it. A root may leave out its definition where the task has an aspect of that name. Files
are for people to edit: a key that is not known is an error that names file and key.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from textassay.agents.task import Task
from textassay.prompts import TREES, tree_file
from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.messages import Aspect, AspectTree, slug
from textassay.runtime.model import Json
from textassay.runtime.storage.files import write_json, write_text

FORMAT = 1
"""Of the files that are written; newer ones are refused."""

SUFFIXES = (".toml", ".json")
"""Endings of tree files."""

_FILE_KEYS = ("format", "name", "source", "aspects")  # `name` and `source` are remarks
_ASPECT_KEYS = ("name", "parent", "definition", "scale", "question", "higher_is_better", "source")


def load(tree: str, task: Task | None = None) -> AspectTree:
    """Return a tree.

    Args:
        tree: Name of a published tree, or path of a TOML or JSON file.
        task: Gives roots without a definition the one of its aspect of the same name.

    Raises:
        UnknownName: There is no such tree.
        ConfigurationError: The file cannot be read or describes no tree; names file and aspect.
    """
    path = _find(tree)
    rows = _rows(path)
    definitions = {slug(aspect.name): aspect.definition for aspect in (task.family if task else ())}
    parents = _parents(path, rows)
    aspects = tuple(
        _aspect(path, row, parent, definitions) for row, parent in zip(rows, parents, strict=True)
    )
    try:
        return AspectTree(aspects=aspects)
    except ValidationError as error:
        raise ConfigurationError(f"tree file {path}: {_problem(error)}") from None


def save(tree: AspectTree, path: Path, *, source: str = "") -> None:
    """Write a tree as a file that `load` reads and people edit: JSON where the path ends so, else TOML.

    The file is replaced in one step.

    Args:
        tree: The tree.
        path: The file; its folder exists.
        source: A remark on where the tree comes from.

    Raises:
        OSError: The file cannot be written.
        ConfigurationError: The path ends in neither `.toml` nor `.json`, or TOML cannot hold the
            text (half of a surrogate pair, as models now and then send).
    """
    rows = [_row(aspect) for aspect in tree]
    remark: Json = {"source": source} if source else {}
    if path.suffix == ".json":
        write_json(path, {"format": FORMAT, **remark, "aspects": rows})
    elif path.suffix == ".toml":
        try:
            write_text(path, _toml({"format": FORMAT, **remark}, rows))
        except UnicodeEncodeError as error:
            raise ConfigurationError(
                f"TOML cannot hold {error.object[error.start]!r}; save it as .json"
            ) from error
    else:
        raise ConfigurationError(f"a tree is saved as .toml or .json, not as {str(path)!r}")


def digest(aspects: Iterable[Aspect]) -> str:
    """Return 6 hex digits that change with any word of the aspects."""
    text = "\x1f".join(repr(_row(aspect)) for aspect in aspects)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]


def _find(tree: str) -> Path:
    if tree in TREES:
        return tree_file(tree)
    path = Path(tree)
    if path.suffix in SUFFIXES or path.is_file():
        return path
    raise UnknownName("tree", tree, [*TREES, "or the path of a .toml or .json file"])


def _rows(path: Path) -> list[Json]:
    try:
        raw = path.read_bytes()
        content = json.loads(raw) if path.suffix == ".json" else tomllib.loads(raw.decode("utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(f"tree file {path} does not exist") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"tree file {path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise ConfigurationError(f"tree file {path}: it holds no table")
    _refuse_unknown(path, "", content, _FILE_KEYS)
    version = content.get("format", FORMAT)
    if not isinstance(version, int) or version > FORMAT:
        raise ConfigurationError(
            f"tree file {path} has format {version!r}; this version reads up to {FORMAT}"
        )
    rows = content.get("aspects")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise ConfigurationError(f"tree file {path}: it needs at least one [[aspects]] table")
    for number, row in enumerate(rows, start=1):
        name = row.get("name")
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError(f"tree file {path}: aspect {number} needs a name")
        if not isinstance(row.get("parent", ""), str):
            raise ConfigurationError(
                f"tree file {path}: aspect {name!r}: parent is a name, not {row['parent']!r}"
            )
        _refuse_unknown(path, f"aspect {name!r}: ", row, _ASPECT_KEYS)
    return rows


def _parents(path: Path, rows: list[Json]) -> list[str | None]:
    """Return the id of each row's parent, `None` for roots."""
    slugs = [slug(row["name"]) for row in rows]
    ids: dict[int, str] = {at: slugs[at] for at, row in enumerate(rows) if not row.get("parent")}
    while True:
        placed = len(ids)
        for at, row in enumerate(rows):
            if at not in ids and (parent := _placed_parent(path, row, slugs, ids)) is not None:
                ids[at] = f"{parent}/{slugs[at]}"
        if len(ids) == placed:
            break
    for at, row in enumerate(rows):
        if at not in ids:
            raise _nowhere(path, row, rows, slugs, ids)
    return [ids[at].rpartition("/")[0] or None for at in range(len(rows))]


def _placed_parent(path: Path, row: Json, slugs: list[str], ids: dict[int, str]) -> str | None:
    """Return the id of a row's parent once it is known."""
    wanted = "/".join(slug(part) for part in row["parent"].split("/"))
    if wanted in ids.values():
        return wanted
    bearers = [at for at, own in enumerate(slugs) if own == wanted]
    if len(bearers) > 1 and all(at in ids for at in bearers):
        known = ", ".join(repr(ids[at]) for at in bearers)
        raise ConfigurationError(
            f"tree file {path}: aspect {row['name']!r}: {row['parent']!r} may be {known}; name it in full"
        )
    return ids.get(bearers[0]) if len(bearers) == 1 else None


def _nowhere(
    path: Path, row: Json, rows: list[Json], slugs: list[str], ids: dict[int, str]
) -> ConfigurationError:
    """Return the error for rows that hang on no root: a cycle, or a parent that is not there."""
    walked: list[int] = []
    at = rows.index(row)
    while at not in walked:
        walked.append(at)
        wanted = slug(rows[at]["parent"].rpartition("/")[2])
        following = [i for i, own in enumerate(slugs) if own == wanted and i not in ids]
        if not following:
            name, parent = rows[at]["name"], rows[at]["parent"]
            known = ", ".join(ids.values()) or "no root"
            return ConfigurationError(
                f"tree file {path}: aspect {name!r} names the unknown parent {parent!r}; known: {known}"
            )
        at = following[0]
    circle = " -> ".join(rows[i]["name"] for i in [*walked[walked.index(at) :], at])
    return ConfigurationError(
        f"tree file {path}: these aspects are parents of each other: {circle}"
    )


def _aspect(path: Path, row: Json, parent: str | None, definitions: dict[str, str]) -> Aspect:
    fields = {key: value for key, value in row.items() if key not in ("parent", "source")}
    if parent is None and "definition" not in fields and slug(row["name"]) in definitions:
        fields["definition"] = definitions[slug(row["name"])]
    try:
        return Aspect(**fields, parent=parent)
    except ValidationError as error:
        raise ConfigurationError(
            f"tree file {path}: aspect {row['name']!r}: {_problem(error)}"
        ) from None


def _problem(error: ValidationError) -> str:
    first = error.errors()[0]
    key = ".".join(map(str, first["loc"]))
    said = str(first["msg"]).removeprefix("Value error, ")
    return f"{key}: {said}" if key else said


def _refuse_unknown(path: Path, where: str, table: Json, known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            raise ConfigurationError(
                f"tree file {path}: {where}unknown key {key!r}; known: {', '.join(known)}"
            )


def _row(aspect: Aspect) -> Json:
    """Return an aspect as a file says it: what is the default is left out."""
    row: Json = {"name": aspect.name}
    if aspect.parent is not None:
        row["parent"] = aspect.parent
    row["definition"] = aspect.definition
    if aspect.scale != Aspect.model_fields["scale"].default:
        row["scale"] = list(aspect.scale)
    if aspect.question is not None:
        row["question"] = aspect.question
    if not aspect.higher_is_better:
        row["higher_is_better"] = False
    return row


def _toml(head: Json, rows: list[Json]) -> str:
    blocks = [_toml_table(head), *("[[aspects]]\n" + _toml_table(row) for row in rows)]
    return "\n".join(blocks)


def _toml_table(table: Json) -> str:
    return "".join(f"{key} = {_toml_value(value)}\n" for key, value in table.items())


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):  # a JSON string is a TOML string but for one character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return (
            "["
            + ", ".join(f"{item:g}" if item == float(f"{item:g}") else repr(item) for item in value)
            + "]"
        )
    return repr(value)

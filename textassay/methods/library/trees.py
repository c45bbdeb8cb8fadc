"""Loads and saves trees of aspects.

Published trees have names, the user's are TOML or JSON files.

    format = 1

    [[aspects]]
    name = "coherence"
    definition = "how well the sentences form a whole."

    [[aspects]]
    name = "Logical flow"
    parent = "coherence"
    definition = "whether each sentence follows from what was said before."

A parent is named by its path (`engagingness/content-richness`), or by its name alone if no other
node has it. A root may omit its definition if the task has an aspect of that name. People edit
these files, so an unknown key is an error that names file and key.

A checklist is a tree whose leaves are yes/no questions, published by name or from a file.

    [[aspects]]
    name = "coherence"

    [[aspects]]
    name = "Logical flow"
    parent = "coherence"
    question = "Does the summary present information in a logical order?"
    higher_is_better = true    # false if "yes" is the bad answer

A digest of all words distinguishes versions of a checklist.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from textassay.agents.prompt_template import Task
from textassay.methods.library.toml import (
    FORMAT,
    check_format,
    check_known_keys,
    find_file,
    problem,
    read_toml,
    validate_as,
    write_table,
)
from textassay.prompts import CHECKLISTS, TREES, checklist_file, tree_file
from textassay.runtime.base import Json, T
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.labels import slug
from textassay.runtime.messages import Aspect, AspectTree, Scale

_ASPECT_KEYS = ("name", "parent", "definition", "scale", "question", "higher_is_better", "source")


def load(tree: str, task: Task | None = None) -> AspectTree:
    """Return a tree.

    Args:
        tree: Name of a published tree, or path of a TOML or JSON file.
        task: Roots without a definition get the definition of its aspect with the same name.

    Raises:
        UnknownName: There is no such tree.
        ConfigurationError: The file cannot be read or describes no tree; names file and aspect.
    """
    path = find_file("tree", tree, TREES, tree_file)
    rows = _rows(path)
    definitions = {slug(aspect.name): aspect.definition for aspect in (task.family if task else ())}
    parents = _parents(path, rows)
    aspects = tuple(
        _aspect(path, row, parent, definitions) for row, parent in zip(rows, parents, strict=True)
    )
    return validate_as(path, {"aspects": aspects}, AspectTree)


def save(tree: AspectTree, path: Path, *, source: str = "") -> None:
    """Write a tree as a file that `load` reads and people edit.

    JSON if the path ends in `.json`, else TOML; the file is replaced in one step.

    Args:
        tree: The tree.
        path: The file; its folder exists.
        source: A remark on the origin of the tree.

    Raises:
        OSError: The file cannot be written.
        ConfigurationError: The path ends in neither `.toml` nor `.json`, or TOML cannot represent
            the text.
    """
    rows = [_row(aspect) for aspect in tree]
    remark: Json = {"source": source} if source else {}
    write_table(path, {"format": FORMAT, **remark, "aspects": rows})


def tree_digest(aspects: Iterable[Aspect]) -> str:
    """Return 6 hex digits that change with any word of the aspects."""
    text = "\x1f".join(repr(_row(aspect)) for aspect in aspects)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]


PUBLISHED, BY_MODEL = "published", "model"
"""Values of the options `tree` and `checklist`, besides names and files."""


def find_parts(
    kind: Literal["tree", "checklist"],
    given: str,
    task: Task,
    scale: Scale,
    parts: Callable[[AspectTree, Aspect], T],
) -> tuple[dict[str, T], tuple[Aspect, ...]]:
    """Return the known part of the tree below each aspect, and all aspects to judge.

    Args:
        kind: Name of the option.
        given: The option: `published`, `model`, a name or a file.
        task: The task, with the chosen aspects or all.
        scale: The scale on which all nodes are judged.
        parts: Returns the part of a tree below one of its roots.

    Raises:
        UnknownName: There is no such tree or checklist.
        ConfigurationError: The user's file lacks a chosen aspect.
    """
    names, load_file = (TREES, load) if kind == "tree" else (CHECKLISTS, load_checklist)
    aspects = on_scale(task.aspects, scale)
    is_published = given == PUBLISHED
    if given == BY_MODEL or (is_published and task.name not in names):
        return {}, aspects
    tree = load_file(task.name if is_published else given, task)
    tree = AspectTree(aspects=on_scale(tree, scale))
    parts_of = {root.id: parts(tree, root) for root in tree.roots}
    if is_published:  # may lack aspects
        return {a.id: parts_of[a.id] for a in aspects if a.id in parts_of}, aspects
    if task.aspects == task.family or not task.family:
        # the caller did not choose aspects, so the file's are judged
        return parts_of, tree.roots
    for aspect in aspects:
        if slug(aspect.name) not in parts_of:
            raise ConfigurationError(
                f"{kind} {given}: {aspect.name!r} is not one of its roots:"
                f" {', '.join(root.name for root in tree.roots)}"
            )
    return {a.id: parts_of[a.id] for a in aspects}, aspects


def on_scale(aspects: Iterable[Aspect], scale: Scale) -> tuple[Aspect, ...]:
    """Return aspects with another scale."""
    return tuple(aspect.model_copy(update={"scale": scale}) for aspect in aspects)


def _rows(path: Path) -> list[Json]:
    content = read_toml(path).content
    # `name` and `source` are remarks
    check_known_keys(path, content, ("format", "name", "source", "aspects"))
    check_format(path, content)
    rows = content.get("aspects")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise problem(path, "it needs at least one [[aspects]] table")
    for number, row in enumerate(rows, start=1):
        name = row.get("name")
        if not isinstance(name, str) or not name.strip():
            raise problem(path, f"aspect {number} needs a name")
        if not isinstance(row.get("parent", ""), str):
            raise problem(path, f"aspect {name!r}: parent must be a name, not {row['parent']!r}")
        check_known_keys(path, row, _ASPECT_KEYS, where=f"aspect {name!r}: ")
    return rows


def _parents(path: Path, rows: list[Json]) -> list[str | None]:
    """Return the id of each row's parent, `None` for roots."""
    slugs = [slug(row["name"]) for row in rows]
    ids: dict[int, str] = {at: slugs[at] for at, row in enumerate(rows) if not row.get("parent")}
    while True:
        # rounds rather than recursion, because a file may name children before their parents
        placed = len(ids)
        for at, row in enumerate(rows):
            if at not in ids and (parent := _place_parent(path, row, slugs, ids)):
                ids[at] = f"{parent}/{slugs[at]}"
        if len(ids) == placed:
            break
    unplaced = [at for at in range(len(rows)) if at not in ids]
    for at in unplaced:
        name, parent = rows[at]["name"], rows[at]["parent"]
        if all(slugs[other] != slug(parent.rpartition("/")[2]) for other in unplaced):
            ids_there = ", ".join(ids.values()) or "no root"
            message = f"aspect {name!r} names the unknown parent {parent!r}; known: {ids_there}"
            raise problem(path, message)
    if unplaced:
        names = ", ".join(rows[at]["name"] for at in unplaced)
        raise problem(path, f"the parents of these aspects form a circle: {names}")
    return [ids[at].rpartition("/")[0] or None for at in range(len(rows))]


def _place_parent(path: Path, row: Json, slugs: list[str], ids: dict[int, str]) -> str | None:
    """Return the id of a row's parent once it is known."""
    parent = "/".join(slug(part) for part in row["parent"].split("/"))
    if parent in ids.values():
        return parent
    matching = [at for at, name in enumerate(slugs) if name == parent]
    # only if all of them are placed, since the full path of one may name the parent
    if len(matching) > 1 and all(at in ids for at in matching):
        candidates = ", ".join(repr(ids[at]) for at in matching)
        raise problem(
            path, f"aspect {row['name']!r}: {row['parent']!r} may be {candidates}; name it in full"
        )
    return ids.get(matching[0]) if len(matching) == 1 else None


def _aspect(path: Path, row: Json, parent: str | None, definitions: dict[str, str]) -> Aspect:
    fields = {key: value for key, value in row.items() if key not in ("parent", "source")}
    if not parent and "definition" not in fields and slug(row["name"]) in definitions:
        fields["definition"] = definitions[slug(row["name"])]
    if parent and "definition" not in fields and "question" in fields:
        fields["definition"] = fields["question"]
    where = f"aspect {row['name']!r}: "
    return validate_as(path, {**fields, "parent": parent}, Aspect, where=where)


def _row(aspect: Aspect) -> Json:
    """Return an aspect as a row of a file, without defaults."""
    row: Json = {"name": aspect.name}
    if aspect.parent:
        row["parent"] = aspect.parent
    row["definition"] = aspect.definition
    if aspect.scale != Aspect.model_fields["scale"].default:
        row["scale"] = list(aspect.scale)
    if aspect.question:
        row["question"] = aspect.question
    if not aspect.higher_is_better:
        row["higher_is_better"] = False
    return row


def load_checklist(checklist: str, task: Task | None = None) -> AspectTree:
    """Return a checklist, each node on the scale of P(yes).

    Args:
        checklist: Name of a published checklist, or path of a TOML or JSON file.
        task: Aspects without a definition get the definition of its aspect.

    Raises:
        UnknownName: There is no such checklist.
        ConfigurationError: The file cannot be read, or a leaf has no question; names file and
            aspect.
    """
    path = str(checklist_file(checklist)) if checklist in CHECKLISTS else checklist
    tree = load(path, task)
    for leaf in tree.leaves:
        # only leaves are questions; inner nodes are headings
        fault = "" if leaf.question else "needs a question, as all nodes without parts do"
        if fault or not leaf.parent:
            fault = fault if leaf.parent else "has no questions below it"
            raise ConfigurationError(f"checklist {checklist}: {leaf.id!r} {fault}")
    return AspectTree(aspects=on_scale(tree, (0.0, 1.0)))


def questions_below(tree: AspectTree, root: Aspect) -> tuple[Aspect, ...]:
    """Return the questions of one aspect, in the order of the file."""
    return tuple(leaf for leaf in tree.leaves if leaf.id.startswith(f"{root.id}/"))

"""Trees that are given, and the folder in which `fit` grows, fills and resumes one.

OUT/fit.json        the request; the same command resumes an alignment that was stopped
OUT/layers/N.json   the tree as it stood at layer N
OUT/layers/N/       the run that rated the nodes of layer N
OUT/answers/        answers of models, unless a cache is named
OUT/evaluator.json  written last, with the report

A given tree is a published one or a file of the user's. Asks no model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from textassay.agents.decomposer import Decomposition
from textassay.agents.task import Task
from textassay.methods.fitted.evaluator import is_evaluator
from textassay.methods.hd_eval import BY_MODEL, PUBLISHED, SCALE
from textassay.methods.library import trees
from textassay.prompts import TREES
from textassay.runtime.errors import ConfigurationError, DataError, RunFolderError
from textassay.runtime.messages import Aspect, AspectTree
from textassay.runtime.model import Json
from textassay.runtime.settings import Settings
from textassay.runtime.storage.files import write_json

PLAN, LAYERS, ANSWERS = "fit.json", "layers", "answers"


def given_tree(option: str, task: Task) -> AspectTree | None:
    """Return the tree that an option names, every node on the judge's scale.

    Args:
        option: `model` for none: the model grows it; `published` for the tree of the task; or the
            name of a published tree or a tree file, whose roots are the first layer.
        task: The task with the aspects that people rated. An aspect that its published tree lacks
            is a root without parts.

    Raises:
        UnknownName: There is no such tree.
        ConfigurationError: The file cannot be used, or no tree is published for the task.
    """
    if option == BY_MODEL:
        return None
    if option != PUBLISHED:
        return AspectTree(aspects=_rated_alike(trees.load(option, task)))
    if task.name not in TREES:
        raise ConfigurationError(
            f"no tree is published for the task {task.name!r}; there is one for"
            f" {', '.join(TREES)}. Name one of these or a file, or let the model grow it (model)"
        )
    tree = trees.load(task.name, task)
    published = {root.id: root for root in tree.roots}
    # the task decides what is judged: aspects without a published branch stay as roots
    nodes = [published.get(aspect.id, aspect) for aspect in task.aspects]
    roots = {node.id for node in nodes}
    nodes += [node for node in tree if node.parent and node.id.partition("/")[0] in roots]
    return AspectTree(aspects=_rated_alike(nodes))


def parts_in(tree: AspectTree, aspects: Sequence[Aspect]) -> list[Decomposition]:
    """Return what criteria are made of in a tree; those without parts are left out."""
    children = ((aspect, tree.children(aspect.id)) for aspect in aspects)
    return [Decomposition(of=aspect, aspects=parts) for aspect, parts in children if parts]


def _rated_alike(nodes: Iterable[Aspect]) -> tuple[Aspect, ...]:
    return tuple(node.model_copy(update={"scale": SCALE}) for node in nodes)


def open_folder(out: Path, plan: Json) -> None:
    """Begin an alignment in a new folder, or check that the one in it is the same.

    Args:
        out: The folder.
        plan: What must not change between two calls, as JSON values.

    Raises:
        RunFolderError: It holds an evaluator, something else, or another alignment, or cannot be
            written to.
    """
    file = out / PLAN
    if is_evaluator(out) or not file.exists():
        check_out(out)
        try:
            (out / LAYERS).mkdir(parents=True, exist_ok=True)
            write_json(file, plan)
        except OSError as error:
            raise RunFolderError(f"the folder {out} cannot be written to: {error}") from error
        return
    try:
        before = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{file} cannot be read: {error}") from error
    for key, value in plan.items():
        if before.get(key) != value:
            raise RunFolderError(
                f"{out} contains another alignment: its {key} is {before.get(key)!r}, not "
                f"{value!r}; choose another folder for out="
            )


def note_saved_progress(error: DataError, out: Path, settings: Settings) -> None:
    """Add to a learning error that the paid ratings are kept, and what to change."""
    error.add_note(
        f"the model's ratings are kept in {out / LAYERS}; only learning from them failed"
    )
    error.add_note(
        "to continue, fit again in this folder with another aggregator, such as ridge or avg;"
    )
    if not settings.no_cache:
        error.add_note(
            f"or, with more rated rows or another task, with a new folder and the cache "
            f"{settings.cache or out / ANSWERS}: what was asked before is not asked again"
        )


def read_parts(file: Path, aspects: Sequence[Aspect]) -> list[Decomposition]:
    """Read the parts of criteria, as one layer of an alignment keeps them.

    Raises:
        RunFolderError: The file was edited, or its criteria are others than were found to matter.
    """
    try:
        decompositions = [
            Decomposition.model_validate(one) for one in json.loads(file.read_bytes())
        ]
    except (OSError, ValueError, TypeError) as error:
        raise RunFolderError(
            f"{file} cannot be read: {error}; delete it to ask for the parts again"
        ) from error
    # another aggregator can rank other criteria first; their parts must not be taken for these
    if [one.of.id for one in decompositions] != [aspect.id for aspect in aspects]:
        before, now = (
            ", ".join(ids)
            for ids in ([one.of.id for one in decompositions], [aspect.id for aspect in aspects])
        )
        raise RunFolderError(
            f"{file} contains the parts of {before}, but {now} are to be decomposed; delete the"
            " layers from there on, or choose another folder"
        )
    return decompositions


def check_out(folder: Path) -> None:
    """Refuse a folder that holds something else.

    Raises:
        RunFolderError: It holds an evaluator already, or other files.
    """
    if is_evaluator(folder):
        raise RunFolderError(
            f"{folder} already contains an evaluator; choose another folder for out=, or delete it"
        )
    if folder.exists() and not folder.is_dir():
        raise RunFolderError(f"{folder} is a file; out= is a folder to make")
    # a folder of something else is never written into: `report.json` is a common name
    if folder.is_dir() and any(folder.iterdir()):
        raise RunFolderError(f"{folder} is not empty; choose another folder for out=")

"""Trees that alignment does not grow: a published one, or a file of the user's.

Knows tree files and tasks; asks no model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textassay.agents.decomposer import Decomposition
from textassay.agents.task import Task
from textassay.methods.hd_eval import BY_MODEL, PUBLISHED, SCALE
from textassay.methods.library import trees
from textassay.prompts import TREES
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Aspect, AspectTree


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

"""Loads checklists: trees whose leaves are yes/no questions, published ones by name or from a file.

    [[aspects]]
    name = "coherence"

    [[aspects]]
    name = "Logical flow"
    parent = "coherence"
    question = "Does the summary present information in a logical order?"
    higher_is_better = true    # false if "yes" is the bad answer

Files are those of `trees`; a digest over all of their words tells one state of a checklist from
another.
"""

from __future__ import annotations

from textassay.agents.task import Task
from textassay.methods.library import trees
from textassay.prompts import CHECKLISTS, checklist_file
from textassay.runtime.errors import ConfigurationError
from textassay.runtime.messages import Aspect, AspectTree


def load(checklist: str, task: Task | None = None) -> AspectTree:
    """Return a checklist, each node on the scale of P(yes).

    Args:
        checklist: Name of a published checklist, or path of a TOML or JSON file.
        task: Gives aspects without a definition the one of its own.

    Raises:
        UnknownName: There is no such checklist.
        ConfigurationError: The file cannot be read, or a leaf has no question; names file and
            aspect.
    """
    path = str(checklist_file(checklist)) if checklist in CHECKLISTS else checklist
    tree = trees.load(path, task)
    for leaf in tree.leaves:
        if leaf.parent is None:
            raise ConfigurationError(
                f"checklist {checklist}: {leaf.name!r} has no questions below it"
            )
        # an inner node is only a heading; what is answered are the leaves
        if leaf.question is None:
            raise ConfigurationError(
                f"checklist {checklist}: {leaf.id!r} needs a question, as all nodes without"
                " parts do"
            )
    return AspectTree(aspects=tuple(with_unit_scale(node) for node in tree))


def with_unit_scale(aspect: Aspect) -> Aspect:
    """Return an aspect on the scale of P(yes)."""
    return aspect.model_copy(update={"scale": (0.0, 1.0)})


def questions_below(tree: AspectTree, root: Aspect) -> tuple[Aspect, ...]:
    """Return the questions of one aspect, in the order of the file."""
    return tuple(leaf for leaf in tree.leaves if leaf.id.startswith(f"{root.id}/"))

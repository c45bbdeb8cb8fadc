"""Messages: a copy with other fields is what a new message with these fields would be."""

from __future__ import annotations

from textassay.runtime.messages import Aspect, AspectTree


def test_a_copy_forgets_what_was_computed_from_replaced_fields():
    """The id follows the name and the parent, whether it was looked at before or not."""
    aspect = Aspect(name="Logical flow", definition="order of ideas")
    assert aspect.id == "logical-flow"
    renamed = aspect.model_copy(update={"name": "Clarity"})
    assert (renamed.id, renamed.label) == ("clarity", "Clarity")
    below = aspect.model_copy(update={"parent": "coherence"})
    assert (below.id, below.label) == ("coherence/logical-flow", "coherence/logical-flow")
    assert aspect.id == "logical-flow"
    assert renamed == Aspect(name="Clarity", definition="order of ideas")


def test_a_copied_tree_has_the_layers_of_its_own_aspects():
    """Roots, leaves and depth are found anew."""
    root = Aspect(name="coherence", definition="d")
    tree = AspectTree(aspects=(root,))
    assert (tree.depth, tree.leaves) == (1, (root,))
    leaf = Aspect(name="flow", definition="d", parent="coherence")
    deeper = tree.model_copy(update={"aspects": (root, leaf)})
    assert (deeper.depth, deeper.leaves, deeper[leaf.id]) == (2, (leaf,), leaf)


def test_aspects_are_told_apart_by_all_their_fields_and_equal_ones_share_a_place():
    one, other = (Aspect(name="Flow", definition="Reads well.") for _ in range(2))
    assert one.label == "Flow"  # computed once, and no part of what the aspect is
    assert {one: "kept"}[other] == "kept"
    assert one not in {Aspect(name="Flow", definition="Sentences connect.")}

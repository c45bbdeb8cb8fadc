"""Pairs of texts to compare: their field names, and how systems are paired within groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any

from textassay.runtime.errors import DataError
from textassay.runtime.messages import Example

OTHER_OUTPUT = "output_b"
"""Field of an example that holds the second text of a comparison."""
OTHER_SYSTEM = "system_b"
"""Field of an example that names who made the second text."""


class Paired:
    """The pairs of systems in each group, built again whenever they are iterated.

    `human` of a pair says which of the two people rated higher: 1 for the first, 0 for the second,
    0.5 for equal ratings.

    Args:
        examples: Texts with `group` and `system`.

    Raises:
        DataError: When iterated: a text has no group or system, a system has two texts in a group,
            no group has two systems, or two texts of a group answer different inputs.
    """

    def __init__(self, examples: Iterable[Example]) -> None:
        self._examples = examples

    def __iter__(self) -> Iterator[Example]:
        made = False
        for members in self._by_group().values():
            for first, second in combinations(sorted(members), 2):
                made = True
                yield pair(members[first], members[second])
        if not made:
            raise DataError("no group has texts of two systems, so there is nothing to compare")

    def _by_group(self) -> dict[str, dict[str, Example]]:
        groups: dict[str, dict[str, Example]] = {}
        for one in self._examples:
            if one.group is None or one.system is None:
                lacking = "group" if one.group is None else "system"
                raise DataError(
                    f"the example {one.id!r} has no {lacking!r}; systems are paired within groups,"
                    " so give every row both"
                )
            members = groups.setdefault(one.group, {})
            if one.system in members:
                raise DataError(
                    f"the examples {members[one.system].id!r} and {one.id!r} are both of system "
                    f"{one.system!r} in group {one.group!r}; one text per system can be paired"
                )
            members[one.system] = one
        return groups


def pair(first: Example, second: Example) -> Example:
    """Return the comparison of two texts of one group.

    Raises:
        DataError: They answer different inputs, of which a comparison would show only one.
    """
    for name in ("source", "context", "images"):
        ours, theirs = getattr(first, name), getattr(second, name)
        if ours and theirs and ours != theirs:
            raise DataError(
                f"the examples {first.id!r} and {second.id!r} of group {first.group!r} have"
                f" different {'inputs' if name == 'source' else name}, and a comparison shows one;"
                " pair texts that answer the same input, or give whole conversations as outputs"
            )
    meta: dict[str, Any] = {**first.meta, OTHER_OUTPUT: second.output, OTHER_SYSTEM: second.system}
    return Example(
        id=f"{first.id} vs {second.id}",
        output=first.output,
        source=first.source or second.source,
        messages=first.messages if first.source else second.messages,
        context=first.context or second.context,
        passages=first.passages if first.context else second.passages,
        images=first.images or second.images,
        references=first.references,
        system=first.system,
        group=first.group,
        human=_preferred(first, second),
        meta=meta,
    )


def _preferred(first: Example, second: Example) -> dict[str, float | None]:
    preferences: dict[str, float | None] = {}
    for aspect, a in first.human.items():
        b = second.human.get(aspect)
        if a is not None and b is not None:
            preferences[aspect] = 0.5 if a == b else float(a > b)
    return preferences

"""All stress tests, by name and family, and which of them a request means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textassay.runtime.errors import UnknownName
from textassay.stress import paraphrase
from textassay.stress.edit import Edit
from textassay.stress.families import (
    authority,
    formatting,
    injection,
    length,
    master_keys,
    must_see,
    position,
)

EDITS: Mapping[str, Edit] = {
    edit.test: edit
    for family in (formatting, length, injection, master_keys, authority, must_see, paraphrase)
    for edit in family.EDITS
}
"""Tests that edit texts, by name."""
REPEAT = "repeat"
"""Test that asks the same once more: the noise floor."""
TESTS: tuple[str, ...] = (REPEAT, *EDITS, *position.TESTS)
FAMILY_OF: Mapping[str, str] = {
    REPEAT: REPEAT,
    **{edit.test: edit.family for edit in EDITS.values()},
    **dict.fromkeys(position.TESTS, position.FAMILY),
}
FAMILIES = tuple(dict.fromkeys(FAMILY_OF.values()))


def chosen_tests(names: Iterable[str] | None) -> tuple[str, ...]:
    """Return the tests that names of tests and families stand for, in the suite's order.

    All for `None`.

    The noise floor is always among them.

    Raises:
        UnknownName: There is no such test or family.
    """
    if names is None:
        return TESTS
    # without the noise floor no shift could be distinguished from a judge that varies by itself
    chosen = {REPEAT}
    for name in names:
        if name == "all":
            return TESTS
        if name not in TESTS and name not in FAMILIES:
            raise UnknownName("stress test", name, ["all", *FAMILIES, *TESTS])
        chosen.update(test for test in TESTS if name in (test, FAMILY_OF[test]))
    return tuple(test for test in TESTS if test in chosen)

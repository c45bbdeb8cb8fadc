"""All stress tests by name and family, those that a request means, and what each expects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.messages import Aspect
from textassay.stress import paraphrase
from textassay.stress.edit import Edit, Expects, read_role
from textassay.stress.families import (
    AUTHORITY,
    FORMATTING,
    INJECTION,
    LENGTH,
    MASTER_KEYS,
    MUST_SEE,
    POSITION,
    POSITION_TESTS,
)

EDITS: Mapping[str, Edit] = {
    edit.test: edit
    for family in (
        FORMATTING,
        LENGTH,
        INJECTION,
        MASTER_KEYS,
        AUTHORITY,
        MUST_SEE,
        paraphrase.EDITS,
    )
    for edit in family
}
"""Tests that edit texts, by name."""
REPEAT = "repeat"
"""Test that asks the same once more: the noise floor."""
TESTS: tuple[str, ...] = (REPEAT, *EDITS, *POSITION_TESTS)
FAMILY_OF: Mapping[str, str] = {
    REPEAT: REPEAT,
    **{edit.test: edit.family for edit in EDITS.values()},
    **dict.fromkeys(POSITION_TESTS, POSITION),
}
FAMILIES = tuple(dict.fromkeys(FAMILY_OF.values()))
MustSee = Mapping[str, frozenset[str]]
"""Names of aspects by test that must see it besides those that the rules know."""


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


def read_must_see(entries: Iterable[str]) -> dict[str, frozenset[str]]:
    """Read `TEST=ASPECT` entries.

    Raises:
        ConfigurationError: An entry has another form, or its test is none that must be seen.
    """
    must_see: dict[str, set[str]] = {}
    known = [edit.test for edit in EDITS.values() if edit.must_see]
    for entry in entries:
        test, equals, aspect = entry.partition("=")
        if not equals or not aspect:
            raise ConfigurationError(f"must_see= takes TEST=ASPECT, not {entry!r}")
        if test not in known:
            raise UnknownName("test that must be seen", test, known)
        must_see.setdefault(test, set()).add(aspect)
    return {test: frozenset(aspects) for test, aspects in must_see.items()}


def check_must_see(must_see: MustSee, aspects: Sequence[Aspect]) -> None:
    """Refuse aspects that are not judged.

    Raises:
        UnknownName: There is no such aspect.
    """
    labels = [aspect.label for aspect in aspects]
    for name in sorted({name for names in must_see.values() for name in names}):
        if name not in labels:
            raise UnknownName("aspect of must-see changes", name, labels)


def expected(edit: Edit, aspect: Aspect, must_see: MustSee) -> Expects | None:
    """Return what an edit should do to an aspect's score; `None` if nothing is known."""
    if edit.replaces:
        return "lowest"
    role = read_role(aspect.label)
    if not (edit.must_see or edit.ignored_by):
        return "unchanged"
    # the user's word counts as much as the rules, which know only names of aspects
    if role in edit.seen_by or aspect.label in must_see.get(edit.test, ()):
        return "lower" if aspect.higher_is_better else "higher"
    return "unchanged" if role in edit.ignored_by else None

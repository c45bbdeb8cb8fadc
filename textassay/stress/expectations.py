"""What each test expects of each aspect, and which tests a run can make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from textassay.runtime.errors import ConfigurationError, UnknownName, parameter
from textassay.runtime.messages import Aspect
from textassay.stress.edit import Edit, Expects
from textassay.stress.roles import role_of
from textassay.stress.suite import EDITS

MustSee = Mapping[str, frozenset[str]]
"""Names of aspects by test that must see it besides those that the rules know."""


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
            raise ConfigurationError(f"{parameter('must_see')} takes TEST=ASPECT, not {entry!r}")
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
    role = role_of(aspect.label)
    if not (edit.must_see or edit.ignored_by):
        return "unchanged"
    # the user's word counts as much as the rules, which know only names of aspects
    if role in edit.seen_by or aspect.label in must_see.get(edit.test, ()):
        return "lower" if aspect.higher_is_better else "higher"
    return "unchanged" if role in edit.ignored_by else None

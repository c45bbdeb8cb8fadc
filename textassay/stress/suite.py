"""All stress tests by name and family, those that a request means, and what each expects.

Position: neither the order of two texts nor that of the scale's ends may change a rating. These
tests leave the texts alone and ask in another way. `swap` is for methods that compare two texts,
the others for methods that rate one: `letters` asks for letters, `label-order` lists these from the
best to the worst, and `scale-order` shows the scale from high to low.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from textassay.runtime.errors import ConfigurationError, UnknownName
from textassay.runtime.messages import Aspect, Example
from textassay.runtime.model import ChatMessage, Model, Wrapper
from textassay.stress.edits import (
    AUTHORITY,
    FORMATTING,
    INJECTION,
    LENGTH,
    MASTER_KEYS,
    MUST_SEE,
    Edit,
    EditContext,
    Expects,
    read_role,
)

POSITION = "position"
SWAP, LETTERS, LABEL_ORDER = "swap", "letters", "label-order"
SCALE_ORDER = "scale-order"
POSITION_TESTS = (SWAP, LETTERS, LABEL_ORDER, SCALE_ORDER)
_FENCED = re.compile(r"(<(?P<kind>[a-z-]+-[0-9a-f]{8})>\n.*?\n</(?P=kind)>)", re.DOTALL)
_FROM_TO = re.compile(r"\bfrom (\S+) \(worst\) to (\S+) \(best\)")
_SPAN = re.compile(r"\((\d+)-(\d+)\)")
# lines that give the meaning of letters: "A. 1, the lowest rating"
_OPTIONS = re.compile(r"(?m)(?:^[A-Z]\. -?\d.*\n?){2,}")
Q = TypeVar("Q")
A = TypeVar("A")
PARAPHRASE = "paraphrase"


def _made_by_a_model(example: Example, around: EditContext) -> Example | None:
    return None  # the copies are judged in a session of their own, once they are verified


# wording is what fluency and concision are about, so their scores may change
PARAPHRASES = (
    Edit(
        PARAPHRASE,
        PARAPHRASE,
        _made_by_a_model,
        "the same in other words",
        ignored_by=frozenset({"facts", "content", "order"}),
    ),
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
        PARAPHRASES,
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
    """Read `TEST=ASPECT` entries."""
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
    """Refuse aspects that are not judged."""
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


def reversed_scale(prompt: str) -> str:
    """Return a prompt that shows its scale from high to low.

    What stands between delimiters is left alone.
    """
    return _outside_of_texts(
        prompt,
        lambda words: _SPAN.sub(r"(\2-\1)", _FROM_TO.sub(r"from \2 (best) to \1 (worst)", words)),
    )


def reversed_labels(prompt: str) -> str:
    """Return a prompt that lists its letters, or names their span, from the best to the worst.

    Letters keep their meaning. What stands between delimiters is left alone.
    """

    def turned(words: str) -> str:
        words = _OPTIONS.sub(_reversed_lines, words)
        return _FROM_TO.sub(r"from \2 (best) to \1 (worst)", words)

    return _outside_of_texts(prompt, turned)


def _reversed_lines(match: re.Match[str]) -> str:
    lines = match[0].splitlines()
    return "\n".join(reversed(lines)) + ("\n" if match[0].endswith("\n") else "")


def _outside_of_texts(prompt: str, change: Callable[[str], str]) -> str:
    pieces = _FENCED.split(prompt)
    # split gives: words, fenced text, its kind, words, ...
    pieces[::3] = map(change, pieces[::3])
    return "".join(piece for at, piece in enumerate(pieces) if at % 3 != 2)


class ReorderedPrompts(Wrapper):
    """Shows every prompt in another order.

    Attributes:
        changed: Number of requests whose prompt held something to turn around.
    """

    def __init__(self, wrapped: Model, change: Callable[[str], str]) -> None:
        super().__init__(wrapped)
        self._change, self.changed = change, 0

    async def around(self, request: Q, call: Callable[[Q], Awaitable[A]]) -> A:
        """Ask with the prompt turned around."""
        turned = _turned(request, self._change)
        self.changed += turned is not request
        return await call(turned)


def _turned(request: Any, change: Callable[[str], str]) -> Any:
    if request.prompt is not None:
        prompt = change(request.prompt)
        return (
            request if prompt == request.prompt else request.model_copy(update={"prompt": prompt})
        )
    messages = tuple(
        ChatMessage(role=one.role, content=change(one.content)) for one in request.messages
    )
    if messages == tuple(request.messages):
        return request
    return request.model_copy(update={"messages": messages})

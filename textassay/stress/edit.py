"""What a stress test is: an edit of a text, what it should do to the score, and its copies.

Knows examples and aspects' roles; nothing of models, runs or statistics. A role says which aspects
must see which edits, by their names: a changed number is a matter of consistency and none of
fluency. Names that no rule knows have no role, and nothing is expected of them unless the user says
so.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from textassay.runtime.errors import DataError
from textassay.runtime.messages import Example
from textassay.tools.text import RuleSplitter

Role = Literal["facts", "content", "order", "language", "concision", "overall"]
"""What an aspect judges: agreement with the source, what is covered, the order of sentences, their
wording, needless words, or all of it."""

_STEMS: dict[Role, str] = {
    "facts": r"consisten|faithful|factual|accura|grounded|correct|adequa|hallucinat|truth",
    "content": r"relevan|coverage|informati|complete|content|salien",
    "order": r"coheren|structur|organi[sz]|logic|flow",
    "language": r"fluen|gramma|natural|readab|understandab|spelling",
    "concision": r"concis|redundan|repetit|brevity",
    "overall": r"overall|quality|general",
}
Expects = Literal["unchanged", "lower", "higher", "lowest"]
"""What an edit should do to a score; `higher` is what `lower` means for aspects of which low is
good."""
_SPLITTER = RuleSplitter()
MAX_SUBSTITUTES = 50
"""Texts from whose sentences foreign ones are taken."""
_MARK, _CONTROL = "#", "~control"


def read_role(name: str) -> Role | None:
    """Return the role of an aspect by its name; `None` if no rule knows it.

    >>> read_role("Factual consistency")
    'facts'
    """
    # of a criterion such as `fluency/consistency`, the last part says what is judged
    last = name.rpartition("/")[2]
    for role, stems in _STEMS.items():
        # stems in the order of the table: "factual correctness of content" is about facts
        if re.search(rf"\b(?:{stems})", last.casefold()):
            return role
    return None


@dataclass(frozen=True, slots=True)
class SubstituteText:
    """An example whose sentences may be put into texts of other sources."""

    group: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EditContext:
    """What an edit may use besides the example.

    Attributes:
        rng: Random numbers that depend on the seed, the test and the example's id alone.
        substitutes: Texts of the data, from which those of other sources may be taken.
        top: The highest rating of the judged scale, as a judge would write it.
    """

    rng: random.Random
    substitutes: Sequence[SubstituteText] = ()
    top: str = "5"

    def foreign_sentences(self, example: Example) -> list[str]:
        """Return the sentences of one text from another source, empty if there is none."""
        # a sentence of the same source could be true of the text and make nothing worse
        others = [other for other in self.substitutes if other.group != source_of(example)]
        return list(self.rng.choice(others).sentences) if others else []


Change = Callable[[Example, EditContext], Example | None]
"""Returns the edited example, or `None` if the example has nothing that the edit could change."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One stress test that edits the texts.

    Attributes:
        test: Its name.
        family: Name of its family.
        change: The edit; a pure function of its arguments.
        about: What it does, in a few words.
        gain_only: Whether only a better score is a defect: a judge may well dislike padding.
        control: An equally long edit that says nothing, against which the score is read.
        replaces: Whether the output is no text of its own any more, so that the lowest score is
            due.
        seen_by: Roles of aspects whose score must fall.
        ignored_by: Roles of aspects whose score must not change; with neither of the two, no
            aspect's score may.
    """

    test: str
    family: str
    change: Change
    about: str
    gain_only: bool = False
    control: Change | None = None
    replaces: bool = False
    seen_by: frozenset[Role] = field(default_factory=frozenset)
    ignored_by: frozenset[Role] = field(default_factory=frozenset)

    @property
    def must_see(self) -> bool:
        """Whether a judge must see it: the score of some aspect has to fall."""
        return bool(self.seen_by)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return _SPLITTER.split(text)


def with_output(example: Example, output: str | None) -> Example | None:
    """Return the example with another output; `None` if there is none or it is the same."""
    # an edit that changes nothing would count as a judge that holds
    if output is None or output == example.output:
        return None
    return example.model_copy(update={"output": output})


def source_of(example: Example) -> str:
    """Return what the example belongs to: its group, or itself."""
    return example.id if example.group is None else f"group {example.group}"


def variant_id(example_id: str, test: str, *, control: bool = False) -> str:
    """Return the id of an edited copy."""
    return f"{example_id}{_MARK}{test}{_CONTROL if control else ''}"


class Variants:
    """The originals and their edited copies, built again whenever they are iterated."""

    def __init__(
        self,
        examples: Iterable[Example],
        edits: Sequence[Edit],
        *,
        seed: int = 0,
        top: str = "5",
        limit: int | None = None,
    ) -> None:
        self._examples, self._edits = examples, tuple(edits)
        self._seed, self._top, self._limit = seed, top, limit
        self._substitutes: tuple[SubstituteText, ...] | None = None

    def originals(self) -> Iterator[Example]:
        """Iterate over the originals."""
        return islice(iter(self._examples), self._limit)

    def __iter__(self) -> Iterator[Example]:
        if self._substitutes is None:
            self._substitutes = substitutes(self.originals())
        for example in self.originals():
            self._refuse_marked(example.id)
            yield example
            for edit in self._edits:
                yield from self._copies(example, edit, self._substitutes)

    def _copies(
        self, example: Example, edit: Edit, known: tuple[SubstituteText, ...]
    ) -> Iterator[Example]:
        around = EditContext(
            # independent of the order and of the other tests: a resumed run, or one with fewer
            # tests, makes the same copies
            random.Random(f"{self._seed}:{edit.test}:{example.id}"),
            known,
            self._top,
        )
        edited = edit.change(example, around)
        if edited is None:
            return
        yield edited.model_copy(update={"id": variant_id(example.id, edit.test)})
        control = None if edit.control is None else edit.control(example, around)
        if control is not None:
            yield control.model_copy(update={"id": variant_id(example.id, edit.test, control=True)})

    def _refuse_marked(self, example_id: str) -> None:
        _, mark, end = example_id.rpartition(_MARK)
        if mark and any(end.removesuffix(_CONTROL) == edit.test for edit in self._edits):
            raise DataError(
                f"the id {example_id!r} ends like that of an edited copy ({_MARK}{end}); rename it"
            )


def substitutes(examples: Iterable[Example]) -> tuple[SubstituteText, ...]:
    """Return the first text of each source that has sentences, at most `MAX_SUBSTITUTES`."""
    by_id: dict[str, SubstituteText] = {}
    for example in examples:
        source = source_of(example)
        if source in by_id:
            continue
        if own := sentences(example.output):
            by_id[source] = SubstituteText(source, tuple(own))
        if len(by_id) == MAX_SUBSTITUTES:
            break
    return tuple(by_id.values())

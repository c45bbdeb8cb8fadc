"""The examples of a stress run: each original, followed by its edited copies and their controls."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from textassay.runtime.errors import DataError
from textassay.runtime.messages import Example
from textassay.stress.edit import Donor, Edit, Surroundings, sentences, source_of

MAX_DONORS = 50
"""Texts from whose sentences foreign ones are taken."""
_MARK, _CONTROL = "#", "~control"


def variant_id(example_id: str, test: str, *, control: bool = False) -> str:
    """Return the id of an edited copy."""
    return f"{example_id}{_MARK}{test}{_CONTROL if control else ''}"


class Variants:
    """The originals and their edited copies, built again whenever they are iterated.

    Args:
        examples: The originals; iterated several times.
        edits: The tests.
        seed: Seed of the edits; an edit depends on it, on the test and on the example alone.
        top: The highest rating, as a judge would write it.
        limit: Maximum number of originals, from the first.

    Raises:
        DataError: When iterated: an original's id ends like that of a copy.
    """

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
        self._donors: tuple[Donor, ...] | None = None

    def originals(self) -> Iterator[Example]:
        """Iterate over the originals."""
        return islice(iter(self._examples), self._limit)

    def __iter__(self) -> Iterator[Example]:
        if self._donors is None:
            self._donors = donors(self.originals())
        for example in self.originals():
            self._refuse_marked(example.id)
            yield example
            for edit in self._edits:
                yield from self._copies(example, edit, self._donors)

    def _copies(self, example: Example, edit: Edit, known: tuple[Donor, ...]) -> Iterator[Example]:
        around = Surroundings(
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


def donors(examples: Iterable[Example]) -> tuple[Donor, ...]:
    """Return the first text of each source that has sentences, at most `MAX_DONORS`."""
    by_id: dict[str, Donor] = {}
    for example in examples:
        source = source_of(example)
        if source in by_id:
            continue
        if own := sentences(example.output):
            by_id[source] = Donor(source, tuple(own))
        if len(by_id) == MAX_DONORS:
            break
    return tuple(by_id.values())

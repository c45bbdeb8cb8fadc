"""What a stress test is: an edit of an example, and what it should do to the score.

Knows examples and aspects' roles; nothing of models, runs or statistics.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from textassay.runtime.messages import Example
from textassay.stress.roles import Role
from textassay.tools.text import RuleSplitter

Expects = Literal["unchanged", "lower", "higher", "lowest"]
"""What an edit should do to a score; `higher` is what `lower` means for aspects of which low is
good."""

_SPLITTER = RuleSplitter()


@dataclass(frozen=True, slots=True)
class Donor:
    """An example whose sentences may be put into texts of other sources."""

    group: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an edit may use besides the example.

    Attributes:
        rng: Random numbers that depend on the seed, the test and the example's id alone.
        donors: Texts of the data, from which those of other sources may be taken.
        top: The highest rating of the judged scale, as a judge would write it.
    """

    rng: random.Random
    donors: Sequence[Donor] = ()
    top: str = "5"

    def foreign_sentences(self, example: Example) -> list[str]:
        """Return the sentences of one text from another source, empty if there is none."""
        # a sentence of the same source could be true of the text and make nothing worse
        others = [donor for donor in self.donors if donor.group != source_of(example)]
        return list(self.rng.choice(others).sentences) if others else []


Change = Callable[[Example, Surroundings], Example | None]
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
